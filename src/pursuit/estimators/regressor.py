"""Estimators that predict a number: a belief over bins of it is a distribution, with a mean, a median and intervals."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from pursuit.estimators.base import PursuitEstimator
from pursuit.estimators.selection import suitable_bits, within_sight
from pursuit.evaluation.regression import RegressionEvaluation, evaluate_regression
from pursuit.inference.stopping import (
    IntervalWidth,
    NothingWorthAsking,
    Stability,
    StoppingRule,
    guarantees_of,
    stopping_rule,
)
from pursuit.inference.target_bins import COVERAGE, TargetBins, check_coverage
from pursuit.training import Learner
from pursuit.training.rows import Rows, StreamedRows

FEWEST_BINS, MOST_BINS, ROWS_A_BIN = 8, 32, 40
"""By default there are as many bins as have this many rows each, within limits."""
NARROW = 0.1
"""An interval of this share of the target's standard deviation is narrow enough not to ask more by default."""
WORSE = 0.02
"""How much less of the variance means may explain, by default, than once everything was asked."""
WORTH_ASKING = 0.02
"""The bits that a question must be expected to tell to be asked where no held-out rows said how many."""


@dataclass(eq=False, repr=False)
class PursuitRegressor(RegressorMixin, PursuitEstimator):
    """An estimator that predicts a number, by a distribution of it.

    Attributes
    ----------
    bins_ : the bins of the number, over which all posteriors are; and how the training rows lie in them.
    """

    labels_attribute = "bins_"
    _: KW_ONLY
    n_bins: int | None = None
    """How many bins the number is divided into, with equally many rows in each. By default 8 to 32, by the rows."""

    def predict(self, X: Any, *, initially_known: Any = None) -> np.ndarray:
        """The mean of the belief about each row once enough was asked: (N,)."""
        posterior = self._posterior(X, initially_known)
        return self.bins_.mean(posterior).numpy()

    def predict_median(self, X: Any, *, initially_known: Any = None) -> np.ndarray:
        """The median of the belief about each row once enough was asked: (N,)."""
        return self.predict_quantiles(X, [0.5], initially_known=initially_known)[:, 0]

    def predict_interval(self, X: Any, coverage: float = COVERAGE, *, initially_known: Any = None) -> np.ndarray:
        """Between which numbers (N, 2) each row lies with probability `coverage`, once enough was asked."""
        check_coverage(coverage)
        posterior = self._posterior(X, initially_known)
        return self.bins_.interval(posterior, coverage).numpy()

    def predict_quantiles(self, X: Any, levels: Any, *, initially_known: Any = None) -> np.ndarray:
        """The quantiles (N, L) of the belief about each row at `levels` (L,), once enough was asked."""
        wanted = [float(level) for level in np.atleast_1d(levels)]
        if not all(0 <= level <= 1 for level in wanted):
            raise ValueError(f"The levels of quantiles are shares between 0 and 1, not {wanted}.")
        posterior = self._posterior(X, initially_known)
        return self.bins_.quantiles(posterior, wanted).numpy()

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, initially_known: Any = None) -> float:
        """R², the share of the variance that `predict` explains."""
        predicted = self.predict(X, initially_known=initially_known)
        from sklearn.metrics import r2_score  # takes a second to import

        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def evaluate(
        self,
        X: Any,
        y: Any,
        stop: StoppingRule | str | None = None,
        *,
        initially_known: Any = None,
        with_bits: bool = False,
    ) -> RegressionEvaluation:
        """R², mean absolute error and the coverage of intervals against the number of queries asked, what the stopping
        rule gives, and which questions are asked until then; computed on `device`. `with_bits`, also what these were
        expected to tell where that takes more computing."""
        rows, numbers = self.rows(X, y, initially_known=initially_known), self._numbers(y)
        rule = self.stopping_rule(stop)
        return evaluate_regression(self.model_, rows, numbers, rule, self.max_queries, self.device, with_bits)

    def rows(self, X: Any, y: Any, *, initially_known: Any = None) -> Rows:
        """Rows with the bins of their numbers, as the functions beneath the estimator take them."""
        answers, y = self.read_answers(X), self._numbers(y)
        check_consistent_length(answers.x, y)
        codes = torch.from_numpy(self.bins_.codes(y))
        return Rows(*answers, codes, self._initially_known(initially_known, len(y)))

    def stopping_rule(self, stop: StoppingRule | str | None = None) -> StoppingRule:
        """The rule that rows are asked by. By default a row is asked until its interval is narrow or no question is
        expected to tell enough bits, as held-out rows say; where nobody knows the bits, until the belief stays as it
        is."""
        for chosen in (stop, self.stop, getattr(self, "stop_", None)):
            if chosen is not None:
                return stopping_rule(chosen, self.max_queries)
        return stopping_rule(self._usual_stop(), self.max_queries)

    def _usual_stop(self) -> StoppingRule:
        model = getattr(self, "model_", None)
        knows_bits = model is None or getattr(model, "answer_model", None) is not None
        rule: StoppingRule = NothingWorthAsking(WORTH_ASKING) if knows_bits else Stability(0.0144, 3)
        return rule if model is None else IntervalWidth(self._narrow) | rule

    @property
    def _narrow(self) -> float:
        return float(f"{NARROW * self.bins_.spread:.3g}")

    def _stop_by_error(self, learner: Learner, rows: Rows) -> StoppingRule | None:
        """Stop once the interval is narrow, or no query is expected to tell the bits that matter to the squared error
        of pursuers on rows whose numbers were not learnt; None where no bits are so many that they matter."""
        means, width = torch.tensor(self.bins_.means, dtype=torch.double), self._narrow

        def judge(log_posterior: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
            posterior = log_posterior.exp()
            low, high = self.bins_.interval(posterior).unbind(dim=1)
            errors = (self.bins_.mean(posterior)[:, None] - means) ** 2 / self.bins_.spread**2  # (B, C)
            return rows.at_label(errors), high - low <= width

        bits = suitable_bits(learner, rows, judge, WORSE, self.max_queries)
        return None if bits is None else within_sight(IntervalWidth(width) | NothingWorthAsking(bits), learner)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if guarantees := guarantees_of(self.stopping_rule()):
            raise ValueError(
                f"{guarantees[0]} is for models that predict classes, and {type(self).__name__} predicts a number: "
                "stop by another rule, such as width=20."
            )
        if self.n_bins is not None and self.n_bins < 2:
            raise ValueError(f"n_bins is how many bins a number is divided into, at least 2, not {self.n_bins}.")

    def _numbers(self, y: Any) -> np.ndarray:
        """A target as numbers (N,), all of them finite."""
        y = column_or_1d(y, warn=True)
        try:
            numbers = np.asarray(pd.to_numeric(pd.Series(y)), dtype=np.float64)
        except (ValueError, TypeError):
            raise ValueError(
                f"{type(self).__name__} predicts numbers, but the target has other values, such as "
                f"'{_other_than_number(y)}': train a classifier to predict classes."
            ) from None
        if not np.isfinite(numbers).all():
            raise ValueError(
                "Some numbers of the target y are missing (NaN) or infinite (inf): fill them in, or leave these rows "
                "out."
            )
        return numbers

    def _labels(self, X: Any, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give a number for every row."
            )
        numbers = self._numbers(y)
        check_consistent_length(X, numbers)
        return numbers

    def _learn_labels(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        if len(np.unique(y)) < 2:
            raise ValueError(
                f"The target has only one value ({y[0]:g}) in n_samples = {len(y)}: there is nothing to predict."
            )
        n_bins = suitable_bins(len(y)) if self.n_bins is None else self.n_bins
        self.bins_ = TargetBins.of(y, n_bins, weight)
        return self.bins_.codes(y), weight

    def _learn_streamed_labels(self, rows: StreamedRows) -> StreamedRows:
        raise ValueError(
            f"{type(self).__name__} divides the target into bins by all of its numbers, so it takes rows in memory, "
            f"and {type(rows).__name__} are streamed: read them into a table first."
        )

    def _in_advance(self, prior: Tensor) -> str:
        return f"it is {self.bins_.belief(prior)} before anything is asked. Choose a smaller width."


def suitable_bins(n_rows: int) -> int:
    """How many bins suit this many rows."""
    return int(np.clip(n_rows // ROWS_A_BIN, FEWEST_BINS, MOST_BINS))


def _other_than_number(y: np.ndarray) -> str:
    others = (value for value in y if pd.isna(pd.to_numeric(pd.Series([value]), errors="coerce")[0]))
    return str(next(others, y[0]))
