"""Labels are classes; amounts are not, and what may be a mistake is said."""

import numpy as np
import pandas as pd
import pytest

from pursuit.tables.labels import as_known, refuse_amounts, remark_on_same, remarks_on_labels, same_labels, split_target


def labels_of(column: list) -> np.ndarray:
    return split_target(pd.DataFrame({"a": range(len(column)), "y": column}), "y", "t.csv")[1]


def test_labels_keep_their_type_where_they_can_be_sorted() -> None:
    assert labels_of([2, 1, 2]).dtype == np.int64
    assert labels_of([2.0, np.nan, 1.0]).tolist() == [2, 1]
    assert labels_of([True, False]).dtype == bool
    assert labels_of(["b", None, "a"]).tolist() == ["b", "a"]
    assert labels_of([0.5, 1.0] * 5).tolist() == ["0.5", "1.0"] * 5
    assert labels_of([1, "x", 2.5, True]).tolist() == ["1", "x", "2.5", "True"]


def test_rows_without_a_label_are_left_out() -> None:
    X, _ = split_target(pd.DataFrame({"a": [1, 2, 3], "y": ["u", None, "v"]}), "y", "t.csv")
    assert X.to_dict() == {"a": {0: 1, 2: 3}}


def test_a_column_of_nothing_is_not_one_of_labels() -> None:
    with pytest.raises(ValueError, match=r"'y' of t.csv has no labels"):
        labels_of([None, None])


def test_numbers_to_predict_are_all_numbers() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "y": ["1.5", None, "2"]})
    X, y = split_target(frame, "y", "t.csv", regress=True)
    assert (X["a"].tolist(), y.tolist()) == ([1, 3], [1.5, 2])
    with pytest.raises(ValueError, match=r"'y' of t.csv has 1 values that are not numbers, such as 'x'"):
        split_target(frame.assign(y=["1", "x", "2"]), "y", "t.csv", regress=True)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([i / 7 for i in range(100)], r"'y' of t.csv has 100 different fractions in 100 rows.* train with --regress"),
        (
            [3 * i for i in range(500)],
            r"'y' of t.csv has 500 different whole numbers in 500 rows.* train with --regress",
        ),
    ],
)
def test_amounts_are_not_labels(column: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        refuse_amounts(pd.Series(column, name="y"), "t.csv")


def test_many_numbers_with_many_rows_each_are_labels_after_a_word() -> None:
    refuse_amounts(pd.Series(list(range(60)) * 20), "t.csv")
    y = labels_of(list(range(60)) * 20)
    assert remarks_on_labels(y) == [
        "The labels are 60 different whole numbers, each a class of its own. If they are amounts, add --regress to "
        "predict a number."
    ]
    assert remarks_on_labels(labels_of(list(range(50)) * 3)) == []


def test_a_file_without_a_header_line() -> None:
    frame = pd.DataFrame([[4.9, 3.0]], columns=["5.1", "3.5"])
    with pytest.raises(ValueError, match=r"its first line holds 5.1, 3.5. A header line with the names of"):
        split_target(frame, "species", "iris.csv")
    with pytest.raises(ValueError, match=r"Which column of iris.csv is the label\? Name it with --target: 5.1, 3.5"):
        split_target(frame, None, "iris.csv")


def test_labels_with_few_rows_are_named_in_one_line() -> None:
    (remark,) = remarks_on_labels(np.array(["a"] * 9 + ["b"] * 3 + ["x"] + ["y"] * 2))
    assert remark.startswith(
        "Warning: 2 of 4 labels have fewer than 3 rows: 'x', 'y'. Such labels can hardly be learnt"
    )
    (remark,) = remarks_on_labels(np.array(["a"] * 9 + ["x"]))
    assert "1 of 2 labels has fewer than 3 rows: 'x'" in remark


def test_labels_that_differ_only_in_case_or_spaces_are_named() -> None:
    (remark,) = remarks_on_labels(np.array(["Flu"] * 5 + ["flu"] * 3 + ["Common  cold"] * 3 + ["common cold"] * 4))
    assert "'Flu' (5 rows) and 'flu' (3 rows)" in remark
    assert "'Common  cold' (3 rows) and 'common cold' (4 rows)" in remark
    assert remarks_on_labels(np.array(["flu", "flue"] * 3)) == []


@pytest.mark.parametrize("names", [["a b y"], ["My table", "Unnamed: 1", "Unnamed: 2"]])
def test_a_header_line_that_is_not_the_first(names: list[str]) -> None:
    with pytest.raises(ValueError, match=r"has no column 'y': its first line holds .* delete what stands above it"):
        split_target(pd.DataFrame([range(len(names))], columns=names), "y", "t.csv")


@pytest.mark.parametrize(
    ("labels", "same"),
    [
        ({"yes": 3, "Yes": 9, "Y": 2, "no": 5, "N": 1}, {"yes": "Yes", "Y": "Yes", "N": "no"}),
        ({"Yes": 3, "No": 9}, {}),
        ({"Ja": 3, "j": 1, "nein": 2}, {"j": "Ja"}),
        ({"Ja": 3, "q": 1, "nein": 2}, {}),
        ({"Ja": 3, "ja": 4, "nein": 2, "NEIN": 1}, {"Ja": "ja", "NEIN": "nein"}),
        ({"pos": 3, "positive": 1, "neg": 2}, {"pos": "positive"}),
        ({"yes": 3, "no": 2, "maybe": 2, "Maybe": 9}, {"maybe": "Maybe"}),
        ({"Flu": 5, "flu": 3, "Common  cold": 3, "common cold": 4}, {"flu": "Flu", "Common  cold": "common cold"}),
        ({"a": 3, "A": 3, "b": 2}, {}),
        ({"y": 3, "n": 3}, {}),
        ({1: 3, 2: 5}, {}),
    ],
)
def test_labels_written_in_several_ways_are_one(labels: dict, same: dict[str, str]) -> None:
    assert same_labels(list(labels), list(labels.values())) == same
    assert len(remark_on_same(same)) == bool(same)


def test_labels_of_other_rows_are_those_that_the_model_knows() -> None:
    known = as_known(pd.Series(["Y", "no", "NO", "maybe"]), np.array(["no", "yes"]))
    assert known.tolist() == ["yes", "no", "no", "maybe"]
    assert as_known(pd.Series(["FLU", "cold"]), np.array(["Flu", "other"])).tolist() == ["Flu", "cold"]
    assert as_known(pd.Series(["A"]), np.array(["a", "b"])).tolist() == ["A"]
