"""How well a pursuer predicts a number: R², errors and the coverage of intervals against queries asked, and what
happens at a stopping rule."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pursuit.evaluation.counts import QuestionCounter, QuestionCounts
from pursuit.evaluation.curves import few_of
from pursuit.evaluation.details import QuestionUses
from pursuit.evaluation.rollouts import Trace, placed, row_batches
from pursuit.inference import html
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import RolloutStep
from pursuit.inference.stopping import Budget, StoppingRule
from pursuit.inference.target_bins import COVERAGE, TargetBins, target_of
from pursuit.registry import read_as
from pursuit.training.rows import Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

    def _repr_html_(self) -> str:
        """The errors as a notebook shows them."""
        few = few_of(len(self.by_asked) - 1)
        rows = [[str(n), *_score_cells(self.by_asked[n])] for n in few] + [
            ["all answers", *_score_cells(self.all_answers)]
        ]
        title = f"Numbers of {self.n_rows:,} rows, {self.n_queries:,} queries"
        return html.block(title, html.table(("queries asked", "R²", "mean absolute error"), rows))

    def plot(self, path: str | Path | None = None, title: str = "") -> "Figure":
        """R² against queries asked, with the R² of all answers."""
        from pursuit.evaluation.figures import INK, accuracy_curve, save_figure

        curve = [scores.r2 for scores in self.by_asked]
        figure = accuracy_curve({"R²": curve}, None, title)
        figure.axes[0].set_ylabel("R²")
        figure.axes[0].axhline(self.all_answers.r2, color=INK, linestyle="--", linewidth=1.2)
        return save_figure(figure, path)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RegressionEvaluation":
        """What `to_dict` gave; raises TypeError or ValueError for anything else."""
        found: RegressionEvaluation = read_as(cls, values)
        return found


def _score_cells(scores: NumberScores) -> list[str]:
    return [html.Bar(f"{scores.r2:.3f}", scores.r2), f"{scores.mae:.4g}"]


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
    uses, parts, stopped_parts, final_parts = QuestionCounts.zeros(n_queries), [], [], []
    with placed(pursuer, device) as place:
        for batch in row_batches(pursuer, rows, place):
            own = batch.rows
            parts.append(NumberTrace.of(pursuer, batch, Budget(longest)).steps(longest + 1).cpu())
            everything = History(own.x, own.available, torch.ones_like(own.available))
            final_parts.append(_predictions(target, pursuer.log_posterior(everything)))
            if stop is not None:
                counter = QuestionCounter(n_queries, own.counts)
                stopped_parts.append(NumberTrace.of(pursuer, batch, stop, with_bits, counter.watch).last().cpu())
                uses += counter.counts.cpu()
    y, chains = torch.tensor(np.asarray(numbers, dtype=np.float64)), NumberTrace.joined(parts)
    curve = [_scores(y, *point) for point in zip(chains.mean, chains.low, chains.high, strict=True)]
    at_stop = None
    if stop is not None:
        stopped = NumberTrace.joined(stopped_parts)
        at_stop = NumbersAtStop(
            **asdict(_scores(y, stopped.mean[0], stopped.low[0], stopped.high[0])),
            rule=str(stop),
            mean_asked=float(stopped.n_asked.double().mean()),
            mean_answered=float(stopped.n_answered.double().mean()),
            mean_cost=float(stopped.cost.double().mean()),
        )
    return RegressionEvaluation(
        n_rows=len(rows),
        n_queries=n_queries,
        by_asked=curve,
        area=sum(point.r2 for point in curve[1:]) / max(1, longest),
        all_answers=_scores(y, *map(torch.cat, zip(*final_parts, strict=True))),
        at_stop=at_stop,
        questions=QuestionUses.of(pursuer.query_set, uses, len(rows)) if stop else None,
    )


@dataclass(frozen=True)
class NumberTrace(Trace):
    """The predicted numbers besides, (T, B) each."""

    mean: Tensor
    low: Tensor
    """The lower end of the 90 % interval."""
    high: Tensor

    @staticmethod
    def describe(step: RolloutStep, y: Tensor) -> tuple[Tensor, ...]:
        assert step.standing.target is not None
        return _predictions(step.standing.target, step.log_posterior)


def _predictions(target: TargetBins, log_posterior: Tensor) -> tuple[Tensor, ...]:
    """The mean of each belief (B, C), and the ends of its interval: (B,) each, in the main memory."""
    posterior = log_posterior.double().cpu().exp()
    return target.mean(posterior), *target.interval(posterior, COVERAGE).unbind(dim=1)


def _scores(y: Tensor, mean: Tensor, low: Tensor, high: Tensor) -> NumberScores:
    variance = float(((y - y.mean()) ** 2).mean())
    error = float(((y - mean) ** 2).mean())
    return NumberScores(
        r2=1 - error / variance if variance else float(error == 0),
        mae=float((y - mean).abs().mean()),
        coverage=float(((low <= y) & (y <= high)).double().mean()),
        width=float((high - low).mean()),
    )
