"""The plan that suits the data: what is chosen for which rows, with a reason each."""

from typing import Any

import pytest
import torch

from pursuit.estimators import plan as plan_module
from pursuit.estimators.plan import (
    COMPLETE,
    EFFORT_FOR_MANY,
    FEW_ROWS,
    LEAST_STEPS,
    LEAST_TAUGHT_STEPS,
    MANY_ROWS,
    OFTEN,
    PASSES,
    RARELY,
    TAUGHT_RANK,
    USUAL_EFFORT,
    VERY_FEW_ROWS,
    VERY_MANY_ROWS,
    Plan,
    Reason,
    suitable_plan,
)
from pursuit.information import AnswerSettings
from pursuit.networks import MLP
from pursuit.queries import Choice, ColumnQueries, Number, PatchQueries, QuerySet, yes_no
from pursuit.training import CarriedHistories
from pursuit.training.rows import GeneratedRows, Rows

pytestmark = pytest.mark.full_training

SETTINGS = ["network", "standardise", "batch size", "steps", "held out"]


def numbers(n_queries: int) -> ColumnQueries:
    return ColumnQueries([Number(f"n{i}", "How many?", edges=tuple(range(9))) for i in range(n_queries)])


def yes_or_no(n_queries: int) -> ColumnQueries:
    return ColumnQueries([yes_no(f"q{i}") for i in range(n_queries)])


def blank(query_set: QuerySet, n_rows: int, value: float = 1.0) -> Rows:
    """Rows that are all the same, and hardly take memory."""
    x = torch.full((1, *query_set.answer_shape), value).expand(n_rows, *query_set.answer_shape)
    available = torch.ones(1, 1, dtype=torch.bool).expand(n_rows, len(query_set))
    return Rows(x, available, torch.zeros(1, dtype=torch.long).expand(n_rows))


def plan_of(n_rows: int, query_set: QuerySet | None = None, n_classes: int = 2, **options: Any) -> Plan:
    query_set = query_set or numbers(10)
    return suitable_plan(query_set, blank(query_set, n_rows), n_classes, counts_answers=True, **options)


def n_steps(plan: Plan, n_rows: int) -> int:
    return plan.stages[0].n_steps(n_rows)


class Drawn(GeneratedRows):
    """Rows that are drawn as they are needed."""

    n_rows, n_queries, classes = 3000, 4, ("a", "b")

    def draw(self, n: int, generator: torch.Generator) -> Rows:
        return blank(yes_or_no(4), n)

    def to(self, device: torch.device) -> "Drawn":
        return self

    def prior(self, n_classes: int) -> torch.Tensor:
        return torch.full((n_classes,), 1 / n_classes)

    def fingerprint(self) -> str:
        return "drawn"


@pytest.mark.parametrize("n_rows", [5, VERY_FEW_ROWS, FEW_ROWS, MANY_ROWS, VERY_MANY_ROWS])
def test_every_setting_has_a_reason(n_rows: int) -> None:
    plan = plan_of(n_rows)
    assert [reason.setting for reason in plan.reasons if reason.setting != "answers"] == SETTINGS
    assert all(reason.why and reason.value for reason in plan.reasons)
    found = {reason.setting: reason.value for reason in plan.reasons}
    (stage,) = plan.stages
    assert found["network"] == str(plan.network)
    assert found["standardise"] == str(plan.standardise)
    assert found["batch size"] == str(stage.batch_size)
    assert found["steps"] == f"at most {n_steps(plan, n_rows):,}"
    assert found["held out"] == f"{plan.held_out:.0%}"


def test_a_reason_is_a_line() -> None:
    assert str(Reason("steps", "200", "few rows")) == "steps: 200 (few rows)"


@pytest.mark.parametrize(
    ("n_rows", "held_out", "held_out_if_taught"),
    [
        (VERY_FEW_ROWS - 1, 0.0, 0.0),
        (VERY_FEW_ROWS, 0.2, 0.0),
        (MANY_ROWS - 1, 0.2, 0.0),
        (MANY_ROWS, 0.1, 0.1),
        (20_000, 0.1, 0.1),
        (1_000_000, 0.002, 0.002),
    ],
)
def test_many_rows_do_without_some_and_few_that_are_taught_do_not(
    n_rows: int, held_out: float, held_out_if_taught: float
) -> None:
    assert plan_of(n_rows).held_out == held_out
    assert plan_of(n_rows, is_taught=True).held_out == held_out_if_taught


@pytest.mark.parametrize(
    ("n_rows", "width", "histories"),
    [(30, 64, 250), (400, 64, 250), (700, 128, 400), (3000, 128, 300), (6000, 256, 200), (12_000, 256, 100)],
)
def test_a_taught_network_sees_as_many_histories_of_each_row(n_rows: int, width: int, histories: int) -> None:
    """It has targets that are not learnt by heart: no dropout, larger batches, and a third of them know all answers."""
    plan = plan_of(n_rows, is_taught=True)
    (stage,) = plan.stages
    assert (plan.network, stage.batch_size) == (MLP((width, width)), 512)
    assert stage.histories == CarriedHistories(10, 0.5, complete_share=COMPLETE)
    found = {reason.setting: reason for reason in plan.reasons}
    steps = n_steps(plan, n_rows)
    assert found["steps"].value == f"{steps:,}"
    assert steps == max(LEAST_TAUGHT_STEPS, round(histories * n_rows / 512))
    assert found["steps"].why.endswith(" histories of each row" + ", because rows are few" * (n_rows == 30))
    assert plan.answers.rank == (0 if n_rows < 2000 else TAUGHT_RANK)


