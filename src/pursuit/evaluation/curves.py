"""How good a pursuer is: accuracy against queries asked, answers and cost, its area, and what happens at a stopping
rule."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn

from pursuit.data.rows import Rows
from pursuit.evaluation.calibration import (
    UNIT,
    ReliabilityBin,
    StepBeliefs,
    brier_scores,
    calibration_error,
    reliability,
)
from pursuit.evaluation.classes import ClassResults, results_of
from pursuit.evaluation.intervals import accuracy_interval
from pursuit.evaluation.questions import QuestionCounts, QuestionUses, question_uses
from pursuit.evaluation.sums import COST_UNIT, EvaluationSums, class_sums, promised, stop_sums
from pursuit.evaluation.until import Revealed, Within
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState
from pursuit.inference.pursuer import Labels, Pursuer
from pursuit.inference.rollout import BATCH_BYTES, pursue, rows_at_once, template_state
from pursuit.inference.stopping import ROUNDING, Standing, StoppingRule
from pursuit.queries import QuerySet
from pursuit.registry import read_as
from pursuit.training.devices import find_device

COST_POINTS = 50
"""At how many costs accuracy is measured, with 0."""
GPU_BATCH_ROWS, GPU_BATCH_BYTES = 5000, 2**32


@dataclass(frozen=True)
class AtStop:
    """What a stopping rule gives."""

    rule: str
    mean_asked: float
    """Queries asked, on average."""
    mean_answered: float
    """Answers revealed, on average; fewer than `mean_asked` where some queries could not be answered."""
    mean_cost: float
    """What the queries asked cost, on average."""
    accuracy: float
    accuracy_interval: tuple[float, float]
    """Where the accuracy on fresh rows lies with 95 % confidence (Wilson)."""
    mean_confidence: float
    calibration_error: float
    """Mean gap between confidence and accuracy over ten bins of confidence, weighted by their rows."""
    cut_short: float = 0.0
    """Share of the rows that the rule would have asked more, but that were asked `max_queries` queries."""
    brier: float | None = None
    """Mean squared distance of beliefs from the labels, summed over classes; None in results that do not say."""
    decided: float | None = None
    """Share of the rows that the rule decides; None where it promises nothing about these."""
    wrong_of_decided: float | None = None
    """Share of the decided rows that are wrong; None where there are none."""
    covered: float | None = None
    """Share of the rows whose label is among those that remain; None where the rule gives no set of labels."""
    mean_labels: float | None = None
    """How many labels remain, on average."""


@dataclass(frozen=True)
class Evaluation:
    """Measured on rows with labels. A row that is asked nothing more keeps its last belief."""

    n_rows: int
    n_queries: int
    accuracy_by_asked: list[float]
    """Indexed by the number of queries asked, from 0: those that could not be answered count."""
    area: float
    """Mean accuracy over 1 to the last number of queries asked."""
    accuracy_by_answered: list[float]
    """Indexed by the number of answers revealed, from 0: what could not be answered is asked for nothing."""
    area_by_answered: float
    """Mean accuracy over 1 to the last number of answers."""
    accuracy_all_answers: float
    at_stop: AtStop | None
    """What the stopping rule gives."""
    trade_off: list[AtStop] = field(default_factory=list)
    """What further stopping rules give on the same rows: length against accuracy."""
    accuracy_by_cost: list[tuple[float, float]] = field(default_factory=list)
    """(cost, accuracy) of what is believed before more than that cost is spent, at equal steps from 0 to the most that
    the queries of `accuracy_by_asked` can cost. Empty where every query costs 1: cost is then the number asked."""
    area_by_cost: float | None = None
    """Mean accuracy over these costs, without 0; None where there are none."""
    by_class: ClassResults | None = None
    """What the stopping rule gives class by class; None where it was not asked for."""
    questions: QuestionUses | None = None
    """What is asked until the stopping rule stops; None where it was not asked for."""
    reliability: tuple[ReliabilityBin, ...] | None = None
    """How often beliefs of each confidence are right at the stopping rule; None where it was not asked for."""
    confidence_by_asked: list[float] = field(default_factory=list)
    """Mean confidence by the number of queries asked, beside `accuracy_by_asked`."""
    calibration_error_by_asked: list[float] = field(default_factory=list)
    """Mean gap between confidence and accuracy over ten bins of confidence, by the number of queries asked."""
    brier_by_asked: list[float] = field(default_factory=list)
    """Mean squared distance of beliefs from the labels, summed over classes, by the number of queries asked."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "questions": self.questions and self.questions.to_list()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Evaluation":
        """What `to_dict` gave; raises TypeError or ValueError for anything else."""
        uses = values.get("questions")
        found: Evaluation = read_as(cls, {**values, "questions": None if uses is None else {"uses": uses}})
        return found


