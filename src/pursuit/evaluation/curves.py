"""How good a pursuer is: accuracy against the number of answers, its area, and what happens at a stopping rule."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pursuit.data.rows import Rows
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import BATCH_BYTES, BATCH_ROWS, pursue, rows_at_once, template_state
from pursuit.inference.stopping import StoppingRule
from pursuit.training.devices import find_device

CALIBRATION_BINS = 10
GPU_BATCH_ROWS, GPU_BATCH_BYTES = 5000, 2**32


@dataclass(frozen=True)
class AtStop:
    """What a stopping rule gives."""

    rule: str
    mean_answered: float
    """Answers revealed, on average."""
    mean_asked: float
    """Queries asked, on average; more than `mean_answered` where some could not be answered."""
    accuracy: float
    accuracy_interval: tuple[float, float]
    """Where the accuracy on fresh rows lies with 95 % confidence (Wilson)."""
    mean_confidence: float
    calibration_error: float
    """Mean gap between confidence and accuracy over ten bins of confidence, weighted by their rows."""
    cut_short: float = 0.0
    """Share of the rows that the rule would have asked more, but that were asked `max_queries` queries."""


@dataclass(frozen=True)
class Evaluation:
    """Measured on rows with labels. Accuracy lists are indexed by the number of answers revealed, from 0."""

    n_rows: int
    n_queries: int
    accuracy_by_answered: list[float]
    area: float
    """Mean accuracy over 1 to the last number of answers."""
    accuracy_all_answers: float
    at_stop: AtStop | None
    """What the stopping rule gives."""
    trade_off: list[AtStop] = field(default_factory=list)
    """What further stopping rules give on the same chains: length against accuracy."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@torch.no_grad()
def evaluate(
    pursuer: Pursuer,
    rows: Rows,
    stop: StoppingRule | None = None,
    max_queries: int | None = None,
    device: str = "cpu",
    batch_rows: int | None = None,
    trade_off: Sequence[StoppingRule] = (),
) -> Evaluation:
    """Ask every row until everything (or `max_queries`) is answered, and look back for the stopping rules.

    Rows go a bounded batch at a time. At a stopping rule, `max_queries` bounds what is asked, answered or not. A
    pursuer that is a module computes on `device` and is back where it was afterwards.
    """
    if len(rows) == 0:
        raise ValueError("There are no rows to measure on: at least one is needed.")
    n_queries = len(pursuer.query_set)
    longest = n_queries if max_queries is None else min(max_queries, n_queries)
    stops = [rule for rule in (stop, *trade_off) if rule is not None]
    changes, right_with_all = torch.zeros(longest + 1, dtype=torch.double), 0.0
    stopped: list[Tensor] = []
    with placed(pursuer, device) as place:
        bounds = (GPU_BATCH_ROWS, GPU_BATCH_BYTES) if place.type == "cuda" else (BATCH_ROWS, BATCH_BYTES)
        batch_rows = batch_rows or rows_at_once(pursuer, *bounds)
        template = template_state(pursuer, rows.x[:0].to(place))
        for start in range(0, len(rows), batch_rows):
            part = rows.take(torch.arange(start, min(start + batch_rows, len(rows)))).to(place)
            change, at_stop = _evaluate_batch(pursuer, part, stops, longest, template)
            changes += change
            everything = torch.ones_like(part.available)  # was asked, answered or not
            all_answers = pursuer.log_posterior(History(part.x, part.available, everything))
            right_with_all += _right(all_answers, part.y).sum().item()
            stopped.append(at_stop)
    accuracy = (changes.cumsum(dim=0) / len(rows)).tolist()
    area = sum(accuracy[1:]) / max(1, len(accuracy) - 1)
    found = [_summary(rule, at_stop) for rule, at_stop in zip(stops, torch.cat(stopped, dim=1), strict=True)]
    first, others = (None, found) if stop is None else (found[0], found[1:])
    return Evaluation(len(rows), n_queries, accuracy, area, right_with_all / len(rows), first, others)


