"""What training announces of small tables, beside what rows that it has not seen show: whether the range of the
accuracy holds the truth, and whether a model that is no better than guessing says so."""

import re
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from benchmarks.common import at_stop, bins_of, expected_error, fit, read_table
from benchmarks.report import Record, columns, grid, grouped, met, origins
from benchmarks.study import Study, every
from benchmarks.unreliable import WHEN, alarms
from pursuit import VIPClassifier
from pursuit.estimators.network import GUESSING
from pursuit.evaluation.calibration import accuracy_interval

TRAIN_ROWS = {
    **{"lymph": 50, "iris": 50, "wine": 60},
    **dict.fromkeys(("heart", "dermatology", "breast_cancer"), 100),
    **dict.fromkeys(("titanic", "cylinder-bands", "kr-vs-kp"), 150),
    **{"credit": 200, "sick": 200, "vowel": 300},
}
"""How many rows of each table are learnt from; all others are the truth."""
SEEDS, SHUFFLED_SEEDS = range(100, 117), range(100, 103)
SHUFFLED = ("heart", "titanic", "credit")
WANTED = 0.9
JUDGED = 500
"""Most unseen rows of a split of which is said whether their answers are unusual."""


def read(table: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and labels of a table, of those in files or of scikit-learn's own."""
    if table not in ("iris", "wine", "breast_cancer"):
        return read_table(table)
    found: Any = getattr(datasets, f"load_{table}")(as_frame=True)
    return found.data, found.target.to_numpy()


def measure(table: str, seed: int, shuffled: bool = False, settings: Record | None = None) -> Record:
    """A model with all defaults of some rows of a table, drawn by the seed, and all other rows. Shuffled labels have
    nothing to do with the columns."""
    X, y = read(table)
    randomness = np.random.default_rng(seed)
    order = randomness.permutation(len(y))
    y = randomness.permutation(y) if shuffled else y
    learnt, unseen = np.split(order, [TRAIN_ROWS[table]])
    model = VIPClassifier(random_state=seed, **(settings or {}))
    fit_time = fit(model, X.iloc[learnt], y[learnt])
    (announced,) = [reason.value for reason in model.chosen_ if reason.setting == "expected"]
    found = re.search(r"accuracy of (\d+)% to (\d+)%", announced)
    assert found is not None
    known = unseen[np.isin(y[unseen], model.classes_)]  # a label that was not learnt from is never right
    rows = model.rows(X.iloc[known], y[known])
    asked, posterior = at_stop(model, rows)
    right = model.classes_[posterior.argmax(axis=1)] == y[known]
    labels, counts = np.unique(y[learnt], return_counts=True)
    return {
        "trained_on": len(learnt),
        "unseen": len(unseen),
        "low": int(found[1]) / 100,
        "high": int(found[2]) / 100,
        "accuracy": float(right.sum() / len(unseen)),
        "guess": float((y[unseen] == labels[counts.argmax()]).mean()),
        "says_guessing": model.chosen_[0].setting == GUESSING,
        "asked": float(asked.mean()),
        "confidence": float(posterior.max(axis=1).mean()),
        "calibration_error": expected_error(bins_of(posterior.max(axis=1), right)),
        "unusual": alarms(model, rows.take(slice(JUDGED))),
        **fit_time,
    }


def holds(record: Record) -> bool:
    return record["low"] <= record["accuracy"] <= record["high"]


def noise(record: Record) -> float:
    """How far the accuracy on the unseen rows may be from that on all rows there could be, by chance: half of Wilson's
    95 % interval."""
    low, high = accuracy_interval(record["accuracy"] * record["unseen"], record["unseen"])
    return (high - low) / 2


def share(values: list[bool]) -> str:
    return f"{sum(values)} of {len(values)}"


def unusual(when: str, records: list[Record]) -> str:
    """The share of unseen rows whose answers were called unusual: of all splits, and of the worst one."""
    found = [(one["unusual"][when][0], one["unusual"]["rows"]) for one in records]
    n, rows = (sum(part) for part in zip(*found, strict=True))
    return f"{n / rows:.2%} ({max(each / of for each, of in found):.1%})"


def page(records: list[Record]) -> dict[str, str]:
    real, shuffled = ([one for one in records if bool(one.get("shuffled")) == is_so] for is_so in (False, True))
    by_table = grouped(real, "table")
    shown = {
        "splits": lambda each: str(len(each)),
        **columns("learnt from = trained_on|.0f; unseen = unseen|,.0f; announced from = low|.2f; to = high|.2f"),
        **columns("found = accuracy|.3f±; always the same label = guess|.3f"),
        "chance of what was found": lambda each: f"± {np.mean([noise(one) for one in each]):.3f}",
        "range holds it": lambda each: share([holds(one) for one in each]),
        **columns("confidence = confidence|.3f; calibration error = calibration_error|.3f"),
        "says it may be guessing": lambda each: share([one["says_guessing"] for one in each]),
    }
    if len(by_table) > 1:
        by_table["all"] = real
    covered = [holds(one) for one in real]
    verdict = "Nothing was measured.\n"
    if real:
        below = sum(one["accuracy"] < one["low"] for one in real)
        rate, width = sum(covered) / len(covered), np.mean([one["high"] - one["low"] for one in real])
        verdict = (
            f"Of {len(covered)} splits, the announced range holds the accuracy on all unseen rows in {sum(covered)} "
            f"({rate:.1%}); {below} are below it and {len(covered) - sum(covered) - below} above it. Wanted are at "
            f"least {WANTED:.0%}: {met(rate, least=WANTED)}. The range is {width:.2f} wide on average.\n"
        )
    of_answers = {table: found for table, each in by_table.items() if (found := [o for o in each if "unusual" in o])}
    alarmed = {"splits": shown["splits"], **{f"unusual {when}": partial(unusual, when) for when in WHEN}}
    of_guesses = "splits; announced from; to; found; always the same label; range holds it; says it may be guessing"
    guessing = {**{title: shown[title] for title in of_guesses.split("; ")}, "found": "accuracy|.3f"}
    return {
        "verdict": verdict,
        "figures": grid(by_table, shown, "table"),
        "unusual": grid(of_answers, alarmed, "table"),
        "guessing": grid(grouped(shuffled, "table"), guessing, "table"),
        "origins": origins(records),
    }


STUDY = Study(
    name="small-tables",
    runs=[*every(seed=SHUFFLED_SEEDS, table=SHUFFLED, shuffled=[True]), *every(seed=SEEDS, table=TRAIN_ROWS)],
    measure=measure,
    page=page,
    quick={"settings": {"max_queries": 3}},
)
