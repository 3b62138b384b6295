"""What is usual: how odd the answers of held-out rows get, to a learner that foresees them."""

from typing import Any

import torch
from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.inference.stopping import Budget
from pursuit.inference.unusual import alarm_limits, oddness
from pursuit.training.calibration import LONGEST, group_of, judged_steps, n_judged


def usual_limits(learner: Any, rows: Rows, max_queries: int | None = None) -> Tensor:
    """From what oddness on answers are unusual (Q + 1,), by how many are known; out of reach where too few rows were
    asked so much."""
    odd, n_known = _oddness(learner, rows.take(slice(n_judged(learner))), max_queries)
    return alarm_limits([odd.cpu()], [n_known.cpu()], group_of(len(learner.query_set)))


def _oddness(learner: Any, rows: Rows, max_queries: int | None) -> tuple[Tensor, Tensor]:
    """How odd answers are along the chains of rows, and how many are known: (N, T) each."""
    longest = min(len(learner.query_set), LONGEST, max_queries or LONGEST)
    query, answered = torch.full((len(rows), longest), -1), torch.zeros(len(rows), longest, dtype=torch.bool)
    for step in judged_steps(learner, rows, Budget(longest)):
        going = step.goes_on
        place = step.rows[going], step.n_asked[going].long()
        query[place], answered[place] = step.query[going], step.answered[going]
    given = None if rows.initially_known is None else rows.initially_known & rows.available
    odd, n_known, _ = oddness(learner, rows.x, given, query, answered)
    return odd, n_known
