"""Doubts: a number far outside the training rows is asked for again, with what may have been meant."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit.queries import Choice, ColumnQueries, Date, DoubtfulAnswer, Number, PatchQueries
from pursuit.queries.scaling import rounded_outward, usual_range

N_ROWS = 1000
COLUMNS = {
    "even": lambda randomness: randomness.uniform(0, 5, N_ROWS),
    "normal": lambda randomness: randomness.normal(120, 15, N_ROWS),
    "skewed": lambda randomness: randomness.lognormal(0, 1, N_ROWS),
    "very skewed": lambda randomness: randomness.lognormal(0, 2, N_ROWS),
    "heavy tails": lambda randomness: randomness.standard_t(2, N_ROWS),
    "heavier tails": lambda randomness: randomness.standard_cauchy(N_ROWS),
    "counts": lambda randomness: randomness.poisson(0.5, N_ROWS),
    "nearly all zero": lambda randomness: randomness.binomial(1, 0.004, N_ROWS) * randomness.integers(1, 30, N_ROWS),
    "two groups": lambda randomness: np.where(randomness.random(N_ROWS) < 0.02, 500.0, randomness.normal(0, 1, N_ROWS)),
    "ages": lambda randomness: randomness.integers(18, 95, N_ROWS),
    "constant": lambda randomness: np.full(N_ROWS, 7.0),
    "tiny": lambda randomness: np.array([1.0, 2.0, 2.5, 900.0]),
    "few": lambda randomness: randomness.normal(0, 1, 30),
}
FLAVANOIDS = Number("flavanoids", "flavanoids?", centre=2.1, spread=1.0, seen=(0.34, 5.08))
FEVER = Number("temperature", "How hot?", centre=37.0, spread=0.7, seen=(35.0, 42.0), unit="°C")


@pytest.mark.parametrize(
    ("query", "number", "suggestions"),
    [
        (FLAVANOIDS, 1065, ("1.065",)),
        (FLAVANOIDS, 37.5, ("3.75",)),
        (FLAVANOIDS, 9e9, ()),
        (FLAVANOIDS, -2.5, ("2.5",)),
        (FLAVANOIDS, -25, ("2.5",)),
        (FEVER, 375, ("37.5",)),
        (FEVER, 3.75, ("37.5",)),
        (FEVER, 98.6, ()),  # Fahrenheit is not a slip of the decimal point
        (FEVER, 0, ()),
        (Number("change", "Change?", seen=(-5.0, 5.0)), -40, ("-4",)),
        (Number("same", "Same?", spread=1.0, seen=(7.0, 7.0)), 70, ("7",)),
        (Number("days", "Since when?", seen=(0.0, 9.0)), -1, ("1",)),
    ],
)
def test_what_is_far_outside_is_doubtful(query: Number, number: float, suggestions: tuple[str, ...]) -> None:
    doubt = query.doubt(number)
    assert doubt is not None
    assert doubt.suggestions == suggestions
    assert (doubt.query, doubt.text) == (query.name, query.text)
    assert json.loads(json.dumps(doubt.to_dict()))["suggestions"] == list(suggestions)
    if suggestions:
        assert str(doubt).endswith(f"Did you mean {suggestions[0]}?")
        assert query.doubt(float(suggestions[0])) is None
    else:
        assert str(doubt).endswith("Is that right?")


@pytest.mark.parametrize("number", [0.34, 2, 5.08, 7, 0.1, 0])
def test_what_is_near_is_not(number: float) -> None:
    assert FLAVANOIDS.doubt(number) is None


def test_a_doubt_reads_naturally() -> None:
    assert str(FEVER.doubt(375)) == "375 °C is far outside the usual range of 35 to 42 °C. Did you mean 37.5?"


def test_nothing_is_doubted_where_nothing_is_known_or_a_range_says_what_is_accepted() -> None:
    assert Number("a", "A?").doubt(1e9) is None
    ranged = Number("pulse", "Pulse?", seen=(50.0, 120.0), low=20.0, high=250.0)
    assert ranged.doubt(240) is None
    assert Number("pulse", "Pulse?", seen=(50.0, 120.0), low=0.0).doubt(2) is None
    half = Number("pulse", "Pulse?", seen=(50.0, 120.0), low=0.0).doubt(1000)
    assert half is not None
    assert half.suggestions == ("100",)


def test_dates_move_on() -> None:
    query = Date("visit", "When?", seen=(20000.0, 20030.0))  # October 2024
    assert query.doubt(query.read("2025-10-01")) is None
    doubt = query.doubt(query.read("2204-10-20"))
    assert doubt is not None
    assert doubt.usual == "2024-10-04 to 2024-11-03"
    assert doubt.suggestions == ()


@pytest.mark.parametrize(("answer", "is_doubtful"), [("1065", True), (1065, True), ("2,5", False), ("x", False)])
def test_a_query_set_doubts_what_a_person_says(answer: Any, is_doubtful: bool) -> None:
    query_set = ColumnQueries([FLAVANOIDS, Choice("where", "Where?", ("here", "there"))])
    assert (query_set.doubt(0, answer) is not None) == is_doubtful
    assert query_set.doubt(1, answer) is None
    assert PatchQueries((1, 2, 2), size=2).doubt(0, [[0, 1e9], [0, 0]]) is None


@pytest.mark.parametrize(
    ("answer", "seen", "decimals", "is_doubtful"),
    [
        ("2.500", (0.5, 5000.0), 1, True),
        ("2.500", (1000.0, 5000.0), 3, True),
        ("2.500", (0.5, 5000.0), 3, False),  # such decimals are usual
        ("2.500", (0.5, 10.0), 1, False),  # such thousands are not
        ("2.50", (0.5, 5000.0), 2, False),
        (2.5, (0.5, 5000.0), 1, False),
    ],
)
def test_a_point_that_may_stand_between_thousands_is_doubted(
    answer: Any, seen: tuple[float, float], decimals: int, is_doubtful: bool
) -> None:
    doubt = ColumnQueries([Number("price", "Price?", seen=seen, decimals=decimals, unit="€")]).doubt(0, answer)
    expected = "The point of 2.5 € may stand between thousands. Did you mean 2500?"
    assert str(doubt) == (expected if is_doubtful else "None")


def test_not_given_is_not_doubtful() -> None:
    query = Number("a", "A?", seen=(0.0, 1.0), may_be_missing=True)
    assert ColumnQueries([query]).doubt(0, "not given") is None


def test_the_error_says_what_to_do() -> None:
    doubt = FLAVANOIDS.doubt(1065)
    assert doubt is not None
    error = DoubtfulAnswer(doubt)
    assert error.doubt is doubt
    assert isinstance(error, ValueError)
    assert "Did you mean 1.065? If it is right, give it again with confirmed=True." in str(error)


def trained(values: Any) -> Number:
    """The query that a column is after training."""
    (query,) = ColumnQueries.from_data(pd.DataFrame({"a": values}), column_types={"a": "number"}).queries
    assert isinstance(query, Number)
    return query


@pytest.mark.parametrize("name", COLUMNS)
def test_what_training_saw_is_nearly_never_doubted(name: str) -> None:
    n_doubted, n_values = 0, 0
    for seed in range(10):
        values = COLUMNS[name](np.random.default_rng(seed))
        query = trained(values)
        n_doubted += sum(query.doubt(float(value)) is not None for value in values)
        n_values += len(values)
    assert n_doubted <= (0.0005 * n_values if "tails" in name or name == "very skewed" else 0)


@pytest.mark.parametrize("code", [9999, -999, 1e6])
@pytest.mark.parametrize("name", ["even", "normal", "skewed", "counts", "ages", "few"])
def test_a_stray_code_does_not_make_everything_usual(name: str, code: float) -> None:
    values = COLUMNS[name](np.random.default_rng(0)).astype(float)
    clean, query = trained(values), trained(np.concatenate([values, [code] * (1 if name == "few" else 5)]))
    assert clean.seen is not None
    assert query.seen == clean.seen
    slip = clean.seen[1] * 100 if name == "skewed" else max(clean.seen[1] * 10, clean.seen[1] + 90)
    doubt = query.doubt(slip)
    assert doubt is not None
    assert query.doubt(code) is not None


def test_strays_at_both_ends_are_left_out_and_long_tails_are_not() -> None:
    values = [*range(100), 9999, -9999]
    assert usual_range(np.array(values)) == (0, 99)
    assert usual_range(np.array([*range(1000), 4000, 15_000])) == (0, 15_000)  # one after the other
    assert usual_range(np.array([*range(1000), 15_000])) == (0, 999)
    assert usual_range(np.array([*([5.0] * 98), 6.0, 9.0])) == (5, 9)  # nothing to judge them by
    assert usual_range(np.array([1.0, 2.0, 9999.0])) == (1, 9999)  # too few to say


@pytest.mark.parametrize(
    ("ends", "rounded"),
    [((17.123, 99.877), (0, 100)), ((35.1, 41.8), (34, 42)), ((0, 16), (0, 20)), ((-0.031, 0.26), (-0.1, 0.3))],
)
def test_ranges_are_told_in_round_numbers(ends: tuple[float, float], rounded: tuple[float, float]) -> None:
    """The exact ends are numbers of two people."""
    assert rounded_outward(*ends) == rounded
    assert rounded_outward(3.0, 3.0) == (3.0, 3.0)
    values = np.linspace(*ends, 200)
    assert trained(values).seen == rounded


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (["2023-05-01", "2023-11-30"], "2023-01-01 to 2023-12-31"),
        (["2023-05-01 08:17", "2023-11-30 14:03"], "2023-01-01 00:00 to 2024-01-01 00:00"),
    ],
)
def test_ranges_of_dates_are_told_in_whole_years(days: list[str], expected: str) -> None:
    """The time of day of the first and the last one would be that of two people."""
    (query,) = ColumnQueries.from_data(pd.DataFrame({"a": days}), column_types={"a": "date"}).queries
    assert query.expected == expected


def test_a_slip_is_found_beside_a_code_for_missing_values() -> None:
    temperatures = np.random.default_rng(0).normal(37, 0.6, 400).round(1)
    temperatures[7] = 9999
    doubt = trained(temperatures).doubt(375)
    assert doubt is not None
    assert doubt.suggestions == ("37.5",)
    assert "9999" not in doubt.usual


def test_numbers_beyond_all_measure_have_a_range() -> None:
    huge = np.array([*range(60), 1.7e308, -1.7e308] + [9e307, -9e307] * 3, dtype=float)
    low, high = usual_range(huge)
    assert low < high
