"""In what order queries may be asked: the tensors say what the words of the rules say, and bad orders are refused."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from ordered import ORDER, allowed_by, clinic, clinic_queries
from pursuit.queries import Choice, ColumnQueries, Group, Number, OnlyAfter, Order, yes_no
from pursuit.registry import from_config, to_config

NAMES = ("a", "b", "c", "d", "e", "n")
CHOICES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("abc", ("no", "yes")),
    **dict.fromkeys("de", ("low", "middle", "high")),
    "n": (),
}


def columns(order: Order | None = None) -> ColumnQueries:
    queries = [Choice(name, f"{name}?", CHOICES[name]) if CHOICES[name] else Number(name, "n?") for name in NAMES]
    return ColumnQueries(queries, order=order)


@st.composite
def orders(draw: Any) -> Order:
    """Orders without circles: a query waits only for those before it in a random list."""
    names = draw(st.permutations(NAMES))
    beforehand = tuple(names[: draw(st.integers(0, 2))])
    conditions = []
    for i, name in enumerate(names):
        if name not in beforehand:
            for after in draw(st.lists(st.sampled_from(names[:i]), max_size=2, unique=True)) if i else ():
                some = (
                    st.lists(st.sampled_from(CHOICES[after]), max_size=2, unique=True)
                    if CHOICES[after]
                    else st.just([])
                )
                conditions.append(OnlyAfter(name, after, tuple(draw(some))))
    free = draw(st.permutations([name for name in NAMES if name not in beforehand]))
    groups = [Group("first", tuple(free[:2]))] if draw(st.booleans()) else []
    if len(free) >= 4 and draw(st.booleans()):
        groups.append(Group("second", tuple(free[2:])))
    return Order(beforehand, tuple(conditions), tuple(groups))


@given(order=orders(), seed=st.integers(0, 10_000), is_tight=st.booleans())
def test_what_is_allowed_is_what_the_rules_say(order: Order, seed: int, is_tight: bool) -> None:
    query_set, randomness = columns(order), torch.Generator().manual_seed(seed)
    asked = torch.rand(8, 6, generator=randomness) < 0.4
    known = asked & (torch.rand(8, 6, generator=randomness) < 0.8)
    affordable = torch.rand(8, 6, generator=randomness) < 0.7 if is_tight else None
    x = query_set.blank(8)
    for row in x:
        for i, name in enumerate(NAMES):
            some = CHOICES[name] or ("0.3", "-2")
            query_set.tell(row, i, some[int(torch.randint(len(some), (), generator=randomness))])
    allowed = query_set.allowed(x, known, asked, affordable)
    for row in range(8):
        answers = {name: query_set.describe(i, x[row]) for i, name in enumerate(NAMES) if known[row, i]}
        before = {name for i, name in enumerate(NAMES) if asked[row, i]}
        expected = allowed_by(order, NAMES, answers, before)
        if affordable is not None and order.groups:
            continue  # tested on its own, below
        if affordable is not None:
            expected &= {name for i, name in enumerate(NAMES) if affordable[row, i]}
        if allowed is None:
            assert not order
            continue
        assert {name for i, name in enumerate(NAMES) if allowed[row, i]} == expected
    again = ColumnQueries.from_config(query_set.to_config())
    assert again.order == (order or None)
    assert from_config(to_config(order)) == order


def test_without_an_order_nothing_is_computed() -> None:
    query_set = columns()
    asked = torch.rand(3, 6) < 0.5
    affordable = torch.rand(3, 6) < 0.5
    assert query_set.allowed(query_set.blank(3), asked, asked) is None
    assert query_set.allowed(query_set.blank(3), asked, asked, affordable) is affordable
    assert query_set.closed(query_set.blank(3), asked, asked) is asked
    assert query_set.known_beforehand(3) is None
    assert columns(Order()).order is None
    assert not list(query_set.state_dict())
    assert not list(columns(ORDER_OF_LETTERS).state_dict())


ORDER_OF_LETTERS = Order(("a",), (OnlyAfter("b", "a", ("yes",)),), (Group("g", ("c", "d", "n")),))


def test_the_operations_do_not_depend_on_the_histories() -> None:
    """So that a training step can be recorded: a tensor without values is enough to run them."""
    query_set = columns(ORDER_OF_LETTERS)
    with FakeTensorMode(allow_non_fake_inputs=True):
        x, known = torch.empty(5, *query_set.answer_shape), torch.empty(5, 6, dtype=torch.bool)
        allowed = query_set.allowed(x, known, known)
        assert allowed is not None
        assert allowed.shape == (5, 6)
        with pytest.raises(DataDependentOutputException):
            bool(allowed.any())  # which asks for a value


def test_a_group_that_cannot_be_paid_for_does_not_hold_up_the_rest() -> None:
    query_set = columns(Order(groups=(Group("g", ("a", "b", "n")),)))
    asked = torch.tensor([[True, False, False, False, False, False]])
    nothing = query_set.blank()
    allowed = query_set.allowed(nothing, asked, asked)
    assert allowed is not None
    assert allowed[0].nonzero()[:, 0].tolist() == [1, 5]
    affordable = torch.tensor([[True, False, True, True, True, True]])
    allowed = query_set.allowed(nothing, asked, asked, affordable)
    assert allowed is not None
    assert allowed[0].nonzero()[:, 0].tolist() == [5]
    allowed = query_set.allowed(nothing, asked, asked, affordable & (torch.arange(6) != 5))
    assert allowed is not None
    assert allowed[0].nonzero()[:, 0].tolist() == [2, 3, 4]


@given(seed=st.integers(0, 10_000), per_cost=st.booleans())
def test_a_group_is_chosen_for_all_that_it_tells(seed: int, per_cost: bool) -> None:
    randomness = torch.Generator().manual_seed(seed)
    costs = dict(zip(NAMES, (1.0, 4.0, 0.5, 2.0, 1.0, 3.0), strict=True))
    query_set = columns(Order(groups=(Group("g", ("a", "d", "n")), Group("h", ("b", "e"))))).with_costs(costs)
    bits, closed = torch.rand(20, 6, generator=randomness), torch.rand(20, 6, generator=randomness) < 0.3
    scores = bits / query_set.costs if per_cost else bits
    query = query_set.group_scores(scores, closed, per_cost).masked_fill(closed, -torch.inf).argmax(dim=1)
    for row in range(20):
        rates = {}
        for group in ((0, 3, 5), (1, 4), (2,)):
            if is_open := [i for i in group if not closed[row, i]]:
                paid = float(query_set.costs[is_open].sum()) if per_cost else len(is_open)
                rates[max(is_open, key=lambda i: float(scores[row, i]))] = float(bits[row, is_open].sum()) / paid
        first, second, *_ = [*sorted(rates.values(), reverse=True), -1.0, -1.0]
        if rates and first - second > 0.02:  # a thousandth of a score decides within a group, and may among such
            assert int(query[row]) == max(rates, key=lambda i: rates[i])


def test_whoever_begins_a_group_pays_for_all_of_it() -> None:
    costs = dict(zip(NAMES, (1.0, 4.0, 0.5, 2.0, 1.0, 3.0), strict=True))
    query_set = columns(Order(groups=(Group("g", ("a", "d")),))).with_costs(costs)
    asked = torch.zeros(2, 6, dtype=torch.bool)
    asked[1, 0] = True
    assert query_set.prices(asked).tolist() == [[3, 4, 0.5, 3, 1, 3], [1, 4, 0.5, 2, 1, 3]]
    assert columns().prices(asked).tolist() == [1.0] * 6


def test_a_member_that_waits_for_something_else_does_not_hold_up_its_group() -> None:
    query_set = columns(Order(only_after=(OnlyAfter("b", "c", ("yes",)),), groups=(Group("g", ("a", "b")),)))
    x = query_set.blank()
    query_set.tell(x[0], 2, "yes")
    asked = torch.tensor([[True, False, False, False, False, False]])
    allowed = query_set.allowed(x, asked, asked)
    assert allowed is not None
    assert allowed[0].nonzero()[:, 0].tolist() == [2, 3, 4, 5]
    asked = asked | (torch.arange(6) == 2)
    allowed = query_set.allowed(x, asked, asked)
    assert allowed is not None
    assert allowed[0].nonzero()[:, 0].tolist() == [1]


def test_what_is_known_beforehand_is_added_to_what_is_given() -> None:
    query_set = columns(ORDER_OF_LETTERS)
    known = query_set.known_beforehand(2)
    assert known is not None
    assert known.tolist() == [[True, *[False] * 5]] * 2
    given_too = query_set.known_beforehand(2, torch.arange(6).expand(2, -1) == 3)
    assert given_too is not None
    assert given_too[0].nonzero()[:, 0].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Order(("z",)), "There is no query 'z' to be known beforehand"),
        (Order(only_after=(OnlyAfter("a", "aa"),)), "There is no query 'aa' to ask 'a' after. Did you mean 'a'?"),
        (Order(only_after=(OnlyAfter("z", "a"),)), "There is no query 'z' to ask after 'a'"),
        (Order(only_after=(OnlyAfter("a", "b", ("maybe",)),)), "'b' was answered 'maybe', but its choices are no, yes"),
        (Order(only_after=(OnlyAfter("a", "n", ("3",)),)), "only if that has choices, but it is a number"),
        (Order(("a",), (OnlyAfter("a", "b"),)), "'a' is known beforehand, so it cannot be asked only after 'b'"),
        (Order(only_after=(OnlyAfter("a", "a"),)), "waits for the next: a -> a"),
        (
            Order(only_after=(OnlyAfter("d", "a"), OnlyAfter("a", "b"), OnlyAfter("b", "c"), OnlyAfter("c", "a"))),
            "waits for the next: a -> b -> c -> a",
        ),
        (Order(only_after=(OnlyAfter("a", "b"), OnlyAfter("a", "b", ("yes",)))), "'a' waits for 'b' more than once"),
        (Order(groups=(Group("g", ("a",)),)), "The group 'g' is asked together, so it needs at least two"),
        (Order(groups=(Group("g", ("a", "a")),)), "needs at least two"),
        (Order(groups=(Group("g", ("a", "z")),)), "There is no query 'z' in the group 'g'"),
        (Order(groups=(Group("g", ("a", "b")), Group("h", ("b", "c")))), "'b' is in the groups 'g' and 'h'"),
        (Order(("a",), groups=(Group("g", ("a", "b")),)), "'a' is in the group 'g' and known beforehand"),
    ],
)
def test_an_order_that_cannot_be_kept_is_refused(order: Order, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        columns(order)


def test_two_ways_to_the_same_query_are_not_a_circle() -> None:
    conditions = [("b", "a"), ("c", "a"), ("d", "b"), ("d", "c")]
    columns(Order(only_after=tuple(OnlyAfter(query, after) for query, after in conditions)))


def test_the_order_stays_when_numbers_are_scaled_again_and_costs_change() -> None:
    query_set = clinic_queries()
    assert query_set.rescaled(clinic()[0]).order == ORDER
    assert query_set.with_costs({"week": 3}).order == ORDER
    assert query_set.with_options(mask=True).order == ORDER


def test_an_order_of_words_is_saved_with_them() -> None:
    query_set = ColumnQueries([yes_no("a"), yes_no("b")], mask=False)
    query_set.set_order(Order(only_after=(OnlyAfter("b", "a"),)))
    assert ColumnQueries.from_config(query_set.to_config()).order == query_set.order
    query_set.set_order(None)
    assert query_set.closed(query_set.blank(), *[torch.zeros(1, 2, dtype=torch.bool)] * 2).sum() == 0
