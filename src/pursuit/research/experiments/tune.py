"""Search settings of a method: each trial trains on a part of the training rows and is judged on the others.

Test rows have no say in it. A folder holds `trials.csv`, `best.json`, Optuna's own journal `trials.log`, and in
trials/N what came of each trial. The same search goes on where it stopped.
"""

import hashlib
import json
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pursuit.estimators import Method, PursuitRegressor
from pursuit.estimators.tuned import OneOf, Ranges, Span, Tuned
from pursuit.evaluation.curves import evaluate
from pursuit.evaluation.regression import evaluate_regression
from pursuit.files import claimed, read_json, write_whole
from pursuit.queries import ColumnQueries
from pursuit.registry import find
from pursuit.research.experiments.options import SearchOptions
from pursuit.research.experiments.results import Failure, provenance
from pursuit.research.experiments.run import (
    ERROR,
    Progress,
    Say,
    curve_end,
    fit_or_resume,
    no_progress,
    outcomes,
    say_nothing,
)
from pursuit.research.tasks import Task, load_task
from pursuit.tables.engine import HERE, Engine
from pursuit.tables.source import name_of
from pursuit.training.devices import find_device
from pursuit.training.rows import Rows, StreamedRows
from pursuit.training.run import CHECKPOINTS
from pursuit.version import require

HELD_OUT, MOST_JUDGED = 0.2, 10_000
"""The share of the training rows that trials are judged on, and the most where rows are streamed."""
JUDGING_SEED = 2_000_003
"""Added to the seed where rows are drawn, so that trials are judged on others than those they learn from."""
BEST, TRIALS, JOURNAL, RESULT = "best.json", "trials.csv", "trials.log", "result.json"
FACTORS = tuple(one.name for one in fields(Tuned))


@dataclass(frozen=True)
class Search(SearchOptions):
    """A search for settings of a method on the rows of a task."""

    source: str | Path | Task
    """The name of a task, which is learnt by its fast recipe, a CSV file, Parquet files, or a task itself."""
    costs: Mapping[str, float] = field(default_factory=dict)
    cost_aware: bool | None = None
    table_options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `load_task` for a file: `target`, `queries` and `table_options`."""
    space: Ranges | None = None
    """The search space by name: factors of `Tuned`, and settings of the method. By default the method's `tunable`."""
    _loaded: list[tuple[Task, Rows | None]] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def on(cls, X: pd.DataFrame, y: Any, method: str = "vip", *, name: str = "rows", **options: Any) -> "Search":
        """A search on the rows of a table with labels y, every column of which is a query. All of them are training
        rows: keep those away that the model is to be measured on."""
        labels = np.asarray(y)
        return cls(Task(name, ColumnQueries.from_data(X), X, labels, X.iloc[:0], labels[:0]), method=method, **options)

    def __post_init__(self) -> None:
        find_device(self.device)
        self.found_method  # noqa: B018  raises for one that is unknown

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": []}  # whoever gets it loads the rows again

    @cached_property
    def found_method(self) -> Method:
        found: Method = find(Method.registry_kind, self.method)
        return found

    @property
    def name(self) -> str:
        return self.source.name if isinstance(self.source, Task) else name_of(self.source)

    def load(self) -> tuple[Task, Rows | None]:
        """The task without its own test rows: in their place, and as `Rows` where rows are streamed, it has training
        rows that are held out."""
        if not self._loaded:
            self._loaded.append(self._split())
        return self._loaded[0]

    def _split(self) -> tuple[Task, Rows | None]:
        task = self.source
        if not isinstance(task, Task):
            task = load_task(task, self.seed, costs=self.costs, **self.table_options)
        task = task.with_costs({}, self.cost_aware)
        settings = {**task.settings, **({} if self.max_queries is None else {"max_queries": self.max_queries})}
        task = replace(task, settings=settings)
        if isinstance(task.X_train, StreamedRows):
            kept, judging = task.X_train.hold_out(HELD_OUT, MOST_JUDGED, self.seed + JUDGING_SEED)
            return replace(task, X_train=kept), judging
        task = task.validation_split(HELD_OUT, self.seed)
        if not len(task.y_test):
            raise ValueError(f"{self.name} has too few training rows to hold some out, so settings cannot be judged.")
        return task, None

    def ranges(self) -> Ranges:
        """The part of the search space that applies to the task's own network and stages."""
        task, _ = self.load()
        wanted = self.found_method.estimator.tunable if self.space is None else self.space
        network, stages = task.settings.get("network"), task.settings.get("stages")
        lacking: set[str] = set()
        if task.query_set.patches is not None or network is not None:
            lacking |= {"width"} if not isinstance(getattr(network, "hidden", None), tuple) else set()
            lacking |= {"dropout"} if not getattr(network, "dropout", 0) else set()
        for stage in stages or ():
            lacking |= {"weight_decay"} if not getattr(stage.optimizer, "weight_decay", 0) else set()
            lacking |= {"random_share"} if not getattr(stage.histories, "random_share", 0) else set()
        ranges = {name: one for name, one in wanted.items() if name not in lacking}
        if not ranges:
            raise ValueError(
                f"The method {self.method} ({self.found_method.title}) has no settings to search for on {self.name}: "
                "train it as it is."
            )
        return ranges

    def defaults(self) -> dict[str, Any]:
        """The values that change nothing."""
        settings = getattr(self.found_method.build(), "chosen_settings", None)
        return {name: 1.0 if name in FACTORS else getattr(settings, name) for name in self.ranges()}

    def described(self) -> dict[str, Any]:
        """The identity of this search, as JSON values."""
        task, _ = self.load()
        described = {
            "task": self.name,
            "method": self.method,
            "seed": self.seed,
            "max_queries": self.max_queries,
            "space": {name: str(one) for name, one in self.ranges().items()},
            "costs": dict(self.costs),
            "cost_aware": self.cost_aware,
            "rows": {key: value for key, value in task.notes.items() if key != "remarks"} | _counted(self.source),
            "options": dict(self.table_options),
        }
        plain: dict[str, Any] = json.loads(json.dumps(described, default=str))
        return plain


