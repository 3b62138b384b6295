"""Rolling pursuers out: believe, stop, ask, answer, until every row has stopped."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState, history_state
from pursuit.inference.pursuer import Pursuer, choose, wants_more
from pursuit.inference.stopping import Never, StoppingRule
from pursuit.networks.arm import fast_products, has_only_dense_layers

BATCH_ROWS = 1024
"""How many rows are rolled out together at most: enough to keep a processor busy."""
BATCH_BYTES = 2**28
"""About how much memory they may take."""


@dataclass(frozen=True)
class RolloutStep:
    """One step of the rows that have not stopped before it."""

    rows: Tensor  # (b,) which rows these are
    log_posterior: Tensor  # (b, C) the belief before asking
    n_answered: Tensor  # (b,) answers revealed before asking, without those initially known
    goes_on: Tensor  # (b,) bool, False in the rows that stop here
    query: Tensor  # (b,) what is asked next, -1 in the rows that stop here
    answered: Tensor  # (b,) bool, whether that query has an answer


@torch.no_grad()
def pursue(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor | None = None,
    stop: StoppingRule | None = None,
    initially_known: Tensor | None = None,
    template: HistoryState | None = None,
) -> Iterator[RolloutStep]:
    """Roll out rows `x` (B, *answer_shape) step by step, until `stop` says enough or everything was asked.

    Rows that stop leave the batch: later steps do not compute them. Rows are numbered as in `x`. Callers who roll out
    batch after batch pass a state of the same pursuer as a `template`, which shares what does not depend on rows.
    """
    n_queries = len(pursuer.query_set)
    if available is None:
        available = torch.ones(1, n_queries, dtype=torch.bool, device=x.device).expand(len(x), -1)
    history = History.start(x, n_queries, None if initially_known is None else initially_known & available)
    state = history_state(pursuer, history) if template is None else template.restart(history)
    active = _ActiveRows(history, stop or Never())
    is_dense = has_only_dense_layers(pursuer)
    while len(active.rows):
        with fast_products(is_dense):
            log_posterior = state.log_posterior()  # believe
        goes_on = active.should_go_on(log_posterior)  # stop
        going, scores = _score_rows_that_go_on(state, goes_on, is_dense)
        query, answered = torch.full_like(active.rows, -1), torch.zeros_like(goes_on)
        if len(going):
            query[going] = choose(scores, state.asked)  # ask
            answered[going] = available[active.rows[going], query[going]]  # answer
            state.ask(query[going], answered[going])
        yield RolloutStep(active.rows, log_posterior, active.n_answered, goes_on, query, answered)
        active.advance(going, answered)


class _ActiveRows:
    """The rows that have not stopped, with what the stopping rule remembers of them."""

    def __init__(self, history: History, stop: StoppingRule):
        n_rows, device = len(history), history.x.device
        self.stop, self.memory = stop, stop.start(n_rows, device)
        self.rows = torch.arange(n_rows, device=device)
        self.n_left = history.asked.shape[1] - history.n_known  # (b,) queries that were not known initially
        self.n_asked, self.n_answered = torch.zeros_like(self.rows), torch.zeros_like(self.rows)  # (b,) each

    def should_go_on(self, log_posterior: Tensor) -> Tensor:
        """Where a query is left and the rule is not satisfied: (b,) bool."""
        enough, self.memory = self.stop.step(self.memory, log_posterior, self.n_asked, self.n_answered)
        return (self.n_left > self.n_asked) & ~enough

    def advance(self, going: Tensor, answered: Tensor) -> None:
        """Drop the rows that stopped, and count what was asked and answered in the others."""
        self.rows, self.n_left, self.memory = self.rows[going], self.n_left[going], self.memory[going]
        self.n_answered, self.n_asked = self.n_answered[going] + answered[going], self.n_asked[going] + 1


def _score_rows_that_go_on(state: HistoryState, goes_on: Tensor, is_dense: bool) -> tuple[Tensor, Tensor]:
    """The rows that go on (g,) and their scores (g, Q); `state` keeps these alone.

    Where the pursuer would ask nothing more, `goes_on` (b,) is cleared in place.
    """
    going = goes_on.nonzero()[:, 0]
    if len(going) < len(goes_on):
        state.keep(going)
    if not len(going):
        return going, torch.empty(0, device=goes_on.device)
    with fast_products(is_dense):
        scores = state.scores()
    asks = wants_more(scores, state.asked)
    if not asks.all():
        state.keep(asks.nonzero()[:, 0])
        goes_on[going[~asks]] = False
        going, scores = going[asks], scores[asks]
    return going, scores


def rows_at_once(pursuer: Pursuer, most: int = BATCH_ROWS, n_bytes: int = BATCH_BYTES) -> int:
    """How many rows to roll out together: `most`, or fewer if these would take more than about `n_bytes` of memory."""
    query_set = pursuer.query_set
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
) -> Iterator[RolloutStep]:
    """The same for any number of rows, a bounded batch at a time; steps come batch after batch."""
    batch_rows, template = batch_rows or rows_at_once(pursuer), template_state(pursuer, x)
    for start in range(0, len(x), batch_rows):
        part = slice(start, start + batch_rows)
        known = None if initially_known is None else initially_known[part]
        for step in pursue(pursuer, x[part], available[part], stop, known, template):
            yield replace(step, rows=step.rows + start)
