"""Stopping rules, against a slow reading of their definitions row by row."""

import json
import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pursuit import registry
from pursuit.inference.stopping import (
    AnyOf,
    Budget,
    Confidence,
    CostBudget,
    Never,
    NothingWorthAsking,
    Stability,
    Standing,
    StoppingRule,
    entropy,
    parse_stop,
)
from pursuit.registry import UnknownName, from_config, known, register, to_config

LEVELS = st.floats(0, 1, exclude_min=True)
SIMPLE = st.one_of(
    st.builds(Budget, st.integers(0, 8)),
    st.builds(Confidence, st.floats(0.2, 1)),
    st.builds(Stability, st.floats(0, 0.5), st.integers(1, 3), st.sampled_from(["bits", "nats"])),
    st.builds(NothingWorthAsking, st.floats(0, 1)),
    st.builds(CostBudget, st.floats(0, 20)),
)
RULES = st.one_of(SIMPLE, st.builds(AnyOf, st.lists(SIMPLE, min_size=1, max_size=3).map(tuple)))


def slow_entropy(posterior: list[float], unit: str) -> float:
    return -sum(p * (math.log2(p) if unit == "bits" else math.log(p)) for p in posterior if p > 0)


def standing(log_posterior: Tensor, n_asked: Any, n_answered: Any = None, worth: Tensor | None = None) -> Standing:
    """Where every query costs 1 and, if nothing else is said, has an answer."""
    n_asked = torch.as_tensor(n_asked).expand(len(log_posterior))
    n_answered = n_asked if n_answered is None else torch.as_tensor(n_answered).expand(len(log_posterior))
    return Standing(log_posterior, n_asked, n_answered, n_asked.float(), worth)


def slow_stop(rule: StoppingRule, beliefs: list[list[float]], answered: list[bool], worth: float) -> bool:
    """Whether to stop after the last of the beliefs, one a query asked and the first before any."""
    if isinstance(rule, AnyOf):
        return any(slow_stop(part, beliefs, answered, worth) for part in rule.rules)
    if isinstance(rule, NothingWorthAsking):
        return worth <= rule.bits
    if isinstance(rule, CostBudget):
        return False  # it says what is affordable instead
    if isinstance(rule, Budget):
        return len(beliefs) - 1 >= rule.n
    if isinstance(rule, Confidence):
        return max(beliefs[-1]) >= rule.level
    assert isinstance(rule, Stability)
    entropies = [slow_entropy(belief, rule.unit) for belief in beliefs]
    changes = [
        abs(after - before)
        for (before, after), was_answered in zip(pairwise(entropies), answered[1:], strict=True)
        if was_answered
    ]
    return len(changes) >= rule.n and all(change <= rule.epsilon for change in changes[-rule.n :])


