"""How good a pursuer is: accuracy against queries asked, answers and cost, its area, and what happens at a stopping
rule."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pursuit.evaluation.calibration import ReliabilityBin, accuracy_interval
from pursuit.evaluation.counts import (
    COST_UNIT,
    BeliefCounts,
    EvaluationCounts,
    QuestionCounter,
    QuestionCounts,
    StopCounts,
    StoppedRows,
    count_changes,
    count_classes,
)
from pursuit.evaluation.details import ClassResult, ClassResults, QuestionUses
from pursuit.evaluation.rollouts import Batch, ClassTrace, placed, row_batches
from pursuit.inference import html
from pursuit.inference.history import History
from pursuit.inference.pursuer import Labels, Pursuer
from pursuit.inference.rollout import RolloutStep
from pursuit.inference.stopping import ROUNDING, Standing, StoppingRule
from pursuit.queries import QuerySet
from pursuit.registry import read_as
from pursuit.training.rows import Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST_POINTS = 50
"""At how many costs accuracy is measured, with 0."""


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
    """How good a pursuer is on rows with labels. A row that is asked nothing more keeps its last belief."""

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

    @property
    def most_frequent(self) -> ClassResult | None:
        """The class of most rows; None where results were not asked for class by class."""
        return None if self.by_class is None else max(self.by_class.classes, key=lambda result: result.n_rows)

    def _repr_html_(self) -> str:
        """The accuracy as a notebook shows it."""
        last = len(self.accuracy_by_asked) - 1
        rows = [[str(n), html.Bar(f"{self.accuracy_by_asked[n]:.1%}", self.accuracy_by_asked[n])] for n in few_of(last)]
        rows.append(["all answers", html.Bar(f"{self.accuracy_all_answers:.1%}", self.accuracy_all_answers)])
        stop = self.at_stop
        at_stop = (
            f"By the rule {stop.rule}: {stop.accuracy:.1%} right after {stop.mean_asked:.1f} queries on average, at a "
            f"mean confidence of {stop.mean_confidence:.1%}."
            if stop
            else ""
        )
        title = f"Accuracy on {self.n_rows:,} rows, {self.n_queries:,} queries"
        return html.block(title, html.paragraph(at_stop), html.table(("queries asked", "accuracy"), rows))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Evaluation":
        """What `to_dict` gave; raises TypeError or ValueError for anything else."""
        found: Evaluation = read_as(cls, values)
        return found

    def plot(self, path: str | Path | None = None, title: str = "", name: str = "accuracy") -> "Figure":
        """Accuracy against queries asked, with the stopping rule and the accuracy with all answers."""
        from pursuit.evaluation.figures import accuracy_curve

        stops = {name: (self.at_stop.mean_asked, self.at_stop.accuracy)} if self.at_stop else None
        return accuracy_curve({name: self.accuracy_by_asked}, path, title, stops, self.accuracy_all_answers)

    def plot_reliability(self, path: str | Path | None = None, title: str = "") -> "Figure":
        """How often beliefs of each confidence are right at the stopping rule, and mean confidence and accuracy after
        each query."""
        from pursuit.evaluation.figures import reliability_figure

        stop = self.at_stop
        remark = f"at {stop.rule}: calibration error {stop.calibration_error:.3f}" if stop else ""
        beside = (self.accuracy_by_asked, self.confidence_by_asked)
        return reliability_figure(self.reliability or (), *beside, path, title, remark)


def few_of(last: int) -> list[int]:
    """Some of the numbers from 0 to the last one, close to each other at first."""
    return [n for n in (0, 1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 200, 500, 1000) if n < last] + [last]


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

    `in_detail` adds the results of `stop` class by class and query by query; `with_bits` also computes the information
    expected of each query where the pursuer does not compute it anyway.

    `max_queries` bounds what is asked, answered or not, in all but the curve by answers. Rules that restrict what is
    asked, such as a cost budget, have chains of their own. Rows are processed in batches of bounded size. A pursuer
    that is a module computes on `device` and is moved back afterwards.
    """
    setting = Setting.of(pursuer, stop, max_queries, trade_off, in_detail)
    return setting.evaluation(evaluation_counts(pursuer, rows, setting, device, batch_rows, with_bits))


@torch.no_grad()
def evaluation_counts(
    pursuer: Pursuer,
    rows: Rows,
    setting: "Setting",
    device: str = "cpu",
    batch_rows: int | None = None,
    with_bits: bool = False,
) -> EvaluationCounts:
    """What `evaluate` counts on some rows. Counts of other rows with the same setting may be added, and
    `setting.evaluation` turns the total into what `evaluate` gives for all rows."""
    if len(rows) == 0:
        raise ValueError("There are no rows to measure on: at least one is needed.")
    with placed(pursuer, device) as place:
        batches = row_batches(pursuer, rows, place, batch_rows)
        return reduce(add, (_count_batch(pursuer, batch, setting, with_bits) for batch in batches))


