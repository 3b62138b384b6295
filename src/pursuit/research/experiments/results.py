"""Results of experiments, their summaries over seeds, and the table and the figures of all methods.

`result.json` is a `Result`: one method on one task with one seed. `results.json` is a `Results`: every method with its
results and their summary over seeds. The keys of the files are the fields of these classes, and a checksum of them, so
that what somebody changed by hand is not shown as measured. Its provenance says where a result comes from.
"""

import hashlib
import json
import os
import platform
import statistics
import subprocess
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy
import sklearn
import torch

from pursuit.evaluation.calibration import seeds_and_rows_interval
from pursuit.evaluation.curves import AtStop, Evaluation
from pursuit.evaluation.figures import accuracy_curve
from pursuit.evaluation.protocols import AtProtocol
from pursuit.files import DamagedFile, make_folder, read_json, write_whole
from pursuit.inference import html
from pursuit.registry import read_as
from pursuit.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

S = TypeVar("S")

BUDGETS = (5, 10, 20)
"""The numbers of queries asked whose accuracy a summary has."""
NOTHING = "–"
CHECKSUM = "checksum"
"""The key of a file's checksum, which is that of everything else in it."""


@dataclass(frozen=True)
class Beside:
    """Another pursuer measured on the same rows; None for figures that were not measured."""

    accuracy_by_asked: list[float] | None = None
    area: float | None = None
    accuracy_all_answers: float | None = None
    accuracy_by_cost: list[tuple[float, float]] = field(default_factory=list)
    """Empty where every query costs 1, too."""


@dataclass(frozen=True)
class Result:
    """One method on one task with one seed."""

    run: dict[str, Any]
    """The identity of the run: task, recipe, settings, the rows it is measured on …"""
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
    """The origin of the task's rows."""
    resumed: bool = False
    """Whether training went on from an earlier run; `training_seconds` are then those of the last part."""
    n_histories: int | None = None
    """Histories in the training plan; None without a plan of its own."""
    measuring_seconds: float | None = None
    step_milliseconds: float | None = None
    """A step of one row at a time on the CPU; None if it was not timed."""
    beside: dict[str, Beside] = field(default_factory=dict)
    """Further pursuers on the same rows, by title: random order, exact IP, logistic regression."""
    protocols: list[AtProtocol] = field(default_factory=list)
    """Results by the task's protocols; empty if it has none."""
    querier: str | None = None
    """The querier of V-IP: `straight-through` or `information`; None for other methods and in older files."""
    query_milliseconds: float | None = None
    """A query of a row on the device, with a few rows beside it; None, and not in the file, if it was not timed."""

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "query_milliseconds" or value is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Result":
        """What `to_dict` gave, or the content of its file; raises DamagedFile where that was changed, and KeyError or
        TypeError for anything else."""
        values = {key: value for key, value in _refuse_changed(values).items() if key != CHECKSUM}
        beside = {title: read_as(Beside, other) for title, other in values.get("beside", {}).items()}
        protocols = [AtProtocol(**one) for one in values.get("protocols", [])]
        evaluation = Evaluation.from_dict(values["evaluation"])
        return cls(**{**values, "evaluation": evaluation, "beside": beside, "protocols": protocols})

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
    """The sample standard deviation over seeds; 0 for one seed."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of an accuracy over seeds and test rows; over rows alone if there is one seed."""


@dataclass(frozen=True)
class StopSummary:
    """Results at the stopping rule, over seeds."""

    rule: str
    mean_asked: Mean
    mean_answered: Mean
    mean_cost: Mean
    accuracy: Mean
    cut_short: Mean | None = None
    """Share of the rows that were stopped by the end of the curve instead of the rule."""


@dataclass(frozen=True)
class ProtocolSummary:
    """Results by a protocol, over seeds; each seed has a confidence of its own."""

    wanted: float
    """The mean number of queries that confidences were chosen for."""
    level: Mean
    mean_held_out: Mean
    mean_counted: Mean
    accuracy: Mean
    cut_short: Mean


