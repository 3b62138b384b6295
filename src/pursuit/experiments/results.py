"""What experiments write down, and how seeds are summarised.

`result.json` is a `Result`: one method on one task with one seed. `results.json` is a `Results`: every method with its
results and their summary over seeds. The keys of the files are the fields of these classes.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pursuit.evaluation.curves import AtStop, Evaluation, accuracy_interval
from pursuit.files import write_whole

SHOWN_BUDGETS = (5, 10, 20)
"""The numbers of queries asked whose accuracy a summary has."""
NOTHING = "–"


@dataclass(frozen=True)
class Beside:
    """Another pursuer measured on the same rows; None for what was not measured."""

    accuracy_by_asked: list[float] | None = None
    area: float | None = None
    accuracy_all_answers: float | None = None
    accuracy_by_cost: list[tuple[float, float]] = field(default_factory=list)
    """Empty where every query costs 1, too."""


@dataclass(frozen=True)
class Result:
    """One method on one task with one seed."""

    run: dict[str, Any]
    """What tells this run from others: task, recipe, settings, the rows it is measured on …"""
    method: str
    """By its name in the program."""
    seed: int
    n_train: int
    n_test: int
    training_seconds: float
    evaluation: Evaluation
    provenance: dict[str, Any]
    """Commit, versions, machine and device."""
    notes: dict[str, Any]
    """Where the task's rows come from."""
    resumed: bool = False
    """Whether training went on from an earlier run; `training_seconds` are then those of the last part."""
    n_histories: int | None = None
    """Histories in the training plan; None without a plan of its own."""
    measuring_seconds: float | None = None
    step_milliseconds: float | None = None
    """A step of one row at a time on the CPU; None if it was not timed."""
    beside: dict[str, Beside] = field(default_factory=dict)
    """Further pursuers on the same rows, by title: random order, exact IP, logistic regression."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Result":
        """What `to_dict` gave; raises KeyError or TypeError for anything else."""
        beside = {title: Beside(**_with_pairs(other)) for title, other in values.get("beside", {}).items()}
        return cls(**{**values, "evaluation": _evaluation(values["evaluation"]), "beside": beside})

    def write(self, path: Path) -> None:
        _write_json(path, self.to_dict())


@dataclass(frozen=True)
class Failure:
    """A method that failed with one seed."""

    seed: int
    error: str


@dataclass(frozen=True)
class Mean:
    """A number over seeds."""

    mean: float
    sd: float
    """The standard deviation over seeds; 0 for one seed."""
    interval: tuple[float, float] | None = None
    """Of an accuracy: where it lies on fresh rows with 95 % confidence, given this number of test rows."""


@dataclass(frozen=True)
class StopSummary:
    """What the stopping rule gives, over seeds."""

    rule: str
    mean_asked: Mean
    mean_answered: Mean
    mean_cost: Mean
    accuracy: Mean
    cut_short: Mean | None = None
    """Share of the rows that were stopped by the end of the curve instead of the rule."""


@dataclass(frozen=True)
class Summary:
    """The results of one method over seeds."""

    n_seeds: int
    longest: int
    """The number of queries at which curves end."""
    area: Mean
    """Over queries asked."""
    area_by_answered: Mean
    accuracy_after: dict[int, Mean]
    """By the number of queries asked."""
    accuracy_all_answers: Mean
    training_seconds: Mean
    at_stop: StopSummary | None = None
    step_milliseconds: Mean | None = None
    area_by_cost: Mean | None = None
    """None where every query costs 1."""
    area_beside: dict[str, Mean] = field(default_factory=dict)
    """The areas of the pursuers measured beside it, by title."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Summary":
        stop = values.get("at_stop")
        return cls(
            n_seeds=values["n_seeds"],
            longest=values["longest"],
            area=_mean(values["area"]),
            area_by_answered=_mean(values["area_by_answered"]),
            accuracy_after={int(n): _mean(mean) for n, mean in values["accuracy_after"].items()},
            accuracy_all_answers=_mean(values["accuracy_all_answers"]),
            training_seconds=_mean(values["training_seconds"]),
            at_stop=StopSummary(
                rule=stop["rule"],
                mean_asked=_mean(stop["mean_asked"]),
                mean_answered=_mean(stop["mean_answered"]),
                mean_cost=_mean(stop["mean_cost"]),
                accuracy=_mean(stop["accuracy"]),
                cut_short=_mean_or_none(stop.get("cut_short")),
            )
            if stop
            else None,
            step_milliseconds=_mean_or_none(values.get("step_milliseconds")),
            area_by_cost=_mean_or_none(values.get("area_by_cost")),
            area_beside={title: _mean(mean) for title, mean in values.get("area_beside", {}).items()},
        )


@dataclass(frozen=True)
class MethodResults:
    """All seeds of one method."""

    title: str
    summary: Summary | None
    """None if no seed worked."""
    seeds: list[Result]
    failed: list[Failure] = field(default_factory=list)

    @classmethod
    def of(cls, title: str, found: Iterable[Result | Failure]) -> "MethodResults":
        found = sorted(found, key=lambda one: one.seed)
        seeds = [one for one in found if isinstance(one, Result)]
        failed = [one for one in found if isinstance(one, Failure)]
        return cls(title, summarise(seeds) if seeds else None, seeds, failed)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "MethodResults":
        return cls(
            title=values["title"],
            summary=Summary.from_dict(values["summary"]) if values["summary"] else None,
            seeds=[Result.from_dict(seed) for seed in values["seeds"]],
            failed=[Failure(**failure) for failure in values["failed"]],
        )


