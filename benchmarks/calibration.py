"""How far beliefs can be trusted where chains stop, on tables and on tasks with their recipes: as learnt, with one
temperature, and with temperatures by the number of answers."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from benchmarks.common import TARGETS, at_stop, bins_of, expected_error, read_table, split
from benchmarks.report import NOTHING, RESULTS, Record, columns, grid, grouped, origins, wanted
from benchmarks.study import Study
from pursuit import Rows, VIPClassifier
from pursuit.research.experiments.paper import INFORMATION, STRAIGHT_THROUGH, PaperRun, read_records
from pursuit.research.tasks import load_task
from pursuit.training.calibration import fit_temperature

HELD_OUT = 0.1
"""Share of the training rows that beliefs are fitted to where the recipe holds out none."""
TARGET, GOALS = 0.015, ("digits", "animals", "symcat-200", "mnist")
REPRODUCED = {"mnist": STRAIGHT_THROUGH, "symcat-200": INFORMATION}
"""Tasks whose results by a recipe for a GPU say how far beliefs can be trusted at the stop, as they were learnt."""
MANNERS = {"as learnt": "beliefs as learnt", "one": "one temperature", "by answers": "temperatures by answers"}


@dataclass(kw_only=True, eq=False, repr=False)
class Watched(VIPClassifier):
    """Remembers the rows that its beliefs were fitted to."""

    judging: Rows | None = field(default=None, init=False)

    def _fit_to(self, judging: Rows) -> None:
        self.judging = judging
        super()._fit_to(judging)


def stopped(model: VIPClassifier, rows: Rows) -> np.ndarray:
    """Where each row stops (N, 4): queries asked, confidence, whether it is right, and the Brier score."""
    asked, posterior = at_stop(model, rows)
    y = rows.y.numpy()
    brier = ((posterior - np.eye(posterior.shape[1])[y]) ** 2).sum(axis=1)
    return np.stack([asked, posterior.max(axis=1), posterior.argmax(axis=1) == y, brier], axis=1).astype(float)


def calibration_error(stops: np.ndarray) -> float:
    return expected_error(bins_of(stops[:, 1], stops[:, 2]))


def summary(stops: np.ndarray) -> dict[str, float]:
    """What `stopped` gave, over all rows."""
    asked, confidence, right, brier = stops.mean(axis=0).tolist()
    error = calibration_error(stops)
    return {"asked": asked, "accuracy": right, "confidence": confidence, "calibration_error": error, "brier": brier}


def trained(part: str, seed: int, **settings: Any) -> tuple[VIPClassifier, Rows, Rows]:
    """A model of a table or of a task by its recipe, what its beliefs are fitted to, and test rows."""
    if part in TARGETS:
        rows = split(*read_table(part), seed)
        model = Watched(random_state=seed, **settings).fit(rows.X_train, rows.y_train)
        return model, model.judging, model.rows(rows.X_test, rows.y_test)
    task = load_task(part, seed)
    model = Watched(task.query_set, random_state=seed, calibration=HELD_OUT, **{**task.settings, **settings})
    task.fit(model)
    return model, model.judging, model.rows(task.X_test, task.y_test, initially_known=task.initially_known_test)


def in_each_manner(model: VIPClassifier, judging: Rows, rows: Rows) -> Iterator[tuple[str, np.ndarray, Any]]:
    """Where test rows stop with beliefs of each manner, and the rule that was chosen with these."""
    as_learnt = torch.ones(len(model.model_.query_set) + 1)
    model.model_.set_temperature(as_learnt)
    fitted = [fit_temperature(model.model_, judging, model.max_queries, by_answers) for by_answers in (False, True)]
    for name, temperature in zip(MANNERS, (as_learnt, *fitted), strict=True):
        model.model_.set_temperature(temperature)
        if model.stop is None:
            model.stop_ = model.suitable_stop(model.model_, judging)
        yield name, stopped(model, rows), model.stopping_rule()


def measure(part: str, seeds: Sequence[int] = (2, 3), settings: Record | None = None) -> Record:
    """What each manner gives on the test rows of all seeds together."""
    found: dict[str, list[tuple[np.ndarray, str]]] = {manner: [] for manner in MANNERS}
    settings = {"calibration": HELD_OUT, **(settings or {})} if part in TARGETS else settings or {}
    for seed in seeds:
        for manner, stops, rule in in_each_manner(*trained(part, seed, **settings)):
            found[manner].append((stops, str(rule)))
    manners = {
        manner: {
            **summary(np.concatenate([stops for stops, _ in each])),
            "calibration_error_of_seeds": [calibration_error(stops) for stops, _ in each],
            "rules": [rule for _, rule in each],
        }
        for manner, each in found.items()
    }
    return {"rows": sum(len(stops) for stops, _ in found["one"]), "manners": manners}


def page(records: list[Record]) -> dict[str, str]:
    shown = columns(
        "test rows = rows|,.0f; asked = manners.by answers.asked|.2f; accuracy = manners.by answers.accuracy|.3f;"
        + ";".join(f"ECE, {title} = manners.{manner}.calibration_error|.4f" for manner, title in MANNERS.items())
        + "; Brier, one = manners.one.brier|.4f; by answers = manners.by answers.brier|.4f"
    )
    by_part = grouped(records, "part")
    by_part["mean of the tables"] = [one for one in records if one["part"] in TARGETS]
    for name, querier in REPRODUCED.items():
        if name not in by_part:
            runs = tuple(PaperRun(name, querier=querier, seed=seed) for seed in range(5))
            done = read_records(RESULTS / "paper", runs)
            stops = [asdict(result.evaluation.at_stop) for result in done.values()]
            by_part[name] = [{"part": name, "manners": {"as learnt": stop}} for stop in stops]

    def goal(each: list[Record]) -> str:
        errors = [one["manners"].get("by answers", one["manners"]["as learnt"])["calibration_error"] for one in each]
        return wanted(max(errors), most=TARGET) if each and each[0]["part"] in GOALS else NOTHING

    return {"figures": grid(by_part, {**shown, "wanted": goal}, ""), "origins": origins(records, "part")}


STUDY = Study(
    name="calibration",
    runs=[
        *({"part": part} for part in ("heart", "lymph", "digits", "dermatology", "titanic", "credit")),
        {"part": "cylinder-bands"},
        {"part": "animals", "seeds": [0, 1]},
    ],
    measure=measure,
    page=page,
    quick={"seeds": [0], "settings": {"stages": None}},
)