@dataclass(frozen=True)
class Judged:
    """The result of a trial."""

    area: float
    """The mean accuracy, or of a number the mean R², over 1 to `longest` queries asked, on held-out training rows."""
    longest: int
    n_train: int
    n_judged: int
    seconds: float


@dataclass(frozen=True)
class TrialRun:
    """One trial: training with some values, and judging by held-out rows."""

    search: Search
    number: int
    values: Mapping[str, Any]
    folder: Path

    @property
    def seed(self) -> int:
        return self.search.seed

    @property
    def label(self) -> str:
        return f"{self.search.name}, trial {self.number}"

    def prepare(self) -> None:
        self.search.load()

    def measure(self, progress: Progress = no_progress) -> Judged:
        with claimed(self.folder):
            if found := self.read():
                return found
            started = time.monotonic()
            task, judging = self.search.load()
            settings = {**task.settings, "random_state": self.seed, "device": self.search.device}
            estimator = self.search.found_method.build(task.query_set, **settings, **parameters(self.values))
            with progress(self.label) as on_report:
                fit_or_resume(estimator, task, self.folder, on_report)
            area, longest, n_judged = _judge(estimator, task, judging, self.search.device)
            judged = Judged(area, longest, len(task.X_train), n_judged, round(time.monotonic() - started, 1))
            write_whole(self.folder / RESULT, json.dumps({"values": dict(self.values), **asdict(judged)}).encode())
            shutil.rmtree(self.folder / CHECKPOINTS, ignore_errors=True)  # nobody goes on from here
        return judged

    def read(self) -> Judged | None:
        """The result, if the trial is done."""
        try:
            found = read_json(self.folder / RESULT)
            return Judged(**found) if found.pop("values") == dict(self.values) else None
        except (FileNotFoundError, ValueError, TypeError, AttributeError, KeyError):
            return None

    def as_it_stands(self) -> "Trial":
        """The trial with its result or its error."""
        if judged := self.read():
            return Trial(self.number, dict(self.values), judged)
        try:
            error = (self.folder / ERROR).read_text(encoding="utf-8").strip().splitlines()[-1]
        except (OSError, IndexError):
            error = "the machines that trained it were lost"
        return Trial(self.number, dict(self.values), None, error)


def parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a search as parameters of `Method.build`."""
    factors = {name: value for name, value in values.items() if name in FACTORS}
    own = {name: value for name, value in values.items() if name not in FACTORS}
    return {**({"tuned": Tuned(**factors)} if factors else {}), **own}


def _counted(source: str | Path | Task) -> dict[str, Any]:
    """A fingerprint of the rows of a task that is not read from files."""
    if not isinstance(source, Task):
        return {}
    if isinstance(source.X_train, StreamedRows):
        return {"fingerprint": source.X_train.fingerprint()}
    digest = hashlib.sha256("\0".join(map(str, source.y_train)).encode())
    X = source.X_train
    digest.update(X.to_csv(index=False).encode() if isinstance(X, pd.DataFrame) else np.ascontiguousarray(X).tobytes())
    return {"sha256": digest.hexdigest()}


def _judge(estimator: Any, task: Task, judging: Rows | None, device: str) -> tuple[float, int, int]:
    """The area on held-out rows, how far it goes, and on how many rows."""
    model, n_queries = estimator.model_, len(task.query_set)
    longest = curve_end(n_queries, estimator.max_queries, device) or estimator.max_queries
    if judging is None:
        judging = estimator.rows(task.X_test, task.y_test, initially_known=task.initially_known_test)
    if isinstance(estimator, PursuitRegressor):
        numbers = np.asarray(task.y_test, dtype=float)
        area = evaluate_regression(model, judging, numbers, None, longest, device).area
    else:
        area = evaluate(model, judging, None, longest, device).area
    return float(area), min(longest or n_queries, n_queries), len(judging)


@dataclass(frozen=True)
class Trial:
    """A trial as it stands."""

    number: int
    values: dict[str, Any]
    judged: Judged | None
    error: str | None = None


@dataclass(frozen=True)
class Tuning:
    """The trials of a search."""

    search: dict[str, Any]
    trials: list[Trial]
    """In their order; the first has the default settings."""

    @property
    def default(self) -> Judged | None:
        """The result of the default settings; None if they failed."""
        return self.trials[0].judged

    @property
    def ranked(self) -> list[Trial]:
        """The trials that worked, the best first."""
        worked = [(trial.judged.area, trial) for trial in self.trials if trial.judged]
        return [trial for _, trial in sorted(worked, key=lambda pair: -pair[0])]

    @property
    def best(self) -> Trial:
        """The trial with the greatest area, the first of several."""
        if not self.ranked:
            raise ValueError(f"All {len(self.trials)} trials failed. The first one: {self.trials[0].error}")
        return self.ranked[0]

    @property
    def settings(self) -> dict[str, Any]:
        """The best values; none where no trial is better than the default settings."""
        return {} if self.best.number == 0 else self.best.values

    def frame(self) -> pd.DataFrame:
        """One row for each trial."""
        rows = [
            {
                "trial": trial.number,
                "area": trial.judged and trial.judged.area,
                "seconds": trial.judged and trial.judged.seconds,
                **trial.values,
                "error": trial.error,
            }
            for trial in self.trials
        ]
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        best = self.best
        return {
            "method": self.search["method"],
            "settings": self.settings,
            "trial": best.number,
            "held_out": best.judged and asdict(best.judged),
            "held_out_by_default": self.default and asdict(self.default),
            "n_trials": len(self.trials),
            "n_failed": sum(trial.judged is None for trial in self.trials),
            "search": self.search,
        }


def tune(
    search: Search,
    folder: Path,
    n_trials: int = 30,
    progress: Progress = no_progress,
    say: Say = say_nothing,
    engine: Engine = HERE,
) -> Tuning:
    """Try settings until there are `n_trials` trials, those of an earlier call included. `engine` says where they are
    trained; the next one is chosen by the results of those before. One that fails is noted, and the others go on."""
    require("tune", "Searching settings", "optuna")
    described = search.described()

    def run_of(number: int, values: Mapping[str, Any]) -> TrialRun:
        return TrialRun(search, number, values, folder / "trials" / str(number))

    with claimed(folder):
        study = Study(folder / JOURNAL, described, search.ranges(), search.defaults(), search.seed)
        runs = (run_of(number, values) for number, values in study.ask_until(n_trials))
        for run, outcome in outcomes(runs, engine, progress):
            study.tell(run.number, None if isinstance(outcome, Failure) else outcome.area)
            what = f"failed: {outcome.error}" if isinstance(outcome, Failure) else f"{outcome.area:.4f}"
            say(f"{run.label}: {what} ({values_in_words(run.values)})")
        trials = [run_of(number, values).as_it_stands() for number, values in study.told()]
        tuning = Tuning(described, trials)
        write_whole(folder / TRIALS, tuning.frame().to_csv(index=False).encode())
        found = {**tuning.to_dict(), "provenance": provenance(search.device)}
        write_whole(folder / BEST, json.dumps(found, indent=1).encode())
    return tuning


def values_in_words(values: Mapping[str, Any]) -> str:
    """Values in words, those of factors as such."""
    texts = [f"{name} × {value:.3g}" if name in FACTORS else f"{name} {value:.3g}" for name, value in values.items()]
    return ", ".join(text for text in texts if not text.endswith("× 1")) or "as planned"


def read_best(folder: Path) -> tuple[str, dict[str, Any]]:
    """The method that was tuned in a folder, and its best settings as parameters of `Method.build`."""
    try:
        found = read_json(folder / BEST)
        return str(found["method"]), parameters(found["settings"])
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no {BEST}: give the folder of a `pursuit tune` that is done.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / BEST} is damaged ({error}): tune again.") from None


NAME, SEARCH = "tune", "search"


class Study:
    """The trials of one search, in a journal that goes on where it stopped; raises ValueError if it is of another
    search. The first trial has the default values, and each later one depends on those before and on its own seed
    alone, so that one after the other they are always the same."""

    def __init__(
        self,
        journal: Path,
        described: Mapping[str, Any],
        ranges: Ranges,
        defaults: Mapping[str, Any],
        seed: int,
    ):
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.seed = seed
        self.distributions = {name: _distribution(one) for name, one in ranges.items()}
        backend = JournalFileBackend(str(journal), lock_obj=JournalFileOpenLock(str(journal)))
        try:
            self.study = optuna.create_study(
                storage=JournalStorage(backend), study_name=NAME, direction="maximize", load_if_exists=True
            )
        except (KeyError, json.JSONDecodeError, UnicodeDecodeError, AssertionError) as error:
            raise ValueError(f"{journal} is damaged ({error}): delete its folder, or choose another one.") from None
        before = self.study.user_attrs.get(SEARCH)
        if before is None:
            self.study.set_user_attr(SEARCH, dict(described))
            self.study.enqueue_trial(dict(defaults))
        elif before != described:
            changed = [name for name in described if before.get(name) != described[name]]
            raise ValueError(
                f"{journal.parent} holds a search with other {' and '.join(changed)}: choose another --out, or delete "
                "this folder."
            )

    def ask_until(self, n_trials: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number and the values of each trial to do, until there are `n_trials`: first those that were begun and
        never told, then new ones."""
        for trial in self._trials("RUNNING"):
            yield trial.number, dict(trial.params)
        while len(self._trials("RUNNING", "COMPLETE", "FAIL")) < n_trials:
            new = self._ask()
            yield new.number, dict(new.params)

    def tell(self, number: int, value: float | None) -> None:
        """Record the result of a trial; None if it failed."""
        from optuna.trial import TrialState

        if value is None or not np.isfinite(value):
            self.study.tell(number, state=TrialState.FAIL)
        else:
            self.study.tell(number, value)

    def told(self) -> list[tuple[int, dict[str, Any]]]:
        """The number and the values of each trial that is done, whether it worked or failed."""
        return [(trial.number, dict(trial.params)) for trial in self._trials("COMPLETE", "FAIL")]

    def _ask(self) -> Any:
        import optuna

        n_before = len(self._trials("RUNNING", "COMPLETE", "FAIL"))
        seed = int(np.random.SeedSequence([self.seed, n_before]).generate_state(1)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # Trials that are still running count as bad ones, so that no two of them are alike.
            self.study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        return self.study.ask(self.distributions)

    def _trials(self, *states: str) -> list[Any]:
        return [trial for trial in self.study.get_trials(deepcopy=False) if trial.state.name in states]


def _distribution(one: Span | OneOf) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return (
        CategoricalDistribution(one.values)
        if isinstance(one, OneOf)
        else FloatDistribution(one.low, one.high, log=True)
    )
