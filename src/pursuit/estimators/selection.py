"""Choices made on held-out rows: the querier, the stopping rule, and when answers count as unusual."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.estimators.plan import Reason
from pursuit.evaluation.calibration import accuracy_interval
from pursuit.inference.stopping import Budget, Confidence, NothingWorthAsking, StoppingRule
from pursuit.inference.unusual import NEVER, alarm_limits, oddness
from pursuit.training import Learner
from pursuit.training.calibration import LONGEST, TEMPERATURES, group_of, judged_steps, n_judged, surprise
from pursuit.training.rows import Rows
from pursuit.vip import VIP, TwoQueriers

SURE = 0.99
"""Confidence at which the default rule stops."""
LEVEL = 0.02
"""Two queriers are level if their log losses differ by at most this, in nats, or by at most a standard error."""
QUERIER_ROWS, QUERIER_LONGEST = 1000, 30
"""Most rows and most questions that two queriers are compared on."""
BITS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.003, 0.001)
"""Candidate thresholds of expected information below which a query is not worth asking."""
WORSE = 0.01
"""How much the log loss at the stop may exceed that of the best threshold, in nats a row."""
STOP_ROWS = 500
"""Most rows that the stopping rule is chosen on."""
WIDENED = 1.5
"""The range of the accuracy to expect is as wide as if a third fewer rows had shown it: the rows that show it also
chose the stopping rule, teachers' labels are not quite those of new rows, and new rows are a sample, too."""
FAMILIAR = 150
"""Answers of rows that a model has learnt surprise it less than those of new rows, the more so the fewer they are:
limits from N such rows are 1 + 150 / N times as high. Chosen on halves of tables with 74 to 500 rows."""


def better_querier(model: TwoQueriers, rows: Rows, max_queries: int | None = None) -> tuple[VIP, Reason]:
    """The model with the querier whose chains have the lower log loss, and the reason. Where the two are level, the
    information querier is taken, because it explains its questions in bits."""
    some = rows.take(slice(QUERIER_ROWS))
    models = {name: model.asking(name) for name in ("information", "straight-through")}
    losses = {name: chain_losses(asking, some, max_queries) for name, asking in models.items()}
    gain = losses["information"] - losses["straight-through"]
    level = max(LEVEL, float(gain.std()) / len(gain) ** 0.5)
    best = "straight-through" if gain.mean() > level else "information"
    other = next(name for name in models if name != best)
    why = f"log loss {losses[best].mean():.3f} along chains not learnt from, {losses[other].mean():.3f} by {other}"
    if model.lookahead is not None and best == "straight-through":
        why += f"; it learnt to look {model.lookahead.n_answers} answers ahead"
    return models[best], Reason("querier", best, why)


def chain_losses(learner: Learner, rows: Rows, max_queries: int | None = None) -> Tensor:
    """The log loss of each row (N,), averaged over the posteriors after 1 to T questions of its chain, in nats; a group
    counts as one. A row that is sure, or has no query left, keeps its last posterior. The best of a few temperatures is
    used."""
    longest = min(len(learner.query_set), QUERIER_LONGEST, max_queries or QUERIER_LONGEST)
    loss = torch.zeros(len(rows), longest + 1, len(TEMPERATURES), dtype=torch.double)
    first_of_group = learner.query_set.first_of_group
    group_of = torch.arange(len(learner.query_set)) if first_of_group is None else first_of_group.cpu()
    n_asked, last = torch.zeros(len(rows), dtype=torch.long), torch.full((len(rows),), -1)
    for step in judged_steps(learner, rows, Confidence(SURE) | Budget(longest)):
        now = surprise(step.log_posterior.float(), rows.take(step.rows))
        later = torch.arange(longest + 1) >= n_asked[step.rows, None]
        loss[step.rows] = torch.where(later[:, :, None], now[:, None], loss[step.rows])
        going, group = step.rows[step.goes_on], group_of[step.query[step.goes_on]]
        n_asked[going] += group != last[going]  # the members of a group follow each other
        last[going] = group
    losses = loss[:, 1:].mean(dim=1)
    return losses[:, int(losses.mean(dim=0).argmin())]


Judge = Callable[[Tensor, Rows], tuple[Tensor, Tensor]]
"""From log posteriors (B, C) of B rows: the loss of each, and whether it needs no further query, (B,) each."""


@dataclass(frozen=True)
class _Chains:
    """Chains of N held-out rows without a stopping rule: T + 1 posteriors and T queries."""

    loss: Tensor  # (N, T + 1) of each posterior
    is_enough: Tensor  # (N, T + 1) bool
    bits: Tensor  # (N, T) expected information of each query

    def at_stop(self, bits: float) -> Tensor:
        """The loss of each row (N,) where it needs no further query, or no query is expected to give these bits."""
        enough = self.is_enough.clone()
        enough[:, :-1] |= self.bits <= bits
        enough[:, -1] = True
        return self.loss.gather(1, enough.int().argmax(dim=1, keepdim=True))[:, 0]