@torch.no_grad()
def evaluate(
    pursuer: Pursuer,
    rows: Rows,
    stop: StoppingRule | None = None,
    max_queries: int | None = None,
    device: str = "cpu",
    batch_rows: int | None = None,
    trade_off: Sequence[StoppingRule] = (),
    in_detail: bool = False,
    with_bits: bool = False,
) -> Evaluation:
    """Ask every row until everything (or `max_queries`) is answered, and look back for the stopping rules.

    `in_detail`, it also says what `stop` gives class by class, and which questions are asked until then; `with_bits`,
    how much these were expected to tell even where that takes more computing.

    `max_queries` bounds what is asked, answered or not, in all but the curve by answers. Rules that restrict what is
    asked, such as a cost budget, have chains of their own. Rows go a bounded batch at a time. A pursuer that is a
    module computes on `device` and is back where it was afterwards.
    """
    setting = Setting.of(pursuer, stop, max_queries, trade_off, in_detail)
    return setting.evaluation(evaluation_sums(pursuer, rows, setting, device, batch_rows, with_bits))


@torch.no_grad()
def evaluation_sums(
    pursuer: Pursuer,
    rows: Rows,
    setting: "Setting",
    device: str = "cpu",
    batch_rows: int | None = None,
    with_bits: bool = False,
) -> EvaluationSums:
    """What `evaluate` counts on some rows. Sums of other rows in the same setting may be added, and
    `setting.evaluation` makes of them what `evaluate` gives for all."""
    if len(rows) == 0:
        raise ValueError("There are no rows to measure on: at least one is needed.")
    with placed(pursuer, device) as place:
        bounds = (GPU_BATCH_ROWS, GPU_BATCH_BYTES) if place.type == "cuda" else (None, BATCH_BYTES)
        batch_rows = batch_rows or rows_at_once(pursuer, *bounds)
        template = template_state(pursuer, rows.x[:0].to(place))
        starts = range(0, len(rows), batch_rows)
        parts = (rows.take(slice(start, start + batch_rows)).to(place) for start in starts)
        return reduce(add, (_count(pursuer, part, setting, template, with_bits) for part in parts))


@dataclass(frozen=True)
class Setting:
    """What is evaluated, the same for whatever rows: evaluations with the same setting can be added by their sums."""

    query_set: QuerySet
    classes: Labels
    longest: int
    rules: tuple[StoppingRule, ...]
    has_stop: bool
    """Whether the first rule is the one to stop by; all others are the trade-off."""
    in_detail: bool

    @classmethod
    def of(
        cls,
        pursuer: Pursuer,
        stop: StoppingRule | None = None,
        max_queries: int | None = None,
        trade_off: Sequence[StoppingRule] = (),
        in_detail: bool = False,
    ) -> "Setting":
        n_queries = len(pursuer.query_set)
        longest = n_queries if max_queries is None else min(max_queries, n_queries)
        rules = tuple(rule for rule in (stop, *trade_off) if rule is not None)
        has_stop = stop is not None
        return cls(pursuer.query_set, pursuer.classes, longest, rules, has_stop, in_detail and has_stop)

    @property
    def costs(self) -> Tensor:
        return cost_grid(self.query_set.costs, self.longest)

    def evaluation(self, sums: EvaluationSums) -> Evaluation:
        """What the sums of all rows say."""
        costs, in_detail = self.costs, self.in_detail
        found = [_summary(*of_rule, sums.n_rows) for of_rule in zip(self.rules, sums.at_stops, sums.bins, strict=True)]
        accuracy = (sums.curves.cumsum(dim=1).double() / sums.n_rows).tolist()
        by_asked, by_answered = (curve[: self.longest + 1] for curve in accuracy[:2])
        by_cost = accuracy[2][: len(costs)]
        return Evaluation(
            n_rows=sums.n_rows,
            n_queries=len(self.query_set),
            accuracy_by_asked=by_asked,
            area=_area(by_asked),
            accuracy_by_answered=by_answered,
            area_by_answered=_area(by_answered),
            accuracy_all_answers=sums.right_with_all / sums.n_rows,
            at_stop=found[0] if self.has_stop else None,
            trade_off=found[1:] if self.has_stop else found,
            accuracy_by_cost=list(zip(costs.tolist(), by_cost, strict=True)),
            area_by_cost=_area(by_cost) if by_cost else None,
            by_class=results_of(self.classes, sums.confusion, sums.asked_by_class) if in_detail else None,
            questions=question_uses(self.query_set, sums.questions, sums.n_rows) if in_detail else None,
            reliability=reliability(sums.bins[0]) if in_detail else None,
            confidence_by_asked=sums.by_step.confidence,
            calibration_error_by_asked=sums.by_step.calibration_error,
            brier_by_asked=sums.by_step.brier,
        )