def random_beliefs(n_steps: int, n_rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Posteriors (T, B, C), some spread, some sure, some the same as the step before; and which steps were answered
    (T, B), because without an answer a posterior stays."""
    generator = torch.Generator().manual_seed(seed)
    sharpness = 10 * torch.rand(n_steps, n_rows, 1, generator=generator, dtype=torch.double)
    logits = torch.randn(n_steps, n_rows, 3, generator=generator, dtype=torch.double) * sharpness
    logits[torch.rand(n_steps, n_rows, 3, generator=generator) < 0.1] = -1e4  # a probability of exactly zero
    beliefs = logits.softmax(dim=2)
    repeated = torch.rand(n_steps, n_rows, generator=generator) < 0.4
    for step in range(1, n_steps):
        beliefs[step, repeated[step]] = beliefs[step - 1, repeated[step]]
    answered = ~repeated | (torch.rand(n_steps, n_rows, generator=generator) < 0.5)
    answered[0] = False  # nothing is asked before the first belief
    return beliefs, answered


@given(rule=RULES, seed=st.integers(0, 10_000))
def test_rules_do_what_they_say_while_rows_leave(rule: StoppingRule, seed: int) -> None:
    beliefs, answered = random_beliefs(7, 5, seed)
    generator = torch.Generator().manual_seed(seed)
    rows, memory = torch.arange(5), rule.start(5)
    worth = torch.rand(7, 5, generator=generator)
    assert memory.shape == (5, rule.memory_size)
    for step in range(7):
        n_answered = answered[: step + 1, rows].sum(dim=0)
        stop, memory = rule.step(memory, standing(beliefs[step, rows].log(), step, n_answered, worth[step, rows]))
        assert stop.dtype == torch.bool
        assert stop.tolist() == [
            slow_stop(
                rule, beliefs[: step + 1, row].tolist(), answered[: step + 1, row].tolist(), float(worth[step, row])
            )
            for row in rows.tolist()
        ]
        assert memory.shape == (len(rows), rule.memory_size)
        stays = torch.rand(len(rows), generator=generator) < 0.85
        rows, memory = rows[stays], memory[stays]


def test_a_budget_counts_for_every_row_by_itself() -> None:
    stop, _ = Budget(2).step(torch.zeros(4, 0), standing(torch.zeros(4, 3), [0, 1, 2, 3], 0))
    assert stop.tolist() == [False, False, True, True]


def test_full_confidence_needs_certainty() -> None:
    log_posterior = torch.tensor([[1.0, 0.0], [1 - 1e-6, 1e-6]]).log()
    assert Confidence(1).step(torch.zeros(2, 0), standing(log_posterior, 0))[0].tolist() == [True, False]


@pytest.mark.parametrize("epsilon", [0.0, 10.0])
def test_nothing_is_stable_before_the_first_query(epsilon: float) -> None:
    rule = Stability(epsilon)
    assert not rule.step(rule.start(1), standing(torch.tensor([[0.5, 0.5]]).log(), 0))[0]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Stability(1.01), True),
        (Stability(0.99), False),
        (Stability(0.7), False),
        (Stability(0.7, unit="nats"), True),
        (Stability(0.68, unit="nats"), False),
    ],
)
def test_stability_is_measured_in_bits_unless_it_says_nats(rule: Stability, expected: bool) -> None:
    memory = rule.start(1)
    for n, posterior in enumerate(([0.5, 0.5], [1.0, 0.0])):  # from one bit, which is 0.693 nats, to none
        stop, memory = rule.step(memory, standing(torch.tensor([posterior]).log(), n))
    assert bool(stop) is expected


@pytest.mark.parametrize(
    ("text", "rule", "written"),
    [
        ("stability=0.127", Stability(0.127), "stability=0.127"),
        ("stability=0.127bits", Stability(0.127), "stability=0.127"),
        ("stability=0.127nats", Stability(0.127, unit="nats"), "stability=0.127nats"),
        ("stability = 0.1 nats x 3", Stability(0.1, 3, "nats"), "stability=0.1natsx3"),
        ("stability=0.1bitsx3", Stability(0.1, 3), "stability=0.1x3"),
    ],
)
def test_stability_is_written_with_its_unit(text: str, rule: Stability, written: str) -> None:
    assert parse_stop(text) == rule
    assert str(rule) == written


def test_stability_of_several_steps_starts_again_after_a_change() -> None:
    rule, stops = Stability(0.01, 2), []
    memory = rule.start(1)
    for n, probability in enumerate((0.5, 0.5, 0.9, 0.9, 0.9, 0.9)):
        log_posterior = torch.tensor([[probability, 1 - probability]]).log()
        stop, memory = rule.step(memory, standing(log_posterior, n))
        stops.append(bool(stop))
    assert stops == [False, False, False, False, True, True]


def test_an_unanswered_query_is_not_a_sign_of_stability() -> None:
    rule, stops = Stability(0.01), []
    memory, log_posterior = rule.start(1), torch.tensor([[0.5, 0.5]]).log()
    for n_asked, n_answered in enumerate((0, 0, 0, 1)):
        stop, memory = rule.step(memory, standing(log_posterior, n_asked, n_answered))
        stops.append(bool(stop))
    assert stops == [False, False, False, True]


def test_what_is_worth_asking_is_more_than_the_bits_named() -> None:
    worth = torch.tensor([0.2, 0.1, 0.05, -torch.inf])  # minus infinity where nothing is left
    stop, _ = NothingWorthAsking(0.1).step(torch.zeros(4, 0), standing(torch.zeros(4, 2), 1, worth=worth))
    assert stop.tolist() == [False, True, True, True]


@pytest.mark.parametrize("rule", [NothingWorthAsking(0.1), Budget(5) | NothingWorthAsking(0.1)])
def test_scores_without_a_unit_are_worth_nothing_that_could_be_named(rule: StoppingRule) -> None:
    assert rule.needs_worth
    with pytest.raises(ValueError, match=r'bits=0\.1 needs scores in bits.*querier="information".*stability=0\.001'):
        rule.step(rule.start(1), standing(torch.zeros(1, 2), 0))


def test_only_rules_that_look_at_worth_need_it() -> None:
    assert not any(rule.needs_worth for rule in (Budget(1), Confidence(0.5), Stability(0.1), CostBudget(1), Never()))
    assert not (Budget(1) | Confidence(0.5)).needs_worth


COSTS = st.lists(st.floats(0, 10), min_size=1, max_size=5)


@given(units=st.floats(0, 20), more=st.floats(0, 20), spent=COSTS, costs=COSTS)
def test_a_cost_budget_affords_what_it_can_pay(
    units: float, more: float, spent: list[float], costs: list[float]
) -> None:
    arguments = torch.tensor(spent, dtype=torch.double), torch.tensor(costs, dtype=torch.double)
    affordable = CostBudget(units).affordable(*arguments)
    assert affordable.shape == (len(spent), len(costs))
    for i, paid in enumerate(spent):
        for j, cost in enumerate(costs):
            if abs(paid + cost - units) > 1e-3:
                assert bool(affordable[i, j]) == (paid + cost <= units)
    for joined in (CostBudget(units) | CostBudget(more), Budget(1) | CostBudget(min(units, more)) | Confidence(0.9)):
        both = joined.affordable(*arguments)
        assert both is not None
        assert torch.equal(both, affordable & CostBudget(more).affordable(*arguments))


def test_rounding_does_not_make_the_last_query_too_dear() -> None:
    costs = torch.full((10,), 0.1)
    spent = torch.zeros(1)
    for _ in range(9):
        spent = spent + costs[0]
    assert CostBudget(1).affordable(spent, costs).all()
    assert not CostBudget(1).affordable(spent + costs[0], costs).any()


def test_rules_without_a_limit_afford_everything() -> None:
    for rule in (Budget(1), Confidence(0.9), Budget(1) | Confidence(0.9), NothingWorthAsking(0.1)):
        assert rule.affordable(torch.zeros(2), torch.ones(3)) is None


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_impossible_labels_have_no_entropy(dtype: torch.dtype) -> None:
    posterior = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], dtype=dtype)
    torch.testing.assert_close(entropy(posterior.log()), torch.tensor([0, math.log(2), math.log(3)], dtype=dtype))


def test_rules_join_into_one() -> None:
    rule = Budget(5) | Confidence(0.9) | Stability(0.1, 2)
    assert rule == AnyOf((Budget(5), Confidence(0.9), Stability(0.1, 2)))
    assert rule.memory_size == Stability(0.1).memory_size > 0
    assert str(rule) == "budget=5,confidence=0.9,stability=0.1x2"


@pytest.mark.parametrize("rule", [Budget(5), Confidence(0.9), Stability(0.1, 2)])
def test_the_same_rule_again_changes_nothing(rule: StoppingRule) -> None:
    assert rule | rule is rule
    joined = rule | Budget(7)
    assert joined | rule is joined
    assert joined | Budget(7) is joined
    assert str(joined | Budget(7)) == f"{rule},budget=7"
    assert rule | type(rule)(1) == AnyOf((rule, type(rule)(1)))  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("rule", "values", "sentence"),
    [
        (Budget, (-1,), "A budget is a whole number of queries from 0 to 2,147,483,647, not -1."),
        (Budget, (2.5,), "A budget is a whole number of queries from 0 to 2,147,483,647, not 2.5."),
        (Budget, (2**64,), "from 0 to 2,147,483,647, not 18446744073709551616."),
        (Stability, (0.1, 2**64), "from 1 to 2,147,483,647, not 18446744073709551616."),
        (Budget, (True,), "A budget is a whole number of queries from 0 to 2,147,483,647, not True."),
        (Confidence, (0,), "as in confidence=0.95, but it was 0."),
        (Confidence, (-0.5,), "as in confidence=0.95, but it was -0.5."),
        (Confidence, (1.01,), "as in confidence=0.95, but it was 1.01."),
        (Confidence, (math.nan,), "as in confidence=0.95, but it was nan."),
        (Stability, (-0.001,), "as in stability=0.001, not -0.001."),
        (Stability, (math.nan,), "as in stability=0.001, not nan."),
        (Stability, (0.1, 0), "a whole number of steps from 1 to 2,147,483,647, not 0."),
        (Stability, (0.1, -2), "a whole number of steps from 1 to 2,147,483,647, not -2."),
        (Stability, (0.1, 1.5), "a whole number of steps from 1 to 2,147,483,647, not 1.5."),
        (Stability, (0.1, True), "a whole number of steps from 1 to 2,147,483,647, not True."),
        (Stability, (0.1, 1, "bit"), "in bits or in nats, not in 'bit'."),
        (NothingWorthAsking, (-0.1,), "a number of bits, 0 or more, as in bits=0.01, not -0.1."),
        (NothingWorthAsking, (math.nan,), "as in bits=0.01, not nan."),
        (CostBudget, (-1,), "A cost budget is a number, 0 or more, as in cost=20, not -1."),
        (CostBudget, (math.inf,), "as in cost=20, not inf."),
    ],
)
def test_values_out_of_range_are_refused(rule: Any, values: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the message is looked at below)
        rule(*values)
    assert str(error.value).endswith(sentence)


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_what_is_not_a_number_is_refused_with_a_sentence(value: Any) -> None:
    with pytest.raises(ValueError, match="A budget is a whole number of queries"):
        Budget(value)
    with pytest.raises(ValueError, match="Stability must hold for a whole number of steps"):
        Stability(0.1, value)


@given(
    rule=st.one_of(
        st.just(Never()),
        st.builds(Budget, st.integers(0, 10**9)),
        st.builds(Confidence, LEVELS),
        st.builds(Stability, st.floats(0, 1e300), st.integers(1, 1000), st.sampled_from(["bits", "nats"])),
        st.builds(NothingWorthAsking, st.floats(0, 1e300)),
        st.builds(CostBudget, st.floats(0, 1e300)),
        st.builds(AnyOf, st.lists(SIMPLE, min_size=2, max_size=4).map(tuple)),
    )
)
def test_a_rule_is_read_as_it_is_written(rule: StoppingRule) -> None:
    assert parse_stop(str(rule)) == rule
    assert from_config(json.loads(json.dumps(to_config(rule)))) == rule


@given(rule=SIMPLE)
def test_a_rule_reads_the_numbers_behind_its_keyword(rule: StoppingRule) -> None:
    keyword, _, numbers = str(rule).partition("=")
    names = {NothingWorthAsking: "bits", CostBudget: "cost"}
    assert keyword == type(rule).keyword_of() == names.get(type(rule), type(rule).__name__.lower())
    assert type(rule).parse(numbers) == rule


def test_numbers_at_their_default_are_not_written() -> None:
    assert str(Stability(0.1)) == str(Stability(0.1, 1)) == "stability=0.1"
    assert str(Stability(0.1, 3)) == "stability=0.1x3"
    assert str(Never()) == "never"


@dataclass(frozen=True)
class Margin(StoppingRule):
    """Stop once the two most probable labels are `gap` apart, at the earliest after `least` answers."""

    keyword = "ahead"
    gap: float
    least: int = 0
    factor: float = 1.0

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        first, second = standing.log_posterior.exp().topk(2, dim=1).values.unbind(dim=1)
        return (self.factor * (first - second) >= self.gap) & (standing.n_answered >= self.least), memory


@pytest.fixture
def registered_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the rule known for one test."""
    monkeypatch.setitem(registry._known, "stopping rule", dict(known("stopping rule")))
    register(Margin)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rule=st.builds(Margin, st.floats(-1, 1), st.integers(-3, 9), st.floats(0, 1e9)),
    other=SIMPLE,
)
def test_a_rule_of_ones_own_is_read_and_written_like_ours(registered_margin: Any, rule: Margin, other: Any) -> None:
    assert str(rule).startswith("ahead=")
    assert parse_stop(str(rule)) == Margin.parse(str(rule).removeprefix("ahead=")) == rule
    assert parse_stop(str(rule | other)) == AnyOf((rule, other))
    assert from_config(json.loads(json.dumps(to_config(rule | other)))) == AnyOf((rule, other))


