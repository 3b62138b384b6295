"""Estimators that predict a class: the most probable label, and how often it is right."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from pursuit.data.class_weights import ClassWeightedRows
from pursuit.data.rows import Rows, StreamedRows
from pursuit.estimators.base import PursuitEstimator
from pursuit.estimators.labels import plain_labels
from pursuit.estimators.weights import check_class_weight, weights_of_classes
from pursuit.evaluation import Evaluation, evaluate
from pursuit.inference.pursuer import label_codes
from pursuit.inference.stopping import StoppingRule


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
    """How many rows one of each class counts as, as {"rare": 10}; "balanced" makes all classes count the same. The
    posterior is then that of a world in which classes are as frequent as they count."""

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
        return float(accuracy_score(self._plain_labels(y), predicted, sample_weight=sample_weight))

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
