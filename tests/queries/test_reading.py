"""What is read as the same: words in any case, no and yes in several languages, and numbers among texts."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from one_column import column, read
from pursuit.queries import ColumnQueries, NotAQuestion, Number
from pursuit.queries.column import fold

# Words that are the same


@pytest.mark.parametrize("dtype", [object, "str", "string", "category"])
def test_words_in_any_case_are_one_choice_as_mostly_written(dtype: Any) -> None:
    values = ["Red", "red ", "RED", "Red", None, "blue", " Blue", "blue", "green"]
    query, answers = read(column(values, dtype=dtype))
    assert query.choices == ("blue", "green", "Red") or dtype == "category"
    assert sorted(query.choices) == ["Red", "blue", "green"]
    assert answers == ["Red"] * 4 + [None] + ["blue"] * 3 + ["green"]


@pytest.mark.parametrize(
    ("values", "choices"),
    [
        (["YES", "Yes", "no", "yes ", "Yes"], ("no", "yes")),
        (["Ja", "NEIN", "ja", "ja"], ("nein", "ja")),
        (["Oui", "Non"], ("Non", "Oui")),
        (["Sí", "no"], ("no", "sí")),
        (["sim", "Não"], ("não", "sim")),
        (["wahr", "falsch"], ("falsch", "wahr")),
        (["Y", "yes", "yes", "N", "no", "no"], ("no", "yes")),
        (["yes", "no", "y"], ("no", "yes")),
    ],
)
def test_no_and_yes_in_any_case_and_several_languages(values: list[str], choices: tuple[str, str]) -> None:
    query, answers = read(column(values))
    assert query.choices == choices
    assert query.text == "a?"
    yes = {"y", "yes", "ja", "oui", "sí", "sim", "wahr"}
    assert answers == [choices[value.strip().casefold() in yes] for value in values]


@given(
    words=st.lists(st.sampled_from(["Red", "blue", "Straße", "İ", "yes", "no"]), min_size=1, max_size=12),
    seed=st.integers(0, 1000),
)
def test_case_and_spaces_never_change_what_is_read(words: list[str], seed: int) -> None:
    randomness = np.random.default_rng(seed)
    changes = (str.upper, str.lower, str.title, lambda word: f" {word}", lambda word: f"{word}\t", str.casefold)
    changed = [changes[randomness.integers(len(changes))](word) for word in words]
    plain = pd.DataFrame({"a": [*words, "Red", "blue"]})
    query_set = ColumnQueries.from_data(plain)
    same = [one if fold(one) == fold(word) else word for one, word in zip(changed, words, strict=True)]
    expected = query_set.answers(plain).x[: len(words)]
    assert torch.equal(query_set.answers(pd.DataFrame({"a": same})).x, expected)
    again = ColumnQueries.from_data(pd.DataFrame({"a": [*same, "Red", "blue"]}))
    assert [fold(value) for value in again.queries[0].choices] == [
        fold(value) for value in query_set.queries[0].choices
    ]
    for row, word in enumerate(same):
        answered = torch.zeros_like(expected[row])
        query_set.tell(answered, 0, word)
        assert torch.equal(answered, expected[row])


# Numbers, and texts among them


def test_numbers_written_as_text_are_numbers() -> None:
    query, answers = read(column([" 1.5", "2e1", None, "-3 "]))
    assert isinstance(query, Number)
    assert query.missing == ()
    assert answers == ["1.5", "20", None, "-3"]


def test_codes_with_leading_zeros_are_choices() -> None:
    query, _ = read(column(["007", "012", "100"] * 3))
    assert query.choices == ("007", "012", "100")


def test_a_few_texts_among_numbers_count_as_missing_with_one_warning() -> None:
    frame = pd.DataFrame({"a": ["?", "n/a", "many", *(str(i) for i in range(60))], "b": ["-", *map(str, range(62))]})
    with pytest.warns(UserWarning, match="among numbers") as caught:
        query_set = ColumnQueries.from_data(frame, ask_all=True)
    (warning,) = caught
    assert str(warning.message) == "Texts among numbers count as missing: '?', 'n/a', 'many' in 'a'; '-' in 'b'."
    assert warning.filename == __file__
    first, _ = query_set.queries
    assert isinstance(first, Number)
    assert (first.centre, first.missing) == (29.5, ("?", "n/a", "many"))


def test_texts_that_were_missing_in_training_are_missing_without_a_word(recwarn: pytest.WarningsRecorder) -> None:
    frame = column(["many", *(str(i) for i in range(60))])
    query_set = ColumnQueries.from_data(frame)
    recwarn.clear()
    assert query_set.answers(column([1.5, "Many ", "-", "?", None])).available[:, 0].tolist() == [True] + [False] * 4
    assert not recwarn.list


@pytest.mark.parametrize(
    ("values", "choices"),
    [
        (["1", "2", "3", "more"] * 5, ("1", "2", "3", "more")),  # a choice among four is no accident
        (["1", "2", "3", "4", "5+"] + ["1", "2"] * 40, ("1", "2", "3", "4", "5+")),  # as rare as it may be
        (["0", "1", "?"], ("0", "1", "?")),
        (["5", "?"], ("5", "?")),
    ],
)
def test_words_beside_a_few_numbers_are_choices(values: list[str], choices: tuple[str, ...]) -> None:
    assert read(column(values))[0].choices == tuple(sorted(choices))


def test_words_for_missing_may_be_many() -> None:
    query, answers = read(column(["unknown"] * 5 + ["3", "7"]))
    assert isinstance(query, Number)
    assert answers == [None] * 5 + ["3", "7"]


def test_numbers_with_too_many_texts_are_refused_with_what_to_do() -> None:
    texts = [f"<{i}" for i in range(20)] + [str(i) for i in range(60)]
    with pytest.raises(NotAQuestion, match=r"holds numbers but for '<0', '<1', '<2' and 17 more: .*'a': 'number'"):
        ColumnQueries.from_data(column(texts * 2))
