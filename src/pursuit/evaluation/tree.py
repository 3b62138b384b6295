"""The first questions of a pursuer as a tree: what is asked, how many rows go where, and what is believed there."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pursuit.evaluation.rollouts import Trace, placed, row_batches
from pursuit.inference.cuts import pieces
from pursuit.inference.pursuer import NO_ANSWER, Pursuer, label_list
from pursuit.inference.rollout import RolloutStep
from pursuit.inference.stopping import Budget, StoppingRule
from pursuit.inference.target_bins import target_of
from pursuit.queries import Number, QuerySet
from pursuit.queries.column import NOT_GIVEN_TEXT
from pursuit.training.rows import Rows

N_LEADING = 3
MOST_QUESTIONS = 3
"""How many questions a node shows. Where numbers are cut into ranges, rows of one range may be asked different ones."""

MOST_CHOICES = 6
"""How many answers stand for themselves; of more, the rarest are put together."""
SMALLEST_SHARE = 0.05
"""The least share of the rows that a range may have."""
LEAST_GAIN = 0.02
"""The bits about the label that a cut must tell, on average over the rows that are cut."""
OTHERS = "other answers"

Branches = list[tuple[str, np.ndarray]]
"""Answers in words, with the rows (n,) that gave them."""


@dataclass(frozen=True)
class LeadingLabel:
    """A label and its probability, on average over the rows of a node."""

    label: Any
    probability: float


@dataclass(frozen=True)
class TreeNode:
    """The rows that gave the same answers so far."""

    n_rows: int
    leading: tuple[LeadingLabel, ...]
    """The labels that are believed most; none where a number is predicted."""
    number: str
    """Where a number is predicted: the belief about it in words; otherwise empty."""
    n_stopped: int
    """How many of the rows are asked nothing more, because the stopping rule says so."""
    n_right: int
    """In how many of the rows the label that is believed most at this point is the true one."""
    questions: tuple["TreeQuestion", ...] = ()
    """What the other rows are asked next, the most frequent first; empty at the last level of the tree."""
    n_other: int = 0
    """How many of the rows are asked questions that are too rare to be shown."""

    def __iter__(self) -> Iterator["TreeNode"]:
        """This node and all below it."""
        yield self
        for question in self.questions:
            for branch in question.branches:
                yield from branch.node

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class TreeQuestion:
    """What some rows of a node are asked next."""

    query: int
    name: str
    text: str
    n_rows: int
    mean_bits: float | None
    """What its answer is expected to tell, on average over these rows; None where the pursuer does not know."""
    branches: tuple["TreeBranch", ...]


@dataclass(frozen=True)
class TreeBranch:
    """The rows that gave one answer, or one of several much alike."""

    answer: str
    node: TreeNode


@torch.no_grad()
def question_tree(
    pursuer: Pursuer, rows: Rows, stop: StoppingRule | None = None, depth: int = 3, device: str = "cpu"
) -> TreeNode:
    """The first `depth` questions that `rows` are asked until `stop` stops them.

    Numbers, shades and long lists of answers are put together into a few ranges, cut where beliefs differ most.
    """
    if not len(rows):
        raise ValueError("There are no rows to ask: at least one is needed.")
    if depth < 1:
        raise ValueError(f"A tree shows at least 1 level of questions, not {depth}.")
    # One question more than is shown, to know which rows would have gone on.
    until: StoppingRule = Budget(depth + 1) if stop is None else stop | Budget(depth + 1)
    with placed(pursuer, device) as place:
        batches = row_batches(pursuer, rows, place)
        parts = [_TreeTrace.of(pursuer, batch, until, with_bits=True).cpu() for batch in batches]
    return _Tree(pursuer, rows, depth, _TreeTrace.joined(parts)).node(np.arange(len(rows)), 0)


@dataclass(frozen=True)
class _TreeTrace(Trace):
    """What the rows are asked at each level, and what is believed before that."""

    query: Tensor  # (T, N), -1 where nothing is asked
    answered: Tensor  # (T, N)
    bits: Tensor  # (T, N), nan where they are not known
    belief: Tensor  # (T, N, C)

    @staticmethod
    def describe(step: RolloutStep, y: Tensor) -> tuple[Tensor, ...]:
        bits = torch.full_like(step.cost, torch.nan) if step.bits is None else step.bits.float()
        return step.query, step.answered, bits, step.log_posterior.float().exp()


@dataclass(frozen=True)
class _Tree:
    pursuer: Pursuer
    rows: Rows
    depth: int
    trace: _TreeTrace

    def node(self, own: np.ndarray, level: int) -> TreeNode:
        """The node of rows `own` (n,), all of which were asked `level` questions."""
        query = self.trace.query[level, own].numpy()
        belief = self.trace.belief[level, own]  # (n, C)
        target, mean = target_of(self.pursuer), belief.mean(dim=0)
        best = mean.topk(min(N_LEADING, len(mean)))
        labels = label_list(self.pursuer.classes)
        leading = [LeadingLabel(labels[i], float(p)) for p, i in zip(best.values, best.indices.tolist(), strict=True)]
        asked, counts = np.unique(query[query >= 0], return_counts=True)
        order = np.argsort(-counts, kind="stable")[: MOST_QUESTIONS if level < self.depth else 0].tolist()
        questions = tuple(self._question(int(asked[i]), own[query == asked[i]], level) for i in order)
        return TreeNode(
            n_rows=len(own),
            leading=tuple(leading) if target is None else (),
            number="" if target is None else target.belief(mean),
            n_stopped=int((query < 0).sum()),
            n_right=int((belief.argmax(dim=1) == self.rows.y[own].cpu()).sum()),
            questions=questions,
            n_other=int((query >= 0).sum()) - sum(one.n_rows for one in questions) if questions else 0,
        )

    def _question(self, query: int, own: np.ndarray, level: int) -> TreeQuestion:
        query_set, trace, bits = self.pursuer.query_set, self.trace, self.trace.bits[level, own].double()
        wording = query_set.queries[query]
        answered, after = trace.answered[level, own].numpy(), trace.belief[level + 1, own]
        parts = branches(query_set, query, self.rows.x[own].cpu(), answered, after)
        return TreeQuestion(
            query,
            wording.name,
            wording.text,
            len(own),
            None if bits.isnan().any() else float(bits.mean()),
            tuple(TreeBranch(text, self.node(own[part], level + 1)) for text, part in parts),
        )


def branches(query_set: QuerySet, query: int, x: Tensor, answered: np.ndarray, belief: Tensor) -> Branches:
    """The rows `x` (N, *answer_shape) by their answers to `query`, as far as they `answered` (N,) it.

    Numbers and shades are cut into ranges where the `belief` (N, C) after the answer differs most.
    """
    there, absent = np.flatnonzero(answered), np.flatnonzero(~answered)
    found: Branches = []
    if len(there):
        texts = np.array([query_set.describe(query, x[row]) for row in there], dtype=object)
        given = texts != NOT_GIVEN_TEXT
        values = _values(query_set, query, x[there[given]])
        if values is None:
            found = [(text, there[rows]) for text, rows in _by_text(query_set, query, texts)]
        else:
            ranges = _ranges(values, belief[there[given]].double().numpy())
            own, own_texts = there[given], texts[given]
            found = [(text, own[part]) for text, part in _in_words(query_set, query, values, own_texts, ranges)]
            if not given.all():
                found.append((NOT_GIVEN_TEXT, there[~given]))
    return [*found, (NO_ANSWER, absent)] if len(absent) else found


def _by_text(query_set: QuerySet, query: int, texts: np.ndarray) -> Branches:
    """The most frequent answers, in the order in which they are offered, and all others together."""
    names, place, counts = np.unique(texts.astype(str), return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable").tolist()
    kept = order if len(order) <= MOST_CHOICES else order[: MOST_CHOICES - 1]
    offered = {text: i for i, text in enumerate(query_set.queries[query].offered)}
    kept.sort(key=lambda i: offered.get(str(names[i]), len(offered)))
    found = [(str(names[i]), np.flatnonzero(place == i)) for i in kept]
    others = np.flatnonzero(~np.isin(place, kept))
    return [*found, (OTHERS, others)] if len(others) else found


def _values(query_set: QuerySet, query: int, x: Tensor) -> np.ndarray | None:
    """What orders the answers (n,): the number itself, or the mean brightness of a patch; None for other answers."""
    if not query_set.has_units:
        return None
    features = torch.isin(query_set.units.of_feature.cpu(), query_set.units.of_query[query].cpu()).nonzero()[:, 0]
    types = {query_set.units.feature_types[feature] for feature in features.tolist()}
    is_ordered = types <= {"number", "share"} or query_set.patches is not None
    return x.flatten(1)[:, features].mean(dim=1).double().numpy() if is_ordered else None


def _ranges(values: np.ndarray, belief: np.ndarray) -> list[np.ndarray]:
    """The rows (n,) of each range, from low to high. Equal values stay together."""
    order, n = np.argsort(values, kind="stable"), len(values)
    rising = np.diff(values[order]) > 0
    ranges = pieces(belief[order], np.ones(n), LEAST_GAIN * n, SMALLEST_SHARE * n, rising)
    return [order[first:end] for first, end in ranges]


def _in_words(
    query_set: QuerySet, query: int, values: np.ndarray, texts: np.ndarray, ranges: list[np.ndarray]
) -> Branches:
    """Ranges by the highest answer of each, as in "up to 37.5", "37.5 to 39", "above 39". One alone is that of the
    column, because the least and the greatest number are those of two people."""
    if len(ranges) == 1:
        own = query_set.queries[query]
        usual = own.expected.removesuffix(f" or {NOT_GIVEN_TEXT}") if isinstance(own, Number) else ""
        low, high = _answer(query_set, values, texts, ranges[0][0]), _answer(query_set, values, texts, ranges[0][-1])
        return [(usual or (low if low == high else f"{low} to {high}"), ranges[0])]
    edges = [_answer(query_set, values, texts, part[-1]) for part in ranges[:-1]]
    between = [f"above {low}, up to {high}" for low, high in pairwise(edges)]
    names = [f"up to {edges[0]}", *between, f"above {edges[-1]}"]
    return list(zip(names, ranges, strict=True))


def _answer(query_set: QuerySet, values: np.ndarray, texts: np.ndarray, row: int) -> str:
    """The answer of a row as an end of a range: of a patch, how bright it is on average."""
    return str(texts[row]) if query_set.patches is None else f"{50 * (values[row] + 1):.0f}% bright"
