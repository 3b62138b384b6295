"""People who do not know, and people who err: `python benchmarks/unreliable.py PART …` writes
docs/results/unreliable.md, with parts measured before kept in unreliable.json.

A part is a table of `benchmarks/table_data.py` (heart, credit, …), a task with its recipe (animals), or `pixels`. Each
is learnt twice, from answers as they are and with some of them withheld and wrong (`Unreliable`), and measured on test
rows whose answers are withheld and wrong at several rates. `alarms:PART` measures what `benchmarks/unusual.py` does
alone.
"""

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import unusual
from calibration import SEEDS, at_stop, calibration_error, trained
from pursuit import Unreliable, VIPClassifier
from pursuit.data.rows import Rows
from pursuit.data.unreliable import answer_features
from report import RESULTS, origin, save, table, where

MET = Unreliable()
"""What training meets: the default, set before anything was measured."""
MANNERS: dict[str, Unreliable | None] = {"plain": None, "wary": MET}
TITLES = {"plain": "learnt from answers as they are", "wary": "learnt with unreliable answers"}
RATES = [
    Unreliable(0.0, 0.0),
    *(Unreliable(0.0, wrong) for wrong in (0.02, 0.05, 0.1)),
    *(Unreliable(withheld, 0.0) for withheld in (0.05, 0.1, 0.2)),
    Unreliable(0.05, 0.02),
]
LEAST_ROWS = 2000
"""Test rows that are fewer are asked several times, each time with other answers withheld and wrong."""
ALARMS = "alarms:"
PLAYERS = " The players of animals err and keep silent already (2 % and 5 %); the rates here come on top."