@dataclass(frozen=True)
class Summary:
    """The results of one method over seeds."""

    n_seeds: int
    n_queries: int
    longest: int
    """The number of queries at which curves end."""
    area: Mean
    """The mean accuracy over 1 to `longest` queries asked."""
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
    protocols: dict[str, ProtocolSummary] = field(default_factory=dict)
    """By name."""

    @property
    def is_whole(self) -> bool:
        """Whether curves end where everything was asked."""
        return self.longest == self.n_queries

    @property
    def reach(self) -> str:
        """The range of the area, in words."""
        return f"to {self.longest}" + ("" if self.is_whole else f" of {self.n_queries}")


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
        """The results of all seeds. Their summary is made again, so that all are summarised in the same way."""
        seeds = [Result.from_dict(seed) for seed in values["seeds"]]
        return cls.of(values["title"], [*seeds, *(Failure(**failure) for failure in values["failed"])])


@dataclass(frozen=True)
class Results:
    """The results of an experiment: methods by name, all in the same run."""

    run: dict[str, Any]
    """The settings that the results of all methods share; `task` and `measured_on` among them."""
    methods: dict[str, MethodResults]

    @property
    def worked(self) -> dict[str, tuple[MethodResults, Summary]]:
        """The methods that worked with some seed, by name, with their summaries."""
        return {name: (found, found.summary) for name, found in self.methods.items() if found.summary}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Results":
        """What `to_dict` gave, or the content of its file; raises DamagedFile where that was changed, and KeyError or
        TypeError for anything else."""
        _refuse_changed(values, ("run", "methods"))
        methods = {name: MethodResults.from_dict(method) for name, method in values["methods"].items()}
        return cls(values["run"], methods)

    def write(self, path: Path) -> None:
        _write_json(path, self.to_dict())

    def _repr_html_(self) -> str:
        """The table of methods, as a notebook shows it."""
        rows = [cells(self, name, in_full=False) for name in self.methods]
        table = html.table(header(self, in_full=False), rows)
        return html.block(str(self.run["task"]), table, html.paragraph(remark(self)))

    def plot(self, path: str | Path | None = None) -> "Figure | None":
        """The accuracy of all methods against queries asked; None if none has a curve."""
        return draw_curves(self, None if path is None else Path(path))


def read_result(path: Path) -> Result | None:
    """The result in a file; None if there is none, or, with a warning, if it is damaged or was changed."""
    try:
        values = read_json(path)
        values[CHECKSUM]  # without it, nothing shows who wrote the rest
        return Result.from_dict(values)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        warnings.warn(
            f"{path} is damaged, or was changed after it was measured: its checksum does not fit. It does not count as "
            "measured.",
            stacklevel=2,
        )
        return None


def summarise(results: Sequence[Result]) -> Summary:
    """Means over seeds, with the standard deviation over seeds, and of accuracies the interval over seeds and rows."""
    measured, n_test = [result.evaluation for result in results], results[0].n_test
    longest = len(measured[0].accuracy_by_asked) - 1
    after = {n: [one.accuracy_by_asked[n] for one in measured] for n in BUDGETS if n <= longest}
    stops = [one.at_stop for one in measured if one.at_stop]
    by_cost = [one.area_by_cost for one in measured if one.area_by_cost is not None]
    timed = [result.step_milliseconds for result in results if result.step_milliseconds is not None]
    protocols: dict[str, list[AtProtocol]] = {}
    for one in (one for result in results for one in result.protocols):
        protocols.setdefault(one.name, []).append(one)
    return Summary(
        n_seeds=len(results),
        n_queries=measured[0].n_queries,
        longest=longest,
        area=mean_and_sd([one.area for one in measured]),
        area_by_answered=mean_and_sd([one.area_by_answered for one in measured]),
        accuracy_after={n: mean_accuracy(accuracies, n_test) for n, accuracies in after.items()},
        accuracy_all_answers=mean_accuracy([one.accuracy_all_answers for one in measured], n_test),
        training_seconds=mean_and_sd([result.training_seconds for result in results]),
        at_stop=_over_seeds(StopSummary, stops, n_test) if stops else None,
        step_milliseconds=mean_and_sd(timed) if timed else None,
        area_by_cost=mean_and_sd(by_cost) if by_cost else None,
        area_beside=_summarise_beside(results),
        protocols={name: _over_seeds(ProtocolSummary, found, n_test) for name, found in protocols.items()},
    )


