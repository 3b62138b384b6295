"""V-IP's estimator. The algorithm itself is in `pursuit.vip`."""

from dataclasses import dataclass
from typing import Any

from pursuit.data.rows import RowSource
from pursuit.estimators import NetworkClassifier, method
from pursuit.queries import QuerySet
from pursuit.vip import VIP


@method("vip", "V-IP")
@dataclass(kw_only=True, eq=False, repr=False)
class VIPClassifier(NetworkClassifier):
    """Variational Information Pursuit: a querier and a classifier network, trained end to end.

    Parameters
    ----------
    query_set : QuerySet, optional
        What may be asked. By default every column of the table is a query.
    stop : StoppingRule or str, optional
        When to stop asking, as `Confidence(0.95)` or "confidence=0.95,budget=10". By default `Confidence(0.99)`.
    max_queries : int, optional
        The most queries ever asked of a row. By default all of them.
    network : NetworkSettings, optional
        `MLP`, `Conv`, `SetNetwork` … with its sizes. By default one that suits the query set.
    shared : bool
        Whether querier and classifier share a trunk.
    standardise : bool
        Whether networks see answers relative to their mean and spread; for columns, words and concepts only.
    stages : list of Stage, optional
        The training plan. By default one stage of carried histories, long enough for the number of rows.
    held_out : float
        Share of the rows to hold out for early stopping. By default none.
    random_state : int, RandomState or None
        Seed; the same number gives the same model on the same machine.
    device : str
        Where to train and evaluate: "cpu", "cuda" or "auto".
    devices : int
        How many devices, or processes on a CPU, train together.
    """

    shared: bool = False
    """Whether querier and classifier share a trunk."""

    def make_model(self, query_set: QuerySet, rows: RowSource, **options: Any) -> VIP:
        return VIP.build(query_set, self.classes_, self.network, shared=self.shared, **options)
