"""CSV files as tasks, clean and messy."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pursuit.queries import Choice, Number
from pursuit.tasks import load_task, tables


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    randomness = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(100)],
            "age": randomness.integers(20, 60, 100),
            "pain": randomness.choice(["yes", "no", None], 100),
            "ill": randomness.choice(["sick", "well"], 100),
        }
    )
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_every_column_but_the_target_is_a_query(table: Path) -> None:
    task = load_task(table, target="ill", drop=["id"])
    assert [query.name for query in task.query_set.queries] == ["age", "pain"]
    assert isinstance(task.query_set.queries[0], Number)
    assert isinstance(task.query_set.queries[1], Choice)
    assert len(task.y_train) == 80
    assert len(task.y_test) == 20
    assert set(task.y_train) == {"sick", "well"}


def test_test_rows_have_no_influence_on_the_scale(table: Path) -> None:
    frame = pd.read_csv(table)
    first = load_task(table, target="ill", drop=["id"])
    frame.loc[first.X_test.index, "age"] = 1000
    frame.to_csv(table, index=False)
    assert load_task(table, target="ill", drop=["id"]).query_set.queries == first.query_set.queries


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_any_usual_separator_byte_order_mark_and_spaces(tmp_path: Path, separator: str) -> None:
    lines = ["size", "label"], ["1", " a"], ["2", " b"], ["3", " a"]
    path = write(tmp_path / "t.csv", "\ufeff" + "\n".join(separator.join(line) for line in lines))
    X, y = tables.split_target(tables.read_csv(path), "label", "t.csv")
    assert X.columns.tolist() == ["size"]
    assert y.tolist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("", "y", "is empty"),
        ("a,y\n", "y", "no rows"),
        ("a,y\n1,2\n", "z", r"no column 'z'"),
        ("a,label\n1,2\n", "lable", r"Did you mean 'label'"),
        ("a,y\n1,2\n", None, r"--target: a, y"),
        ("a,y\n1,\n2,\n", "y", "has no labels"),
        ("a,y\n1,2\n1,2,3,4\n", "y", "not a well-formed CSV"),
        ("y\n1\n2\n", "y", "no columns to ask"),
        ("a,y\ninf,1\n2,0\n", "y", "Infinite"),
    ],
)
def test_bad_files_get_a_sentence(tmp_path: Path, text: str, target: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_task(write(tmp_path / "bad.csv", text), target=target)


def test_no_file_no_text_and_no_such_task(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere.csv"):
        load_task(tmp_path / "nowhere.csv", target="y")
    with pytest.raises(ValueError, match=r"neither a task \(animals, .*digits, .*mnist"):
        load_task("animal")
    (tmp_path / "latin.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match="UTF-8"):
        load_task(tmp_path / "latin.csv", target="y")
    with pytest.raises(ValueError, match="is a folder"):
        tables.read_csv(tmp_path)
    with pytest.raises(ValueError, match="for CSV files"):
        load_task("digits", target="y")


def test_rows_without_a_label_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,y\n" + "1,1\n2,0\n3,\n" * 10)
    task = load_task(path, target="y")
    assert task.notes["n_rows_without_label"] == 10
    assert task.y_train.dtype == np.int64
    assert len(task.y_train) + len(task.y_test) == 20


def test_numbers_with_stray_words(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(100)) + "?,1\n")
    with pytest.warns(UserWarning, match=r"Texts among numbers count as missing: '\?' in 'a'"):
        assert isinstance(load_task(path, target="y", drop=[]).query_set.queries[0], Number)
    assert isinstance(load_task(path, target="y", missing=["?"]).query_set.queries[0], Number)


def test_spaces_around_words_do_not_count(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", " a ,y \n" + "x , Yes\n x,No \n,Yes\n  ,No\nz,No\n" * 4)
    task = load_task(path, target="y", test_share=0)
    assert set(task.y_train) == {"Yes", "No"}
    (query,) = task.query_set.queries
    assert query.name == "a"
    assert query.choices == ("x", "z")


def test_columns_that_tell_nothing_are_left_out_and_numbering_is_noticed(tmp_path: Path) -> None:
    lines = "".join(f"{i},same,,{i % 3},{'' if i == 7 else i % 2}\n" for i in range(20))  # one without a label
    task = load_task(write(tmp_path / "t.csv", "id,constant,empty,a,y\n" + lines), target="y")
    assert [query.name for query in task.query_set.queries] == ["id", "a"]
    assert task.notes["silent_columns"] == ["constant", "empty"]
    assert task.notes["numbering_columns"] == ["id"]


def test_fractions_are_labels_only_if_few(tmp_path: Path) -> None:
    few = write(tmp_path / "few.csv", "a,y\n" + "1,0.5\n2,1.5\n" * 10)
    assert set(load_task(few, target="y").y_train) == {"0.5", "1.5"}
    many = write(tmp_path / "many.csv", "a,y\n" + "".join(f"{i % 3},{i / 7}\n" for i in range(100)))
    with pytest.raises(ValueError, match=r"'y' of many.csv has .* different fractions"):
        load_task(many, target="y")


def test_every_class_of_the_test_rows_is_a_training_class(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,y\n" + "".join(f"{i},{i % 101}\n" for i in range(300)))
    for seed in range(5):
        task = load_task(path, target="y", seed=seed)
        assert set(task.y_test) <= set(task.y_train)
        assert len(task.y_train) + len(task.y_test) == 300


def test_a_class_that_occurs_once_stays_in_training(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,y\n" + "".join(f"{i},common\n" for i in range(30)) + "99,rare\n")
    task = load_task(path, target="y")
    assert "rare" in task.y_train
    assert len(task.y_test) == 6


def test_the_training_file_gives_only_held_out_rows(table: Path, tmp_path: Path) -> None:
    task = load_task(table, target="ill", drop=["id"], seed=5)
    X, y, remark = tables.unseen_rows(table, ["age", "pain"], task.notes)
    pd.testing.assert_frame_equal(X, task.X_test)
    assert y is not None
    assert y.tolist() == task.y_test.tolist()
    assert "only the 20 held-out rows" in remark
    other = tmp_path / "other.csv"
    pd.read_csv(table).iloc[:30].to_csv(other, index=False)
    X, y, remark = tables.unseen_rows(other, ["age", "pain"], task.notes)
    assert len(X) == 30
    assert remark == ""
    pd.read_csv(table).drop(columns="ill").to_csv(other, index=False)
    assert tables.unseen_rows(other, ["age", "pain"], task.notes)[1] is None
    with pytest.raises(ValueError, match="lacks columns the model asks for: height"):
        tables.unseen_rows(other, ["age", "height"], task.notes)
    whole = load_task(table, target="ill", drop=["id"], test_share=0)
    assert "Warning" in tables.unseen_rows(table, ["age", "pain"], whole.notes)[2]


def test_costs_come_from_texts_and_files_and_the_last_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "costs=1.csv", "query;cost;note\n01; 2.5;x\nNA;0;y\n")
    assert tables.parse_costs(["NA=3", str(path), "a = b=4", "01=1e2"]) == {"NA": 0, "01": 100, "a = b": 4}
    assert tables.parse_costs([]) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "query,price\na,1\n",
            "has no column 'cost', only query, price: a file of costs has",
        ),
        ("query,cost\na,1\nb,\n", "The cost of 'b' in .* must be a number of at least 0"),
        ("query,cost\na,cheap\n", "The cost of 'a' in .* must be a number"),
        ("query,cost\na,inf\n", "The cost of 'a' in .* must be a number"),
        ("query,cost\na,nan\n", "The cost of 'a' in .* must be a number"),
        ("query,cost\na,1\na,2\n", "more than one cost of 'a'"),
        ("query,cost\n", "has no rows"),
    ],
)
def test_bad_files_of_costs_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tables.parse_costs([str(write(tmp_path / "costs.csv", text))])


def test_costs_of_columns_that_are_left_out_do_not_matter(table: Path) -> None:
    frame = pd.read_csv(table).assign(same=1)
    frame.to_csv(table, index=False)
    costs = {"id": 3.0, "same": 2.0, "pain": 5.0}
    task = load_task(table, target="ill", drop=["id"], costs=costs)
    assert task.query_set.costs.tolist() == [1, 5]
    with pytest.raises(ValueError, match="no query 'ill' to give a cost"):
        load_task(table, target="ill", drop=["id"], costs={"ill": 1})
