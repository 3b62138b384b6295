"""Possible answers as a list: every answer is exactly one of them, and people can read what it is."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit.queries import Choice, ColumnQueries, ConceptQueries, Date, Number, PatchQueries, Query, QuerySet, yes_no
from pursuit.queries.answer_values import AnswerValues
from untrained import make_columns


def list_of(query_set: QuerySet, data: Any, n_bins: int = 4) -> tuple[AnswerValues, Tensor, Tensor]:
    """The possible answers as some data have them, and these data."""
    x, available = query_set.answers(data)
    return AnswerValues.listed(query_set, x, available, n_bins), x, available


def number(values: list[float | None], n_bins: int = 4) -> AnswerValues:
    """The possible answers to a single query for a number, which is not scaled."""
    return list_of(ColumnQueries([Number("n", "How many?")]), pd.DataFrame({"n": values}, dtype=float), n_bins)[0]


NUMBERS = st.sampled_from([-40.0, -1.5, 0.0, 0.25, 1.0, 2.0, 3e6]) | st.floats(-5, 5, width=32)
CELLS: dict[str, Any] = {
    "yes_no": st.sampled_from([0, 1]),
    "choice": st.sampled_from(["red", "green", "blue"]),
    "single": st.just("only"),
    "number": NUMBERS,
}

N_CHOICES = {"yes_no": 2, "choice": 3, "single": 1}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]], int]:
    """Types of columns, rows in which anything may be missing and a column may be constant, and a number of bins."""
    types = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=4))
    n_rows = draw(st.integers(1, 12))
    columns = []
    for own in types:
        cells = st.just(draw(CELLS[own])) if draw(st.booleans()) else CELLS[own]  # constant, or not
        missing = draw(st.sampled_from([0, 1, 2]))  # no answer is missing, some are, all are
        column = st.lists((cells, cells | st.none(), st.none())[missing], min_size=n_rows, max_size=n_rows)
        columns.append(draw(column))
    return types, columns, draw(st.integers(2, 9))


@given(tables())
def test_every_answer_is_exactly_one_of_the_possible_ones(table: tuple[list[str], list[list[Any]], int]) -> None:
    types, columns, n_bins = table
    query_set = make_columns(types)
    frame = pd.DataFrame({f"q{i}": pd.Series(column, dtype=object) for i, column in enumerate(columns)})
    for i, own in enumerate(types):
        if own == "number":
            frame[f"q{i}"] = frame[f"q{i}"].astype(float)
    outcomes, x, available = list_of(query_set, frame, n_bins)
    assert len(outcomes) == sum(outcomes.n_values)
    for own, n_values in zip(types, outcomes.n_values, strict=True):
        assert 1 <= n_values <= n_bins if own == "number" else n_values == N_CHOICES[own]
    n_holding = outcomes.by_unit(outcomes.holds(x).int())
    assert (n_holding[available] == 1).all()
    # Also of answers that were not there when the list was made
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(len(x)))
    others = x + noise * torch.tensor([own == "number" for own in query_set.units.feature_types])
    assert (outcomes.by_unit(outcomes.holds(others).int())[available] == 1).all()


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_every_shade_of_a_pixel_is_exactly_one_of_the_possible_ones(threshold: float | None) -> None:
    query_set = PatchQueries((1, 6, 6), size=2, threshold=threshold)
    images = torch.rand(30, 1, 6, 6, generator=torch.Generator().manual_seed(0)).numpy()
    images[:3], images[3:6], images[6:9] = 0.0, 1.0, 0.5
    outcomes, x, _ = list_of(query_set, images, n_bins=5)
    assert outcomes.n_values == [5 if threshold is None else 2] * 36
    assert (outcomes.by_unit(outcomes.holds(x).int()) == 1).all()
    if threshold is None:  # of equal width, whatever the pictures show
        assert outcomes.up_to[:4].tolist() == pytest.approx([-0.6, -0.2, 0.2, 0.6])


def test_intervals_of_a_number_hold_equally_many_answers() -> None:
    outcomes = number(list(range(80)), n_bins=8)
    x = ColumnQueries([Number("n", "How many?")]).answers(pd.DataFrame({"n": np.arange(80.0)})).x
    assert all(9 <= n <= 11 for n in outcomes.holds(x).sum(dim=0).tolist())


def test_equal_numbers_share_an_interval_and_leave_none_empty() -> None:
    values = [0.0] * 30 + [1.0, 2.0, 2.0, 2.0]
    outcomes = number([*values, None], n_bins=8)
    x = ColumnQueries([Number("n", "How many?")]).answers(pd.DataFrame({"n": values})).x
    n_holding = outcomes.holds(x).sum(dim=0)
    assert n_holding[0] == 30
    assert (n_holding > 0).all()


def test_missing_numbers_do_not_move_the_edges() -> None:
    missing: list[float | None] = [None] * 50
    there: list[float | None] = [1.0, 2.0, 3.0, 4.0]
    assert torch.equal(number(there).up_to, number(there + missing).up_to)


@pytest.mark.parametrize("values", [[3.0, 3.0, 3.0], [None, None], [None, 3.0]])
def test_a_number_that_never_differs_has_one_possible_answer(values: list[float | None]) -> None:
    outcomes = number(values)
    assert outcomes.n_values == [1]
    assert outcomes.describe(0) == ["any"]


def test_possible_answers_in_words() -> None:
    query_set = ColumnQueries(
        [
            yes_no("fever"),
            Choice("season", "Which season?", ("spring", "summer", "winter")),
            Number("age", "How old?", centre=40.0, spread=10.0),
            Choice("sex", "Which sex?", ("female", "male")),
            Choice("planet", "Which planet?", ("earth",)),
        ]
    )
    row = {"fever": 1, "season": "summer", "sex": "male", "planet": "earth"}
    outcomes, x, _ = list_of(query_set, pd.DataFrame([row | {"age": age} for age in (20.0, 35.5, 50.0, 65.0)]))
    assert outcomes.describe(0) == ["no", "yes"]
    assert outcomes.describe(1) == ["spring", "summer", "winter"]
    assert outcomes.describe(2) == ["up to 20", "20 to 36", "36 to 50", "above 50"]
    assert outcomes.describe(3) == ["female", "male"]
    assert outcomes.describe(4) == ["earth"]
    # What holds is what the query set itself says of the row.
    holds = outcomes.holds(x)[0]
    for query in (0, 1, 3, 4):
        texts = zip(outcomes.describe(query), holds[outcomes.unit_of_value == query].tolist(), strict=True)
        assert [text for text, is_held in texts if is_held] == [query_set.describe(query, x[0])]


def test_intervals_of_whole_numbers_do_not_share_their_ends() -> None:
    children = Number("children", "How many?", decimals=0, unit="children")
    seen = Date("seen", "When?", centre=20000.0, spread=2.0, decimals=0)
    days = ["2024-03-30", "2024-04-01", "2024-04-02", "2024-04-05"]
    table = pd.DataFrame({"children": [2.0, 4.0, 5.0, 9.0], "seen": days})
    outcomes, _, _ = list_of(ColumnQueries([children, seen]), table)
    assert outcomes.describe(0) == ["up to 2 children", "3 children to 4 children", "5 children", "above 5 children"]
    assert outcomes.describe(1) == ["up to 2024-03-30", "2024-03-31 to 2024-04-01", "2024-04-02", "above 2024-04-02"]
    huge = ColumnQueries([Number("n", "How many?", centre=1e39, spread=1e39, decimals=0)])
    outcomes, _, _ = list_of(huge, pd.DataFrame({"n": [1e39, 2e39, 3e39, 4e39]}))
    assert len(set(outcomes.describe(0))) == 4


def test_possible_probabilities_of_concepts_in_words() -> None:
    query_set = ConceptQueries([Query("beak", "Has it a beak?")])
    outcomes, _, _ = list_of(query_set, np.array([[0.1], [0.3], [0.6], [0.9]]), n_bins=2)
    assert all("30%" in text for text in outcomes.describe(0))
    hard, _, _ = list_of(ConceptQueries([Query("beak", "Has it a beak?")], scale="yes/no"), np.array([[0.1], [0.9]]))
    assert hard.describe(0) == ["no", "yes"]


def test_shares_are_described_as_intervals() -> None:
    query_set = PatchQueries((1, 2, 2), size=1)
    outcomes, _, _ = list_of(query_set, np.zeros((2, 1, 2, 2)), n_bins=4)
    texts = outcomes.describe(3)
    assert len(set(texts)) == 4
    assert texts[0].startswith("up to ")
    assert texts[-1].startswith("above ")


def test_edges_are_saved_with_a_model() -> None:
    query_set = ColumnQueries([Number("n", "How many?"), yes_no("fever")])
    frame = pd.DataFrame({"n": [1.0, 2.0, 3.0, 5.0], "fever": [0, 1, 1, 0]})
    outcomes, x, _ = list_of(query_set, frame)
    assert set(outcomes.state_dict()) == {"above", "up_to"}
    again = AnswerValues(query_set, outcomes.n_values)
    assert not torch.equal(again.holds(x), outcomes.holds(x))
    again.load_state_dict(outcomes.state_dict())
    assert torch.equal(again.holds(x), outcomes.holds(x))
    assert again.describe(0) == outcomes.describe(0)


def test_a_query_set_that_does_not_say_what_answers_are_made_of_is_refused() -> None:
    query_set = ColumnQueries([yes_no("a")])
    x, available = query_set.answers([[1], [0]])
    query_set._units = None
    with pytest.raises(ValueError, match="what answers are made of"):
        AnswerValues.listed(query_set, x, available, 4)