def suitable_stop(learner: Learner, rows: Rows, max_queries: int | None = None) -> StoppingRule:
    """Stop once sure, or once no query is expected to give enough bits. The threshold is the highest whose log loss at
    the stop is hardly above the best one's, on rows whose labels were not learnt."""
    bits = suitable_bits(learner, rows, _surprise, WORSE, max_queries)
    rule: StoppingRule = Confidence(SURE) if bits is None else Confidence(SURE) | NothingWorthAsking(bits)
    return within_sight(rule, learner)


def within_sight(rule: StoppingRule, learner: Learner) -> StoppingRule:
    """The rule, with a budget where there are more queries than chains of held-out rows are long: nothing shows that
    more are worth asking, and of very many queries some always seem to promise a little."""
    return rule | Budget(LONGEST) if len(learner.query_set) > LONGEST else rule


class Expected(NamedTuple):
    """The result of a stopping rule on rows whose labels were not learnt."""

    n_queries: float
    """Mean number of queries asked of a row."""
    accuracy: float
    n_rows: int
    n_groups: int | None = None
    """Groups that these rows belong to; None where every row is independent of the others."""
    teachers: float = 0.0
    """Accuracy of the teachers that label these rows, with all answers; 0 without teachers."""

    @property
    def accuracy_range(self) -> tuple[float, float]:
        """Between which the accuracy on new rows most likely lies: widened from Wilson's 95 % interval.

        A model has learnt the labels of the rows that teachers judge it by. Where a label is unlike what teachers that
        did not see it say, the model repeats the label and is called wrong; of a new row it would say what they say.
        So the range ends where it would if the model were as often right as they are.
        """
        n = (self.n_rows if self.n_groups is None else self.n_groups) / WIDENED
        least, most = (min(1.0, accuracy) * n for accuracy in (self.accuracy, max(self.accuracy, self.teachers)))
        return accuracy_interval(least, n)[0], accuracy_interval(most, n)[1]

    def __str__(self) -> str:
        low, high = math.floor(100 * self.accuracy_range[0]), math.ceil(100 * self.accuracy_range[1])
        return f"about {self.n_queries:.1f} queries a row and an accuracy of {low}% to {high}% on new rows"


def expected(learner: Learner, rows: Rows, rule: StoppingRule) -> Expected:
    """Mean number of queries and accuracy of a stopping rule, on rows whose labels were not learnt."""
    n_asked, is_right = [], []
    some = rows.take(slice(STOP_ROWS))
    for step in judged_steps(learner, some, rule):
        stopped = ~step.goes_on
        best = F.one_hot(step.log_posterior[stopped].argmax(dim=1), step.log_posterior.shape[1])
        n_asked.append(step.n_asked[stopped])
        is_right.append(some.take(step.rows[stopped]).at_label(best.float()))
    mean_asked, accuracy = (float(torch.cat(part).float().mean()) for part in (n_asked, is_right))
    n_groups = None if some.group is None else _n_groups(some.group)
    teachers = 0.0 if some.target is None else float((some.target.argmax(dim=1) == some.y).float().mean())
    return Expected(mean_asked, accuracy, len(some), n_groups, teachers)


def _n_groups(group: Tensor) -> int:
    """How many groups rows belong to; one without a group (below 0) is its own."""
    return len(group[group >= 0].unique()) + int((group < 0).sum())


def _surprise(log_posterior: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    return -rows.at_label(log_posterior), log_posterior.max(dim=1).values.exp() >= SURE


def suitable_bits(
    learner: Learner, rows: Rows, judge: Judge, worse: float, max_queries: int | None = None
) -> float | None:
    """The highest threshold of expected bits whose loss at the stop exceeds that of the best threshold by at most
    `worse`, with a standard error to spare; None if there is none. Asking everything need not be best: answers without
    information can mislead a model. With few rows the standard error is large, and the threshold low."""
    chains = _roll_out(learner, rows.take(slice(STOP_ROWS)), judge, max_queries)
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


def unusual_limits(learner: Any, rows: Rows, max_queries: int | None = None) -> Tensor:
    """Thresholds of oddness beyond which answers count as unusual (Q + 1,), by the number of answers known; infinite
    where too few chains of held-out rows are that long. Where teachers judge, these rows were learnt, too."""
    odd, n_known = _oddness(learner, rows.take(slice(n_judged(learner))), max_queries)
    limits = alarm_limits(odd.cpu(), n_known.cpu(), group_of(len(learner.query_set)))
    return limits if rows.target is None else (limits * (1 + FAMILIAR / len(rows))).clamp(max=NEVER)


def _oddness(learner: Any, rows: Rows, max_queries: int | None) -> tuple[Tensor, Tensor]:
    """The oddness of answers along the chains of rows, and the number of answers known, (N, T) each."""
    longest = min(len(learner.query_set), LONGEST, max_queries or LONGEST)
    query, answered = torch.full((len(rows), longest), -1), torch.zeros(len(rows), longest, dtype=torch.bool)
    for step in judged_steps(learner, rows, Budget(longest)):
        going = step.goes_on
        position = step.rows[going], step.n_asked[going].long()
        query[position], answered[position] = step.query[going], step.answered[going]
    given = None if rows.initially_known is None else rows.initially_known & rows.available
    odd, n_known, _ = oddness(learner, rows.x, given, query, answered)
    return odd, n_known
