"""What every query set offers: the grid of patches, units, and defaults that suit a query set of one's own."""

import copy
import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit import queries
from pursuit.queries import Answers, ColumnQueries, PatchGrid, PatchQueries, Query, QuerySet, WordQueries
from pursuit.queries.query_set import Units
from pursuit.queries.words import word_query
from pursuit.registry import from_config, known, to_config
from strategies import SEEDS
from untrained import make_columns

TYPES = st.lists(st.sampled_from(["yes_no", "choice", "single", "number"]), min_size=1, max_size=6)


class Digits(QuerySet):
    """The least a query set of one's own must say: the digits of a number, each of them a query."""

    def __init__(self, n: int = 3):
        super().__init__()
        self.queries = tuple(Query(f"digit {i}", f"What is digit {i}?") for i in range(n))
        self.answer_shape = self.input_shape = (n,)

    def answers(self, data: Any) -> Answers:
        x = torch.tensor([[float(digit) for digit in str(number)] for number in data])
        return Answers(x, torch.ones_like(x, dtype=torch.bool))

    def encode(self, x: Tensor, known: Tensor) -> Tensor:
        return x * known

    def describe(self, query: int, x: Tensor) -> str:
        return f"{x[query]:.0f}"

    def tell(self, x: Tensor, query: int, answer: Any) -> None:
        x[query] = float(answer)

    def to_config(self) -> dict[str, Any]:
        return {"n": len(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Digits":
        return cls(**config)


@st.composite
def grids(draw: st.DrawFn) -> PatchGrid:
    channels, height, width = draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return PatchGrid((channels, height, width), draw(st.integers(1, min(height, width))), draw(st.integers(1, 4)))


@given(grid=grids())
def test_a_grid_has_all_patches_that_fit_the_image_row_by_row(grid: PatchGrid) -> None:
    _, height, width = grid.image_shape
    tops = range(0, height - grid.size + 1, grid.stride)
    lefts = range(0, width - grid.size + 1, grid.stride)
    assert grid.shape == (len(tops), len(lefts))
    corners = [grid.corner(query) for query in range(len(tops) * len(lefts))]
    assert corners == [(top, left) for top in tops for left in lefts]


def check_units(query_set: QuerySet, seed: int) -> None:
    """Units by one look at each query, by the methods of `Units` and by those of the query set's own kind of them."""
    generator = torch.Generator().manual_seed(seed)
    own = query_set.units
    assert len(own.feature_types) == torch.Size(query_set.answer_shape).numel()
    is_known = torch.rand(5, len(query_set), generator=generator) < 0.4
    values = torch.rand(5, len(query_set.units), generator=generator, dtype=torch.double)
    units = torch.zeros(5, len(query_set.units), dtype=torch.bool)
    sums = torch.zeros(5, len(query_set), dtype=torch.double)
    for query, shown in enumerate(own.of_query):
        units[:, shown] |= is_known[:, query, None]
        sums[:, query] = values[:, shown].sum(dim=1)
    for known_units in (own.known(is_known), Units.known(own, is_known)):
        assert known_units.dtype == torch.bool
        assert torch.equal(known_units, units)
    for by_query in (own.sum(values), Units.sum(own, values)):
        torch.testing.assert_close(by_query, sums)
    for method in (own.known, lambda nobody: Units.known(own, nobody)):
        assert method(is_known[:0]).shape == (0, len(query_set.units))


@given(grid=grids(), seed=SEEDS)
def test_units_of_patches_are_pixels(grid: PatchGrid, seed: int) -> None:
    query_set = PatchQueries(grid.image_shape, grid.size, grid.stride)
    assert len(query_set.units) == torch.Size(grid.image_shape).numel()
    assert not query_set.has_own_units
    check_units(query_set, seed)


@given(types=TYPES, seed=SEEDS)
def test_units_of_columns_are_the_columns(types: list[str], seed: int) -> None:
    query_set = make_columns(types)
    assert len(query_set.units) == len(query_set)
    assert query_set.has_own_units
    assert query_set.units.feature_types == tuple(
        feature_type
        for one in types
        for feature_type in ["choice"] * 3 * (one == "choice") or ["choice" if one == "single" else one]
    )
    check_units(query_set, seed)


def test_a_query_set_of_ones_own_needs_no_more() -> None:
    query_set = Digits()
    x, available = query_set.answers([123, 450])
    assert available.all()
    assert query_set.index_of == {"digit 0": 0, "digit 1": 1, "digit 2": 2}
    assert len(query_set.with_options(n=5)) == 5
    assert query_set.blank(2).tolist() == [[0, 0, 0]] * 2
    shares = torch.tensor([[0.5, 0.0, 0.0]])
    assert query_set.encode_partly(x[:1], torch.tensor([[0.0, 1.0, 0.0]]), shares).tolist() == [[0.5, 2, 0]]
    assert (query_set.patches, query_set.own_inputs) == (None, None)
    flags = (
        query_set.mask,
        query_set.reads_texts,
        query_set.reads_columns,
        query_set.has_units,
        query_set.has_own_units,
    )
    assert not any(flags)
    assert repr(query_set) == "Digits(3 queries)"


def test_what_a_query_set_does_not_say_is_refused() -> None:
    query_set, x = Digits(), torch.zeros(1, 3)
    with pytest.raises(ValueError, match=r"which Digits\(3 queries\) does not say.*set_units"):
        _ = query_set.units
    query = torch.zeros(1, dtype=torch.long)
    assert not query_set.reveal(x, x, query, query.bool())


def test_only_plain_columns_are_found_in_tables_by_name() -> None:
    assert make_columns(["yes_no"]).reads_columns
    assert not WordQueries([word_query("tax")]).reads_columns
    assert not queries.ConceptQueries([Query("red", "Is it red?")]).reads_columns
    assert not PatchQueries((1, 2, 2), 1).reads_columns


def test_our_query_sets_are_registered_and_come_back_by_name() -> None:
    ours = [value for value in vars(queries).values() if isinstance(value, type) and issubclass(value, QuerySet)]
    concrete = [cls for cls in ours if cls is not QuerySet]
    assert {cls.__name__: cls for cls in concrete}.items() <= known("query set").items()
    examples: list[QuerySet] = [
        make_columns(["number", "choice"]),
        PatchQueries((1, 4, 4), 2, threshold=0.5),
        WordQueries([word_query("senat", "senate")]),
        queries.ConceptQueries([Query("red", "Is it red?")], scale="yes/no"),
    ]
    assert {type(example) for example in examples} == set(concrete)
    for query_set in examples:
        again = from_config(json.loads(json.dumps(to_config(query_set))))
        assert type(again) is type(query_set)
        assert again.queries == query_set.queries
        assert again.to_config() == query_set.to_config()
    assert isinstance(examples[0], ColumnQueries)


def test_costs_are_those_of_the_queries_wherever_the_query_set_is() -> None:
    query_set = make_columns(["yes_no", "choice", "number"])
    query_set.queries = tuple(
        replace(query, cost=cost) for query, cost in zip(query_set.queries, (1, 2, 0.5), strict=True)
    )
    assert query_set.costs.tolist() == [1, 2, 0.5]
    assert query_set.costs.dtype == torch.float
    assert query_set.costs is query_set.costs  # read at every step
    assert not any("cost" in name for name in query_set.state_dict())
    assert copy.deepcopy(query_set).costs.tolist() == [1, 2, 0.5]
    assert query_set.to("meta").costs.device.type == "meta"


def test_costs_are_given_by_name_and_kept() -> None:
    concepts = queries.ConceptQueries(
        [Query("red", "Is it red?"), Query("big", "Is it big?", cost=2.0)], scale="yes/no"
    )
    sets: list[QuerySet] = [
        make_columns(["number", "choice", "yes_no"]),
        PatchQueries((1, 4, 4), 2, stride=2, threshold=0.5),
        WordQueries([word_query("senat", "senate"), word_query("tax")]),
        concepts,
    ]
    for query_set in sets:
        first, *others = query_set.queries
        priced = query_set.with_costs({first.name: 2.5})
        assert type(priced) is type(query_set)
        assert priced.costs.tolist() == [2.5, *(query.cost for query in others)]
        assert query_set.costs[0] == 1
        assert from_config(json.loads(json.dumps(to_config(priced)))).queries == priced.queries
        assert priced.with_costs({others[0].name: 0.0}).costs[:2].tolist() == [2.5, 0]
        assert priced.with_options(mask=True).costs.tolist() == priced.costs.tolist()
        assert [query.text for query in priced.queries] == [query.text for query in query_set.queries]


def test_wrong_costs_are_refused() -> None:
    words = WordQueries([word_query("senat", "senate"), word_query("tax")])
    for wrong in (-1, math.inf, math.nan):
        with pytest.raises(ValueError, match="The cost of 'tax' is a number of at least 0"):
            words.with_costs({"tax": wrong})
        with pytest.raises(ValueError, match="at least 0"):
            Query("a", "A?", cost=wrong)
    with pytest.raises(ValueError, match=r"no query 'tex' to give a cost\. Did you mean 'tax'"):
        words.with_costs({"tex": 1})
    with pytest.raises(ValueError, match=r"no query 'unlike' .* Queries are senat, tax"):
        words.with_costs({"unlike": 1})
    with pytest.raises(ValueError, match="costs has 2 numbers, but there are 9 patches"):
        PatchQueries((1, 3, 3), 1, costs=(1, 2))
    with pytest.raises(ValueError, match=r"Digits\(3 queries\) would lose its costs when saved"):
        Digits().with_costs({"digit 0": 2})
