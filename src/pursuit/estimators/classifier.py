"""What all estimators share, in scikit-learn's manner: reading rows, asking, explaining, measuring, saving."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from pursuit import saving
from pursuit.chains import Chains, explain, pursue_in_batches
from pursuit.evaluation import Evaluation, evaluate
from pursuit.logs import LogKind
from pursuit.queries import Answers, ColumnQueries, QuerySet, WordQueries
from pursuit.rows import Rows, RowSource, StreamedRows
from pursuit.session import Session
from pursuit.stopping import Budget, Confidence, StoppingRule, parse_stop
from pursuit.training import Report

DEFAULT_STOP = Confidence(0.99)


@dataclass(frozen=True)
class Fit:
    """What is known of a fit besides its rows: how it is seeded, watched and written down."""

    seed: int
    folder: Path | None = None
    resume: bool = False
    log: LogKind = "csv"
    on_report: Callable[[Report], None] | None = None


class PursuitClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A classifier that asks for one answer after the other until it is sure, and explains itself by them.

    A subclass says in `_learn` how a pursuer comes from rows, and in `kind` what its class is.

    Parameters
    ----------
    query_set : QuerySet, optional
        What may be asked. By default every column of the table is a query.
    stop : StoppingRule or str, optional
        When to stop asking, as `Confidence(0.95)` or "confidence=0.95,budget=10". By default `Confidence(0.99)`.
    max_queries : int, optional
        The most queries ever asked of a row. By default all of them.
    random_state : int, RandomState or None
        Seed; the same number gives the same model on the same machine.
    device : str
        Where to train and evaluate: "cpu", "cuda" or "auto".

    Attributes
    ----------
    classes_ : labels, in the order of all posteriors.
    model_ : the pursuer that was learnt.
    has_opening_ : whether it learnt from rows that open with answers given unasked.
    """

    kind: ClassVar[type[Any]]
    """The class of the pursuer."""

    def __init__(
        self,
        query_set: QuerySet | None = None,
        *,
        stop: StoppingRule | str | None = None,
        max_queries: int | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ):
        self.query_set = query_set
        self.stop = stop
        self.max_queries = max_queries
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        opening: Any = None,
        folder: str | Path | None = None,
        resume: bool = False,
        log: Any = "csv",
        on_report: Callable[[Report], None] | None = None,
    ) -> Self:
        """Learn what to ask and what to believe from rows X with labels y, or from X that brings both along: rows
        streamed from files (`ParquetRows`) or drawn by a rule (`GeneratedRows`).

        `opening` (N, Q) says which answers are given unasked, such as what a patient complains of. With a `folder`,
        training is logged there and can go on with `resume` after a crash; `on_report` hears how it does.
        """
        self.stopping_rule()  # a wrong rule is better told before training than after
        if self.max_queries is not None and self.max_queries < 1:
            raise ValueError(f"max_queries is the most queries asked of a row, at least 1, not {self.max_queries}.")
        self._check_settings()
        query_set, rows = self._training_rows(X, y, opening)
        if len(self.classes_) < 2:
            raise ValueError(
                f"The labels have only one class ('{self.classes_[0]}'): there is nothing to tell "
                "apart. At least two are needed."
            )
        seed = int(check_random_state(self.random_state).randint(2**31))
        with torch.random.fork_rng(devices=[]):  # whatever is drawn without a generator
            torch.default_generator.manual_seed(seed)
            fit = Fit(seed, None if folder is None else Path(folder), resume, log, on_report)
            self.model_ = self._learn(query_set, rows, fit)
        return self

    def _check_settings(self) -> None:
        """Raise ValueError for settings that are wrong whatever the data."""
        return

    @abstractmethod
    def _learn(self, query_set: QuerySet, rows: RowSource, fit: Fit) -> Any:
        """A pursuer of the class `kind` that learnt from these rows; its classes are `classes_`."""

    def predict_proba(self, X: Any, *, opening: Any = None) -> np.ndarray:
        """The belief about every class once enough was asked of each row: (N, C)."""
        answers = self._answers(X)
        opened = self._opening(opening, len(answers.x))
        posterior = torch.zeros(len(answers.x), len(self.classes_))
        for turn in pursue_in_batches(self.model_, *answers, self.stopping_rule(), opened):
            posterior[turn.rows] = turn.log_posterior.exp().float()
        return posterior.numpy()

    def predict(self, X: Any, *, opening: Any = None) -> np.ndarray:
        """The most probable label of each row once enough was asked."""
        best = self.predict_proba(X, opening=opening).argmax(axis=1)
        return self.classes_[best]

    def explain(self, X: Any, stop: StoppingRule | str | None = None, *, opening: Any = None) -> Chains:
        """The chain of queries, answers and posteriors of each row, which is the whole reason for its prediction."""
        answers = self._answers(X)
        return explain(self.model_, *answers, self.stopping_rule(stop), self._opening(opening, len(answers.x)))

    def evaluate(self, X: Any, y: Any, stop: StoppingRule | str | None = None, *, opening: Any = None) -> Evaluation:
        """Accuracy against number of queries, and what the stopping rule gives; computed on the classifier's device."""
        return evaluate(
            self.model_, self.rows(X, y, opening=opening), self.stopping_rule(stop), self.max_queries, self.device
        )

    def rows(self, X: Any, y: Any, *, opening: Any = None) -> Rows:
        """Rows with labels as the functions beneath the estimator take them."""
        answers = self._answers(X)
        y = column_or_1d(y)
        check_consistent_length(answers.x, y)
        codes = pd.Index(self.classes_).get_indexer(pd.Index(y))
        if (codes < 0).any():
            raise ValueError(
                f"The label '{y[codes < 0][0]}' was not there in training: it cannot be predicted. Leave such rows out."
            )
        return Rows(*answers, torch.from_numpy(codes.astype(np.int64)), self._opening(opening, len(y)))

    def session(self, stop: StoppingRule | str | None = None) -> Session:
        """A session with a person, who is asked one query after the other."""
        check_is_fitted(self, "model_")
        return Session(self.model_, self.stopping_rule(stop))

    def save(self, folder: str | Path, notes: dict[str, Any] | None = None) -> None:
        """Write the trained model as `model.json` and `model.safetensors` into a folder."""
        check_is_fitted(self, "model_")
        stop = None if self.stop is None else str(_as_rule(self.stop))
        names = getattr(self, "feature_names_in_", None)
        estimator = {
            "stop": stop,
            "max_queries": self.max_queries,
            "feature_names": None if names is None else names.tolist(),
            "has_opening": getattr(self, "has_opening_", False),
        }
        saving.save(
            folder, self.model_, {**(notes or {}), "estimator": {**estimator, "n_features": self.n_features_in_}}
        )

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The classifier that `save` wrote; it predicts as before; its training plan is the default."""
        model, notes = saving.load(folder, cls.kind)
        kept = notes.get("estimator", {})
        asking = {"stop": kept.get("stop"), "max_queries": kept.get("max_queries")}
        classifier = cls(model.query_set, **asking, **cls._settings_of(model))
        classifier.model_, classifier.classes_, classifier.notes_ = model, np.asarray(model.classes), notes
        classifier.has_opening_ = kept.get("has_opening", False)
        classifier.n_features_in_ = kept.get("n_features", len(model.query_set))
        if kept.get("feature_names"):
            classifier.feature_names_in_ = np.array(kept["feature_names"], dtype=object)
        return classifier

    @classmethod
    def _settings_of(cls, model: Any) -> dict[str, Any]:
        """The parameters that a loaded pursuer tells of."""
        return {}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def stopping_rule(self, stop: StoppingRule | str | None = None) -> StoppingRule:
        """The rule that rows are asked by: `stop`, or else the classifier's own, and never more than max_queries."""
        chosen = stop if stop is not None else self.stop
        rule = DEFAULT_STOP if chosen is None else _as_rule(chosen)
        return rule if self.max_queries is None else rule | Budget(self.max_queries)

    def _validated(self, X: Any, reset: bool) -> Any:
        """X as a DataFrame or an array of the right number of columns; texts are a single column."""
        if isinstance(self.query_set, WordQueries) and not isinstance(X, str) and np.ndim(X) == 1:
            X = np.asarray(X, dtype=object)[:, None]
        if isinstance(X, pd.DataFrame) and (reset or hasattr(self, "feature_names_in_")):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        X = check_array(
            X,
            dtype=None,
            ensure_all_finite=False,
            allow_nd=True,
            ensure_min_features=1,
            ensure_min_samples=1,
            estimator=self,
        )
        flat = X.reshape(len(X), -1)
        validate_data(self, flat, reset=reset, skip_check_array=True)
        return X

    def _labels(self, X: Any, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give a label for every row."
            )
        if isinstance(y, pd.Series) and isinstance(y.dtype, pd.BooleanDtype) and not y.hasnans:
            y = y.to_numpy(dtype=bool)  # which scikit-learn would make numbers
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        if pd.isna(y).any():
            raise ValueError("Some labels y are missing (NaN): fill them in, or leave these rows out.")
        check_classification_targets(y)
        return y

    def _warn_if_nothing_will_be_asked(self, prior: torch.Tensor) -> None:
        rule, nothing = self.stopping_rule(), torch.zeros(1)
        stops, _ = rule.step(rule.start(1), prior.log()[None], nothing, nothing)
        if stops:
            share, most = prior.max(dim=0)
            warnings.warn(
                f"The stopping rule {rule} is content before anything is asked: '{self.classes_[int(most)]}' makes up "
                f"{share:.1%} of the labels. Choose a higher confidence, or a rule such as stability=0.001.",
                stacklevel=4,
            )

    def _answers(self, X: Any) -> Answers:
        check_is_fitted(self, "model_")
        return self.model_.query_set.answers(self._validated(X, reset=False))

    def _training_rows(self, X: Any, y: Any, opening: Any) -> tuple[QuerySet, RowSource]:
        """The query set and the rows in its answer space; learns the classes on the way."""
        if isinstance(X, StreamedRows):
            return self._streamed_rows(X, y, opening)
        X = self._validated(X, reset=True)
        y = self._labels(X, y)
        query_set = self.query_set if self.query_set is not None else ColumnQueries.from_data(X)
        self.classes_, codes = np.unique(y, return_inverse=True)
        opened = _as_opening(opening, (len(y), len(query_set)))
        self.has_opening_ = opened is not None
        return query_set, Rows(*query_set.answers(X), torch.from_numpy(codes.astype(np.int64)), opened)

    def _streamed_rows(self, X: StreamedRows, y: Any, opening: Any) -> tuple[QuerySet, StreamedRows]:
        query_set = self.query_set if self.query_set is not None else X.query_set
        if query_set is None or y is not None or opening is not None:
            raise ValueError(
                f"{type(X).__name__} bring labels and openings along, and need the query_set they are for."
            )
        if X.n_queries != len(query_set):
            raise ValueError(f"The rows answer {X.n_queries} queries, but the query_set has {len(query_set)}.")
        self.classes_, self.n_features_in_, self.has_opening_ = np.asarray(X.classes), X.n_queries, X.has_opening
        if X.feature_names:
            self.feature_names_in_ = np.array(X.feature_names, dtype=object)
            self.n_features_in_ = len(X.feature_names)
        return query_set, X

    def _opening(self, opening: Any, n_rows: int) -> torch.Tensor | None:
        return _as_opening(opening, (n_rows, len(self.model_.query_set)))


def _as_rule(stop: StoppingRule | str) -> StoppingRule:
    rule = parse_stop(stop) if isinstance(stop, str) else stop
    if not isinstance(rule, StoppingRule):
        raise TypeError(
            f"stop is a stopping rule such as Confidence(0.95), or its text 'confidence=0.95', not {stop!r}."
        )
    return rule


def _as_opening(opening: Any, shape: tuple[int, int]) -> torch.Tensor | None:
    if opening is None:
        return None
    opened = torch.as_tensor(np.asarray(opening), dtype=torch.bool)
    if opened.shape != shape:
        raise ValueError(
            f"opening says for every row and query whether its answer is given unasked: shape {shape} is expected, "
            f"not {tuple(opened.shape)}."
        )
    return opened