def test_a_rule_of_ones_own_stops_rows(registered_margin: Any) -> None:
    rule = parse_stop("ahead=0.5x1,budget=9")
    log_posterior = torch.tensor([[0.8, 0.2], [0.7, 0.3], [0.8, 0.2]]).log()
    stop, _ = rule.step(rule.start(3), standing(log_posterior, [1, 1, 0]))
    assert stop.tolist() == [True, False, False]


def test_rules_of_ones_own_are_named_where_a_text_is_refused(registered_margin: Any) -> None:
    refused = r"'{}' is not a stopping rule.* Registered besides: ahead\."
    for text in ("ahead", "ahead=a", "ahead=1x2x3x4"):
        with pytest.raises(ValueError, match=refused.format(text) + "$"):
            parse_stop(text)
    with pytest.raises(UnknownName, match=refused.format("margin=0.5") + " If 'margin' is your own, .*--plugin"):
        parse_stop("margin=0.5")


def test_a_rule_that_nobody_registered_is_not_known() -> None:
    advice = r"'ahead=0.5' is not a stopping rule.* to stop at the first\. If 'ahead' is your own, .*--plugin"
    with pytest.raises(UnknownName, match=advice):
        parse_stop("ahead=0.5")
    with pytest.raises(ValueError, match=r"put @pursuit\.register above the class"):
        to_config(Margin(0.5))