def as_people_answer(rows: Rows, model: VIPClassifier, rate: Unreliable, seed: int) -> tuple[Rows, float]:
    """Test rows in random order, each several times if they are few, with answers of that rate; and the share of the
    answers given that differ from the row's own. The same seed makes a higher rate spoil more of the same answers."""
    generator = torch.Generator().manual_seed(seed)
    times = -(-LEAST_ROWS // len(rows))
    # In random order: the wrong answer to what is not yes or no is that of the row before.
    rows = rows.take(torch.randperm(len(rows) * times, generator=generator) % len(rows))
    features = answer_features(model.model_.query_set, rows.x.device)
    changed = rate(rows, features, generator)
    n_differing = torch.zeros(rows.available.shape).index_add(1, features[0], (changed.x != rows.x).float())  # (N, Q)
    differs = (n_differing > 0) & changed.available
    return changed, float(differs.sum() / changed.available.sum())


def measure_rates(model: VIPClassifier, rows: Rows, seed: int) -> list[tuple[Tensor, float]]:
    """Where rows stop (N, 4) at each rate, and the share of answers that are wrong."""
    found = []
    for rate in RATES:
        changed, wrong = as_people_answer(rows, model, rate, seed)
        found.append((at_stop(model, changed), wrong))
    return found


def summary(rate: Unreliable, of_seeds: Sequence[tuple[Tensor, float]]) -> dict[str, Any]:
    together = torch.cat([stopped for stopped, _ in of_seeds])
    asked, confidence, right, brier = together.mean(dim=0).tolist()
    return {
        "withheld": rate.withheld,
        "wrong": rate.wrong,
        "answers_that_differ": sum(wrong for _, wrong in of_seeds) / len(of_seeds),
        "asked": asked,
        "accuracy": right,
        "accuracy_of_seeds": [float(stopped[:, 2].mean()) for stopped, _ in of_seeds],
        "confidence": confidence,
        "calibration_error": calibration_error(together),
        "brier": brier,
    }


def measure(part: str, seeds: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each manner of learning gives at each rate, over the test rows of all seeds; and the alarms."""
    found: dict[str, list[Any]] = {manner: [] for manner in MANNERS}
    odd, n_rows = [], 0
    for seed in seeds:
        for manner, met in MANNERS.items():
            model, _, rows = trained(part, seed, **({} if met is None else {"unreliable": met}))
            found[manner].append(measure_rates(model, rows, seed))
            if met is None:
                odd.append(unusual.measure(model, rows, seed))
                n_rows += len(rows)
    manners = {
        manner: [summary(rate, of_seeds) for rate, of_seeds in zip(RATES, zip(*each, strict=True), strict=True)]
        for manner, each in found.items()
    }
    return {"seeds": list(seeds), "rows": n_rows, "manners": manners}, unusual.together(odd)


def measure_alarms(part: str, seeds: Sequence[int]) -> dict[str, Any]:
    """The alarms alone."""
    if part == "pixels":
        return unusual.together(
            [
                unusual.measure(model, rows, seed, other)
                for seed in seeds
                for model, rows, other in [unusual.pixels(seed)]
            ]
        )
    return unusual.together(
        [unusual.measure(model, rows, seed) for seed in seeds for model, _, rows in [trained(part, seed)]]
    )


def _mean(parts: dict[str, Any], manner: str, rate: int, name: str) -> float:
    return sum(part["manners"][manner][rate][name] for part in parts.values()) / len(parts)


def _conclusion(parts: dict[str, Any]) -> str:
    right, wrong = 0, 3  # rates: nothing spoilt, and a tenth wrong

    def both(rate: int, name: str, form: str) -> str:
        plain, wary = (format(_mean(parts, manner, rate, name), form) for manner in MANNERS)
        return f"{wary} instead of {plain}"

    return f"""On average over these, where every answer is right, a wary model asks {both(right, "asked", ".2f")}
questions, with an ECE of {both(right, "calibration_error", ".3f")}; where a tenth of the answers is wrong, its ECE is
{both(wrong, "calibration_error", ".3f")}, and its accuracy {both(wrong, "accuracy", ".3f")}.

Training meets no unreliable answers by default. Records are mostly right, and on a table whose answers decide the
label (nursery), a wary model asks more and is less sure than it could be. It is for models that people will answer:
`pursuit train --withheld 0.05 --wrong 0.02`. That answers are withheld needs no such training: a row is then asked
something else, and beliefs hold about as well as before.
"""


SHOWN = (("accuracy", ".3f"), ("asked", ".2f"), ("calibration_error", ".3f"))


def page(measured: dict[str, Any]) -> str:
    parts = measured["parts"]
    columns = ["withheld", "wrong"] + [
        f"{title}, {manner}" for title in ("accuracy", "asked", "ECE") for manner in MANNERS
    ]

    def line(rate: int, cells: list[str]) -> list[str]:
        return [f"{RATES[rate].withheld:.0%}", f"{RATES[rate].wrong:.0%}", *cells]

    over_all = [
        line(i, [format(_mean(parts, manner, i, name), form) for name, form in SHOWN for manner in MANNERS])
        for i in range(len(RATES) if parts else 0)
    ]
    single = []
    for name, part in parts.items():
        lines = [
            line(i, [format(part["manners"][manner][i][key], form) for key, form in SHOWN for manner in MANNERS])
            for i in range(len(RATES))
        ]
        differ = part["manners"]["plain"][3]["answers_that_differ"]
        said = f"{part['rows']:,} test rows, seeds {', '.join(map(str, part['seeds']))}, commit {part['commit']}; "
        said += f"where 10% are wrong, {differ:.1%} differ."
        single.append(f"### {name}\n\n{said}\n\n{table(columns, lines)}")
    return f"""# Answers as people give them

Written by `python benchmarks/unreliable.py`; all figures are in `unreliable.json` beside this page.

{origin(measured)}
## Wrong and withheld answers

Tables are learnt with all defaults, tasks by their recipes: from answers as they are (*plain*), and with
`unreliable=Unreliable(withheld={MET.withheld}, wrong={MET.wrong})` (*wary*), rates that were set before anything was
measured. Then test rows answer as people do: a share of the answers is withheld, and a share is wrong, yes for no, and
otherwise the answer of another row, which may happen to be the same. Rows that are few are asked several times, until
they are {LEAST_ROWS:,}.{PLAYERS if "animals" in parts else ""}
ECE is the mean gap between confidence and accuracy at the stop, over ten bins of confidence, of all seeds together.

Means over {", ".join(parts)}:

{table(columns, over_all)}
{_conclusion(parts) if parts else ""}
{chr(10).join(single)}
{unusual.section(measured["unusual"])}"""


def main(words: Sequence[str]) -> None:
    """Parts to measure; `seeds=0,1,2` for other seeds."""
    warnings.filterwarnings("ignore")
    seeds = next(([int(n) for n in word[6:].split(",")] for word in words if word.startswith("seeds=")), list(SEEDS))
    if not words:  # the page alone
        print(keep({}, {}))
    for word in (word for word in words if not word.startswith("seeds=")):
        commit, name = {"commit": where()["commit"]}, word.removeprefix(ALARMS)
        if word.startswith(ALARMS):
            print(keep({}, {unusual.PIXELS if name == "pixels" else name: measure_alarms(name, seeds) | commit}))
        else:
            part, odd = measure(word, seeds)
            print(keep({name: part | commit}, {name: odd | commit}))


def keep(parts: dict[str, Any], odd: dict[str, Any], into: Path = RESULTS) -> str:
    """Write down what was measured beside what was measured before; gives the page."""
    path = into / "unreliable.json"
    before = json.loads(path.read_text()) if path.exists() else {"parts": {}, "unusual": {}}
    found_in = where() if parts or odd else before["where"]
    measured = {"where": found_in, "parts": before["parts"] | parts, "unusual": before["unusual"] | odd}
    return save(measured, page, "unreliable", into)


if __name__ == "__main__":
    main(sys.argv[1:])