@dataclass(frozen=True)
class Setting:
    """What is evaluated, whatever the rows: counts with the same setting can be added."""

    query_set: QuerySet
    classes: Labels
    longest: int
    """The number of queries at which curves end."""
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
        """The costs (P,) at which accuracy is measured: from 0 to the most that `longest` queries can cost, so that it
        is the same for all pursuers. Empty where every query costs 1, or nothing."""
        costs = self.query_set.costs
        most = costs.double().topk(self.longest).values.sum().cpu()
        if (costs == 1).all() or not most:
            return torch.empty(0, dtype=torch.double)
        return torch.linspace(0, float(most), COST_POINTS, dtype=torch.double)

    def evaluation(self, counts: EvaluationCounts) -> Evaluation:
        """The result, from the counts of all rows."""
        n_rows = int(counts.n_rows)
        stops = [_at_stop(rule, counts, i) for i, rule in enumerate(self.rules)]
        by_asked, asked = counts.by_asked, counts.by_asked.accuracy.tolist()
        answered, by_cost = (
            (changes.cumsum(dim=0).double() / n_rows).tolist() for changes in (counts.by_answered, counts.by_cost)
        )
        return Evaluation(
            n_rows=n_rows,
            n_queries=len(self.query_set),
            accuracy_by_asked=asked,
            area=_area(asked),
            accuracy_by_answered=answered,
            area_by_answered=_area(answered),
            accuracy_all_answers=int(counts.right_with_all) / n_rows,
            at_stop=stops[0] if self.has_stop else None,
            trade_off=stops[1:] if self.has_stop else stops,
            accuracy_by_cost=list(zip(self.costs.tolist(), by_cost, strict=True)),
            area_by_cost=_area(by_cost) if by_cost else None,
            by_class=ClassResults.of(self.classes, counts.confusion, counts.asked_by_class) if self.in_detail else None,
            questions=QuestionUses.of(self.query_set, counts.questions, n_rows) if self.in_detail else None,
            reliability=counts.at_stop.reliability(0) if self.in_detail else None,
            confidence_by_asked=by_asked.mean_confidence.tolist(),
            calibration_error_by_asked=by_asked.calibration_error.tolist(),
            brier_by_asked=by_asked.mean_brier.tolist(),
        )


def _area(accuracy: Sequence[float]) -> float:
    """The mean of a curve without its first point, where nothing was asked."""
    return sum(accuracy[1:]) / max(1, len(accuracy) - 1)


def _at_stop(rule: StoppingRule, counts: EvaluationCounts, i: int) -> AtStop:
    """What the i-th rule gives."""
    n_rows, beliefs = int(counts.n_rows), counts.at_stop
    total = {name: int(values[i]) for name, values in counts.stops.tensors().items()}
    has_decisions, has_labels = total["decided"] or total["deferred"], total["n_labels"]
    return AtStop(
        rule=str(rule),
        mean_asked=total["n_asked"] / n_rows,
        mean_answered=total["n_answered"] / n_rows,
        mean_cost=total["cost"] / COST_UNIT / n_rows,
        accuracy=float(beliefs.accuracy[i]),
        accuracy_interval=accuracy_interval(int(beliefs.right[i].sum()), n_rows),
        mean_confidence=float(beliefs.mean_confidence[i]),
        calibration_error=float(beliefs.calibration_error[i]),
        cut_short=total["cut_short"] / n_rows,
        brier=float(beliefs.mean_brier[i]),
        decided=total["decided"] / n_rows if has_decisions else None,
        wrong_of_decided=total["wrong_of_decided"] / total["decided"] if total["decided"] else None,
        covered=total["covered"] / n_rows if has_labels else None,
        mean_labels=total["n_labels"] / n_rows if has_labels else None,
    )


def _count_batch(pursuer: Pursuer, batch: Batch, setting: Setting, with_bits: bool) -> EvaluationCounts:
    rows, longest, n_classes = batch.rows, setting.longest, len(setting.classes)
    weight, n_queries = rows.counts, len(setting.query_set)
    questions = QuestionCounter(n_queries, weight) if setting.in_detail else None
    chains, stopped = _roll_out(pursuer, batch, setting, questions, with_bits)
    path = chains.steps(longest + 1)
    costs = setting.costs.to(weight.device, torch.float)
    # The first cost that is enough, however the sum of what was spent is rounded.
    place = torch.searchsorted(costs, path.cost * (1 - ROUNDING)).clamp(max=max(0, len(costs) - 1))
    everything = History(rows.x, rows.available, torch.ones_like(rows.available))  # asked, answered or not
    is_right_with_all = pursuer.log_posterior(everything).argmax(dim=1) == rows.y
    confusion, asked_by_class = weight.new_zeros(0, 0), weight.new_zeros(0)
    if setting.in_detail:
        confusion, asked_by_class = count_classes(rows.y, stopped.predicted[0], stopped.n_asked[0], n_classes, weight)
    return EvaluationCounts(
        n_rows=weight.sum(),
        right_with_all=weight[is_right_with_all].sum(),
        by_asked=BeliefCounts.of(path, weight),
        by_answered=count_changes(chains.right, chains.n_answered, longest + 1, weight),
        by_cost=count_changes(path.right, place, len(costs), weight) if len(costs) else weight.new_zeros(0),
        at_stop=BeliefCounts.of(stopped, weight),
        stops=StopCounts.of(stopped, weight),
        confusion=confusion,
        asked_by_class=asked_by_class,
        questions=questions.counts if questions is not None else QuestionCounts.zeros(n_queries),
    ).cpu()


