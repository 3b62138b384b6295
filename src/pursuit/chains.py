"""Rolling pursuers out: ask, believe, stop, row by row; and the chain that is left as the explanation."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor, nn

from pursuit.following import Follower, follow
from pursuit.history import History
from pursuit.networks.arm import has_only_dense_layers, quick_products
from pursuit.pursuer import Pursuer, choose, plain_labels, wants_more
from pursuit.queries import QuerySet
from pursuit.stopping import StoppingRule

BATCH_ROWS = 1024
"""How many rows are rolled out together at most: enough to keep a processor busy."""
BATCH_BYTES = 2**28
"""About how much memory they may take."""
UNKNOWN = "unknown"
"""What a chain's text says for a query that could not be answered."""


@dataclass(frozen=True)
class Turn:
    """What happens in one step to the rows that are still going."""

    rows: Tensor  # (b,) which rows these are
    log_posterior: Tensor  # (b, C) the belief before asking
    n_queries: Tensor  # (b,) answers revealed before asking, on top of the opening
    goes_on: Tensor  # (b,) bool, False in the rows that stop here
    query: Tensor  # (b,) what is asked next, -1 in the rows that stop here
    answered: Tensor  # (b,) bool, whether that query has an answer


@torch.no_grad()
def pursue(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor | None = None,
    stop: StoppingRule | None = None,
    opening: Tensor | None = None,
    like: Follower | None = None,
) -> Iterator[Turn]:
    """Roll out rows `x` (B, *answer_shape) turn by turn, until `stop` says enough or everything was asked.

    Rows that stop leave the batch: later turns do not compute them. Rows are numbered as in `x`. Whoever rolls out
    batch after batch gives a follower of the pursuer that they are `like`.
    """
    n_queries = len(pursuer.query_set)
    if available is None:
        available = torch.ones(1, n_queries, dtype=torch.bool, device=x.device).expand(len(x), -1)
    history = History.start(x, n_queries, None if opening is None else opening & available)
    rows = torch.arange(len(x), device=x.device)
    n_left, n_known, n_asked = n_queries - history.n_known, torch.zeros_like(rows), torch.zeros_like(rows)  # (b,) each
    memory = stop.start(len(x), x.device) if stop else torch.zeros(len(x), 0, device=x.device)
    is_dense = has_only_dense_layers(pursuer)
    follower = follow(pursuer, history) if like is None else like.again(history)
    while len(rows):
        with quick_products(is_dense):
            log_posterior = follower.log_posterior()
        goes_on = n_left > n_asked
        if stop:
            enough, memory = stop.step(memory, log_posterior, n_asked, n_known)
            goes_on &= ~enough
        going = goes_on.nonzero()[:, 0]
        query, answered = torch.full_like(rows, -1), torch.zeros_like(goes_on)
        if len(going) < len(rows):
            follower.keep(going)
        if len(going):
            with quick_products(is_dense):
                scores = follower.scores()
            asks = wants_more(scores, follower.asked)
            if not asks.all():
                follower.keep(asks.nonzero()[:, 0])
                goes_on[going[~asks]] = False
                going, scores = going[asks], scores[asks]
        if len(going):
            chosen = choose(scores, follower.asked)
            has_answer = available[rows[going], chosen]
            follower.ask(chosen, has_answer)
            query[going], answered[going] = chosen, has_answer
        yield Turn(rows, log_posterior, n_known, goes_on, query, answered)
        rows, n_left, memory = rows[going], n_left[going], memory[going]
        n_known, n_asked = n_known[going] + answered[going], n_asked[going] + 1


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
def follow_none(pursuer: Pursuer, x: Tensor) -> Follower:
    """A follower of no rows yet, for batches of rows such as `x` to be like."""
    return follow(pursuer, History.start(x[:0], len(pursuer.query_set)))


def pursue_in_batches(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor,
    stop: StoppingRule | None = None,
    opening: Tensor | None = None,
    batch_rows: int | None = None,
) -> Iterator[Turn]:
    """The same for any number of rows, a bounded batch at a time; turns come batch after batch."""
    batch_rows, like = batch_rows or rows_at_once(pursuer), follow_none(pursuer, x)
    for start in range(0, len(x), batch_rows):
        part = slice(start, start + batch_rows)
        opened = None if opening is None else opening[part]
        for turn in pursue(pursuer, x[part], available[part], stop, opened, like):
            yield Turn(turn.rows + start, turn.log_posterior, turn.n_queries, turn.goes_on, turn.query, turn.answered)


@dataclass(frozen=True)
class Step:
    """One query of a chain, its answer, and the belief after it."""

    query: int
    name: str
    text: str
    answer: str | None
    """In words; None where the query was asked and could not be answered."""
    posterior: Tensor  # (C,)


