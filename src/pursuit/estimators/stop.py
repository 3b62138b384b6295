"""The stopping rule that suits a model, judged by rows it did not learn from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.inference.stopping import Budget, Confidence, NothingWorthAsking, StoppingRule
from pursuit.training import Learner
from pursuit.training.calibration import LONGEST, judged_steps

SURE = 0.99
BITS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.003, 0.001)
"""What a question must be worth, from much to little."""
WORSE = 0.01
"""How much more surprising labels may be, in nats a row, than they are at best."""
MOST_ROWS = 500
"""Of how many rows chains are rolled out at most."""


Judge = Callable[[Tensor, Rows], tuple[Tensor, Tensor]]
"""How wrong beliefs (B, C) in log probabilities are of B rows, and where nothing more need be asked: (B,) each."""


@dataclass(frozen=True)
class _Chains:
    """How N held-out rows go on if nothing stops them: T + 1 beliefs and T queries."""

    loss: Tensor  # (N, T + 1) how wrong each belief is
    is_enough: Tensor  # (N, T + 1) bool
    bits: Tensor  # (N, T) expected of each query

    def at_stop(self, bits: float) -> Tensor:
        """How wrong the belief about each row is where it is enough, or no query promises these bits: (N,)."""
        enough = self.is_enough.clone()
        enough[:, :-1] |= self.bits <= bits
        enough[:, -1] = True
        return self.loss.gather(1, enough.int().argmax(dim=1, keepdim=True))[:, 0]


def suitable_stop(learner: Learner, rows: Rows, max_queries: int | None = None) -> StoppingRule:
    """Stop once sure, or once no query promises enough bits: the most that leave labels hardly more surprising than the
    best number of bits does, by rows whose labels were not learnt."""
    bits = suitable_bits(learner, rows, _surprise, WORSE, max_queries)
    rule: StoppingRule = Confidence(SURE) if bits is None else Confidence(SURE) | NothingWorthAsking(bits)
    return within_sight(rule, learner)


def within_sight(rule: StoppingRule, learner: Learner) -> StoppingRule:
    """The rule with a budget where there are more queries than held-out rows were asked: nothing shows that more are
    worth asking, and of very many, some always promise a little."""
    return rule | Budget(LONGEST) if len(learner.query_set) > LONGEST else rule


class Expected(NamedTuple):
    """How a rule does on rows that learners did not learn from."""

    n_queries: float
    """A row is asked, on average."""
    accuracy: float
    n_rows: int

    def __str__(self) -> str:
        return f"about {self.n_queries:.1f} queries a row and an accuracy of {self.accuracy:.0%}"


def expected(learner: Learner, rows: Rows, rule: StoppingRule) -> Expected:
    """What to expect of a rule, by rows whose labels were not learnt."""
    n_asked, is_right = [], []
    some = rows.take(slice(MOST_ROWS))
    for step in judged_steps(learner, some, rule):
        stopped = ~step.goes_on
        best = F.one_hot(step.log_posterior[stopped].argmax(dim=1), step.log_posterior.shape[1])
        n_asked.append(step.n_asked[stopped])
        is_right.append(some.take(step.rows[stopped]).at_label(best.float()))
    return Expected(float(torch.cat(n_asked).float().mean()), float(torch.cat(is_right).mean()), len(some))


def _surprise(log_posterior: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    return -rows.at_label(log_posterior), log_posterior.max(dim=1).values.exp() >= SURE


def suitable_bits(
    learner: Learner, rows: Rows, judge: Judge, worse: float, max_queries: int | None = None
) -> float | None:
    """The most bits that a query may promise and not be asked, such that beliefs are not wrong by more than `worse`
    beyond those of the best number of bits; None if there are none. To ask everything need not be best: a model may
    get lost in answers that say nothing. Where rows are few, that is hard to tell, and a query must be worth less not
    to be asked."""
    chains = _roll_out(learner, rows.take(slice(MOST_ROWS)), judge, max_queries)
    losses = {bits: chains.at_stop(bits) for bits in (*BITS, 0.0)}
    best = min(losses.values(), key=lambda loss: float(loss.mean()))
    for bits in BITS:
        more = losses[bits] - best
        if more.mean() + more.std() / len(more) ** 0.5 <= worse:
            return bits
    return None


def _roll_out(learner: Learner, rows: Rows, judge: Judge, max_queries: int | None) -> _Chains:
    n, longest = len(rows), min(len(learner.query_set), LONGEST, max_queries or LONGEST)
    loss, is_enough = torch.zeros(n, longest + 1), torch.zeros(n, longest + 1, dtype=torch.bool)
    bits = torch.zeros(n, longest)
    for step in judged_steps(learner, rows, Budget(longest), with_bits=True):
        here, n_asked = step.rows, step.n_asked.long()
        wrong, enough = judge(step.log_posterior, rows.take(here))
        # A row that is asked nothing more keeps its last belief.
        later = torch.arange(longest + 1) >= n_asked[:, None]
        loss[here] = torch.where(later, wrong[:, None].float(), loss[here])
        is_enough[here] = torch.where(later, enough[:, None], is_enough[here])
        if step.bits is not None:
            going = step.goes_on
            bits[here[going], n_asked[going]] = step.bits[going]
    return _Chains(loss, is_enough, bits)