def _summarise_beside(results: Sequence[Result]) -> dict[str, Mean]:
    areas: dict[str, list[float]] = {}
    for result in results:
        for title, other in result.beside.items():
            if other.area is not None:
                areas.setdefault(title, []).append(other.area)
    return {title: mean_and_sd(values) for title, values in areas.items()}


def _over_seeds(cls: type[S], found: Sequence[Any], n_test: int) -> S:
    """A summary over seeds. A `Mean` averages the field of the same name; all results agree in the others."""
    values = {field.name: [getattr(one, field.name) for one in found] for field in fields(cls)}  # type: ignore[arg-type]
    means = {field.name for field in fields(cls) if field.type in (Mean, Mean | None)}  # type: ignore[arg-type]
    summarised = {
        name: own[0] if name not in means else mean_accuracy(own, n_test) if name == "accuracy" else mean_and_sd(own)
        for name, own in values.items()
    }
    return cls(**summarised)


def mean_accuracy(accuracies: Sequence[float], n_test: int) -> Mean:
    """The same for accuracies of seeds on `n_test` rows, with the interval over both."""
    share = mean_and_sd(accuracies)
    return Mean(share.mean, share.sd, seeds_and_rows_interval(accuracies, n_test))


def mean_and_sd(values: Sequence[float]) -> Mean:
    """Mean and standard deviation over seeds."""
    return Mean(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)


def mean_and_spread(value: Mean | None) -> str:
    """A mean over seeds, with the standard deviation over them if it is not 0."""
    if value is None:
        return NOTHING
    return f"{value.mean:.3f}" + (f" ± {value.sd:.3f}" if value.sd else "")


def mean_only(value: Mean | None) -> str:
    return NOTHING if value is None else f"{value.mean:.3f}"


def asked_and_answered(asked: float, answered: float, digits: int = 2, noun: str = "") -> str:
    """The mean number of queries asked and, in brackets, that of queries answered, if they differ."""
    n_asked, n_answered = f"{asked:.{digits}f}", f"{answered:.{digits}f}"
    return n_asked + noun + (f" ({n_answered} answered)" if n_answered != n_asked else "")


def three_digits(value: Mean | None) -> str:
    """A mean that need not be exact, such as a time."""
    return NOTHING if value is None else f"{value.mean:.3g}" if value.mean < 1000 else f"{value.mean:.0f}"


def _write_json(path: Path, values: dict[str, Any]) -> None:
    make_folder(path.parent)
    write_whole(path, json.dumps({**values, CHECKSUM: _checksum(values)}, indent=1).encode())


def _refuse_changed(values: Mapping[str, Any], keys: Sequence[str] | None = None) -> Mapping[str, Any]:
    """The values, if their checksum fits or they never had one. It is that of these keys; others may stand beside."""
    written = {key: values[key] for key in keys or values if key in values}
    if CHECKSUM in values and values[CHECKSUM] != _checksum(written):
        raise DamagedFile("These results were changed after they were measured: their checksum does not fit.")
    return values


def _checksum(values: Mapping[str, Any]) -> str:
    """The checksum of all other values, as they are after writing and reading."""
    rest = json.loads(json.dumps({key: value for key, value in values.items() if key != CHECKSUM}))
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


COMMIT_VARIABLE = "PURSUIT_COMMIT"
"""Names the commit if the source lies outside its repository."""


def provenance(device: str = "cpu") -> dict[str, Any]:
    """The provenance as JSON values."""
    return {
        "commit": os.environ.get(COMMIT_VARIABLE) or _commit(),
        "pursuit": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} CPU threads",
        "device": _device_name(device),
    }