@dataclass(frozen=True)
class Chain:
    """A finished history with its posteriors: the whole explanation of one prediction."""

    classes: tuple[Any, ...]
    prior: Tensor  # (C,) the belief before the first query, given the opening
    steps: tuple[Step, ...]
    opening: tuple[Step, ...] = ()

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def n_queries(self) -> int:
        """How many answers were revealed."""
        return sum(step.answer is not None for step in self.steps)

    @property
    def posterior(self) -> Tensor:
        """The belief at the end: (C,)."""
        return self.steps[-1].posterior if self.steps else self.prior

    @property
    def prediction(self) -> Any:
        return self.classes[int(self.posterior.argmax())]

    def __str__(self) -> str:
        told = (*self.opening, *self.steps)
        width = max((len(step.text) for step in told), default=0)
        room = max((len(step.answer or UNKNOWN) for step in told), default=0)
        lines = [
            f"Prediction: {self.prediction} ({_percent(self.posterior.max())}) after {_count(self.n_queries, 'answer')}"
        ]
        lines += [f"    +  {step.text:<{width}}  {step.answer}" for step in self.opening]
        lines.append(f"  {'start':<{width + 5}}  {'':<{room}}  {self._top(self.prior)}")
        for i, step in enumerate(self.steps, start=1):
            lines.append(
                f"  {i:>3}. {step.text:<{width}}  {step.answer or UNKNOWN:<{room}}  {self._top(step.posterior)}"
            )
        return "\n".join(lines)

    def _top(self, posterior: Tensor, most: int = 3) -> str:
        probabilities, best = posterior.topk(min(most, len(self.classes)))
        return ", ".join(f"{self.classes[i]} {_percent(p)}" for p, i in zip(probabilities, best.tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The chain as JSON values: every query, answer and posterior, in order."""

        def belief(posterior: Tensor) -> dict[str, float]:
            return dict(zip(map(str, self.classes), posterior.tolist(), strict=True))

        def told(step: Step) -> dict[str, Any]:
            return {"query": step.name, "text": step.text, "answer": step.answer}

        return {
            "prediction": self.prediction,
            "n_queries": self.n_queries,
            "posterior": belief(self.posterior),
            "opening": [told(step) for step in self.opening],
            "prior": belief(self.prior),
            "steps": [{**told(step), "posterior": belief(step.posterior)} for step in self.steps],
        }

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


class Chains(Sequence[Chain]):
    """The chains of several rows; prints as readable text."""

    def __init__(self, chains: Sequence[Chain]):
        self._chains = tuple(chains)

    @overload
    def __getitem__(self, index: int) -> Chain: ...
    @overload
    def __getitem__(self, index: slice) -> "Chains": ...
    def __getitem__(self, index: int | slice) -> "Chain | Chains":
        return Chains(self._chains[index]) if isinstance(index, slice) else self._chains[index]

    def __len__(self) -> int:
        return len(self._chains)

    def __str__(self) -> str:
        return "\n\n".join(str(chain) for chain in self._chains)

    __repr__ = __str__

    def to_dict(self) -> list[dict[str, Any]]:
        return [chain.to_dict() for chain in self._chains]

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


def explain(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor,
    stop: StoppingRule | None = None,
    opening: Tensor | None = None,
    batch_rows: int | None = None,
) -> Chains:
    """The chain of every row."""
    beliefs: list[list[Tensor]] = [[] for _ in range(len(x))]
    asked: list[list[tuple[int, bool]]] = [[] for _ in range(len(x))]
    for turn in pursue_in_batches(pursuer, x, available, stop, opening, batch_rows):
        posterior = turn.log_posterior.exp().cpu()
        for i, (row, query, answered) in enumerate(
            zip(turn.rows.tolist(), turn.query.tolist(), turn.answered.tolist(), strict=True)
        ):
            beliefs[row].append(posterior[i])
            if query >= 0:
                asked[row].append((query, answered))
    classes = tuple(plain_labels(pursuer.classes))
    chains = []
    for row in range(len(x)):
        prior, *after = beliefs[row]
        steps = tuple(
            _step(pursuer.query_set, x[row], query, answered, posterior)
            for (query, answered), posterior in zip(asked[row], after, strict=True)
        )
        opened = () if opening is None else (opening[row] & available[row]).nonzero()[:, 0].tolist()
        chains.append(
            Chain(classes, prior, steps, tuple(_step(pursuer.query_set, x[row], q, True, prior) for q in opened))
        )
    return Chains(chains)


def _step(query_set: QuerySet, x: Tensor, query: int, answered: bool, posterior: Tensor) -> Step:
    words = query_set.queries[query]
    return Step(query, words.name, words.text, query_set.describe(query, x) if answered else None, posterior)


def _percent(probability: Tensor) -> str:
    # Only certainty itself is written 100%: rounding must not promise it.
    return "100%" if probability == 1 else f"{min(99.9, 100 * float(probability)):.1f}%"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
