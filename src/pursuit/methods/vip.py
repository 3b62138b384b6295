"""V-IP's estimator. The algorithm itself is in `pursuit.vip`."""

from dataclasses import dataclass
from typing import Any, Literal

from pursuit.data.rows import RowSource, rows_in_memory
from pursuit.estimators import NetworkClassifier, NetworkEstimator, method
from pursuit.information import AnswerModel, AnswerSettings
from pursuit.queries import QuerySet
from pursuit.vip import VIP, InformationVIP

Querier = Literal["auto", "information", "straight-through"]
QUERIERS: tuple[Querier, ...] = ("auto", "information", "straight-through")
MANY_QUERIES = 100
"""From this many queries on, single answers and labels say too little about which of them was best, however many rows
there are: asking by information is ahead."""
ENOUGH_ROWS, ENOUGH_ROWS_WITH_NUMBERS, MANY_NUMBERS = 20, 4, 1 / 3
"""With fewer rows than this for each query and label, counted answers teach more than a gradient does; with more, the
straight-through querier is level or ahead. It is so earlier where more than a third of the queries are numbers, because
intervals tell less than numbers do."""
COUNTED_ROWS = 100_000
"""The most rows that answers are counted on where rows are not in memory."""


@dataclass(kw_only=True, eq=False, repr=False)
class VIPEstimator(NetworkEstimator):
    """What V-IP's classifier and its regressor share: the parameters of the algorithm, and the model they make."""

    uses_weights = True

    querier: Querier = "auto"
    cost_aware: bool = False
    answers: AnswerSettings | None = None
    shared: bool = False
    """Whether querier and classifier share a trunk."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.querier not in QUERIERS:
            raise ValueError(f"querier is one of {', '.join(QUERIERS)}, not {self.querier!r}.")
        if self.answers is not None and not isinstance(self.answers, AnswerSettings):
            raise TypeError(f"answers are AnswerSettings(...), not {self.answers!r}.")
        if self.cost_aware and self.querier == "straight-through":
            raise ValueError(
                "A straight-through querier does not know how many bits a query is worth, so it cannot weigh them "
                "against costs: use querier='information' with cost_aware=True."
            )

    def make_model(self, query_set: QuerySet, rows: RowSource, **options: Any) -> VIP:
        options |= {"shared": self.shared, "answer_model": self._answer_model(query_set, rows)}
        querier = self.querier
        if querier == "auto":
            querier = "information" if self.cost_aware else suitable_querier(options["answer_model"], len(rows))
        if querier == "straight-through":
            return VIP.build(query_set, self.labels, self.network, **options)
        model = InformationVIP.build(query_set, self.labels, self.network, **options)
        model.cost_aware = self.cost_aware
        return model

    def _answer_model(self, query_set: QuerySet, rows: RowSource) -> AnswerModel | None:
        """None for queries without a list of answers, unless it is needed, which says why it cannot be made."""
        if not query_set.has_own_units and self.querier != "information" and not self.cost_aware:
            return None
        counted = rows_in_memory(rows, COUNTED_ROWS)
        return AnswerModel.count(query_set, len(self.labels), counted, self.answers)


@method("vip-straight-through", "V-IP, straight-through", querier="straight-through", cost_aware=False)
@method("vip-information", "V-IP by information", querier="information")
@method("vip", "V-IP")
@dataclass(kw_only=True, eq=False, repr=False)
class VIPClassifier(NetworkClassifier, VIPEstimator):
    """Variational Information Pursuit: a querier and a classifier network, trained end to end.

    Parameters
    ----------
    query_set : QuerySet, optional
        What may be asked. By default every column of the table is a query.
    stop : StoppingRule or str, optional
        When to stop asking, as `Confidence(0.95)` or "confidence=0.95,budget=10". By default `Confidence(0.99)`.
    max_queries : int, optional
        The most queries ever asked of a row. By default all of them.
    querier : "auto", "information" or "straight-through"
        How it learns what to ask: from the information that an answer model expects of every query, or by the paper's
        straight-through gradient. "auto" takes what suits the queries and the rows (`suitable_querier`). Either way the
        answer model says how many bits a query is expected to give, unless queries are patches.
    cost_aware : bool
        Whether to ask for the most bits per unit of cost, instead of the most bits.
    answers : AnswerSettings, optional
        How the answer model is made.
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


def suitable_querier(answer_model: AnswerModel | None, n_rows: int) -> Querier:
    """The querier that suits such queries: docs/algorithm.md says how the limits were chosen, and
    docs/results/queriers.md has both queriers on test rows."""
    if answer_model is None:
        return "straight-through"  # patches have too many answers to list
    n_queries, n_labels = answer_model.n_queries, answer_model.table.shape[1]
    has_many_numbers = answer_model.n_numbers > MANY_NUMBERS * n_queries
    enough = ENOUGH_ROWS_WITH_NUMBERS if has_many_numbers else ENOUGH_ROWS
    is_information = n_queries >= MANY_QUERIES or n_rows < enough * n_queries * n_labels
    return "information" if is_information else "straight-through"
