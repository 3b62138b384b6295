"""V-IP for a number: the labels are bins of it, and the belief over bins is its distribution."""

from dataclasses import dataclass

from pursuit.estimators import PursuitRegressor, method
from pursuit.methods.vip import VIPEstimator


@method("vip-regressor", "V-IP for a number")
@dataclass(kw_only=True, eq=False, repr=False)
class VIPRegressor(PursuitRegressor, VIPEstimator):
    """Variational Information Pursuit of a number: it asks what tells most about the number, and predicts its
    distribution.

    Parameters
    ----------
    n_bins : int, optional
        How many bins the number is divided into, with equally many rows in each. By default 8 to 32, by the rows.
    stop : StoppingRule or str, optional
        When to stop asking, as `IntervalWidth(20)` or "width=20,budget=10". By default once the 90 % interval is a
        tenth of the number's standard deviation, or no question promises 0.02 bits.

    The others are those of `VIPClassifier`, except that there are no weights of classes.
    """