def test_with_fewer_rows_than_questions_answers_are_foreseen_by_the_label() -> None:
    few, enough = plan_of(9), plan_of(10)
    assert (few.answers, enough.answers) == (AnswerSettings(rank=0), AnswerSettings())
    assert [[reason.value for reason in plan.reasons if reason.setting == "answers"] for plan in (few, enough)] == [
        ["foreseen by the label"],
        [],
    ]
    query_set = numbers(10)
    foresees_nothing = suitable_plan(query_set, blank(query_set, 9), 2)
    assert foresees_nothing.answers == AnswerSettings()
    assert all(reason.setting != "answers" for reason in foresees_nothing.reasons)


def test_what_takes_long_is_looked_at_rarely() -> None:
    assert plan_of(400, numbers(10_000)).look_every == RARELY
    assert plan_of(400, numbers(100)).look_every == OFTEN


def test_streamed_rows_and_images_are_trained_to_the_end() -> None:
    images = PatchQueries((1, 8, 8), size=2, stride=2)
    for plan in (
        suitable_plan(yes_or_no(4), Drawn(), 2, counts_answers=True),
        suitable_plan(images, blank(images, 100), 2),
    ):
        assert (plan.held_out, plan.standardise) == (0.0, False)
        assert [reason.setting for reason in plan.reasons] == ["network", "passes"]
        assert plan.reasons[1].value == f"{plan.stages[0].epochs:.3g}"


def test_pixels_of_yes_and_no_are_no_reason_to_standardise() -> None:
    """Their answers are several pixels each, most of which may be dark."""
    dark = PatchQueries((1, 6, 6), size=2, stride=2)
    assert not suitable_plan(dark, blank(dark, 40, value=-1.0), 2).standardise


@pytest.mark.parametrize("n_rows", [50, 10_000, 10**8])
@pytest.mark.parametrize(("n_queries", "n_classes"), [(1, 1000), (30, 2), (2000, 1000)])
def test_steps_never_exceed_what_time_allows(n_rows: int, n_queries: int, n_classes: int) -> None:
    query_set = yes_or_no(n_queries)
    plan = plan_of(n_rows, query_set, n_classes)
    (stage,) = plan.stages
    steps = stage.n_steps(n_rows)
    effort = EFFORT_FOR_MANY if n_rows >= VERY_MANY_ROWS else USUAL_EFFORT
    assert LEAST_STEPS <= steps <= effort.steps
    products = steps * stage.batch_size * plan_module._products(plan.network, query_set, n_classes, plan.answers.rank)
    assert products <= 1.01 * effort.products or steps == LEAST_STEPS
    assert isinstance(stage.histories, CarriedHistories)
    assert stage.histories.max_queries == min(n_queries, 20)


def test_what_is_too_much_to_compute_is_cut_and_said() -> None:
    small, large = plan_of(600, numbers(5)), plan_of(600, numbers(2000))
    assert n_steps(small, 600) > n_steps(large, 600)
    assert small.reasons[3].why == f"{PASSES} times each row"
    steps = next(reason for reason in large.reasons if reason.setting == "steps")
    assert steps.why.endswith("times each row, for time")


def test_very_few_rows_are_seen_more_often_and_that_is_said() -> None:
    few = plan_of(10, numbers(3))
    (stage,) = few.stages
    # A quarter of the batch has random histories of fresh rows, and chains of three are carried by the rest.
    times = LEAST_STEPS * stage.batch_size * (0.25 + 0.75 / 3) / 10
    assert times > PASSES
    assert few.reasons[3].why == f"{times:,.0f} times each row, because rows are few"


def test_products_grow_with_what_is_asked() -> None:
    network = MLP((64, 64))
    found = [
        plan_module._products(network, query_set, n_classes, 8)
        for query_set, n_classes in ((yes_or_no(5), 2), (numbers(5), 2), (numbers(50), 2), (numbers(50), 20))
    ]
    assert found == sorted(found)
    assert len(set(found)) == 4


def test_chains_are_not_longer_than_what_will_be_asked() -> None:
    lengths = [plan_of(100, max_queries=most).stages[0].histories.max_queries for most in (None, 3, 50)]
    assert lengths == [10, 3, 10]


def test_networks_grow_with_rows_and_few_rows_begin_counted() -> None:
    few, many = plan_of(MANY_ROWS - 1).network, plan_of(MANY_ROWS).network
    assert isinstance(few, MLP)
    assert isinstance(many, MLP)
    assert few.hidden < many.hidden
    assert few.dropout > many.dropout
    assert (few.direct, many.direct) == (True, False)
    uncounted = suitable_plan(numbers(10), blank(numbers(10), 100), 2).network
    assert isinstance(uncounted, MLP)
    assert not uncounted.direct


@pytest.mark.parametrize(
    ("query_set", "value", "is_sparse"),
    [
        (yes_or_no(10), -1.0, True),
        (yes_or_no(10), 1.0, False),
        (numbers(10), -1.0, False),
        (ColumnQueries([Choice("c", "Which?", ("a", "b", "c"))]), 0.0, False),
    ],
)
def test_answers_that_are_nearly_all_no_are_standardised(query_set: QuerySet, value: float, is_sparse: bool) -> None:
    plan = suitable_plan(query_set, blank(query_set, 3000, value), 2, counts_answers=True)
    assert plan.standardise == is_sparse
    assert (plan.reasons[1].why == "nearly all answers are no") == is_sparse
    assert isinstance(plan.network, MLP)
    assert plan.network.direct == is_sparse  # where there are many rows besides
