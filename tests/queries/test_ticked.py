"""Columns that are ticked or left empty are yes/no questions: in memory, in files, in sessions and questions files."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit import ColumnQueries, Questions, VIPClassifier, load
from pursuit.queries.column import Choice
from pursuit.research.tasks import load_task
from pursuit.tables.streaming import ParquetRows

N = 40


def ticks(value: Any, n_ticked: int = 10, empty: Any = None) -> list[Any]:
    return [value] * n_ticked + [empty] * (N - n_ticked)


def guess(column: Any, name: str = "fever", **options: Any) -> Choice | None:
    """What a column is asked as, beside another; None: it is not asked for."""
    frame = pd.DataFrame({name: column, "age": np.random.default_rng(0).normal(size=len(column))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        queries = ColumnQueries.from_data(frame, **options).queries
    found = queries[0] if queries[0].name == name else None
    assert found is None or isinstance(found, Choice)
    return found


@pytest.mark.parametrize(
    ("column", "choices", "values"),
    [
        (ticks("x"), ("no", "yes"), ("no", "x")),
        (ticks("X", empty=""), ("no", "yes"), ("no", "X")),
        (ticks("x", empty=np.nan), ("no", "yes"), ("no", "x")),
        (ticks("✓", 39), ("no", "yes"), ("no", "✓")),
        (ticks("Fever", 39), ("no", "yes"), ("no", "Fever")),
        (ticks("Ja"), ("nein", "ja"), ("nein", "Ja")),
        (ticks(1), ("no", "yes"), (0, 1)),
        (ticks(1.0, 39, np.nan), ("no", "yes"), (0, 1)),
        (pd.array(ticks(1), dtype="Int64"), ("no", "yes"), (0, 1)),
        (pd.array(ticks(True), dtype="boolean"), ("no", "yes"), (0, 1)),
        (ticks(True), ("no", "yes"), (0, 1)),
        (ticks("1"), ("no", "yes"), (0, 1)),
        (pd.Categorical(ticks("x")), ("no", "yes"), ("no", "x")),
    ],
)
def test_a_tick_or_nothing_is_yes_or_no(column: Any, choices: tuple[str, ...], values: tuple[Any, ...]) -> None:
    query = guess(column)
    assert query is not None
    assert (query.text, query.choices, query.values) == ("fever?", choices, values)
    assert query.is_yes_no
    queries = ColumnQueries([query])
    x, available = queries.answers(pd.DataFrame({"fever": column}))
    assert available.all()
    assert x[:, 0].tolist() == [1.0 if value == value and value not in (None, "") else -1.0 for value in _plain(column)]


def _plain(column: Any) -> list[Any]:
    return pd.Series(column).astype(object).where(pd.Series(column).notna(), None).tolist()


def test_another_value_is_asked_for_where_most_cells_are_empty() -> None:
    for value, text in (("Bonn", "home town: Bonn?"), (500, "home town: 500?")):
        query = guess(ticks(value, 20), "home_town")
        assert query is not None
        assert (query.text, query.choices, query.values) == (text, ("no", "yes"), ("no", value))
    assert guess(ticks("Bonn", 21), "home_town") is None
    assert guess(ticks("Bonn", 1), "home_town") is None


@pytest.mark.parametrize(
    "column",
    [
        [None] * N,
        ["x"] * N,
        [1] * N,
        ticks("DE", 39),
        ticks("no"),
        ticks(0),
        ticks(False),
        ticks("?"),
        pd.Categorical(ticks("yes"), ["no", "yes"]),  # which says that no is written, too
    ],
)
def test_what_says_nothing_is_still_left_out(column: Any) -> None:
    assert guess(column) is None


def test_a_kind_says_that_empty_cells_mean_no() -> None:
    query = guess(ticks("DE", 39), "country", column_types={"country": "yes/no"})
    assert query is not None
    assert (query.text, query.empty_means) == ("country: DE?", "no")
    assert guess(["DE"] * N, "country", column_types={"country": "choice"}).empty_means is None  # type: ignore[union-attr]
    two = guess([*ticks("yes", empty="no")[:-1], None], column_types={"fever": "yes/no"})
    assert two is not None
    assert two.empty_means is None  # an empty cell beside yes and no is missing


def test_one_warning_names_them() -> None:
    frame = pd.DataFrame({"fever": ticks("x"), "cough": ticks(1), "age": np.random.default_rng(0).normal(size=N)})
    with pytest.warns(UserWarning, match="Empty cells mean no, .*: 'fever', 'cough'") as said:
        ColumnQueries.from_data(frame)
    assert len(said) == 1


def test_what_new_rows_say() -> None:
    query = guess(ticks("x"))
    assert query is not None
    new = pd.DataFrame({"fever": ["x", " X ", "yes", "no", "", None, "?"]})
    with pytest.warns(UserWarning, match="never seen in training count as unknown: 1 of 'fever'"):
        x, available = ColumnQueries([query]).answers(new)
    assert x[:6, 0].tolist() == [1, 1, 1, -1, -1, -1]
    assert available[:, 0].tolist() == [True] * 6 + [False]
    number = guess(ticks(1))
    assert number is not None
    assert ColumnQueries([number]).answers(pd.DataFrame({"fever": [1.0, 0.0, np.nan]})).x[:, 0].tolist() == [1, -1, -1]


def test_that_a_value_is_missing_informs_only_where_it_is_missing() -> None:
    assert not guess(ticks("x"), missing_informs=True).may_be_missing  # type: ignore[union-attr]
    for n_there in (15, 25):
        country = guess(ticks("DE", n_there), "country", missing_informs=True)
        assert country is not None
        assert country.may_be_missing
        assert country.choices == ("DE",)


def test_an_empty_cell_stands_for_a_value() -> None:
    with pytest.raises(ValueError, match="An empty cell of 'a' stands for one of no, yes, not for 'maybe'"):
        Choice("a", "a?", ("no", "yes"), empty_means="maybe")


def test_a_questions_file_words_and_orders_them(tmp_path: Path) -> None:
    frame = pd.DataFrame({"fever": ticks("x"), "age": np.random.default_rng(0).normal(size=N)})
    with pytest.warns(UserWarning, match="Empty cells mean no"):
        text = Questions.draft(ColumnQueries.from_data(frame))
    assert '"no" = "no", "x" = "yes"' in text
    path = tmp_path / "questions.toml"
    path.write_text(text.replace('"no" = "no", "x" = "yes"', '"x" = "has it", "no" = "has it not"'))
    with pytest.warns(UserWarning, match="Empty cells mean no"):
        queries = ColumnQueries.from_data(frame, questions=path)
    assert queries.queries[0].choices == ("has it", "has it not")
    x, available = queries.answers(frame)
    assert available.all()
    assert [queries.describe(0, row) for row in x[[0, -1]]] == ["has it", "has it not"]
    path.write_text('[questions.fever]\ntype = "yes/no"\n')
    assert ColumnQueries.from_data(frame, questions=path).queries[0].empty_means == "no"  # type: ignore[union-attr]


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ill = rng.random(300) < 0.5
    return pd.DataFrame(
        {
            "fever": np.where(ill & (rng.random(300) < 0.9), "x", None),
            "cough": np.where(ill | (rng.random(300) < 0.2), 1.0, np.nan),
            "town": np.where(rng.random(300) < 0.3, "Bonn", None),
            "country": np.where(rng.random(300) < 0.9, "DE", None),
            "blank": np.where(rng.random(300) < 0.4, "x", " "),
            "ill": np.where(ill, "ill", "well"),
        }
    )


def test_a_session_asks_and_a_saved_model_reads_empty_cells(tmp_path: Path) -> None:
    frame = patients()
    y = frame.pop("ill")
    with pytest.warns(UserWarning, match="Empty cells mean no"):
        model = VIPClassifier(random_state=0).fit(frame, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert (again.predict(frame) == model.predict(frame)).all()
    assert again.score(frame, y) > 0.85
    session = again.session()
    question = session.ask()
    assert question.text in ("fever?", "cough?")
    assert question.expected == "no/yes"
    session.tell("yes")
    assert all(step.answer in ("no", "yes") for step in model.explain(frame[:5])[4].steps)


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_files_are_read_alike(ending: str, tmp_path: Path) -> None:
    path, frame = tmp_path / f"patients.{ending}", patients()
    match ending:
        case "csv":
            frame.to_csv(path, index=False)
        case "parquet":
            frame.to_parquet(path, row_group_size=50)
        case _:
            frame.to_feather(path)
    task = load_task(path, target="ill")
    asked = {query.name: query for query in task.query_set.queries}
    assert list(asked) == ["fever", "cough", "town", "blank"]
    assert [query.text for query in asked.values()] == ["fever?", "cough?", "town: Bonn?", "blank?"]
    assert (
        "Empty cells mean no, because there is only one value beside them: 'fever', 'cough', 'town', 'blank'."
        in (task.notes["remarks"])
    )
    in_memory = ColumnQueries(list(task.query_set.queries)).answers(frame)
    assert in_memory.available.all()
    if ending != "csv":
        rows = ParquetRows(path, "ill")
        assert rows.silent_columns == ["country"]
        drawn = rows.hold_out(0.5, 100, 0)[1]
        assert drawn.available.all()
        assert drawn.x.unique().tolist() == [-1, 1]


def test_numbers_of_files_that_record_nulls(tmp_path: Path) -> None:
    n = 200
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "once": pd.array([1] * 100 + [None] * 100, dtype="Int64"),
            "always": 1,
            "flag": pd.array([True] * 50 + [None] * 150, dtype="boolean"),
            "word": pd.Categorical(["x"] * 20 + [None] * 180),
            "age": rng.normal(size=n),
            "y": rng.integers(2, size=n),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=25)  # some groups hold nothing but ones, or nothing
    rows = ParquetRows(tmp_path / "t.parquet", "y")
    assert rows.query_set is not None
    assert [query.name for query in rows.query_set.queries] == ["once", "flag", "word", "age"]
    assert rows.silent_columns == ["always"]
    assert rows.query_set.answers(frame).x[:, :3].mean(dim=0).tolist() == pytest.approx([0, -0.5, -0.8])
