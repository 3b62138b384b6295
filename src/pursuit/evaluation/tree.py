"""The first questions of a pursuer as a tree: what is asked, how many rows go where, and what is believed there."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.evaluation.curves import placed
from pursuit.evaluation.splitting import branches
from pursuit.inference.pursuer import Pursuer, label_list
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import Budget, StoppingRule
from pursuit.inference.target import target_of

N_LEADING = 3
MOST_QUESTIONS = 3
"""How many questions a node shows. Where numbers are cut into ranges, rows of one range may be asked different ones."""


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
    return _Tree(pursuer, rows, stop, depth, device).node(np.arange(len(rows)), 0)


@dataclass
class _Tree:
    """What was asked of each row at each level, and what was believed before that."""

    pursuer: Pursuer
    rows: Rows
    stop: StoppingRule | None
    depth: int
    device: str
    query: np.ndarray = field(init=False)  # (depth + 1, N), -1 where nothing is asked
    answered: np.ndarray = field(init=False)  # (depth + 1, N)
    bits: np.ndarray = field(init=False)  # (depth + 1, N), nan where they are not known
    belief: Tensor = field(init=False)  # (depth + 1, N, C)

    def __post_init__(self) -> None:
        n_levels, n_rows = self.depth + 1, len(self.rows)
        self.query = np.full((n_levels, n_rows), -1)
        self.answered, self.bits = np.zeros((n_levels, n_rows), bool), np.full((n_levels, n_rows), np.nan)
        self.belief = torch.zeros(n_levels, n_rows, len(self.pursuer.classes))
        # One question more than is shown, to know which rows would have gone on.
        until: StoppingRule = Budget(n_levels)
        until = until if self.stop is None else self.stop | until
        with placed(self.pursuer, self.device) as place:
            part = self.rows.to(place)
            for step in pursue_in_batches(
                self.pursuer, part.x, part.available, until, part.initially_known, with_bits=True
            ):
                level, which = step.n_asked.cpu(), step.rows.cpu()
                shown = level < n_levels
                level, which = level[shown], which[shown]
                self.query[level, which] = step.query.cpu()[shown]
                self.answered[level, which] = step.answered.cpu()[shown]
                self.belief[level, which] = step.log_posterior.float().exp().cpu()[shown]
                if step.bits is not None:
                    self.bits[level, which] = step.bits.float().cpu()[shown]

    def node(self, own: np.ndarray, level: int) -> TreeNode:
        """The node of rows `own` (n,), all of which were asked `level` questions."""
        query = self.query[level, own]
        belief = self.belief[level, own]  # (n, C)
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
        query_set, bits = self.pursuer.query_set, self.bits[level, own]
        wording = query_set.queries[query]
        x, answered, after = self.rows.x[own].cpu(), self.answered[level, own], self.belief[level + 1, own]
        parts = branches(query_set, query, x, answered, after)
        return TreeQuestion(
            query,
            wording.name,
            wording.text,
            len(own),
            None if np.isnan(bits).any() else float(bits.mean()),
            tuple(TreeBranch(text, self.node(own[part], level + 1)) for text, part in parts),
        )
