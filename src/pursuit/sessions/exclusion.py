"""Beliefs without the labels that a person said are wrong, and what questions tell about those that are left."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pursuit.inference.chain import doubt
from pursuit.inference.history import History
from pursuit.inference.pursuer import LEAST_PROBABILITY, PossibleAnswer, Pursuer

EXCLUDED = -1e4
"""The log probability of what is excluded: its exponential is zero, and their product is, too."""
LEAST = -1e3
"""The least log probability of other labels, so that these share the belief even where all of them were ruled out."""


def without(log_posterior: Tensor, excluded: Sequence[int]) -> Tensor:
    """The belief (..., C) about the labels that are left, which sum to one."""
    if not excluded:
        return log_posterior
    left = log_posterior.clamp(min=LEAST).index_fill(-1, _index(excluded, log_posterior), -torch.inf)
    return left.log_softmax(dim=-1).clamp(min=EXCLUDED)


def answers_without(answers: Sequence[PossibleAnswer], excluded: Sequence[int]) -> tuple[PossibleAnswer, ...]:
    """What may be answered, by Bayes, once some labels are excluded."""
    if not excluded or not answers:
        return tuple(answers)
    left = [
        answer.posterior.index_fill(0, _index(excluded, answer.posterior), 0) * answer.probability for answer in answers
    ]
    total = float(sum(part.sum() for part in left))
    if total <= LEAST_PROBABILITY:
        return ()
    shares = [float(part.sum()) / total for part in left]
    return tuple(
        PossibleAnswer(answer.text, share, part / part.sum())
        for answer, part, share in zip(answers, left, shares, strict=True)
        if share > LEAST_PROBABILITY
    )


@torch.no_grad()
def information_without(
    pursuer: Pursuer, history: History, log_posterior: Tensor, excluded: Sequence[int], asked: Tensor
) -> Tensor | None:
    """The bits (1, Q) that each query not `asked` (1, Q) is expected to tell about the labels left, at the belief
    (1, C) about them in a history of one row; None for a pursuer without a model of the answers. Other queries have
    none."""
    at_belief, foresee = (getattr(pursuer, name, None) for name in ("information_at", "possible_answers"))
    if at_belief is not None and (bits := at_belief(history, log_posterior)) is not None:
        return bits.masked_fill(asked, 0)
    if foresee is None:
        return None
    bits, now = torch.zeros(asked.shape, device=log_posterior.device), doubt(log_posterior[0].exp())
    for query in (~asked[0]).nonzero()[:, 0].tolist():
        answers = answers_without(foresee(history, query), excluded)
        if not answers:
            return None
        after = sum(answer.probability * doubt(answer.posterior) for answer in answers)
        bits[0, query] = max(0.0, now - after)
    return bits


def _index(labels: Sequence[int], like: Tensor) -> Tensor:
    return torch.tensor(labels, dtype=torch.long, device=like.device)
