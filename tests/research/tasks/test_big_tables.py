"""Parquet files as tasks: what is streamed, what is measured on, and the remarks to the user."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit.research.tasks import load_task
from pursuit.tables import source
from pursuit.tables.source import name_of, open_table
from pursuit.tables.streaming import ParquetRows

pytest.importorskip("pyarrow")


def people(n: int = 400) -> pd.DataFrame:
    randomness = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "age": randomness.integers(20, 60, n),
            "pain": randomness.choice(["yes", "no", None], n),
            "same": 1,
            "ill": randomness.choice(["sick", "well", None], n, p=[0.5, 0.4, 0.1]),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    people().to_parquet(tmp_path / "people.parquet", row_group_size=50, index=False)
    return tmp_path / "people.parquet"


def test_a_file_is_a_task_that_streams(table: Path) -> None:
    task = load_task(table, target="ill", seed=4)
    assert task.name == "people"
    assert isinstance(task.X_train, ParquetRows)
    assert task.y_train is None
    assert [query.name for query in task.query_set.queries] == ["age", "pain"]
    labelled = int(people().ill.notna().sum())
    assert len(task.X_train) + len(task.y_test) == labelled == task.notes["n_rows"]
    assert task.notes["n_rows_without_label"] == 400 - labelled
    assert task.notes["unasked_columns"] == ["id", "same"]
    pd.testing.assert_series_equal(task.X_test.age, people().age[task.X_test.index].astype(float))
    assert task.y_test.tolist() == people().ill[task.X_test.index].tolist()
    with pytest.raises(ValueError, match="streams its rows"):
        task.validation_split()


def test_costs_are_those_of_the_columns(table: Path) -> None:
    task = load_task(table, target="ill", costs={"age": 0, "pain": 2.5, "same": 9})
    assert task.query_set.costs.tolist() == [0, 2.5]
    assert task.query_set.answers(task.X_test).x.shape == (len(task.y_test), 2)
    with pytest.raises(ValueError, match="no query 'agee' to give a cost"):
        load_task(table, target="ill", costs={"agee": 1})


def test_folders_patterns_and_names(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    assert load_task("people.parquet", target="ill").name == "people"
    assert load_task(str(table.parent), target="ill").notes["file"] == "people.parquet"
    assert name_of("data/*.parquet") == "data"
    assert name_of("*.parquet") == "table"
    assert load_task("*.parquet", target="ill").name == "table"


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {}, r"--target: id, age, pain, same, ill"),
        ({}, {"target": "il"}, r"Did you mean 'ill'"),
        ({}, {"target": "ill", "drop": ["agee"]}, r"Did you mean 'age'"),
        ({}, {"target": "ill", "test_share": 1}, r"below 1"),
        ({}, {"target": "ill", "group": "id"}, r"--group is for CSV files, not for Parquet and Arrow files, because"),
        ({}, {"target": "ill", "time": "age"}, r"--time is for CSV files, not .* write the latest rows into a file"),
        ({}, {"target": "ill", "column_types": {"age": "date"}}, r"--column-type is for CSV files"),
        ({}, {"target": "ill", "encoding": "cp1252"}, r"--encoding is for CSV files, .* which is always UTF-8 here"),
    ],
)
def test_mistakes_get_a_sentence(table: Path, change: Any, options: dict[str, Any], message: str) -> None:
    people().assign(**change).to_parquet(table)
    with pytest.raises(ValueError, match=message):
        load_task(table, **options)


def test_columns_that_cannot_be_asked_for_are_left_out_and_named(table: Path) -> None:
    columns = {"when": pd.Timestamp("2020-01-01"), "a note": [f"n{i}" for i in range(400)]}
    people().assign(**columns).to_parquet(table)
    task = load_task(table, target="ill", costs={"when": 2.0, "age": 3.0})
    assert not {"when", "a note"} & {query.name for query in task.query_set.queries}
    numbering, dates, texts, silent = task.notes["remarks"]
    assert numbering == "Not asked for: id (numbers the rows)."
    assert dates.startswith("Warning: not asked for. Column 'when' holds dates")
    assert "--drop 'a note'" in texts
    assert silent == "Not asked for: same (empty, or the same in every row)."
    assert task.query_set.costs.max() == 3


def test_that_nothing_is_held_out_and_rare_labels_are_said(table: Path) -> None:
    ill = people()["ill"].tolist()
    people().assign(ill=["odd", *ill[1:]]).to_parquet(table)
    *_, rare = load_task(table, target="ill").notes["remarks"]
    assert rare.startswith("Warning: 1 of 3 labels has fewer than 3 rows: 'odd'")
    with pytest.raises(ValueError, match=r"No rows would be held out .*, because 1e-09 of 365 rows is too few"):
        load_task(table, target="ill", test_share=1e-9)
    with pytest.raises(ValueError, match=r"A test share of 0.99999 leaves 0 of 365 rows of .* to train on"):
        load_task(table, target="ill", test_share=0.99999)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere.parquet"):
        load_task(tmp_path / "nowhere.parquet", target="y")


COLUMNS = ["age", "pain"]


def unseen(*arguments: Any, **options: Any) -> tuple[pd.DataFrame, np.ndarray | None, str]:
    rows = open_table(*arguments, **options).unseen()
    return rows.X, rows.y, rows.remark


def test_the_training_file_gives_only_held_out_rows(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = load_task(table, target="ill", seed=5)
    X, y, remark = unseen(table, COLUMNS, task.notes)
    pd.testing.assert_frame_equal(X, task.X_test)
    assert y is not None
    assert y.tolist() == task.y_test.tolist()
    assert f"{len(y)} of the {len(y)} held-out rows are used" in remark
    monkeypatch.setattr(source, "MAX_MEASURED", 10)
    few, _, remark = unseen(table, COLUMNS, task.notes)
    assert len(few) == 10
    assert set(few.index) < set(X.index)
    assert f"10 of the {len(y)} held-out rows" in remark


def test_another_file_gives_its_first_rows(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = load_task(table, target="ill").notes
    other = table.with_name("other.parquet")
    people(30).to_parquet(other)
    X, y, remark = unseen(other, COLUMNS, notes)
    wanted = people(30)[people(30).ill.notna()]
    assert X.index.tolist() == wanted.index.tolist()
    assert y is not None
    assert y.tolist() == wanted.ill.tolist()
    assert remark == ""
    monkeypatch.setattr(source, "MAX_MEASURED", 10)
    X, _, remark = unseen(other, COLUMNS, notes)
    assert X.index.tolist() == wanted.index.tolist()[:10]
    assert "has 30 rows: the first 10 are used" in remark


def test_files_without_labels_or_columns(table: Path) -> None:
    notes = load_task(table, target="ill").notes
    other = table.with_name("other.parquet")
    people(30).drop(columns="ill").to_parquet(other)
    X, y, _ = unseen(other, COLUMNS, notes)
    assert len(X) == 30
    assert y is None
    with pytest.raises(ValueError, match="lacks columns the model asks for: height"):
        unseen(other, ["age", "height"], notes)
    with pytest.raises(ValueError, match="no column 'ill'"):
        unseen(other, COLUMNS, notes, target="ill")


def test_a_model_that_has_learnt_from_all_rows(table: Path) -> None:
    whole = load_task(table, target="ill", test_share=0)
    assert len(whole.y_test) == 0
    X, _, remark = unseen(table, COLUMNS, whole.notes)
    assert "Warning" in remark
    assert len(X) == len(whole.X_train)


@pytest.mark.parametrize("make", [lambda n: np.arange(n) % 3, lambda n: np.arange(n) % 2 == 0])
def test_labels_of_other_kinds(table: Path, make: Callable[[int], np.ndarray]) -> None:
    labels = make(400)
    people().assign(ill=labels).to_parquet(table)
    task = load_task(table, target="ill")
    assert task.y_test.tolist() == labels[task.X_test.index].tolist()
    _, y, _ = unseen(table, COLUMNS, task.notes)
    assert y is not None
    assert y.dtype == task.y_test.dtype
