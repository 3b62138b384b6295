"""CSV files as tasks, clean and messy."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from benchmarks.common import TARGETS

from pursuit.queries import Choice, ColumnQueries, Number
from pursuit.research.tasks import load_task, tables
from pursuit.tables.source import name_of, open_table


def unseen(*arguments: Any, **options: Any) -> tuple[pd.DataFrame, np.ndarray | None, str]:
    rows = open_table(*arguments, **options).unseen()
    return rows.X, rows.y, rows.remark


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


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("", "y", "is empty"),
        ("a,y\n", "y", "no rows"),
        ("a,y\n1,2\n", "z", r"no column 'z'"),
        ("a,label\n1,2\n", "lable", r"Did you mean 'label'"),
        ("a,y\n1,2\n", None, r"--target: a, y"),
        ("a,y\n1,\n2,\n", "y", "has no labels"),
        ("a,y\n1,2\n1,2,3,4\n", "y", "4 values in line 3, but only 2 names"),
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
    with pytest.raises(ValueError, match="own queries and labels: --target and --column-type are for CSV files"):
        load_task("digits", target="y", column_types={"a": "date"}, test_share=0.3)


def test_a_folder_of_csv_files_is_not_a_table(tmp_path: Path) -> None:
    write(tmp_path / "b.csv", "a,y\n1,2\n")
    write(tmp_path / "a.csv.gz", "")
    with pytest.raises(ValueError, match=r"is a folder. Give the path of one of the CSV files in it: a.csv.gz, b.csv"):
        load_task(tmp_path, target="y")


def test_rows_without_a_label_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,y\n" + "1,1\n2,0\n3,\n" * 10)
    task = load_task(path, target="y")
    assert task.notes["n_rows_without_label"] == 10
    assert task.y_train.dtype == np.int64
    assert len(task.y_train) + len(task.y_test) == 20


def test_spaces_around_words_do_not_count(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", " a ,y \n" + "x , Yes\n x,No \n,Yes\n  ,No\nz,No\n" * 4)
    task = load_task(path, target="y", test_share=0)
    assert set(task.y_train) == {"Yes", "No"}
    (query,) = task.query_set.queries
    assert query.name == "a"
    assert query.choices == ("x", "z")


def test_columns_that_tell_nothing_are_left_out_and_named(tmp_path: Path) -> None:
    lines = "".join(f"{i},same,,{i % 3},{'' if i == 7 else i % 2}\n" for i in range(40))  # one without a label
    task = load_task(write(tmp_path / "t.csv", "id,constant,empty,a,y\n" + lines), target="y")
    assert [query.name for query in task.query_set.queries] == ["a"]
    assert task.X_train.columns.tolist() == ["a"]
    assert task.notes["unasked_columns"] == ["id", "constant", "empty"]


def test_every_class_of_the_test_rows_is_a_training_class(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,y\n" + "".join(f"{i},w{i % 101}\n" for i in range(300)))
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
    X, y, remark = unseen(table, ["age", "pain"], task.notes)
    pd.testing.assert_frame_equal(X, task.X_test)
    assert y is not None
    assert y.tolist() == task.y_test.tolist()
    assert "only the 20 held-out rows" in remark
    other = tmp_path / "other.csv"
    pd.read_csv(table).iloc[:30].to_csv(other, index=False)
    X, y, remark = unseen(other, ["age", "pain"], task.notes)
    assert len(X) == 30
    assert remark == ""
    pd.read_csv(table).drop(columns="ill").to_csv(other, index=False)
    assert unseen(other, ["age", "pain"], task.notes)[1] is None
    with pytest.raises(ValueError, match="lacks columns the model asks for: height"):
        unseen(other, ["age", "height"], task.notes)
    whole = load_task(table, target="ill", drop=["id"], test_share=0)
    assert "Warning" in unseen(table, ["age", "pain"], whole.notes)[2]


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
        ("query,cost\na,1\na,2\n", "more than one cost for 'a'"),
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


def sick(n: int = 40, **columns: list) -> pd.DataFrame:
    """A table with a label that follows from one column."""
    label = ["flu" if i % 2 else "well" for i in range(n)]
    return pd.DataFrame({"fever": [i % 2 for i in range(n)], **columns, "y": label})


@pytest.mark.parametrize("ending", [".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip", ".tsv", ".tsv.gz"])
def test_a_table_is_called_like_its_file_however_it_is_stored(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"people.2024{ending}"
    sick().to_csv(path, index=False, sep="\t" if "tsv" in ending else ",")
    task = load_task(path, target="y")
    assert task.name == name_of(path) == "people.2024"
    assert (len(task.y_train), len(task.y_test)) == (32, 8)


def test_rows_of_a_group_are_held_out_together_and_again(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    patients = [f"p{i // 4}" for i in range(38)] + ["", ""]
    sick(patient=patients).to_csv(path, index=False)
    task = load_task(path, target="y", group="patient", seed=3)
    assert [query.name for query in task.query_set.queries] == ["fever"]
    held_out = {patients[i] for i in task.X_test.index}
    assert len(held_out) == 2
    assert held_out.isdisjoint(patients[i] for i in task.X_train.index)
    assert task.notes["remarks"] == [
        "The 8 rows of 2 of the 10 groups of 'patient' are held out.",
        "Warning: 2 rows without a value of 'patient' are training rows.",
    ]
    X, y, _ = unseen(path, ["fever"], task.notes)
    assert X.index.tolist() == task.X_test.index.tolist()
    assert y is not None
    assert y.tolist() == task.y_test.tolist()
    chosen = task.validation_split(0.2)
    assert {patients[i] for i in chosen.X_test.index}.isdisjoint(patients[i] for i in chosen.X_train.index)


def test_training_is_told_the_groups(tmp_path: Path) -> None:
    patients = [f"p{i // 4}" for i in range(38)] + ["", ""]
    sick(patient=patients).to_csv(tmp_path / "t.csv", index=False)
    estimator = Mock()
    task = load_task(tmp_path / "t.csv", target="y", group="patient", seed=3)
    task.fit(estimator)
    groups = estimator.fit.call_args.kwargs["groups"]
    names = [patients[i] for i in task.X_train.index]
    assert np.isnan(groups).sum() == names.count("") == 2
    assert pd.Series(names).groupby(groups).nunique().eq(1).all()
    assert len(np.unique(groups[~np.isnan(groups)])) == 8
    load_task(tmp_path / "t.csv", target="y", column_types={"patient": "skip"}).fit(estimator)
    assert estimator.fit.call_args.kwargs["groups"] is None


def test_the_latest_rows_are_held_out_and_again(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    days = [f"{1 + i % 28:02d}.{1 + i // 28:02d}.2024" for i in range(40)]  # which sorts by day as text
    sick(day=days).sample(frac=1, random_state=0).to_csv(path, index=False)
    task = load_task(path, target="y", time="day")
    assert [query.name for query in task.query_set.queries] == ["fever"]
    frame = pd.read_csv(path)
    assert set(frame["day"].iloc[task.X_test.index]) == set(days[-8:])
    assert task.notes["remarks"] == ["The 8 latest rows are held out, from 'day' = 05.02.2024 on."]
    X, _, _ = unseen(path, ["fever"], task.notes)
    assert X.index.tolist() == task.X_test.index.tolist()


def test_held_out_rows_are_those_of_training_whatever_is_asked_for_later(tmp_path: Path) -> None:
    """Other options than those of training change which rows have a label, but not which were held out."""
    path = tmp_path / "t.csv"
    frame = sick(100)
    frame.loc[::10, "y"] = "?"
    frame.to_csv(path, index=False)
    task = load_task(path, target="y", missing=["?"])
    X, y, _ = unseen(path, ["fever"], task.notes, missing=["x"])
    assert X.index.tolist() == task.X_test.index.tolist()
    assert y is not None
    assert set(y) == {"flu", "well"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "fever", "time": "fever"}, "--group or by --time: leave one of them out"),
        ({"group": "fevre"}, "Did you mean 'fever'"),
        ({"drop": ["fever, when"]}, "These are 2 columns: name each with an option of its own"),
        ({"time": "y"}, "has no column 'y'"),
        ({"time": "when"}, r"'when' is not a time: 'soon' in line 3 is neither a number nor a date such as 2024-12-31"),
        ({"test_share": 0.99999}, r"A test share of 0.99999 leaves 0 of 40 rows to train on"),
        ({"test_share": 1.0}, "at least 0 and below 1, not 1.0"),
        ({"decimal": "x"}, "a point or a comma"),
        ({"encoding": "rot13"}, "'rot13' is not a known encoding"),
    ],
)
def test_options_that_cannot_be_get_a_sentence(tmp_path: Path, options: dict, message: str) -> None:
    sick(when=["2024-01-01", "soon"] * 20).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=message):
        load_task(tmp_path / "t.csv", **{"target": "y", "drop": ["when"] if "test_share" in options else [], **options})


@pytest.mark.parametrize(
    ("column", "options", "why"),
    [
        ([1] * 40, {"group": "z"}, "no group of 'z' can be, without all rows of some label"),
        ([1] * 40, {"time": "z"}, "all rows have the same 'z'"),
    ],
)
def test_that_nothing_is_held_out_is_said(tmp_path: Path, column: list, options: dict, why: str) -> None:
    sick(z=column).to_csv(tmp_path / "t.csv", index=False)
    task = load_task(tmp_path / "t.csv", target="y", **options)
    assert len(task.y_test) == 0
    assert f"Warning: no rows are held out to measure on, because {why}." in task.notes["remarks"]


@pytest.mark.parametrize(
    ("labels", "options", "why"),
    [
        (["a", "b"] * 20, {"test_share": 0.001}, "because 0.001 of 40 rows is less than one"),
        (["a", "b"] * 20, {"test_share": 0.99999}, "A test share of 0.99999 leaves 0 of 40 rows to train on"),
        (["a", "b", *range(38)], {"test_share": 0.2}, "0.2 of 40 rows is 8, and 40 rows are the only ones of their"),
        (["a", "a", *range(38)], {"test_share": 0.9}, "0.9 of 40 rows is 36, and 38 rows are the only ones of their"),
        (["a", "b"] * 20, {"test_share": 0.3, "group": "z"}, "because no group of 'z' can be"),
        (["a", "b"] * 20, {"test_share": 0.3, "time": "z"}, "because all rows have the same 'z'"),
    ],
)
def test_a_share_that_leaves_nothing_is_refused_with_the_numbers(
    tmp_path: Path, labels: list, options: dict, why: str
) -> None:
    sick(z=[1] * 40).assign(y=[f"l{label}" for label in labels]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=why):
        load_task(tmp_path / "t.csv", target="y", **options)


def test_by_default_a_table_of_single_rows_is_learnt_whole(tmp_path: Path) -> None:
    sick().assign(y=[f"l{i}" for i in range(40)]).to_csv(tmp_path / "t.csv", index=False)
    task = load_task(tmp_path / "t.csv", target="y")
    assert (len(task.y_train), len(task.y_test), task.notes["test_share"]) == (40, 0, 0.2)


def test_other_files_are_read_like_that_of_training(tmp_path: Path) -> None:
    first, other = tmp_path / "first.csv", tmp_path / "other.csv"
    lines = "".join(f'"{i},5";{"?" if i % 5 else "x"};{"größer" if i % 2 else "kleiner"}\n' for i in range(40))
    first.write_text("a;b;y\n" + lines + "1;y;kleiner\n", encoding="mac-roman")
    task = load_task(first, target="y", missing=["?"], encoding="mac-roman", decimal=",")
    assert set(task.y_train) == {"größer", "kleiner"}
    other.write_text("a,b,y\n" + '"7,5",?,größer\n', encoding="mac-roman")
    X, y, remark = unseen(other, ["a", "b"], task.notes)
    assert (X["a"].tolist(), X["b"].isna().tolist(), remark) == ([7.5], [True], "")
    assert y is not None
    assert y.tolist() == ["größer"]
    X, _, _ = unseen(other, ["a", "b"], task.notes, encoding="latin-1", decimal=".", missing=["7,5"])
    assert (X["a"].isna().tolist(), X["b"].tolist()) == ([True], ["?"])


def test_a_query_set_of_ones_own_gets_all_columns(table: Path) -> None:
    read = []

    def from_data(X: pd.DataFrame) -> ColumnQueries:
        read.append(X.columns.tolist())
        return ColumnQueries.from_data(X[["age"]])

    task = tables.load_table(table, "ill", from_data=from_data)
    assert read == [["id", "age", "pain"]] == [task.X_train.columns.tolist()]
    assert len(task.query_set) == 1


def test_kinds_come_from_texts() -> None:
    assert tables.parse_column_types(["born=date", " a = b = number "]) == {"born": "date", "a = b": "number"}
    for text in ("born", "=date", "born="):
        with pytest.raises(ValueError, match="write COLUMN=KIND, as in born=date"):
            tables.parse_column_types([text])


LARGE = ("nursery", "diamonds", "letter", "bank", "symptoms-773")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in TARGETS]
)
def test_ordinary_tables_need_nothing_but_a_target(name: str) -> None:
    path = Path(os.environ.get("PURSUIT_DATA", "")) / "tables" / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip("the tables are not below $PURSUIT_DATA")
    task = load_task(path, target=TARGETS[name])
    assert task.name == name
    assert len(task.y_test) == pytest.approx(0.2 * task.notes["n_rows"], abs=5)


@pytest.mark.parametrize("digits", [310, 400, 5000])
@pytest.mark.parametrize("target", ["y", "big"])
def test_a_number_of_hundreds_of_digits_is_not_one(tmp_path: Path, digits: int, target: str) -> None:
    frame = sick(big=[*range(39), "9" * digits])
    frame.to_csv(tmp_path / "t.csv", index=False)
    if target == "big":
        with pytest.raises(ValueError, match="has 1 values that are not numbers"):
            load_task(tmp_path / "t.csv", target="big", regress=True)
    else:
        load_task(tmp_path / "t.csv", target="y", column_types={"big": "number"})


def test_the_time_that_rows_are_held_out_from_is_theirs_where_others_have_no_label(tmp_path: Path) -> None:
    rows = "".join(f"{day},{day % 7},{'' if day < 10 else 'xy'[day % 2]}\n" for day in range(100))
    task = load_task(write(tmp_path / "t.csv", "day,a,y\n" + rows), target="y", time="day")
    assert f"from 'day' = {task.X_test.index.min()} on." in task.notes["remarks"][-1]
