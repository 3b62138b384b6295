"""A task: data, query set and class names, with the settings that suit it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pursuit.estimators import default_stages
from pursuit.evaluation.protocols import Protocol
from pursuit.inference.pursuer import Pursuer
from pursuit.queries import QuerySet
from pursuit.research.tasks.files import DataFile
from pursuit.research.tasks.recipe import Published, Recipe
from pursuit.tables.splitting import Division
from pursuit.training import Stage, TrainingRun
from pursuit.training.rows import StreamedRows


@dataclass(frozen=True)
class Task:
    """Labelled rows in two parts: training rows and test rows. Training never reads the test rows."""

    name: str
    query_set: QuerySet
    X_train: Any
    """Rows as the query set reads them, or `StreamedRows`."""
    y_train: Any
    """Labels; None where rows are streamed together with theirs."""
    X_test: Any
    y_test: np.ndarray
    notes: Mapping[str, Any] = field(default_factory=dict)
    """The origin of the rows, as JSON values; saved with a model."""
    initially_known_train: np.ndarray | None = None
    """(N, Q) bool: the answers given before anything is asked, such as what a patient reports unasked."""
    initially_known_test: np.ndarray | None = None
    picture: Callable[[int], np.ndarray] | None = None
    """The picture (H, W, 3) of a test row, where the queries are about one."""
    exact: Callable[[], Pursuer] | None = None
    """Makes exact Information Pursuit to compare with, where the distribution of the answers is known."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `VIPClassifier` that suit the task."""
    division_train: Division | None = None
    """Which training rows stay together where they are divided again; by default any may be on either side."""
    held_out: "Task | None" = None
    """The task whose test rows were held out from this one's training rows, to choose a stopping rule on."""

    @property
    def groups_train(self) -> np.ndarray | None:
        """(N,) the group of each training row, as numbers, NaN where it is missing; None where there are none."""
        groups = None if self.division_train is None else self.division_train.groups
        return None if groups is None else np.where(groups < 0, np.nan, groups)

    def fit(self, estimator: Any, run: TrainingRun | None = None) -> None:
        """Fit an estimator on the training rows."""
        known = self.initially_known_train
        estimator.fit(self.X_train, self.y_train, groups=self.groups_train, initially_known=known, run=run)

    def with_recipe(self, recipe: Recipe) -> "Task":
        """The same task with a recipe's settings and options of the query set."""
        query_set = self.query_set.with_options(**recipe.query_options) if recipe.query_options else self.query_set
        return replace(self, query_set=query_set, settings=recipe.settings())

    def stages(self, settings: Mapping[str, Any]) -> Sequence[Stage]:
        """The training plan of these settings, or the default one."""
        given: Sequence[Stage] | None = settings.get("stages")
        return given or default_stages(len(self.X_train), len(self.query_set), settings.get("max_queries"))

    def with_costs(self, costs: Mapping[str, float], cost_aware: bool | None = None) -> "Task":
        """The same task in which the queries named in `costs` cost that, for exact Information Pursuit too.
        `cost_aware` says whether methods that can are to ask by information for each unit of cost; None leaves that to
        them."""
        if not costs and cost_aware is None:
            return self
        return replace(
            self,
            query_set=self.query_set.with_costs(costs),
            exact=self.exact and partial(_with_costs, self.exact, costs, bool(cost_aware)),
            settings={**self.settings, **({} if cost_aware is None else {"cost_aware": cost_aware})},
        )

    def validation_split(self, share: float = 0.1, seed: int = 0) -> "Task":
        """The same task with a share of its training rows as test rows, to choose settings without the real ones."""
        if isinstance(self.X_train, StreamedRows):
            raise ValueError(f"{self.name} streams its rows, so they cannot be split: load it with another seed.")
        if self.division_train is None:
            order = np.random.default_rng(seed).permutation(len(self.y_train))
            test, train = np.split(order, [round(share * len(order))])
        else:
            train, test = self.division_train.split(share, seed)

        def rows(index: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray | None]:
            return (
                take_rows(self.X_train, index),
                self.y_train[index],
                None if self.initially_known_train is None else self.initially_known_train[index],
            )

        (X_train, y_train, initially_known_train), (X_test, y_test, initially_known_test) = rows(train), rows(test)
        return replace(
            self,
            X_train=X_train,
            y_train=y_train,
            X_test=X_test,
            y_test=y_test,
            notes={**self.notes, "measured_on": f"{share:.0%} of the training rows"},
            initially_known_train=initially_known_train,
            initially_known_test=initially_known_test,
            picture=None,  # which shows the real test rows
            division_train=self.division_train and self.division_train.take(train),
        )

    def with_test_rows(self, index: Any) -> "Task":
        """The same task with some of its test rows, by a slice or by their numbers."""
        known = self.initially_known_test
        return replace(
            self,
            X_test=take_rows(self.X_test, index),
            y_test=self.y_test[index],
            initially_known_test=None if known is None else known[index],
        )

    def some_test_rows(self, n_rows: int, seed: int = 0) -> "Task":
        """The same task with at most this many of its test rows, drawn by a seed and in their order."""
        order = np.random.default_rng(seed).permutation(len(self.y_test))
        return replace(self.with_test_rows(np.sort(order[:n_rows])), picture=None)  # which shows all test rows

    def hold_out(self, share: float = 0.1, seed: int = 0) -> "Task":
        """The same task with a share of its training rows held out, to choose on: `held_out` has them."""
        held_out = self.validation_split(share, seed)
        return replace(
            self,
            X_train=held_out.X_train,
            y_train=held_out.y_train,
            notes={**self.notes, "held_out": f"{share:.0%} of the training rows"},
            initially_known_train=held_out.initially_known_train,
            division_train=held_out.division_train,
            held_out=held_out,
        )


@dataclass(frozen=True)
class TaskInfo:
    """The description of a task, available before its data are loaded; `register` makes the task known by its name."""

    registry_kind: ClassVar[str] = "task"

    name: str
    title: str
    load: Callable[[int], Task]
    """The task for a seed; official splits and query sets do not depend on the seed."""
    n_queries: int
    n_classes: int
    n_train: int
    n_test: int
    files: tuple[DataFile, ...] = ()
    """Data files that must be on the machine; none for embedded tasks."""
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    """Ways to learn it, by name; `fast` is the default one."""
    published: Published | None = None
    """The paper's figures, if it has the task."""
    protocols: tuple[Protocol, ...] = ()
    """Rules by which `reproduce` cuts and counts chains, if the figures depend on them. The confidence at which they
    stop is chosen on a part of the training rows, which is not learnt from."""
    protocol_length: float | None = None
    """The mean number of queries it is chosen for."""
    protocol_share: float = 0.1
    """The share of the training rows that it is chosen on."""

    @property
    def registry_origin(self) -> Callable[..., Any]:
        return self.load.func if isinstance(self.load, partial) else self.load


def _with_costs(make: Callable[[], Any], costs: Mapping[str, float], cost_aware: bool) -> Pursuer:
    pursuer: Any = make()
    pursuer.query_set = pursuer.query_set.with_costs(costs)
    if cost_aware:
        pursuer.cost_aware = True
    return pursuer


def take_rows(X: Any, index: Any) -> Any:
    """Some rows of a DataFrame or an array, by their numbers or a slice."""
    return X.iloc[index] if hasattr(X, "iloc") else X[index]
