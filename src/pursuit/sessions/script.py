"""The first questions of an interview as a fixed tree, for programs that cannot choose questions themselves."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pursuit.inference.cuts import pieces
from pursuit.inference.pursuer import Pursuer, label_text
from pursuit.inference.target_bins import target_of
from pursuit.queries import Number, QuerySet
from pursuit.queries.answer_values import Interval
from pursuit.queries.column import NOT_GIVEN_TEXT
from pursuit.sessions.session import Session
from pursuit.sessions.state import Question, question_of
from pursuit.sessions.why import ImaginedAnswer, imagined_answers

MOST_CHOICES = 6
"""Choices that have a branch of their own; of more, the least probable share one."""
LEAST_GAIN = 1e-3
"""The bits about the result that cutting the range of a number must tell."""
DONT_KNOW = "don't know"


@dataclass(frozen=True)
class Branch:
    """Some of the answers to a question, and what follows from them."""

    text: str
    probability: float
    """Of these answers, at this point, of all that are not unknown."""
    node: "Node"
    choices: tuple[str, ...] = ()
    """The choices; empty where the answer is a number or not known."""
    above: float | None = None
    up_to: float | None = None
    """The bounds of numbers, the upper one included; None: no bound."""
    is_unknown: bool = False
    """Whether the person does not know."""

    def holds(self, number: float) -> bool:
        """Whether a number is one of these answers."""
        above = -math.inf if self.above is None else self.above
        up_to = math.inf if self.up_to is None else self.up_to
        return not self.choices and above < number <= up_to


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
    """The way to a node: those before it, with the branch that is taken from each."""

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
        return (path for path in self.ways(with_unknown) if path.end.is_end)

    def ways(self, with_unknown: bool = True) -> Iterator[Path]:
        """The same to all nodes."""
        return _ways(self.root, (), with_unknown)

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


def _ways(node: Node, steps: tuple[tuple[Node, Branch], ...], with_unknown: bool) -> Iterator[Path]:
    yield Path(steps, node)
    for branch in node.branches:
        if with_unknown or not branch.is_unknown:
            yield from _ways(branch.node, (*steps, (node, branch)), with_unknown)


def _taken(node: Node, query_set: QuerySet, query: int, row: Tensor, is_known: bool) -> Branch:
    """The branch that a row goes."""
    *known, unknown = node.branches
    if not is_known:
        return unknown
    text, column = query_set.describe(query, row), query_set.queries[query]
    if isinstance(column, Number) and text != NOT_GIVEN_TEXT:
        number = column.read(text)
        return next((branch for branch in known if branch.holds(number)), unknown)
    return next((branch for branch in known if text in branch.choices), unknown)


def _node(session: Session, depth: int) -> Node:
    posterior, target = session.position.belief, target_of(session.pursuer)
    label = target.text(session.prediction) if target else label_text(session.prediction)
    believed = (label, posterior, None if target else float(posterior.max()))
    if session.done or not depth:
        return Node(*believed)
    query = session.ask().query
    question, column = question_of(session.pursuer.query_set, query), session.pursuer.query_set.queries[query]
    imagined = imagined_answers(session.pursuer, session.history, query)

    def after(answer: Any) -> Node:
        if answer is None:
            session.dont_know()
        else:
            session.tell(answer, confirmed=True)
        node = _node(session, depth - 1)
        session.undo()  # cheaper than a session of its own, which makes all moves again
        return node

    if isinstance(column, Number):
        branches = _number_branches(column, imagined, after)
    else:
        branches = _choice_branches(question, imagined, after)
    total = sum(branch.probability for branch in branches) or 1.0
    known = [replace(branch, probability=branch.probability / total) for branch in branches]
    return Node(*believed, question, (*known, Branch(DONT_KNOW, 0.0, after(None), is_unknown=True)))


After = Callable[[Any], Node]
"""What follows from an answer to the question asked; None: don't know."""


def _choice_branches(question: Question, imagined: Sequence[ImaginedAnswer], after: After) -> list[Branch]:
    """The choices in the order in which they are offered; the least probable of many share a branch."""
    offered = [choice.value for choice in question.choices]
    likely = {one.text: one.probability or 1 / len(offered) for one in imagined}
    order = sorted(offered, key=lambda choice: -likely.get(choice, 0.0))
    rest = order[MOST_CHOICES - 1 :] if len(order) > MOST_CHOICES else []
    own = [choice for choice in offered if choice not in rest]
    branches = [Branch(choice, likely.get(choice, 0.0), after(choice), (choice,)) for choice in own]
    if rest:
        probability = sum(likely.get(one, 0.0) for one in rest)
        branches.append(Branch("other answers", probability, after(rest[0]), tuple(rest)))
    return branches


def _number_branches(column: Number, imagined: Sequence[ImaginedAnswer], after: After) -> list[Branch]:
    """A number in a few ranges, cut where the belief after it differs most."""
    foreseen = [
        (math.inf if one.text.high is None else float(column.read(one.text.high)), one)
        for one in imagined
        if isinstance(one.text, Interval)
    ]
    if foreseen:
        ranges = sorted(foreseen, key=lambda one: one[0])
        edges = [end for end, _ in ranges[:-1]]
        weights = [one.probability or 1 / len(ranges) for _, one in ranges]
        beliefs = torch.stack([one.posterior for _, one in ranges]).double().cpu().numpy()
        parts = pieces(beliefs, np.array(weights), LEAST_GAIN)
    else:  # nobody foresees the answers: above and below the middle
        edges, weights, parts = [column.centre], [0.5, 0.5], [(0, 1), (1, 2)]
    low, high = column.seen or (column.centre - column.spread, column.centre + column.spread)
    limits = [min([low, *edges]), *edges, max([high, *edges])]
    branches = []
    for first, end in parts:
        likeliest = max(range(first, end), key=lambda i: weights[i])
        middle = (limits[likeliest] + limits[likeliest + 1]) / 2
        node = after(column.written(middle) if column.noun == "a date" else middle)
        above, most = edges[first - 1] if first else None, edges[end - 1] if end < len(weights) else None
        text = _range_text(column, above, most)
        branches.append(Branch(text, sum(weights[first:end]), node, above=above, up_to=most))
    if column.may_be_missing:
        missing = next((one.probability for one in imagined if one.text == NOT_GIVEN_TEXT), None)
        branches.append(Branch(NOT_GIVEN_TEXT, missing or 0.0, after(NOT_GIVEN_TEXT), (NOT_GIVEN_TEXT,)))
    return branches


def _range_text(column: Number, above: float | None, up_to: float | None) -> str:
    if above is None:
        return "any" if up_to is None else f"up to {column.in_words(up_to)}"
    if up_to is None:
        return f"above {column.in_words(above)}"
    return f"above {column.in_words(above)}, up to {column.in_words(up_to)}"