def _commit() -> str | None:
    """The commit of the source, marked if files differ from it; None if the source is not kept in a repository.

    An installed package may lie inside the repository of another project, whose commit says nothing about it.
    """
    source = Path(__file__).parents[2]  # of the whole package

    def git(*words: str) -> str:
        command = ["git", "-C", str(source), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", str(Path(__file__).relative_to(source)))  # fails if it is not kept there
        return git("rev-parse", "--short", "HEAD") + (" with changes" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _device_name(device: str) -> str:
    wants_gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    return torch.cuda.get_device_name() if wants_gpu else "CPU"


# ----------------------------------------------------------------------------------------------------------------------
# A table and figures of all methods


ALL_ANSWERS = "all-answers"
"""The method that predicts nothing before it has all answers: it has no curve worth showing."""
FEW_ROWS = 2000
"""Up to this many test rows, an accuracy is shown with its interval."""
INTERVAL = "the 95 % interval over seeds and test rows (over rows alone where there is one seed)"
ERROR_WIDTH = 160


def in_brief(outcome: Result | Failure) -> str:
    """The key numbers of one method and seed, or why there are none."""
    if isinstance(outcome, Failure):
        return f"failed: {_on_one_line(outcome.error)}"
    evaluation, stop = outcome.evaluation, outcome.evaluation.at_stop
    parts = [
        f"{evaluation.accuracy_all_answers:.3f} right with all",
        f"trained in {outcome.training_seconds:.0f} s",
    ]
    if outcome.method != ALL_ANSWERS:
        at_stop = [f"{stop.accuracy:.3f} right after {stop_length(stop, 1, ' queries')}"] if stop else []
        parts = [f"area {evaluation.area:.3f}", *at_stop, *parts]
    return ", ".join(parts)


def header(results: Results, in_full: bool = True) -> list[str]:
    """The titles of the columns, in full or short enough for narrow columns."""
    reach = next((summary.reach for _, summary in results.worked.values()), None)
    return [
        "method",
        *(f"after {n}" for n in BUDGETS),
        f"area {reach}" if reach else "area",
        *(["area by answers"] if _lacks_answers(results) else []),
        *(["area by cost"] if _has_costs(results) else []),
        "stops after",
        *(["cost there"] if _has_costs(results) else []),
        *(("accuracy there", "all answers", "training") if in_full else ("right there", "with all", "s to train")),
        "ms a step",
        "seeds",
    ]


def cells(results: Results, name: str, in_full: bool = True) -> list[str]:
    """The row of a method: in full with deviations, and with an interval if there are few rows, or means alone."""
    method, titles = results.methods[name], header(results, in_full)
    summary, failed = method.summary, method.failed
    why = "; ".join(dict.fromkeys(_on_one_line(failure.error) for failure in failed))
    if summary is None:
        return [method.title, f"failed: {why}", *[NOTHING] * (len(titles) - 3), "0"]
    show = mean_and_spread if in_full else mean_only
    n_seeds = f"{summary.n_seeds} of {summary.n_seeds + len(failed)}" if failed else str(summary.n_seeds)
    n_seeds += f" (failed: {why})" if failed and in_full else ""
    resumed = ", resumed" if any(seed.resumed for seed in method.seeds) else ""
    unit = f" s{resumed}" if in_full else ""
    timed = [three_digits(summary.training_seconds) + unit, three_digits(summary.step_milliseconds)]
    ending = [show(summary.accuracy_all_answers), *timed, n_seeds]
    if name == ALL_ANSWERS:
        return [method.title, *[NOTHING] * (len(titles) - 1 - len(ending)), *ending]
    at_stop, has_few_rows = [NOTHING, *[NOTHING] * _has_costs(results), NOTHING], method.seeds[0].n_test <= FEW_ROWS
    if stop := summary.at_stop:
        interval = stop.accuracy.interval if in_full and has_few_rows else None
        between = f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
        cost = [three_digits(stop.mean_cost)] if _has_costs(results) else []
        at_stop = [stop_length(stop), *cost, show(stop.accuracy) + between]
    after = [show(summary.accuracy_after.get(n)) for n in BUDGETS]
    by_answered = [show(summary.area_by_answered)] if _lacks_answers(results) else []
    by_cost = [show(summary.area_by_cost)] if _has_costs(results) else []
    return [method.title, *after, show(summary.area), *by_answered, *by_cost, *at_stop, *ending]


def stop_length(stop: AtStop | StopSummary, digits: int = 2, noun: str = "") -> str:
    """The mean number of queries asked before a rule stops, and of queries answered."""
    if isinstance(stop, AtStop):
        return asked_and_answered(stop.mean_asked, stop.mean_answered, digits, noun)
    return asked_and_answered(stop.mean_asked.mean, stop.mean_answered.mean, digits, noun)


def _lacks_answers(results: Results) -> bool:
    """Whether some queries could not be answered, so that queries asked and answered differ."""
    seeds = (seed.evaluation for method, _ in results.worked.values() for seed in method.seeds)
    return any(one.accuracy_by_asked != one.accuracy_by_answered for one in seeds)


def _has_costs(results: Results) -> bool:
    """Whether queries do not all cost 1."""
    return any(summary.area_by_cost for _, summary in results.worked.values())


def markdown_table(results: Results) -> str:
    """All methods, a row each, and below them how to read it."""
    titles = header(results)
    rows = [titles, ["---"] * len(titles)]
    rows += [[cell.replace("|", r"\|") for cell in cells(results, name)] for name in results.methods]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    measured = [seed for method, _ in results.worked.values() for seed in method.seeds]
    if len({seed.seed for seed in measured}) > 1:
        lines += ["", "After ±: the sample standard deviation over seeds."]
    if any(seed.n_test <= FEW_ROWS for seed in measured):
        lines += ["", f"In brackets: {INTERVAL}."]
    return "\n".join([*lines, "", remark(results), ""])


def remark(results: Results) -> str:
    """A legend of the table, with the origin of its numbers."""
    worked, task = results.worked, results.run["task"]
    if not worked:
        return f"{task}: no method worked."
    places: dict[str, dict[str, None]] = {}
    for method, _ in worked.values():
        for origin in (seed.provenance for seed in method.seeds):
            place = f"{origin['device']} ({origin['machine']}), commit {origin['commit']}"
            places.setdefault(place, {})[method.title] = None
    where = "; ".join(place + (f": {', '.join(titles)}" if len(places) > 1 else "") for place, titles in places.items())
    first, summary = next(iter(worked.values()))
    one = first.seeds[0]
    rule = f", the stopping rule {summary.at_stop.rule}" if summary.at_stop else ""
    return (
        f"{task}: accuracy on {one.n_test:,} {results.run['measured_on']}, learnt from {one.n_train:,}. "
        f"The area is the mean accuracy over 1 {summary.reach} queries asked{rule}. "
        f"A step is timed one row at a time on the CPU. Measured on {where}."
    )


def draw_curves(results: Results, path: Path | None) -> "Figure | None":
    """The accuracy of all methods against queries asked and, where costs differ, in a second file against cost; None if
    no method has a curve."""
    worked = results.worked
    curves = [found for name, found in worked.items() if name != ALL_ANSWERS]
    if not curves:
        return None
    all_answers = worked.get(ALL_ANSWERS) or worked.get("vip")
    return draw_accuracy(
        {method.title: [seed.evaluation for seed in method.seeds] for method, _ in curves},
        {method.title: summary.at_stop for method, summary in curves if summary.at_stop},
        path,
        title=f"{results.run['task']}: accuracy on {curves[0][0].seeds[0].n_test:,} {results.run['measured_on']}",
        all_answers=all_answers[1].accuracy_all_answers.mean if all_answers else None,
    )


def draw_accuracy(
    measured: Mapping[str, Sequence[Evaluation | Beside]],
    stops: Mapping[str, StopSummary],
    path: Path | None,
    title: str,
    all_answers: float | None,
) -> "Figure":
    """The accuracy of all seeds by title, against queries asked; where queries do not all cost 1, a second figure,
    NAME-by-cost, shows it against cost."""
    asked = {name: [one.accuracy_by_asked or [] for one in seeds] for name, seeds in measured.items()}
    points = {name: (stop.mean_asked.mean, stop.accuracy.mean) for name, stop in stops.items()}
    figure = accuracy_curve(asked, path, title, points, all_answers)
    costs = [[cost for cost, _ in one.accuracy_by_cost] for seeds in measured.values() for one in seeds]
    if all(costs) and path is not None:
        spent = {
            name: [[accuracy for _, accuracy in one.accuracy_by_cost] for one in seeds]
            for name, seeds in measured.items()
        }
        points = {name: (stop.mean_cost.mean, stop.accuracy.mean) for name, stop in stops.items()}
        beside = path.with_name(f"{path.stem}-by-cost{path.suffix}")
        accuracy_curve(spent, beside, title, points, all_answers, costs=costs[0])
    return figure


def _on_one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= ERROR_WIDTH else text[: ERROR_WIDTH - 1] + "…"
