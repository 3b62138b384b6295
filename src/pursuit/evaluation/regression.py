"""How good a pursuer predicts a number: R², errors and the coverage of intervals against queries asked, and what
happens at a stopping rule."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.evaluation.curves import GPU_BATCH_BYTES, GPU_BATCH_ROWS, placed
from pursuit.evaluation.questions import QuestionCounts, QuestionUses, question_uses
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import BATCH_BYTES, pursue, rows_at_once, template_state
from pursuit.inference.stopping import Budget, StoppingRule
from pursuit.inference.target import COVERAGE, TargetBins, target_of
from pursuit.registry import read_as


@dataclass(frozen=True)
class NumberScores:
    """How good the beliefs about some rows are, at one point of their chains."""

    r2: float
    """The share of the variance that the means of the beliefs explain."""
    mae: float
    """The mean absolute error of these means."""
    coverage: float
    """The share of the rows that lie in their 90 % intervals."""
    width: float
    """The mean width of these intervals."""


@dataclass(frozen=True)
class NumbersAtStop(NumberScores):
    """What a stopping rule gives."""

    rule: str
    mean_asked: float
    """Queries asked, on average."""
    mean_answered: float
    """Answers revealed, on average; fewer than `mean_asked` where some queries could not be answered."""
    mean_cost: float
    """What the queries asked cost, on average."""


@dataclass(frozen=True)
class RegressionEvaluation:
    """Measured on rows with numbers. A row that is asked nothing more keeps its last belief."""

    n_rows: int
    n_queries: int
    by_asked: list[NumberScores]
    """Indexed by the number of queries asked, from 0: those that could not be answered count."""
    area: float
    """Mean R² over 1 to the last number of queries asked."""
    all_answers: NumberScores
    at_stop: NumbersAtStop | None
    """What the stopping rule gives."""
    questions: QuestionUses | None = None
    """What is asked until the stopping rule stops."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "questions": self.questions and self.questions.to_list()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RegressionEvaluation":
        """What `to_dict` gave; raises TypeError or ValueError for anything else."""
        questions = values.get("questions")
        found: RegressionEvaluation = read_as(
            cls, {**values, "questions": None if questions is None else {"uses": questions}}
        )
        return found


@torch.no_grad()
def evaluate_regression(
    pursuer: Pursuer,
    rows: Rows,
    numbers: np.ndarray,
    stop: StoppingRule | None = None,
    max_queries: int | None = None,
    device: str = "cpu",
    with_bits: bool = False,
) -> RegressionEvaluation:
    """Ask every row until everything (or `max_queries`) was asked, and once more with the stopping rule; `numbers` (N,)
    are the true ones."""
    target = target_of(pursuer)
    if target is None:
        raise ValueError(f"{type(pursuer).__name__} predicts classes, not a number: measure it by `evaluate`.")
    if len(rows) == 0:
        raise ValueError("There are no rows to measure on: at least one is needed.")
    n_queries = len(pursuer.query_set)
    longest = n_queries if max_queries is None else min(max_queries, n_queries)
    y = torch.tensor(np.asarray(numbers, dtype=np.float64))
    by_asked = torch.zeros(longest + 1, len(rows), 3, dtype=torch.double)
    at_stop, at_end = (torch.zeros(len(rows), 3, dtype=torch.double) for _ in range(2))
    lengths, uses = torch.zeros(len(rows), 3, dtype=torch.double), torch.zeros(6, n_queries, dtype=torch.long)
    with placed(pursuer, device) as place:
        bounds = (GPU_BATCH_ROWS, GPU_BATCH_BYTES) if place.type == "cuda" else (None, BATCH_BYTES)
        template = template_state(pursuer, rows.x[:0].to(place))
        for part in torch.arange(len(rows)).split(rows_at_once(pursuer, *bounds)):
            some = rows.take(part).to(place)
            steps = pursue(pursuer, some.x, some.available, Budget(longest), some.initially_known, template)
            for n_asked, step in enumerate(steps):
                by_asked[n_asked:, part[step.rows.cpu()]] = _summary(target, step.log_posterior)
            everything = History(some.x, some.available, torch.ones_like(some.available))
            at_end[part] = _summary(target, pursuer.log_posterior(everything))
            if stop is None:
                continue
            questions = QuestionCounts(some.counts, n_queries)
            for step in pursue(pursuer, some.x, some.available, stop, some.initially_known, template, with_bits):
                questions.add(step, step.goes_on)
                index = part[step.rows.cpu()]
                at_stop[index] = _summary(target, step.log_posterior)
                standing = step.standing
                counts = (standing.n_asked, standing.n_answered, standing.cost)
                lengths[index] = torch.stack([count.cpu().double() for count in counts], dim=1)
            uses += questions.sums.cpu()
    curve = [_scores(y, summary) for summary in by_asked]
    asked, answered, cost = lengths.mean(dim=0).tolist()
    return RegressionEvaluation(
        n_rows=len(rows),
        n_queries=n_queries,
        by_asked=curve,
        area=sum(point.r2 for point in curve[1:]) / max(1, longest),
        all_answers=_scores(y, at_end),
        at_stop=NumbersAtStop(
            **asdict(_scores(y, at_stop)),
            rule=str(stop),
            mean_asked=asked,
            mean_answered=answered,
            mean_cost=cost,
        )
        if stop
        else None,
        questions=question_uses(pursuer.query_set, uses, len(rows)) if stop else None,
    )


def _summary(target: TargetBins, log_posterior: Tensor) -> Tensor:
    """The mean of each belief (B, C) and the ends of its interval: (B, 3)."""
    posterior = log_posterior.double().cpu().exp()
    return torch.cat([target.mean(posterior)[:, None], target.interval(posterior, COVERAGE)], dim=1)


def _scores(y: Tensor, summary: Tensor) -> NumberScores:
    mean, low, high = summary.unbind(dim=1)
    variance = float(((y - y.mean()) ** 2).mean())
    error = float(((y - mean) ** 2).mean())
    return NumberScores(
        r2=1 - error / variance if variance else float(error == 0),
        mae=float((y - mean).abs().mean()),
        coverage=float(((low <= y) & (y <= high)).double().mean()),
        width=float((high - low).mean()),
    )
