"""The stopping rule that suits a model, judged by rows it did not learn from."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import Budget, Confidence, NothingWorthAsking, StoppingRule

SURE = 0.99
BITS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.003, 0.001)
"""What a question must be worth, from much to little."""
WORSE = 0.02
"""How much more surprising labels may be, in nats a row, than once everything was asked."""
LONGEST = 100


@dataclass(frozen=True)
class _Chains:
    """How N held-out rows go on if nothing stops them: T + 1 beliefs and T queries."""

    log_probability: Tensor  # (N, T + 1) of the true label
    confidence: Tensor  # (N, T + 1)
    bits: Tensor  # (N, T) expected of each query

    def at_stop(self, sure: float, bits: float) -> tuple[Tensor, Tensor]:
        """How surprising the label of each row is, in nats, and how many queries it was asked, where a rule stops: (N,)
        each."""
        enough = self.confidence >= sure
        enough[:, :-1] |= self.bits <= bits
        enough[:, -1] = True
        n_asked = enough.int().argmax(dim=1, keepdim=True)
        return -self.log_probability.gather(1, n_asked)[:, 0], n_asked[:, 0].float()


def suitable_stop(judged: Sequence[tuple[Pursuer, Rows]], max_queries: int | None = None) -> StoppingRule:
    """Stop once sure, or once no query promises enough bits: the most that leave labels hardly more surprising than
    answers to everything, by rows that pursuers did not learn from. Where rows are few, that is hard to tell, and a
    query must be worth less not to be asked."""
    chains = [_roll_out(pursuer, rows, max_queries) for pursuer, rows in judged]

    def surprise(bits: float) -> Tensor:
        return torch.cat([each.at_stop(SURE, bits)[0] for each in chains])

    with_all = surprise(0.0)
    for bits in BITS:
        more = surprise(bits) - with_all
        if more.mean() + more.std() / len(more) ** 0.5 <= WORSE:
            return Confidence(SURE) | NothingWorthAsking(bits)
    return Confidence(SURE)


def _roll_out(pursuer: Pursuer, rows: Rows, max_queries: int | None) -> _Chains:
    n, longest = len(rows), min(len(pursuer.query_set), LONGEST, max_queries or LONGEST)
    log_probability, confidence = torch.zeros(2, n, longest + 1)
    bits = torch.zeros(n, longest)
    for step in pursue_in_batches(
        pursuer, rows.x, rows.available, Budget(longest), rows.initially_known, with_bits=True
    ):
        here, n_asked = step.rows, step.n_asked.long()
        own = step.log_posterior.gather(1, rows.y[here][:, None])[:, 0]
        # A row that is asked nothing more keeps its last belief.
        later = torch.arange(longest + 1) >= n_asked[:, None]
        for kept, now in ((log_probability, own), (confidence, step.log_posterior.max(dim=1).values.exp())):
            kept[here] = torch.where(later, now[:, None].float(), kept[here])
        if step.bits is not None:
            going = step.goes_on
            bits[here[going], n_asked[going]] = step.bits[going]
    return _Chains(log_probability, confidence, bits)
