"""Choices are listed in the order that people expect of them."""

import pandas as pd
import pytest

from pursuit.queries.column import Choice
from pursuit.queries.column_types import guess_queries
from pursuit.queries.scales import SCALES, in_order


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: next(iter(scale)))
def test_a_scale_has_no_word_twice(scale: dict[str, int]) -> None:
    assert list(scale.values()) == list(range(len(scale)))


@pytest.mark.parametrize(
    "expected",
    [
        ["Strongly disagree", "Disagree", "Neither agree nor disagree", "Agree", "Strongly agree"],
        ["Never", "Rarely", "Sometimes", "Often", "Always"],
        ["none", "mild", "moderate", "severe"],
        ["low", "med", "high", "vhigh"],
        ["mar", "apr", "dec"],
        ["<5", "5-9", "18-24", "25-34", "65+"],
        ["under $500", "$500-999", "$1,000 or more"],
        ["below -5", "-5 to 0", "0 to 5", "over 5"],
        ["1st", "2nd", "10th"],
        ["1 - not at all", "5", "10 - very"],
        ["leicht", "mäßig", "Stark"],
        ["blue", "red", "Other"],
        ["Poor", "Good", "Not sure"],
        ["agree", "blue", "disagree"],  # no scale has blue
        ["0-9", "10-19", "many", "none at all"],  # nor has it a number
        [],
    ],
    ids=lambda expected: ", ".join(expected[:2]),
)
def test_in_order(expected: list[str]) -> None:
    assert in_order(sorted(expected)) == expected


def test_a_column_is_asked_for_in_order() -> None:
    X = pd.DataFrame({"pain": ["severe", " Mild", "mild", "none", "moderate", "Mild"] * 10})
    (query,) = guess_queries(X, {}).queries
    assert isinstance(query, Choice)
    assert query.choices == ("none", "Mild", "moderate", "severe")


def test_categories_keep_their_own_order() -> None:
    X = pd.DataFrame({"pain": pd.Categorical(["b", "a", "c"] * 10, categories=["c", "a", "b"])})
    (query,) = guess_queries(X, {}).queries
    assert isinstance(query, Choice)
    assert query.choices == ("c", "a", "b")
