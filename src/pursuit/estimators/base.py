"""What all estimators share, in scikit-learn's manner: reading rows, asking, explaining, saving."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor

from pursuit.estimators import saving
from pursuit.estimators.guarantees import HeldOut
from pursuit.estimators.plan import Reason
from pursuit.estimators.tuned import Ranges
from pursuit.estimators.validation import (
    check_cost_of_labels,
    group_numbers,
    known_answers,
    refusing_more_than_memory,
    rows_that_count,
    validated,
)
from pursuit.files import claimed, is_first
from pursuit.inference.chain import Chains, explain
from pursuit.inference.predictions import Predictions, chain_table, predict_rows
from pursuit.inference.pursuer import Labels
from pursuit.inference.rollout import posterior_at_stop
from pursuit.inference.stopping import Standing, StoppingRule, guarantees_of, stopping_rule
from pursuit.inference.target_bins import TargetBins
from pursuit.queries import Answers, ColumnQueries, ColumnType, QuerySet
from pursuit.sessions.log import FurtherTarget
from pursuit.sessions.script import Script
from pursuit.sessions.session import Session
from pursuit.training import TrainingRun
from pursuit.training.devices import find_device, own_randomness
from pursuit.training.progress import with_bar
from pursuit.training.rows import Rows, RowSource, StreamedRows

HOOKS = frozenset(
    {
        *("Model", "Settings", "chosen_teachers", "counts_answers", "finish", "label_kernel", "labels_attribute"),
        *("learn", "make_learner", "make_model", "plan", "planned_settings", "registry_kind", "suitable_stop"),
        *("tunable", "uses_weights"),
    }
)
"""What authors of methods define (docs/extending.md), and users need not see."""


@dataclass(eq=False, repr=False)
class PursuitEstimator(BaseEstimator, ABC):
    """An estimator that asks for one answer after the other until it is sure, and explains itself by them.

    A method is a subclass that says in `learn` how a pursuer comes from rows. Estimators are dataclasses: their fields
    are scikit-learn's parameters, and those of a subclass come on top.

    Attributes
    ----------
    model_ : the pursuer that was learnt.
    has_initially_known_ : whether it learnt from rows with initially known answers.
    chosen_ : what was chosen by the data, given or learnt, with a `Reason` each; empty for methods without a plan.
    stop_ : the stopping rule that suits the model, judged by held-out rows; None where it was not chosen like that.
    guaranteed_ : the stopping rule with what makes its guarantees hold, once that was chosen; None where it makes none.
    notes_ : what was saved beside the model (JSON values); empty before that.
    """

    registry_kind: ClassVar[str] = "estimator"
    uses_weights: ClassVar[bool] = False
    """Whether `learn` counts each row by its weight (`Rows.weight`, `Batch.weight`). One that says no refuses
    weights."""
    tunable: ClassVar[Ranges] = {}
    """What `pursuit tune` tries: factors of `Tuned`, and settings of the method, by name."""
    labels_attribute: ClassVar[str]
    """What the labels of the pursuer are learnt as."""

    query_set: QuerySet | None = None
    """What may be asked. By default every column of the table is a query."""
    _: KW_ONLY
    column_types: Mapping[str, ColumnType] | None = None
    """What columns are asked as where a guess is wrong, as in {"ward": "choice", "born": "date", "note": "skip"}; for
    tables without a `query_set`."""
    missing_informs: bool = False
    """Treat missing values as an answer ("not given") in columns with many of them; for tables without a
    `query_set`."""
    stop: StoppingRule | str | None = None
    """When to stop asking, as `Confidence(0.95)` or "confidence=0.95,budget=10". By default at a confidence of 0.99 or,
    for V-IP, before that once no query is worth asking, as held-out rows show (`stop_`)."""
    max_queries: int | None = None
    """The most queries ever asked of a row. By default all of them."""
    random_state: Any = None
    """Seed; the same number gives the same model on the same machine."""
    device: str = "cpu"
    """Where to train and to run `evaluate`: "cpu", "cuda", "mps" or "auto". Predictions are made on the CPU."""
    verbose: bool | None = None
    """Whether `fit` shows a progress bar on standard error. By default where there is a terminal or a notebook."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        initially_known: Any = None,
        run: TrainingRun | None = None,
    ) -> Self:
        """Learn what to ask and what to believe from rows X with labels y, or from an X that brings both along: rows
        streamed from files (`ParquetRows`) or drawn by a rule (`GeneratedRows`).

        `sample_weight` (N,) says how many rows each of them counts as; one of weight 0 is left out. `groups` (N,) says
        which rows belong together, such as those of one patient: whatever is judged by held-out rows is then judged by
        rows of other groups. A row whose group is missing is a group of its own. `initially_known` (N, Q) says which
        answers are given before anything is asked, such as what a patient complains of. A `run` says where training is
        logged and checkpointed, whether it resumes, and who watches it.
        """
        self._check_parameters()
        if (sample_weight is not None or getattr(self, "class_weight", None) is not None) and not self.uses_weights:
            raise ValueError(
                f"{type(self).__name__} counts every row the same: leave out sample_weight and class_weight, or repeat "
                "the rows that should count more."
            )
        self.notes_: dict[str, Any] = {}
        self.stop_: StoppingRule | None = None
        self.guaranteed_: StoppingRule | None = None
        self.chosen_: tuple[Reason, ...] = ()
        seed, run = int(check_random_state(self.random_state).randint(2**31)), run or TrainingRun()
        held_out = None
        if guarantees_of(self.stopping_rule()):
            X, y, groups, initially_known, held_out = self._hold_out_for_guarantees(
                X, y, sample_weight, groups, initially_known, seed
            )
        query_set, rows = self._training_rows(X, y, sample_weight, groups, initially_known)
        if isinstance(rows, Rows):
            check_cost_of_labels(len(rows), len(self.labels))
        self._warn_if_nothing_will_be_asked(rows)
        with (
            claimed(run.path) if run.path is not None and not run.is_claimed and is_first() else nullcontext(),
            refusing_more_than_memory(type(self).__name__),
            own_randomness(seed, torch.device("cpu")),  # for whatever is drawn without a generator
            with_bar(run, type(self).__name__, self.verbose) as watched,
        ):
            self.model_ = self.learn(query_set, rows, seed, watched)
        if held_out is not None:
            self._choose_guarantees(held_out, seed)
        return self

    def _hold_out_for_guarantees(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, initially_known: Any, seed: int
    ) -> tuple[Any, Any, Any, Any, HeldOut | Rows | None]:
        """X, y, groups and initially known answers to learn from, and the rows that are held out for guarantees."""
        raise ValueError(f"{self.stopping_rule()} guarantees something of classes, and {type(self).__name__} has none.")

    def _choose_guarantees(self, held_out: HeldOut | Rows, seed: int) -> None:
        """Choose on these rows what makes guarantees hold."""

    def _check_parameters(self) -> None:
        """Raise ValueError for parameters that are wrong whatever the data, before anything is trained."""
        if self.max_queries is not None and self.max_queries < 1:
            raise ValueError(f"max_queries is the most queries asked of a row, at least 1, not {self.max_queries}.")
        if self.column_types is not None and self.query_set is not None:
            raise ValueError(
                "column_types say what columns are asked as, and so does the query_set: leave one out, or give "
                "column_types to ColumnQueries.from_data."
            )
        if self.missing_informs and self.query_set is not None:
            raise ValueError(
                "missing_informs is for tables without a query_set: leave one out, or give missing_informs to "
                "ColumnQueries.from_data."
            )
        self.stopping_rule()
        find_device(self.device)

    @property
    def labels(self) -> Labels:
        """The labels of the pursuer, once they are learnt."""
        return getattr(self, self.labels_attribute)

    @abstractmethod
    def learn(self, query_set: QuerySet, rows: RowSource, seed: int, run: TrainingRun) -> Any:
        """The pursuer that is learnt from these rows; its classes are `labels`."""

    @abstractmethod
    def _learn_labels(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Learn what the labels are; the number (N,) of the label of each row, and the weights of rows."""

    @abstractmethod
    def _labels(self, X: Any, y: Any) -> np.ndarray:
        """Labels of rows, checked: (N,)."""

    def _posterior(self, X: Any, initially_known: Any) -> Tensor:
        """The belief (N, C) once enough was asked of each row."""
        answers = self.read_answers(X)
        known = self._initially_known(initially_known, len(answers.x))
        return posterior_at_stop(self.model_, *answers, self.stopping_rule(), known)

    def explain(self, X: Any, stop: StoppingRule | str | None = None, *, initially_known: Any = None) -> Chains:
        """The chain of queries, answers and posteriors of each row, which is the whole reason for its prediction."""
        answers = self.read_answers(X)
        known = self._initially_known(initially_known, len(answers.x))
        return explain(self.model_, *answers, self.stopping_rule(stop), known)

    def predict_table(
        self,
        X: Any,
        stop: StoppingRule | str | None = None,
        *,
        initially_known: Any = None,
        absent: Collection[str] = (),
    ) -> pd.DataFrame:
        """A row for each row of X: what is predicted and how probable it is, how many queries were asked, and each of
        these (`question_1`, `answer_1`, …), whose answer is missing where there was none.

        A classifier gives the probability of every label, a regressor the mean and the 90 % interval of the number.
        Where the rule guarantees something, `outcome` says whether a row is decided or "not sure" and left to a person,
        and `labels` which labels remain. Columns that are `absent` are unknown, even where an empty cell means no.
        """
        answers, found = self._predictions(X, stop, initially_known, absent)
        return found.table(self.model_, answers.x, X.index if isinstance(X, pd.DataFrame) else None)

    def explain_table(
        self,
        X: Any,
        stop: StoppingRule | str | None = None,
        *,
        initially_known: Any = None,
        absent: Collection[str] = (),
    ) -> pd.DataFrame:
        """The chains of `explain` with a row for each step: `step` from 0, the belief before anything is asked; the
        question and its answer, which is missing where there was none; the bits `expected` of it and those `gained`;
        and what is believed then, as in `predict_table`."""
        answers = self.read_answers(X, absent)
        known = self._initially_known(initially_known, len(answers.x))
        index = X.index if isinstance(X, pd.DataFrame) else None
        return chain_table(self.model_, *answers, self.stopping_rule(stop), known, index)

    def _predictions(
        self, X: Any, stop: StoppingRule | str | None, initially_known: Any, absent: Collection[str] = ()
    ) -> tuple[Answers, Predictions]:
        answers = self.read_answers(X, absent)
        known = self._initially_known(initially_known, len(answers.x))
        return answers, predict_rows(self.model_, *answers, self.stopping_rule(stop), known)

    def session(
        self,
        stop: StoppingRule | str | None = None,
        known: Mapping[str, Any] | None = None,
        *,
        also: "Mapping[str, PursuitEstimator] | None" = None,
        weights: Mapping[str, float] | None = None,
    ) -> Session:
        """A session with a person, who is asked one query after the other; `known` are answers by name that are known
        before anything is asked.

        `also` are models of further targets, by name, which ask about the same columns: a question is then chosen by
        what it is expected to tell about all targets, and the session goes on until each is settled. A bit about a
        further target counts as much as its `weights` say, beside 1 for a bit about this one.
        """
        check_is_fitted(self, "model_")
        return Session(self.model_, self.stopping_rule(stop), known, also=self.further_targets(also, weights, stop))

    @staticmethod
    def further_targets(
        also: "Mapping[str, PursuitEstimator] | None",
        weights: Mapping[str, float] | None = None,
        stop: StoppingRule | str | None = None,
    ) -> dict[str, FurtherTarget]:
        """The targets of other models, for a session that is to tell about them as well. Each is settled by the rule of
        its model, if no other is given."""
        also, weights = also or {}, weights or {}
        if unknown := set(weights) - set(also):
            raise ValueError(f"There are weights for {', '.join(sorted(unknown))}, but no such targets.")
        return {
            name: FurtherTarget(model.model_, model.stopping_rule(stop), weights.get(name, 1.0))
            for name, model in also.items()
        }

    def rules(self, depth: int = 4, stop: StoppingRule | str | None = None) -> pd.DataFrame:
        """The first `depth` questions as rules, one row for each path of answers: the rule in words, the prediction and
        its probability, and the share of people who are expected to go this way."""
        return pd.DataFrame(Script.of(self.session(stop), depth).rules())

    def save(self, folder: str | Path, notes: dict[str, Any] | None = None) -> None:
        """Write the trained model, its parameters and `notes` (JSON values) into a folder, as `model.json` and
        `model.safetensors`."""
        check_is_fitted(self, "model_")
        saving.save(folder, self, {**self.notes_, **(notes or {})})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The estimator that `save` wrote, with the same parameters; it predicts as before."""
        estimator = saving.load(folder)
        if not isinstance(estimator, cls):
            raise ValueError(
                f"{folder} holds a {type(estimator).__name__}, not a {cls.__name__}: load it with pursuit.load."
            )
        return estimator

    def __dir__(self) -> list[str]:
        """All that users need; what a method defines for `fit` is left out."""
        return sorted({*super().__dir__()} - HOOKS)

    def __str__(self) -> str:
        """The parameters; once it is fitted, also what was chosen, a line each."""
        return "\n".join([repr(self), *map(str, getattr(self, "chosen_", ()))])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags

    def stopping_rule(self, stop: StoppingRule | str | None = None) -> StoppingRule:
        """The rule that rows are asked by: `stop`, or else the estimator's own, and never more than max_queries."""
        own = self.stop if self.stop is not None else getattr(self, "stop_", None)
        return stopping_rule(stop if stop is not None else own, self.max_queries)

    def _warn_if_nothing_will_be_asked(self, rows: RowSource) -> None:
        rule, nothing = self.stopping_rule(), torch.zeros(1)
        # With initially known answers the belief before the first question differs from row to row, and what guarantees
        # take is not known yet.
        if self.has_initially_known_ or guarantees_of(rule):
            return
        prior = rows.prior(len(self.labels))
        target = self.labels if isinstance(self.labels, TargetBins) else None
        # What queries are worth shows once there is a model: until then they are worth asking.
        worth = torch.full((1,), torch.inf)
        stops, _ = rule.step(rule.start(1), Standing(prior.log()[None], nothing, nothing, nothing, worth, target))
        if stops:
            warnings.warn(
                f"The stopping rule {rule} would stop before the first question: {self._in_advance(prior)}",
                stacklevel=3,
            )

    @abstractmethod
    def _in_advance(self, prior: Tensor) -> str:
        """What is believed in advance (C,), and what to do if that is enough for the stopping rule."""

    def read_answers(self, X: Any, absent: Collection[str] = ()) -> Answers:
        """The answers of the rows X to all queries, as the model reads them. Columns that are `absent` are unknown,
        even where an empty cell means no."""
        check_is_fitted(self, "model_")
        query_set = self.model_.query_set
        answers = query_set.answers(validated(self, X, query_set, reset=False))
        if absent:
            answers.available[:, [query.source in absent for query in query_set.queries]] = False
        return answers

    def _training_rows(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, initially_known: Any
    ) -> tuple[QuerySet, RowSource]:
        """The query set and the rows in its answer space; learns the labels on the way."""
        if isinstance(X, StreamedRows):
            return self._streamed_rows(X, y, sample_weight, groups, initially_known)
        X = validated(self, X, self.query_set, reset=True)
        y = self._labels(X, y)
        if len(y) == 0:
            raise ValueError("The table is empty: it has 0 rows, and at least one is needed.")
        weight: np.ndarray | None = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        group = None if groups is None else group_numbers(groups, y)
        if weight is not None and not weight.all():
            X, y, weight, group, initially_known = rows_that_count(X, y, weight, group, initially_known)
        codes, weight = self._learn_labels(y, weight)
        query_set = self.query_set
        if query_set is None:
            query_set = ColumnQueries.from_data(
                X, column_types=self.column_types, missing_informs=self.missing_informs, labels=codes
            )
        known = known_answers(self, initially_known, query_set, len(y))
        self.has_initially_known_ = known is not None
        weights = None if weight is None else torch.from_numpy(weight).float()
        together = None if group is None else torch.from_numpy(group)
        y = torch.from_numpy(codes.astype(np.int64))
        return query_set, Rows(*query_set.answers(X), y, known, weights, together)

    def _streamed_rows(
        self, X: StreamedRows, y: Any, sample_weight: Any, groups: Any, initially_known: Any
    ) -> tuple[QuerySet, StreamedRows]:
        if self.column_types is not None or self.missing_informs:
            option = "missing_informs" if self.column_types is None else "column_types"
            raise ValueError(f"{type(X).__name__} know what their columns are asked as: leave {option} out.")
        query_set = self.query_set if self.query_set is not None else X.query_set
        if query_set is None or y is not None or initially_known is not None:
            raise ValueError(
                f"{type(X).__name__} come with labels and initially known answers of their own: leave y and "
                "initially_known out, and give the query_set that they answer."
            )
        if sample_weight is not None:
            raise ValueError(
                f"sample_weight is for rows in memory, and {type(X).__name__} are streamed: use class_weight, or "
                "repeat the rows that should count more."
            )
        if groups is not None:
            raise ValueError(
                f"groups is for rows in memory, and {type(X).__name__} are streamed and held out one by one: leave it "
                "out, or read the rows into a table."
            )
        if X.n_queries != len(query_set):
            raise ValueError(f"The rows answer {X.n_queries} queries, but the query_set has {len(query_set)}.")
        self.n_features_in_ = X.n_queries
        self.has_initially_known_ = X.has_initially_known
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if X.feature_names:
            self.feature_names_in_ = np.array(X.feature_names, dtype=object)
            self.n_features_in_ = len(X.feature_names)
        return query_set, self._learn_streamed_labels(X)

    @abstractmethod
    def _learn_streamed_labels(self, rows: StreamedRows) -> StreamedRows:
        """Learn what the labels of streamed rows are; the rows, perhaps with weights."""

    def _initially_known(self, initially_known: Any, n_rows: int) -> Tensor | None:
        return known_answers(self, initially_known, self.model_.query_set, n_rows)
