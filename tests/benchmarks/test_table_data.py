"""Tables are read as they are, and rows are split the same way for every method."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import table_data
from table_data import Split, read, split, split_rows, typed

LABELS = np.array(["a"] * 60 + ["b"] * 30 + ["c"] * 9 + ["single"])
NUMBERED = pd.DataFrame({"row": np.arange(100)})


def test_only_an_empty_cell_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "size,label,colour,is_new\n1,x,none,True\n,y,NA,False\n2.5,x,,True\n"
    (tmp_path / "made.csv.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setitem(table_data.TARGETS, "made", "label")
    X, y = read("made", tmp_path)
    assert list(X.columns) == ["size", "colour", "is_new"]
    assert y.tolist() == ["x", "y", "x"]
    assert X["colour"].tolist()[:2] == ["none", "NA"]
    assert X.isna().sum().tolist() == [1, 1, 0]
    assert X["size"].dtype == float


def test_a_folder_without_the_table_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="--data"):
        read("heart", tmp_path)


def test_tables_lie_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURSUIT_DATA", str(tmp_path))
    assert table_data.default_folder() == tmp_path / "tables"


def test_a_fifth_of_every_label_is_tested_and_a_single_row_is_learnt_from() -> None:
    train, test = split_rows(LABELS, seed=3)
    assert sorted([*train, *test]) == list(range(100))
    assert len(test) == 20
    labels, counts = np.unique(LABELS[test], return_counts=True)
    assert dict(zip(labels.tolist(), counts.tolist(), strict=True)) == {"a": 12, "b": 6, "c": 2}
    again, other = split_rows(LABELS, seed=3)[1], split_rows(LABELS, seed=4)[1]
    assert again.tolist() == test.tolist() != other.tolist()


def test_settings_are_chosen_without_test_rows() -> None:
    whole, inner = split(NUMBERED, LABELS, 0), split(NUMBERED, LABELS, 0, is_validation=True)
    tested = set(whole.X_test["row"])
    assert set(inner.X_train["row"]) | set(inner.X_test["row"]) == set(whole.X_train["row"])
    assert not tested & (set(inner.X_train["row"]) | set(inner.X_test["row"]))
    assert inner.shape == {"rows": 80, "test_rows": 16, "columns": 1, "labels": 4}


def test_others_get_categories_and_numbers_with_their_gaps() -> None:
    X = pd.DataFrame(
        {
            "number": [1, 2, None, 4],
            "word": ["red", None, "blue", "green"],
            "yes": [True, False, True, True],
            "empty": [None, None, None, 1.0],
        }
    )
    X_train, X_test = typed(Split(X[:3], np.array([0, 1, 0]), X[3:], np.array([1])))
    assert list(X_train.columns) == list(X_test.columns) == ["number", "word", "yes"]
    assert X_train["word"].cat.categories.tolist() == ["blue", "red"]
    assert X_train.isna().sum().tolist() == [1, 1, 0]
    assert X_test["word"].isna().all()  # it was not there to learn from
    assert X_test["yes"].tolist() == ["True"]
    assert X_test["number"].tolist() == [4.0]


def test_rare_words_of_very_many_are_missing() -> None:
    X = pd.DataFrame({"id": [f"{i:03}" for i in range(300)] + ["007"] * 5})
    (column,) = (typed(Split(X, np.zeros(305), X, np.zeros(305)))[0][name] for name in ["id"])
    assert len(column.cat.categories) == table_data.MOST_CATEGORIES
    assert "007" in column.cat.categories
    assert column.isna().sum() == 300 - table_data.MOST_CATEGORIES
