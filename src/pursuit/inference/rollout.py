"""Rolling pursuers out: believe, stop, ask, answer, until every row has stopped."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pursuit.inference.equal_rows import can_be_common, in_common
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState, history_state
from pursuit.inference.pursuer import (
    Pursuer,
    by_groups,
    choose,
    highest_left,
    information,
    leave_out,
    refuse_nan,
    score_unit,
    wants_more,
)
from pursuit.inference.stopping import Never, Standing, StoppingRule
from pursuit.inference.target_bins import target_of
from pursuit.networks.dense import fast_products, has_only_dense_layers, one_thread, widest_layer
from pursuit.queries import QuerySet

BATCH_ROWS = 1024
"""How many rows are rolled out together at most: enough to keep a processor busy."""
COMMON_ROWS = 2**15
"""The same where rows have histories in common: the more of them, the more is saved."""
SMALL_STEP = 2**26
"""Up to this many multiplications in its widest layer, a step is computed by one thread."""
BATCH_BYTES = 2**28
"""About how much memory they may take."""


@dataclass(frozen=True)
class RolloutStep:
    """One step of the rows that have not stopped before it."""

    rows: Tensor  # (b,) which rows these are
    standing: Standing  # where they stand before asking; what is initially known does not count as asked or answered
    goes_on: Tensor  # (b,) bool, False in the rows that stop here
    query: Tensor  # (b,) what is asked next, -1 in the rows that stop here
    answered: Tensor  # (b,) bool, whether that query has an answer
    bits: Tensor | None  # (b,) the information expected of it, nan in rows that stop; None if not known, or if all stop

    def cpu(self) -> "RolloutStep":
        """The same in the main memory."""
        parts = {name: _cpu(part) for name, part in vars(self).items()}
        return RolloutStep(**{**parts, "standing": Standing(*map(_cpu, self.standing))})

    @property
    def log_posterior(self) -> Tensor:
        """The belief before asking (b, C)."""
        return self.standing.log_posterior

    @property
    def n_asked(self) -> Tensor:
        return self.standing.n_asked

    @property
    def n_answered(self) -> Tensor:
        return self.standing.n_answered

    @property
    def cost(self) -> Tensor:
        """What was spent before asking (b,)."""
        return self.standing.cost


def _cpu(part: Any) -> Any:
    return part.cpu() if isinstance(part, Tensor) else part


@torch.no_grad()
def pursue(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor | None = None,
    stop: StoppingRule | None = None,
    initially_known: Tensor | None = None,
    template: HistoryState | None = None,
    with_bits: bool = False,
) -> Iterator[RolloutStep]:
    """Roll out rows `x` (B, *answer_shape) step by step, until `stop` says enough or everything was asked.

    Rows that stop leave the batch: later steps do not compute them. Rows are numbered as in `x`. Callers who roll out
    batch after batch pass a state of the same pursuer as a `template`, which shares what does not depend on rows. Steps
    have the bits expected of what is asked if these are the scores; `with_bits` also where they take more computing.
    """
    n_queries = len(pursuer.query_set)
    if available is None:
        available = torch.ones(1, n_queries, dtype=torch.bool, device=x.device).expand(len(x), -1)
    history = History.start(x, n_queries, None if initially_known is None else initially_known & available)
    state = history_state(pursuer, history) if template is None else template.restart(history)
    state = in_common(state, history, pursuer.query_set)
    stop = stop or Never()
    active, target = _ActiveRows(history, stop, pursuer.query_set), target_of(pursuer)
    is_dense, has_unit = has_only_dense_layers(pursuer), score_unit(pursuer) is not None
    is_small = is_dense and len(x) * widest_layer(pursuer) <= SMALL_STEP
    while len(active.rows):
        with one_thread(is_small):
            allowed = active.allowed(state.asked)
            with fast_products(is_dense):
                log_posterior = refuse_nan(state.log_posterior())  # believe
                scores = leave_out(refuse_nan(state.scores()), allowed) if stop.needs_worth else None
            worth = _worth(state, scores, allowed, has_unit) if scores is not None else None
            standing = active.standing(log_posterior, worth, allowed)._replace(target=target)
            goes_on = active.should_go_on(standing)  # stop
            going, scores = _score_rows_that_go_on(state, goes_on, scores, allowed, is_dense)
            query, answered = torch.full_like(active.rows, -1), torch.zeros_like(goes_on)
            bits = None
            if len(going):
                query[going] = chosen = choose(by_groups(pursuer, scores, state.asked), state.asked)  # ask
                expected = information(pursuer, scores) if has_unit else state.information() if with_bits else None
                if expected is not None:
                    bits = torch.full_like(active.cost, torch.nan)
                    bits[going] = expected.gather(1, chosen[:, None])[:, 0].float()
                answered[going] = available[active.rows[going], chosen]  # answer
                state.ask(chosen, answered[going])
        yield RolloutStep(active.rows, standing, goes_on, query, answered, bits)
        active.advance(going, query, answered)


class _ActiveRows:
    """The rows that have not stopped, with what the stopping rule looks at and remembers of them."""

    def __init__(self, history: History, stop: StoppingRule, query_set: QuerySet):
        n_rows, device = len(history), history.x.device
        self.query_set, self.stop, self.memory = query_set, stop, stop.start(n_rows, device)
        self.costs = query_set.costs.to(device)  # (Q,)
        self.rows = torch.arange(n_rows, device=device)
        self.last = torch.full_like(self.rows, -1)  # (b,) the last query; -1 before the first
        self.n_left = history.asked.shape[1] - history.n_known  # (b,) queries that were not known initially
        self.n_asked, self.n_answered = torch.zeros_like(self.rows), torch.zeros_like(self.rows)  # (b,) each
        self.cost = torch.zeros(n_rows, device=device)  # (b,)
        self.x, self.known = history.x, history.known  # (B, *answer_shape) and (b, Q), for the order of queries

    def allowed(self, asked: Tensor) -> Tensor | None:
        """What may be asked now (b, Q) of that which was not `asked`; None: everything."""
        affordable = self.stop.affordable(self.cost, self.query_set.prices(asked).to(self.cost.device))
        if self.query_set.order is None:
            return affordable
        return self.query_set.allowed(self.x[self.rows], self.known, asked, affordable)

    def standing(self, log_posterior: Tensor, worth: Tensor | None, allowed: Tensor | None) -> Standing:
        in_group = self.query_set.in_group(self.last, allowed)
        return Standing(log_posterior, self.n_asked, self.n_answered, self.cost, worth, in_group=in_group)

    def should_go_on(self, standing: Standing) -> Tensor:
        """Where a query is left and the rule is not satisfied: (b,) bool."""
        enough, self.memory = self.stop.stops(self.memory, standing)
        return (self.n_left > self.n_asked) & ~enough

    def advance(self, going: Tensor, query: Tensor, answered: Tensor) -> None:
        """Drop the rows that stopped, and count what was asked, answered and spent in the others."""
        self.rows, self.n_left, self.memory = self.rows[going], self.n_left[going], self.memory[going]
        self.last = query[going]
        self.n_answered, self.n_asked = self.n_answered[going] + answered[going], self.n_asked[going] + 1
        self.cost = self.cost[going] + self.costs[query[going]]
        if self.query_set.order is not None:
            column = query[going, None]
            self.known = self.known[going].scatter(1, column, answered[going, None])


def _score_rows_that_go_on(
    state: HistoryState, goes_on: Tensor, scores: Tensor | None, allowed: Tensor | None, is_dense: bool
) -> tuple[Tensor, Tensor]:
    """The rows that go on (g,) and their scores (g, Q), computed unless all rows have `scores` (b, Q); `state` keeps
    these rows alone.

    Where the pursuer would ask nothing more that is `allowed` (b, Q), `goes_on` (b,) is cleared in place.
    """
    going = goes_on.nonzero()[:, 0]
    if len(going) < len(goes_on):
        state.keep(going)
    if not len(going):
        return going, torch.empty(0, device=goes_on.device)
    if scores is None:
        with fast_products(is_dense):
            scores = leave_out(refuse_nan(state.scores()), None if allowed is None else allowed[going])
    else:
        scores = scores[going]
    asks = wants_more(scores, state.asked)
    if not asks.all():
        state.keep(asks.nonzero()[:, 0])
        goes_on[going[~asks]] = False
        going, scores = going[asks], scores[asks]
    return going, scores


def _worth(state: HistoryState, scores: Tensor, allowed: Tensor | None, has_unit: bool) -> Tensor | None:
    """The most that a query left promises (b,): by its score if that has a unit, or by the information beside it."""
    promised = scores if has_unit else state.information()
    return None if promised is None else highest_left(leave_out(promised, allowed), state.asked)


def rows_at_once(pursuer: Pursuer, most: int | None = None, n_bytes: int = BATCH_BYTES) -> int:
    """How many rows to roll out together: `most`, by default what suits a processor, or fewer if these would take more
    than about `n_bytes` of memory."""
    query_set = pursuer.query_set
    if most is None:
        state = template_state(pursuer, torch.empty(0, *query_set.answer_shape))
        most = COMMON_ROWS if can_be_common(state, query_set) else BATCH_ROWS
    tensors = (*pursuer.parameters(), *pursuer.buffers()) if isinstance(pursuer, nn.Module) else ()
    # A row meets every matrix of a network, or of a table of probabilities, with one number for each of its columns.
    n_hidden = sum(max(tensor.shape) for tensor in tensors if tensor.dim() == 2)
    n_inputs = math.prod(query_set.answer_shape) + math.prod(query_set.input_shape)
    n_numbers = 2 * (n_inputs + n_hidden) + 8 * (len(query_set) + len(pursuer.classes))
    return min(max(1, n_bytes // (4 * n_numbers)), most)


@torch.no_grad()
def template_state(pursuer: Pursuer, x: Tensor) -> HistoryState:
    """A state without rows, to serve as the template of batches of rows such as `x`."""
    return history_state(pursuer, History.start(x[:0], len(pursuer.query_set)))


def pursue_in_batches(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor,
    stop: StoppingRule | None = None,
    initially_known: Tensor | None = None,
    batch_rows: int | None = None,
    with_bits: bool = False,
) -> Iterator[RolloutStep]:
    """The same for any number of rows, a bounded batch at a time; steps come batch after batch."""
    batch_rows, template = batch_rows or rows_at_once(pursuer), template_state(pursuer, x)
    for start in range(0, len(x), batch_rows):
        part = slice(start, start + batch_rows)
        known = None if initially_known is None else initially_known[part]
        for step in pursue(pursuer, x[part], available[part], stop, known, template, with_bits):
            yield replace(step, rows=step.rows + start)


def posterior_at_stop(
    pursuer: Pursuer, x: Tensor, available: Tensor, stop: StoppingRule | None, initially_known: Tensor | None
) -> Tensor:
    """The belief (N, C) once enough was asked of each row."""
    posterior = torch.zeros(len(x), len(pursuer.classes))
    for step in pursue_in_batches(pursuer, x, available, stop, initially_known):
        posterior[step.rows] = step.log_posterior.exp().float()
    return posterior
