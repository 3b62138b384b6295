"""What columns are asked as is said, with the options that change it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pursuit.queries import Choice, Date, Number
from pursuit.research.tasks import load_task
from pursuit.research.tasks.tables import in_options


def write(path: Path, **columns: list) -> Path:
    n = len(next(iter(columns.values())))
    pd.DataFrame({**columns, "y": ["u", "v"] * (n // 2)}).to_csv(path, index=False)
    return path


def test_numbers_with_stray_words_are_numbers_and_that_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", a=[*range(0, 297, 3), "?"])
    task = load_task(path, target="y")
    assert isinstance(task.query_set.queries[0], Number)
    assert task.notes["remarks"] == ["Among the numbers of 'a', '?' count as missing (first in line 101)."]
    assert load_task(path, target="y", missing=["?"]).notes["remarks"] == []


def test_a_mark_among_choices_is_named_with_the_option_as_one_types_it(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", a=["x", "z", "?", "x"] * 5, b=[0, 1, "- -", 1] * 5, c=["+", "-"] * 10)
    first, second = load_task(path, target="y", drop=["c"]).notes["remarks"]
    assert first == "Warning: 'a' holds '?' (first in line 4). If that means missing, add --missing '?'"
    assert second == "Warning: 'b' holds '- -' (first in line 4). If that means missing, add --missing '- -'"
    task = load_task(path, target="y", missing=["?", "- -"])
    assert task.notes["remarks"] == []  # + and - are the answers
    assert [query.choices for query in task.query_set.queries] == [("x", "z"), ("no", "yes"), ("+", "-")]


def test_codes_far_from_other_numbers_are_named_with_the_option_that_makes_them_missing(tmp_path: Path) -> None:
    columns = {"age": [-999, *range(20, 59)], "pain": [-9, *range(10)] * 4, "ok": [99, *range(61, 100)]}
    columns = {name: values[:40] for name, values in columns.items()}
    path = write(tmp_path / "t.csv", **columns, cold=[-9, -3, 0, 4] * 10)
    remarks = load_task(path, target="y").notes["remarks"]
    assert remarks == [
        "Warning: -999 stands among the numbers of 'age'. If that means missing, add --missing -999",
        "Warning: -9 stands among the numbers of 'pain'. If that means missing, add --missing -9",
    ]
    assert load_task(path, target="y", missing=["-999", "-9"]).notes["remarks"] == []
    pd.DataFrame({"a": [1, 2, 3, 5] * 10, "y": [9999, *np.arange(39) / 2]}).to_csv(path, index=False)
    assert load_task(path, target="y", regress=True).notes["remarks"] == [
        "Warning: 9999 stands among the numbers of 'y'. If that means missing, add --missing 9999"
    ]


def test_what_is_not_asked_for_is_said_once_with_the_reason(tmp_path: Path) -> None:
    columns = {"the id": [*range(40)], "same": ["s"] * 40, "v": [1, 2, 3, 5] * 10}
    task = load_task(write(tmp_path / "t.csv", **columns), target="y")
    assert task.notes["remarks"] == [
        "Not asked for: 'the id' (numbers the rows); 'same' (the same in every row). To ask anyway, say what it is: "
        "--column-type 'the id=number'."
    ]
    asked = load_task(tmp_path / "t.csv", target="y", column_types={"the id": "number", "same": "skip"})
    assert [query.name for query in asked.query_set.queries] == ["the id", "v"]
    assert asked.notes["remarks"] == []


def test_columns_that_cannot_be_asked_for_are_left_out_and_named(tmp_path: Path) -> None:
    texts = [f"text {i % 60}" for i in range(120)]
    days = [f"2024-01-{1 + i % 28:02d}" for i in range(120)]
    path = write(tmp_path / "t.csv", note=texts, seen=days, v=[1, 2, 3, 5] * 30)
    task = load_task(path, target="y", costs={"note": 2.0, "v": 3.0})
    assert [query.name for query in task.query_set.queries] == ["seen", "v"]
    assert task.notes["unasked_columns"] == ["note"]
    remark, on_date, leak = task.notes["remarks"]
    assert on_date == "'seen' is asked for as a date. If it is known only afterwards, leave it out."
    assert "gives" in leak  # what is left says which label
    assert remark.startswith("Warning: not asked for. Column 'note'")
    assert "--drop note" in remark
    assert "column_types=" not in remark
    task = load_task(path, target="y", column_types={"seen": "date"}, drop=["note"])
    assert [type(query) for query in task.query_set.queries] == [Date, Number]
    with pytest.raises(ValueError, match=r"Column 'note' .*--drop note"):
        load_task(path, target="y", drop=["v", "seen"])


@pytest.mark.parametrize(
    ("column_types", "message"),
    [
        ({"aa": "number"}, r"has no column 'aa'. Did you mean 'a'"),
        ({"y": "number"}, r"has no column 'y'"),
        (
            {"a": "colour"},
            r"A column is asked as number, .*, words or skip, not as 'colour'",
        ),
        ({"a": "number"}, r"Column 'a' is not a number: .* another type: --column-type a=choice"),
        ({"a": "date"}, r"Column 'a' is not a date"),
    ],
)
def test_kinds_that_cannot_be_get_a_sentence(tmp_path: Path, column_types: dict, message: str) -> None:
    path = write(tmp_path / "t.csv", a=["x", "z"] * 10)
    with pytest.raises(ValueError, match=message):
        load_task(path, target="y", column_types=column_types)


def test_choices_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ward=[1, 2, 3, 4] * 10)
    (query,) = load_task(path, target="y", column_types={"ward": "choice"}).query_set.queries
    assert isinstance(query, Choice)


def test_advice_is_given_in_options() -> None:
    assert in_options("Write column_types={'a b': 'date'}, or column_types={\"it's\": 'skip'}.") == (
        """Write --column-type 'a b=date', or --drop 'it'"'"'s'."""
    )