@pytest.mark.parametrize("rule", [Budget(2.0), Stability(0.1, 2.0)])  # type: ignore[arg-type]
def test_a_whole_float_is_read_as_it_is_written(rule: StoppingRule) -> None:
    assert parse_stop(str(rule)) == rule


def test_blanks_around_commas_do_not_matter() -> None:
    assert parse_stop(" budget=3 , confidence=.9 ") == Budget(3) | Confidence(0.9)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "budget=3,",
        "budget",
        "budget=",
        "budget=three",
        "budget=2.5",
        "budget=3x2",
        "budget 3",
        "confidence=0.9.9",
        "confidence=-",
        "confidence=high",
        "stability=0.1x",
        "stability=x2",
        "stability=nats",
        "stability=0.1x3x2",
        "stability=0.1x3nats",
        "stability=0.1x3xnats",
        "stability=0.1hartleys",
        "bits",
        "bits=few",
        "cost=1x2",
        "certainty=0.9",
        "confidence=0.9;budget=3",
    ],
)
def test_what_is_not_a_rule_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a stopping rule\. Write confidence=0\.99, budget=20, "):
        parse_stop(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("budget=-1", "from 0 to 2,147,483,647, not -1."),
        ("confidence=2", "at most 1, as in confidence=0.95, but it was 2.0."),
        ("confidence=0", "but it was 0.0."),
        ("confidence=nan", "but it was nan."),
        ("stability=-1", "as in stability=0.001, not -1.0."),
        ("stability=1x0", "from 1 to 2,147,483,647, not 0."),
        ("stability=0.1x-1", "from 1 to 2,147,483,647, not -1."),
    ],
)
def test_rules_out_of_range_are_refused_when_read(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=rf"{re.escape(sentence)}$"):
        parse_stop(text)


def test_a_number_of_hundreds_of_digits_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="budget"):
        parse_stop("budget=1" + "0" * 400)