def _count(pursuer: Pursuer, rows: Rows, setting: Setting, template: HistoryState, with_bits: bool) -> EvaluationSums:
    """The sums of a batch of rows, which are where the pursuer is."""
    place, longest, n_queries = rows.x.device, setting.longest, len(setting.query_set)
    costs = setting.costs.to(place, torch.float)
    curves = _Curves(max(longest + 1, len(costs)), longest, costs)
    counts = rows.counts
    questions = QuestionCounts(counts, n_queries) if setting.in_detail else None
    beliefs = StepBeliefs(longest + 1, counts)
    chains = _Chains(pursuer, rows, longest, template, with_bits)
    at_stops = chains.at_stops(setting.rules, curves, beliefs, questions)  # (rules, B, 11)
    everything = torch.ones_like(rows.available)  # was asked, answered or not
    all_answers = pursuer.log_posterior(History(rows.x, rows.available, everything))
    confusion, asked = torch.zeros(0, 0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    if setting.in_detail:
        confusion, asked = class_sums(rows.y.cpu(), at_stops[0], len(setting.classes), counts.cpu())
    return EvaluationSums(
        int(counts.sum()),
        int(counts[all_answers.argmax(dim=1) == rows.y].sum()),
        curves.changes.cpu(),
        beliefs.sums(),
        *stop_sums(at_stops, counts.cpu()),
        confusion,
        asked,
        torch.zeros(6, n_queries, dtype=torch.long) if questions is None else questions.sums.cpu(),
    )


def cost_grid(costs: Tensor, longest: int) -> Tensor:
    """Where accuracy against cost is measured (n,): from 0 to the most that `longest` queries can cost, so that it is
    the same for all pursuers. Empty where every query costs 1, or nothing."""
    most = costs.double().topk(longest).values.sum().cpu()
    if (costs == 1).all() or not most:
        return torch.empty(0, dtype=torch.double)
    return torch.linspace(0, float(most), COST_POINTS, dtype=torch.double)


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


class _Curves:
    """By how much the number of rows that are right changes with each query, each answer, and each step of cost."""

    def __init__(self, n_points: int, longest: int, costs: Tensor):
        self.longest, self.costs = longest, costs
        self.changes = torch.zeros(3, n_points, dtype=torch.long, device=costs.device)

    def add(self, n_asked: int, standing: Standing, change: Tensor) -> None:
        """By how many rows (b,) those that are right changed with the last query of rows that stand here."""
        by_asked, by_answered, by_cost = self.changes
        by_answered.index_add_(0, standing.n_answered, change)
        if n_asked > self.longest:
            return
        by_asked[n_asked] += change.sum()
        if len(self.costs):
            # The first cost that is enough, however the sum of what was spent is rounded.
            enough = torch.searchsorted(self.costs, standing.cost * (1 - ROUNDING))
            by_cost.index_add_(0, enough.clamp(max=len(self.costs) - 1), change)


@dataclass(frozen=True)
class _Chains:
    """How the rows of a batch are asked, and by how many queries at most they are judged."""

    pursuer: Pursuer
    rows: Rows
    longest: int
    template: HistoryState
    with_bits: bool

    def at_stops(
        self, rules: Sequence[StoppingRule], curves: _Curves, beliefs: StepBeliefs, questions: QuestionCounts | None
    ) -> Tensor:
        """Where each of the rules stops (rules, B, 11): queries asked, answers, cost, whether the belief is right, its
        confidence, whether it was cut short, the label predicted, the Brier score, and what is `promised`. The rows
        that are right on the way are added to the curves, what is believed there to `beliefs`, and what is asked until
        the first rule stops to the questions."""
        costs = self.pursuer.query_set.costs
        restricts = [rule.affordable(torch.zeros(1, device=costs.device), costs) is not None for rule in rules]
        free = [rule for rule, is_restricted in zip(rules, restricts, strict=True) if not is_restricted]
        of_first = [questions if i == 0 else None for i in range(len(rules))]
        of_free = None if not rules or restricts[0] else questions
        in_common = iter(self._look_back(free, Revealed(self.longest, free), (curves, beliefs), of_free))
        found = [
            self._look_back([rule], Within(self.longest, rule), None, counts)[0] if is_restricted else next(in_common)
            for rule, is_restricted, counts in zip(rules, restricts, of_first, strict=True)
        ]
        return torch.stack(found).cpu() if found else torch.empty(0, len(self.rows), 11)

    def _look_back(
        self,
        rules: Sequence[StoppingRule],
        until: "Revealed | Within",
        on_the_way: tuple[_Curves, StepBeliefs] | None,
        questions: QuestionCounts | None,
    ) -> Tensor:
        """The same (rules, B, 11) for rules on the chains that end with `until`."""
        rows, n_rows, device = self.rows, len(self.rows), self.rows.x.device
        was_right = torch.zeros(n_rows, dtype=torch.long, device=device)
        row_counts = rows.counts
        at_stop = torch.zeros(len(rules), n_rows, 11, device=device)
        has_stopped = torch.zeros(len(rules), n_rows, dtype=torch.bool, device=device)
        memories = [rule.start(n_rows, device) for rule in rules]
        with_bits = self.with_bits and questions is not None
        steps = pursue(self.pursuer, rows.x, rows.available, until, rows.initially_known, self.template, with_bits)
        for n_asked, step in enumerate(steps):
            r, standing = step.rows, step.standing
            highest = step.log_posterior.max(dim=1)
            is_right = (highest.indices == rows.y[r]).long()
            confidence, brier = highest.values.float().exp(), brier_scores(step.log_posterior, rows.y[r])
            if on_the_way is not None:
                curves, beliefs = on_the_way
                curves.add(n_asked, standing, (is_right - was_right[r]) * row_counts[r])
                was_right[r] = is_right
                beliefs.add(n_asked, r, confidence, is_right, brier)
            stayed = step.goes_on.nonzero()[:, 0]
            at_limit = n_asked >= self.longest
            for i, rule in enumerate(rules):
                enough, memory = rule.step(memories[i], standing)
                now = (enough | ~step.goes_on | at_limit) & ~has_stopped[i, r]
                is_cut = until.would_ask_more(step) & ~enough & (at_limit and self.longest < rows.n_queries)
                counts = standing.n_asked, standing.n_answered, standing.cost
                known = (*counts, is_right, confidence, is_cut, highest.indices, brier)
                state = (*known, *promised(rule, standing, rows.y[r]))
                seen = torch.stack([part.float() for part in state], dim=1)
                at_stop[i, r] = torch.where(now[:, None], seen, at_stop[i, r])
                has_stopped[i, r] |= now
                memories[i] = memory[stayed]
            if questions is not None:
                questions.add(step, ~has_stopped[0, r])
        return at_stop


def _area(accuracy: Sequence[float]) -> float:
    """The mean of a curve without its first point, where nothing was asked."""
    return sum(accuracy[1:]) / max(1, len(accuracy) - 1)


def _summary(stop: StoppingRule, sums: Tensor, bins: Tensor, n_rows: int) -> AtStop:
    """What a rule gives, from sums (10,) and bins (N_BINS, 3) of its rows."""
    asked, answered, cost, cut, brier, decided, wrong, left, covered, n_labels = sums.tolist()
    n, confidence, right = bins.double().unbind(dim=1)
    n_right = int(right.sum())
    return AtStop(
        str(stop),
        asked / n_rows,
        answered / n_rows,
        cost / COST_UNIT / n_rows,
        n_right / n_rows,
        accuracy_interval(n_right, n_rows),
        float(confidence.sum()) / UNIT / n_rows,
        float(calibration_error(n, confidence / UNIT, right)),
        cut / n_rows,
        brier / UNIT / n_rows,
        decided / n_rows if decided or left else None,
        wrong / decided if decided else None,
        covered / n_rows if n_labels else None,
        n_labels / n_rows if n_labels else None,
    )