@contextmanager
def placed(pursuer: Pursuer, device: str) -> Iterator[torch.device]:
    """The pursuer on a device, with the precision that is fast there; `auto` is an NVIDIA GPU where there is one."""
    place = find_device(device)
    if not isinstance(pursuer, nn.Module) or place.type == "cpu":
        yield torch.device("cpu")
        return
    pursuer.to(place).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        with torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda"):
            yield place
    finally:
        pursuer.to("cpu").to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def _evaluate_batch(
    pursuer: Pursuer, rows: Rows, rules: Sequence[StoppingRule], longest: int, template: HistoryState
) -> tuple[Tensor, Tensor]:
    """By how much the number of rows that are right grows with the k-th answer (longest + 1,), and (queries, asked,
    right, confidence, whether it was cut short) where each of the rules stops (rules, B, 5)."""
    n_rows, device = len(rows), rows.x.device
    # A row without further answers keeps its last belief: it changes no more.
    changes, was_right = torch.zeros(longest + 1, device=device), torch.zeros(n_rows, device=device)
    at_stop = torch.zeros(len(rules), n_rows, 5, device=device)
    has_stopped = torch.zeros(len(rules), n_rows, dtype=torch.bool, device=device)
    memories = [rule.start(n_rows, device) for rule in rules]
    steps = pursue(pursuer, rows.x, rows.available, _Revealed(longest), rows.initially_known, template)
    for n_asked, step in enumerate(steps):
        r, known = step.rows, step.n_answered
        is_right = _right(step.log_posterior, rows.y[r]).float()
        changes.index_add_(0, known, is_right - was_right[r])
        was_right[r] = is_right
        asked = torch.full_like(r, n_asked)
        confidence = step.log_posterior.max(dim=1).values.exp().float()
        stayed = step.goes_on.nonzero()[:, 0]
        at_limit = asked >= longest
        for i, rule in enumerate(rules):
            enough, memory = rule.step(memories[i], step.log_posterior, asked, known)
            now = (enough | at_limit | ~step.goes_on) & ~has_stopped[i, r]
            is_cut = at_limit & ~enough & (longest < rows.n_queries)
            seen = torch.stack([known.float(), asked.float(), is_right, confidence, is_cut.float()], dim=1)
            at_stop[i, r] = torch.where(now[:, None], seen, at_stop[i, r])
            has_stopped[i, r] |= now
            memories[i] = memory[stayed]
    return changes.cpu(), at_stop.cpu()


class _Revealed(StoppingRule):
    """Goes on until `n` answers are revealed, however many queries that takes."""

    def __init__(self, n: int):
        self.n = n

    def step(self, memory: Tensor, log_posterior: Tensor, n_asked: Tensor, n_answered: Tensor) -> tuple[Tensor, Tensor]:
        return n_answered >= self.n, memory


def _right(log_posterior: Tensor, y: Tensor) -> Tensor:
    return log_posterior.argmax(dim=1) == y


def _summary(stop: StoppingRule, at_stop: Tensor) -> AtStop:
    queries, asked, right, confidence, is_cut = at_stop.double().unbind(dim=1)
    bins = (confidence * CALIBRATION_BINS).long().clamp(max=CALIBRATION_BINS - 1)
    gaps = torch.zeros(CALIBRATION_BINS, dtype=torch.double).index_add(0, bins, confidence - right)
    accuracy = right.mean().item()
    return AtStop(
        str(stop),
        queries.mean().item(),
        asked.mean().item(),
        accuracy,
        accuracy_interval(int(right.sum()), len(right)),
        confidence.mean().item(),
        (gaps.abs().sum() / len(right)).item(),
        is_cut.mean().item(),
    )


def accuracy_interval(n_right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of an accuracy; unlike the normal one it is right near 0 and 1."""
    from scipy.stats import binomtest  # takes half a second to import

    interval = binomtest(n_right, n).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)