def _roll_out(
    pursuer: Pursuer, batch: Batch, setting: Setting, questions: QuestionCounter | None, with_bits: bool
) -> tuple[ClassTrace, StoppedRows]:
    """The chains of a batch, and where every rule stops them. A rule that restricts what may be asked has chains of its
    own. What is asked until the first rule stops is added to the questions."""
    costs, longest = pursuer.query_set.costs, setting.longest
    nothing_spent = torch.zeros(1, device=costs.device)
    restricts = [rule.affordable(nothing_spent, costs) is not None for rule in setting.rules]
    groups = [[i for i, own_chains in enumerate(restricts) if not own_chains]]
    groups += [[i] for i, own_chains in enumerate(restricts) if own_chains]
    chains: list[ClassTrace] = []
    parts: list[StoppedRows] = []
    for group in groups:
        counter = questions if 0 in group else None
        stops = _Stops([setting.rules[i] for i in group], batch.rows, longest, bool(chains), counter)
        chains.append(ClassTrace.of(pursuer, batch, stops.horizon, with_bits and counter is not None, stops.watch))
        parts.append(stops.rows(chains[-1]))
    order = torch.tensor([i for group in groups for i in group], dtype=torch.long).argsort()
    values = zip(*(part.values() for part in parts), strict=True)
    return chains[0], StoppedRows(*(torch.cat(own)[order.to(own[0].device)] for own in values))


class _Stops:
    """Notes after how many queries each of R rules stops each row of a batch, and what the rule then says of it."""

    def __init__(
        self,
        rules: Sequence[StoppingRule],
        rows: Rows,
        longest: int,
        is_restricted: bool,
        questions: QuestionCounter | None,
    ):
        self.rules, self.y, self.longest, self.questions = rules, rows.y, longest, questions
        self.may_be_cut, self.is_restricted = longest < rows.n_queries, is_restricted
        self.horizon = _Horizon(longest, rules, rules[0] if is_restricted else None)
        self.memories = [rule.start(len(rows), rows.y.device) for rule in rules]
        nothing = rows.y.new_zeros(len(rules), len(rows))
        self.step, self.decided = nothing - 1, nothing - 1
        self.cut_short, self.covered, self.n_labels = nothing.bool(), nothing.bool(), nothing.clone()

    def watch(self, n_asked: int, step: RolloutStep) -> None:
        standing, stayed, at_limit = step.standing, step.goes_on.nonzero()[:, 0], n_asked >= self.longest
        posterior = standing.log_posterior.exp().float()
        for i, rule in enumerate(self.rules):
            enough, memory = rule.stops(self.memories[i], standing)
            self.memories[i] = memory[stayed]
            now = (enough | ~step.goes_on | at_limit) & (self.step[i, step.rows] < 0)
            rows = step.rows[now]
            self.step[i, rows] = n_asked
            if at_limit and self.may_be_cut:
                self.cut_short[i, rows] = (~enough & step.goes_on if self.is_restricted else ~enough)[now]
            if (decided := rule.decides(standing)) is not None:
                self.decided[i, rows] = decided[now].long()
            if (labels := rule.label_set(posterior)) is not None:
                self.covered[i, rows] = labels[now].gather(1, self.y[rows, None])[:, 0]
                self.n_labels[i, rows] = labels[now].sum(dim=1)
        if self.questions is not None:
            self.questions.add(step, self.step[0, step.rows] < 0)

    def rows(self, chains: ClassTrace) -> StoppedRows:
        """The rows as they are where the rules stop them."""
        values = [*chains.at(self.step).values(), self.cut_short, self.decided, self.covered, self.n_labels]
        return StoppedRows(*values)


class _Horizon(StoppingRule):
    """Rolls chains out as far as `rules` may need to look back: until `n` answers are revealed, however many queries
    that takes. For a rule that restricts what may be asked, within its limits and one query beyond `n`, to see whether
    more would be asked."""

    ends_groups = True

    def __init__(self, n: int, rules: Sequence[StoppingRule], restricting: StoppingRule | None):
        self.n, self.restricting, self.needs_worth = n, restricting, any(rule.needs_worth for rule in rules)

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        is_far = standing.n_answered >= self.n if self.restricting is None else standing.n_asked > self.n
        return is_far, memory

    def affordable(self, spent: Tensor, costs: Tensor) -> Tensor | None:
        return None if self.restricting is None else self.restricting.affordable(spent, costs)
