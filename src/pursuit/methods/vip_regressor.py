"""V-IP for a number: the labels are bins of it, and the belief over bins is its distribution."""

import math
from dataclasses import dataclass

from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.estimators import PursuitRegressor, method
from pursuit.inference.stopping import StoppingRule
from pursuit.methods.vip import VIPEstimator
from pursuit.vip import VIP


@method("vip-regressor", "V-IP for a number")
@dataclass(kw_only=True, eq=False, repr=False)
class VIPRegressor(PursuitRegressor, VIPEstimator):
    """Variational Information Pursuit of a number: it asks what tells most about the number, and predicts its
    distribution.

    Parameters
    ----------
    n_bins : int, optional
        How many bins the number is divided into, with equally many rows in each. By default 8 to 32, by the rows.
    neighbours : float
        How far, in bins, a training row counts for the bins beside its own: the deviation of a normal curve. It keeps
        small data from being learnt by heart, and costs sharpness where the number is known to a bin.
    stop : StoppingRule or str, optional
        When to stop asking, as `IntervalWidth(20)` or "width=20,budget=10". By default once the 90 % interval is a
        tenth of the number's standard deviation, or no question promises enough bits to matter on held-out rows.

    The others are those of `VIPClassifier`, except that there are no weights of classes.
    """

    neighbours: float = 0.7

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 <= self.neighbours < math.inf:
            raise ValueError(f"neighbours is a number of bins, 0 or more, not {self.neighbours}.")

    def suitable_stop(self, model: VIP, rows: Rows) -> StoppingRule | None:
        return None if model.answer_model is None else self._stop_by_error(model, rows)

    def label_kernel(self) -> Tensor | None:
        return self.bins_.kernel(self.neighbours)
