"""Numbers are numbers however they are written, and texts stay texts."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.tasks.files.notation import has_decimal_comma, plainly_written, with_points, without_unit

numbers = st.lists(st.decimals(-(10**9), 10**9, places=2).map(float), min_size=1, max_size=8)


@given(numbers, st.sampled_from(["{}", "{} %", "{}€", "$ {}", "£{}"]))
def test_grouped_numbers_with_units_are_read(values: list[float], unit: str) -> None:
    column = pd.Series([unit.format(f"{value:,.2f}") for value in values], dtype="str")
    plain = plainly_written(column, commas_group=True)
    if plain is None:
        assert column.str.fullmatch("[^,$€£¥%]*").all()
    else:
        assert plain.tolist() == values


@given(numbers, st.sampled_from(["{}", "{} %", "{} €"]), st.booleans())
def test_decimal_commas_with_units_are_read(values: list[float], unit: str, grouped: bool) -> None:
    texts = [f"{value:,.2f}" if grouped else f"{value:.2f}" for value in values]
    column = pd.Series([unit.format(text.translate(str.maketrans(",.", ".,"))) for text in texts], dtype="str")
    assert has_decimal_comma(column, is_usual=True)
    assert with_points(column, even_if_few=False).tolist() == values


@pytest.mark.parametrize(
    "texts",
    [
        ["1", "2.5"],  # numbers already
        ["1,2", "3,4"],  # lists, or decimals
        ["1,23,456", "7"],
        ["$5", "7 €"],  # different units
        ["a%", "b%"],
        ["-", "?"],
        [],
    ],
)
def test_other_texts_stay(texts: list[str]) -> None:
    assert plainly_written(pd.Series(texts, dtype="str"), commas_group=True) is None


def test_commas_group_only_where_they_may() -> None:
    column = pd.Series(["1,234", "5"], dtype="str")
    assert plainly_written(column, commas_group=False) is None
    grouped, percent = plainly_written(column, True), plainly_written(pd.Series(["5 %", None], dtype="str"), False)
    assert grouped is not None
    assert grouped.tolist() == [1234, 5]
    assert percent is not None
    assert percent[0] == 5


def test_a_few_words_among_numbers_stay() -> None:
    plain = plainly_written(pd.Series([*(f"${i}" for i in range(20)), "?"], dtype="str"), commas_group=True)
    assert plain is not None
    assert plain.tolist() == [*map(str, range(20)), "?"]


def test_only_one_unit_is_taken_off() -> None:
    assert without_unit(pd.Series(["5 %", "6%", "7", "50% off"])).tolist() == ["5", "6", "7", "50% off"]
    assert without_unit(pd.Series(["$5", "6%"])).tolist() == ["$5", "6%"]
