"""Estimators that predict a class: the most probable label, and how often it is right."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor

from pursuit.estimators.base import PursuitEstimator
from pursuit.estimators.guarantees import (
    HeldOut,
    check_every_class,
    check_guarantees,
    choose_guarantees,
    hold_out,
    n_to_hold_out,
    one_of_each,
    within_reach,
)
from pursuit.estimators.validation import check_class_weight, group_numbers, plain_labels, take, weights_of_classes
from pursuit.evaluation import Evaluation, evaluate
from pursuit.inference.pursuer import label_codes
from pursuit.inference.stopping import ConformalSet, StoppingRule, guarantees_of, stopping_rule, unkept
from pursuit.training.rows import ClassWeightedRows, Rows, StreamedRows


@dataclass(eq=False, repr=False)
class PursuitClassifier(ClassifierMixin, PursuitEstimator):
    """An estimator that predicts which of several classes a row belongs to.

    Attributes
    ----------
    classes_ : labels, in the order of all posteriors.
    """

    labels_attribute = "classes_"
    _: KW_ONLY
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None
    """How many rows one of each class counts as, as {"rare": 10}; "balanced" makes all classes count the same.
    Posteriors then reflect the reweighted class frequencies."""
    guarantee_share: float | None = None
    """Share of the rows that `fit` holds out for what `stop` guarantees; 0: none, and `guarantee` is given them. By
    default what the guarantee takes, and a fifth or more where there are rows enough."""

    def predict_proba(self, X: Any, *, initially_known: Any = None) -> np.ndarray:
        """The belief about every class once enough was asked of each row: (N, C)."""
        return self._posterior(X, initially_known).numpy()

    def predict(self, X: Any, *, initially_known: Any = None) -> np.ndarray:
        """The most probable label of each row once enough was asked."""
        best = self.predict_proba(X, initially_known=initially_known).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, initially_known: Any = None) -> float:
        """The accuracy of `predict`."""
        predicted = self.predict(X, initially_known=initially_known)
        from sklearn.metrics import accuracy_score  # takes a second to import

        return float(accuracy_score(self._plain_labels(y), predicted, sample_weight=sample_weight))

    def decided(self, X: Any, stop: StoppingRule | str | None = None, *, initially_known: Any = None) -> np.ndarray:
        """Whether each row (N,) is decided by what `stop` guarantees; the others are left to a person, and `predict`
        gives their most probable label all the same. All are decided where nothing is guaranteed."""
        found = self._predictions(X, stop, initially_known)[1]
        return np.ones(len(found.posterior), dtype=bool) if found.decided is None else found.decided.numpy()

    def predict_sets(
        self, X: Any, stop: StoppingRule | str | None = None, *, initially_known: Any = None
    ) -> np.ndarray:
        """Which labels remain possible for each row once enough was asked: (N, C) bool, by `ConformalSet`."""
        found = self._predictions(X, stop, initially_known)[1]
        if found.label_set is None:
            raise ValueError("Sets of labels are given by stop=ConformalSet(0.1), or another rule with it.")
        return found.label_set.numpy()

    def guarantee(
        self,
        X: Any,
        y: Any,
        stop: StoppingRule | str | None = None,
        *,
        groups: Any = None,
        initially_known: Any = None,
    ) -> Self:
        """Make the guarantees of `stop`, or of the estimator's own rule, hold: choose on rows X with labels y what it
        takes.

        The model must not have learnt from these rows, nor anything have been chosen by them, and each must be one
        independent case: of `groups` (N,) of rows that belong together, such as those of one patient, one row each is
        taken, and what is guaranteed is about a row of a new group. Rows whose label the model does not know count as
        wrong. Rows are then asked by `stop`; the parameter of that name stays as it is.
        """
        check_is_fitted(self, "model_")
        rule = self._wanted_rule(stop)
        if not guarantees_of(rule):
            raise ValueError(
                f"{rule} guarantees nothing: give stop=RiskControlled(0.05), ConformalSet(0.1), or a rule with one."
            )
        check_guarantees(rule)
        y = self._labels(X, y)
        if groups is not None:
            group = group_numbers(groups, y)
            chosen = one_of_each(group, np.unique(group), np.random.default_rng(0))
            X, y = take(X, chosen), y[chosen]
            initially_known = None if initially_known is None else np.asarray(initially_known)[chosen]
        self._choose_guarantees(HeldOut(X, y, initially_known), 0, rule)
        return self

    def stopping_rule(self, stop: StoppingRule | str | None = None) -> StoppingRule:
        """The rule that rows are asked by: `stop`, or else the one whose guarantees hold, or else the estimator's own;
        never more than max_queries. It has what makes its guarantees hold, where that was chosen for this very rule."""
        wanted, guaranteed = self._wanted_rule(stop), getattr(self, "guaranteed_", None)
        return guaranteed if guaranteed is not None and unkept(guaranteed) == wanted else wanted

    def _wanted_rule(self, stop: StoppingRule | str | None) -> StoppingRule:
        guaranteed = getattr(self, "guaranteed_", None)
        own = stop if stop is not None else self.stop if guaranteed is None else unkept(guaranteed)
        given = None if own is None else stopping_rule(own)
        if given is not None and all(isinstance(part, ConformalSet) for part in given.parts):
            given = stopping_rule(getattr(self, "stop_", None)) | given  # sets of labels stop nothing by themselves
        rule = super().stopping_rule(given)
        model = getattr(self, "model_", None)
        return rule if model is None else within_reach(rule, len(model.query_set))

    def _hold_out_for_guarantees(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, initially_known: Any, seed: int
    ) -> tuple[Any, Any, Any, Any, HeldOut | Rows | None]:
        guarantees = guarantees_of(self.stopping_rule())
        if self.guarantee_share == 0 or all(guarantee.is_kept for guarantee in guarantees):
            return X, y, groups, initially_known, None
        if sample_weight is not None:
            raise ValueError(
                f"{guarantees[0]} is guaranteed of rows that count once each, so it cannot be chosen on weighted rows: "
                "leave sample_weight out, or train with guarantee_share=0 and give unweighted rows to guarantee(X, y)."
            )
        if isinstance(X, StreamedRows):
            rarest = float(X.prior(len(X.classes)).min())
            n_held_out = n_to_hold_out(guarantees, len(X), self.guarantee_share, rarest)
            share = (n_held_out + 0.5) / len(X)  # which a rounding must not make one row less
            X, rows = X.hold_out(share, n_held_out, seed + 16)
            check_every_class(guarantees, X.classes, rows.y.numpy())
            return X, y, groups, initially_known, rows
        y = self._labels(X, y)
        group = None if groups is None else group_numbers(groups, y)
        n_witnesses = len(y) if group is None else len(np.unique(group))
        labels, counts = np.unique(y, return_counts=True)
        n_held_out = n_to_hold_out(guarantees, n_witnesses, self.guarantee_share, counts.min() / len(y))
        kept, held_out = hold_out(len(y), n_held_out, group, seed)
        check_every_class(guarantees, labels, np.searchsorted(labels, y[held_out]))
        known = None if initially_known is None else np.asarray(initially_known)
        of_held_out = HeldOut(take(X, held_out), y[held_out], None if known is None else known[held_out])
        groups = None if groups is None else take(groups, kept)
        return take(X, kept), y[kept], groups, None if known is None else known[kept], of_held_out

    def _choose_guarantees(self, held_out: HeldOut | Rows, seed: int, rule: StoppingRule | None = None) -> None:
        if isinstance(held_out, HeldOut):
            answers = self.read_answers(held_out.X)
            codes = pd.Index(self.classes_).get_indexer(pd.Index(column_or_1d(self._plain_labels(held_out.y))))
            known = self._initially_known(held_out.initially_known, len(codes))
            held_out = Rows(*answers, torch.from_numpy(codes.astype(np.int64)), known)
        self.guaranteed_, reasons = choose_guarantees(self.model_, held_out, rule or self._wanted_rule(None), seed)
        self.chosen_ = (
            *(one for one in self.chosen_ if one.setting not in map(str, guarantees_of(self.guaranteed_))),
            *reasons,
        )

    def evaluate(
        self,
        X: Any,
        y: Any,
        stop: StoppingRule | str | None = None,
        *,
        initially_known: Any = None,
        with_bits: bool = False,
    ) -> Evaluation:
        """Accuracy against the number of queries asked, what the stopping rule gives, also class by class, and which
        questions are asked until then; computed on `device`. `with_bits`, also what these were expected to tell where
        that takes more computing, as it does for a straight-through querier."""
        rows, rule = self.rows(X, y, initially_known=initially_known), self.stopping_rule(stop)
        return evaluate(self.model_, rows, rule, self.max_queries, self.device, in_detail=True, with_bits=with_bits)

    def rows(self, X: Any, y: Any, *, initially_known: Any = None) -> Rows:
        """Rows with labels, as the functions beneath the estimator take them."""
        answers = self.read_answers(X)
        y = column_or_1d(self._plain_labels(y))
        check_consistent_length(answers.x, y)
        return Rows(*answers, label_codes(self.classes_, y), self._initially_known(initially_known, len(y)))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_class_weight(self.class_weight)
        check_guarantees(self._wanted_rule(None))
        if self.guarantee_share is not None and not 0 <= self.guarantee_share < 1:
            raise ValueError(
                f"guarantee_share is a share of the rows, at least 0 and below 1, not {self.guarantee_share}."
            )

    def _labels(self, X: Any, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give a label for every row."
            )
        y = column_or_1d(plain_labels(y), warn=True)
        check_consistent_length(X, y)
        if pd.isna(y).any():
            raise ValueError("Some labels y are missing (NaN): fill them in, or leave these rows out.")
        check_classification_targets(y)
        return y

    def _plain_labels(self, y: Any) -> Any:
        """Labels of rows to measure on, which are words if those of training were."""
        return plain_labels(y, as_words=self.classes_.dtype.kind == "U")

    def _learn_labels(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._check_classes()
        if self.class_weight is not None:
            weight = np.ones(len(y)) if weight is None else weight
            counts = np.bincount(codes, weight)
            weight = weight * weights_of_classes(self.class_weight, self.classes_, counts)[codes]
        return codes, weight

    def _learn_streamed_labels(self, rows: StreamedRows) -> StreamedRows:
        self.classes_ = np.asarray(rows.classes)
        self._check_classes()
        if self.class_weight is None:
            return rows
        prior = rows.prior(len(self.classes_)).numpy()
        weights = weights_of_classes(self.class_weight, self.classes_, prior)
        return ClassWeightedRows(rows, torch.from_numpy(weights / (prior @ weights)).float())

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"The labels have only one class ('{self.classes_[0]}'), so there is nothing to predict: at least two "
                "are needed."
            )

    def _in_advance(self, prior: Tensor) -> str:
        share, most = prior.max(dim=0)
        return (
            f"'{self.classes_[int(most)]}' makes up {share:.1%} of the labels. Choose a higher confidence, or a rule "
            "such as stability=0.001."
        )
