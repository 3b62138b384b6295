"""The first questions of an interview as a fixed tree, for programs that cannot choose questions themselves."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from pursuit.inference.pursuer import NO_ANSWER, Pursuer, label_list, label_text
from pursuit.inference.target_bins import target_of
from pursuit.queries import Number, QuerySet
from pursuit.queries.column import NOT_GIVEN_TEXT
from pursuit.sessions.session import Session
from pursuit.sessions.state import Question, question_of
from pursuit.sessions.why import ImaginedAnswer, imagined_answers

MOST_CHOICES = 6
"""Choices that have a branch of their own; of more, the least probable share one."""
MOST_CUTS = 2
"""How often the range of a number is cut."""
DONT_KNOW = "don't know"


@dataclass(frozen=True)
class Branch:
    """Some of the answers to a question, and what follows from them."""

    text: str
    choices: tuple[str, ...]
    """The choices; empty where the answer is a number or not known."""
    above: float | None
    up_to: float | None
    """Of numbers: those above the one and up to the other; None: no end."""
    is_unknown: bool
    """Whether the person does not know."""
    probability: float
    """Of these answers, at this point, of all that are not unknown."""
    node: "Node"


@dataclass(frozen=True)
class Node:
    """A point of the interview: what is believed, and what is asked, unless it ends here."""

    label: str
    """The most probable label, or the number expected, in words."""
    posterior: Tensor  # (C,)
    probability: float | None
    """Of the label; None where a number is predicted."""
    question: Question | None = None
    branches: tuple[Branch, ...] = ()

    @property
    def is_end(self) -> bool:
        return self.question is None


@dataclass(frozen=True)
class Path:
    """The way to an end: nodes with the branch that is taken from each."""

    steps: tuple[tuple[Node, Branch], ...]
    end: Node

    @property
    def share(self) -> float:
        """The share of people who go this way, by what the model expects of their answers."""
        return math.prod(branch.probability for _, branch in self.steps)


@dataclass(frozen=True)
class Script:
    """A fixed tree of questions."""

    root: Node
    pursuer: Pursuer

    @classmethod
    def of(cls, session: Session, depth: int) -> "Script":
        """The first `depth` questions of a session that has just begun, whatever is answered."""
        if depth < 1:
            raise ValueError(f"A script has at least 1 level of questions, not {depth}.")
        return cls(_node(session, depth), session.pursuer)

    def paths(self, with_unknown: bool = True) -> Iterator[Path]:
        """All ways through the tree; without those on which something is not known, if that is asked for."""
        yield from _paths(self.root, (), with_unknown)

    def rules(self) -> list[dict[str, Any]]:
        """One row for each way through the tree on which everything is known: the answers in words, the prediction, its
        probability, and the share of people."""
        rows = []
        for path in self.paths(with_unknown=False):
            parts = [f"{_asked(node).name} = {branch.text}" for node, branch in path.steps]
            row: dict[str, Any] = {"rule": " and ".join(parts), "n_questions": len(path.steps)}
            row |= {"prediction": path.end.label, "probability": path.end.probability, "share": path.share}
            for i, (node, branch) in enumerate(path.steps, start=1):
                row |= {f"question {i}": _asked(node).name, f"answer {i}": branch.text}
            rows.append(row)
        return rows

    def follow(self, x: Tensor, available: Tensor) -> tuple[list[Node], list[int]]:
        """Where rows end, whose answers are `x` (N, *answer_shape), as far as `available` (N, Q); and after how many
        questions."""
        ends, n_asked = [], []
        for row, there in zip(x, available, strict=True):
            node, n = self.root, 0
            while node.question is not None:
                query = self.pursuer.query_set.index_of[node.question.name]
                node, n = _taken(node, self.pursuer.query_set, query, row, bool(there[query])).node, n + 1
            ends.append(node)
            n_asked.append(n)
        return ends, n_asked


def _asked(node: Node) -> Question:
    assert node.question is not None
    return node.question


def _paths(node: Node, steps: tuple[tuple[Node, Branch], ...], with_unknown: bool) -> Iterator[Path]:
    if node.is_end:
        yield Path(steps, node)
    for branch in node.branches:
        if with_unknown or not branch.is_unknown:
            yield from _paths(branch.node, (*steps, (node, branch)), with_unknown)


def _taken(node: Node, query_set: QuerySet, query: int, row: Tensor, is_known: bool) -> Branch:
    """The branch that a row goes."""
    text = query_set.describe(query, row) if is_known else ""
    column = query_set.queries[query]
    is_number = isinstance(column, Number) and text not in ("", NOT_GIVEN_TEXT)
    number = column.read(text) if is_number and isinstance(column, Number) else None
    for branch in node.branches:
        if number is None:
            if (is_known and text in branch.choices) or (not is_known and branch.is_unknown):
                return branch
        elif not branch.choices and not branch.is_unknown:
            low, high = (end if end is not None else math.inf for end in (branch.above, branch.up_to))
            if (branch.above is None or number > low) and number <= high:
                return branch
    return next(branch for branch in node.branches if branch.is_unknown)


def _node(session: Session, depth: int) -> Node:
    posterior = session.position.log_posterior[0].exp()
    target = target_of(session.pursuer)
    best = int(posterior.argmax())
    label = target.text(session.prediction) if target else label_text(label_list(session.pursuer.classes)[best])
    believed = (label, posterior, None if target else float(posterior[best]))
    if session.done or not depth:
        return Node(*believed)
    query = session.ask().query
    question = question_of(session.pursuer.query_set, query)
    parts = _number_parts(session, query) if question.kind in ("number", "date") else _choice_parts(session, query)

    def after(move: Callable[[Session], None]) -> Node:
        move(session)
        node = _node(session, depth - 1)
        session.undo()  # cheaper than a session of its own, which makes all moves again
        return node

    total = sum(part.probability for part in parts) or 1.0
    branches = [
        Branch(
            part.text,
            part.choices,
            part.above,
            part.up_to,
            False,
            part.probability / total,
            after(partial(Session.tell, answer=part.value, confirmed=True)),
        )
        for part in parts
    ]
    unknown = Branch(DONT_KNOW, (), None, None, True, 0.0, after(Session.dont_know))
    return Node(*believed, question, (*branches, unknown))


@dataclass(frozen=True)
class _Part:
    """Answers that share a branch, and the one that stands for them."""

    text: str
    value: Any
    probability: float
    choices: tuple[str, ...] = ()
    above: float | None = None
    up_to: float | None = None


def _imagined(session: Session, query: int) -> list[ImaginedAnswer]:
    found = imagined_answers(session.pursuer, session.history, query)
    return [one for one in found if one.text not in (NO_ANSWER, NOT_GIVEN_TEXT)]


def _choice_parts(session: Session, query: int) -> list[_Part]:
    """The choices in the order in which they are offered; the least probable of many share a branch."""
    offered = [choice.value for choice in question_of(session.pursuer.query_set, query).choices]
    likely = {one.text: one.probability or 1 / len(offered) for one in imagined_answers(
        session.pursuer, session.history, query)}  # fmt: skip
    order = sorted(offered, key=lambda choice: -likely.get(choice, 0.0))
    rest = order[MOST_CHOICES - 1 :] if len(order) > MOST_CHOICES else []
    parts = [_Part(choice, choice, likely.get(choice, 0.0), (choice,)) for choice in offered if choice not in rest]
    if rest:
        parts.append(_Part("other answers", rest[0], sum(likely.get(one, 0.0) for one in rest), tuple(rest)))
    return parts


def _number_parts(session: Session, query: int) -> list[_Part]:
    """A number in a few ranges, cut where the belief after it differs most."""
    column = session.pursuer.query_set.queries[query]
    assert isinstance(column, Number)
    pieces = [one for one in _imagined(session, query) if hasattr(one.text, "high")]
    low, high = column.seen or (column.centre - column.spread, column.centre + column.spread)
    if not pieces:  # nobody foresees the answers: above and below the middle
        edges, cuts = [column.centre], [column.centre]
        weights, belief = [0.5, 0.5], None
    else:
        ends = [None if one.text.high is None else column.read(one.text.high) for one in pieces]  # type: ignore[attr-defined]
        order = sorted(range(len(pieces)), key=lambda i: math.inf if ends[i] is None else float(ends[i]))  # type: ignore[arg-type]
        edges = [float(ends[i]) for i in order[:-1]]  # type: ignore[arg-type]
        weights = [pieces[i].probability or 1 / len(pieces) for i in order]
        belief = torch.stack([pieces[i].posterior for i in order]).double()  # (pieces, C)
        cuts = [edges[i] for i in _cuts(torch.tensor(weights).double(), belief)]
    parts = []
    for above, up_to in pairwise([None, *cuts, None]):
        inside = [
            i
            for i, (a, b) in enumerate(pairwise([None, *edges, None]))
            if (above is None or (a is not None and a >= above)) and (up_to is None or (b is not None and b <= up_to))
        ]
        likeliest = max(inside, key=lambda i: weights[i])
        start = edges[likeliest - 1] if likeliest else min(low, edges[0] if edges else low)
        end = edges[likeliest] if likeliest < len(edges) else max(high, edges[-1] if edges else high)
        value = column.written((start + end) / 2) if column.noun == "a date" else (start + end) / 2
        text = _range_text(column, above, up_to)
        parts.append(_Part(text, value, sum(weights[i] for i in inside), (), above, up_to))
    if column.may_be_missing:
        missing = [one.probability for one in imagined_answers(session.pursuer, session.history, query)
                   if one.text == NOT_GIVEN_TEXT]  # fmt: skip
        parts.append(_Part(NOT_GIVEN_TEXT, NOT_GIVEN_TEXT, (missing or [0.0])[0] or 0.0, (NOT_GIVEN_TEXT,)))
    return parts


def _range_text(column: Number, above: float | None, up_to: float | None) -> str:
    if above is None and up_to is None:
        return "any"
    if above is None or up_to is None:
        return f"up to {column.in_words(up_to)}" if up_to is not None else f"above {column.in_words(above or 0.0)}"
    return f"above {column.in_words(above)}, up to {column.in_words(up_to)}"


def _cuts(weight: Tensor, belief: Tensor) -> list[int]:
    """After which of the pieces to cut, so that the mean beliefs of the parts leave the least doubt."""
    parts = [(0, len(weight))]
    for _ in range(MOST_CUTS):
        gains = []
        for first, end in parts:
            for cut in range(first + 1, end):
                ends = ((first, end), (first, cut), (cut, end))
                whole, left, right = (_doubt(weight[a:b], belief[a:b]) for a, b in ends)
                gains.append((float(whole - left - right), (first, end), cut))
        gain, part, cut = max(gains, default=(0.0, (0, 0), 0))
        if gain <= 1e-3:
            break
        place = parts.index(part)
        parts[place : place + 1] = [(part[0], cut), (cut, part[1])]
    return [end - 1 for _, end in parts[:-1]]


def _doubt(weight: Tensor, belief: Tensor) -> Tensor:
    """The entropy of the mean belief of pieces (n, C), times their weight (n,), in bits."""
    total = weight.sum().clamp(min=1e-12)
    mean = (weight[:, None] * belief).sum(dim=0) / total
    return -total * torch.special.xlogy(mean, mean).sum() / math.log(2)