@dataclass(frozen=True)
class Results:
    """What an experiment found: methods by name, all in the same run."""

    run: dict[str, Any]
    """What the results of all methods have in common; `task` and `measured_on` among them."""
    methods: dict[str, MethodResults]

    @property
    def worked(self) -> dict[str, tuple[MethodResults, Summary]]:
        """The methods that worked with some seed, by name, with their summaries."""
        return {name: (found, found.summary) for name, found in self.methods.items() if found.summary}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Results":
        """What `to_dict` gave; raises KeyError or TypeError for anything else."""
        methods = {name: MethodResults.from_dict(method) for name, method in values["methods"].items()}
        return cls(values["run"], methods)

    def write(self, path: Path) -> None:
        _write_json(path, self.to_dict())


def read_result(path: Path) -> Result | None:
    """The result in a file; None if there is none, or only a damaged one."""
    try:
        return Result.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def summarise(results: Sequence[Result]) -> Summary:
    """Means over seeds, with the standard deviation over seeds, and of accuracies the interval for so few rows."""
    first, n_test = results[0], results[0].n_test
    longest = len(first.evaluation.accuracy_by_asked) - 1

    def accuracy(get: Callable[[Evaluation], float]) -> Mean:
        share = mean_and_sd([get(result.evaluation) for result in results])
        return Mean(share.mean, share.sd, accuracy_interval(round(share.mean * n_test), n_test))

    def after(n: int) -> Mean:
        return accuracy(lambda evaluation: evaluation.accuracy_by_asked[n])

    by_cost = [result.evaluation.area_by_cost for result in results if result.evaluation.area_by_cost is not None]
    timed = [result.step_milliseconds for result in results if result.step_milliseconds is not None]
    return Summary(
        n_seeds=len(results),
        longest=longest,
        area=mean_and_sd([result.evaluation.area for result in results]),
        area_by_answered=mean_and_sd([result.evaluation.area_by_answered for result in results]),
        accuracy_after={n: after(n) for n in SHOWN_BUDGETS if n <= longest},
        accuracy_all_answers=accuracy(lambda evaluation: evaluation.accuracy_all_answers),
        training_seconds=mean_and_sd([result.training_seconds for result in results]),
        at_stop=_summarise_stops(results, n_test),
        step_milliseconds=mean_and_sd(timed) if timed else None,
        area_by_cost=mean_and_sd(by_cost) if by_cost else None,
        area_beside=_summarise_beside(results),
    )


def _summarise_stops(results: Sequence[Result], n_test: int) -> StopSummary | None:
    stops = [result.evaluation.at_stop for result in results if result.evaluation.at_stop]
    if not stops:
        return None
    right = mean_and_sd([stop.accuracy for stop in stops])
    return StopSummary(
        rule=stops[0].rule,
        mean_asked=mean_and_sd([stop.mean_asked for stop in stops]),
        mean_answered=mean_and_sd([stop.mean_answered for stop in stops]),
        mean_cost=mean_and_sd([stop.mean_cost for stop in stops]),
        accuracy=Mean(right.mean, right.sd, accuracy_interval(round(right.mean * n_test), n_test)),
        cut_short=mean_and_sd([stop.cut_short for stop in stops]),
    )


def _summarise_beside(results: Sequence[Result]) -> dict[str, Mean]:
    areas: dict[str, list[float]] = {}
    for result in results:
        for title, other in result.beside.items():
            if other.area is not None:
                areas.setdefault(title, []).append(other.area)
    return {title: mean_and_sd(values) for title, values in areas.items()}


def mean_and_sd(values: Sequence[float]) -> Mean:
    """What the seeds gave, in two numbers."""
    return Mean(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)


def mean_and_spread(value: Mean | None) -> str:
    """A mean over seeds, with the standard deviation over them if it is not 0."""
    if value is None:
        return NOTHING
    return f"{value.mean:.3f}" + (f" ± {value.sd:.3f}" if value.sd else "")


def mean_only(value: Mean | None) -> str:
    return NOTHING if value is None else f"{value.mean:.3f}"


def asked_and_answered(asked: float, answered: float, digits: int = 2, noun: str = "") -> str:
    """How many queries were asked on average, and in brackets how many of them were answered, if not all."""
    n_asked, n_answered = f"{asked:.{digits}f}", f"{answered:.{digits}f}"
    return n_asked + noun + (f" ({n_answered} answered)" if n_answered != n_asked else "")


def three_digits(value: Mean | None) -> str:
    """A mean that need not be exact, such as a time."""
    return NOTHING if value is None else f"{value.mean:.3g}" if value.mean < 1000 else f"{value.mean:.0f}"


def _evaluation(values: Mapping[str, Any]) -> Evaluation:
    at_stop = values["at_stop"]
    trade_off = [_at_stop(stop) for stop in values.get("trade_off", [])]
    return Evaluation(**{**_with_pairs(values), "at_stop": at_stop and _at_stop(at_stop), "trade_off": trade_off})


def _with_pairs(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same, where the points of the curve by cost are tuples again."""
    return {**values, "accuracy_by_cost": [tuple(point) for point in values.get("accuracy_by_cost", [])]}


def _at_stop(values: Mapping[str, Any]) -> AtStop:
    return AtStop(**{**values, "accuracy_interval": tuple(values["accuracy_interval"])})


def _mean(values: Mapping[str, Any]) -> Mean:
    interval = values.get("interval")
    return Mean(values["mean"], values["sd"], interval and tuple(interval))


def _mean_or_none(values: Mapping[str, Any] | None) -> Mean | None:
    return None if values is None else _mean(values)


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(values, indent=1).encode())
