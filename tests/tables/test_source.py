"""All rows of a file in their order."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pursuit.research.tasks import load_task
from pursuit.tables.source import open_table

TEXT = """key,a,label

007,"one
two",x
008,three,

\t
009,"fo,ur",y
"""


def test_lines_are_those_at_which_rows_begin(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(TEXT)
    (part,) = open_table(path, ["a"], {"target": "label"}, id_column="key")
    assert part.positions.tolist() == [3, 5, 8]
    assert part.ids is not None
    assert part.ids.tolist() == ["007", "008", "009"]
    assert part.X["a"].tolist() == ["one\ntwo", "three", "fo,ur"]
    assert part.labels is not None
    assert part.labels.isna().tolist() == [False, True, False]


@pytest.mark.parametrize("end", ["", "\n"])
def test_plain_files_have_a_line_a_row(tmp_path: Path, end: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n3,4" + end)
    (part,) = open_table(path, ["a"], {})
    assert part.positions.tolist() == [2, 3]


def test_a_file_is_read_like_that_of_training_and_what_is_guessed_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("a;größe\n1,5;?\n2,5;x\n".encode("cp1252"))
    parts = list(open_table(path, ["a", "größe"], {"missing": ["?"]}, part_rows=1))
    assert [part.X["a"].tolist() for part in parts] == [[1.5], [2.5]]
    assert parts[0].X["größe"].isna().all()
    assert [len(part.remarks) for part in parts] == [2, 0]
    (part,) = open_table(path, ["a", "größe"], {"missing": ["?"]}, encoding="latin-1", decimal=".", missing=["x"])
    assert (part.X["a"].tolist(), part.X["größe"].isna().tolist()) == (["1,5", "2,5"], [False, True])


def test_points_stand_between_thousands_where_they_did_in_training(tmp_path: Path) -> None:
    path, new = tmp_path / "table.csv", tmp_path / "new.csv"
    rows = "".join(f"{i + 1}.500;{i},5;{'yn'[i % 2]}\n" for i in range(20))
    path.write_text("pay;share;label\n" + rows)
    task = load_task(path, target="label")
    for text, pay, share in (("2.500;3;True", 2500, 3), ("2.500;3.25;", 2500, 3.25), ("0.500;;x", 0.5, None)):
        new.write_text(f"pay;share;other\n{text}\n")
        (part,) = open_table(new, ["pay", "share"], task.notes)
        assert part.X["pay"].tolist() == [pay]
        assert part.X["share"].tolist() == [share] or share is None
        remark = "1.234 is read as 1234, as in pay. If that is wrong, add --decimal ."
        assert part.remarks == ((remark,) if pay == 2500 else ())
    new.write_text("pay,share\n2.500,3\n")  # as files between commas are
    (part,) = open_table(new, ["pay", "share"], task.notes)
    assert part.X["pay"].tolist() == [2.5]
    new.write_text("pay;share\n2.500;3\n")
    (part,) = open_table(new, ["pay", "share"], task.notes, decimal=".")
    assert part.X["pay"].tolist() == [2.5]


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_rows_trained_on_are_told_apart(tmp_path: Path, name: str) -> None:
    path, chance = tmp_path / name, np.random.default_rng(0)
    frame = pd.DataFrame({"key": np.arange(400) * 3, "a": chance.random(400), "label": chance.choice(["x", "y"], 400)})
    frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path, row_group_size=150)
    task = load_task(path, 3, "label", drop=["key"])
    parts = list(open_table(path, ["a"], task.notes, id_column="key", part_rows=64))
    assert np.concatenate([part.positions for part in parts]).tolist() == [
        i + (2 if name.endswith("csv") else 0) for i in range(400)
    ]
    assert [int(key) for part in parts for key in part.ids] == frame["key"].tolist()  # type: ignore[union-attr]
    assert pd.concat([part.X for part in parts])["a"].tolist() == pytest.approx(frame["a"].tolist())
    source = open_table(path, ["a"], task.notes, part_rows=64)
    assert np.flatnonzero(np.concatenate([~part.seen for part in source])).tolist() == sorted(task.X_test.index)
    assert all((part.to_measure == ~part.seen).all() for part in source)
    other = open_table(path, ["a"], {**task.notes, "sha256": "other", "fingerprint": "other"})
    assert all(part.to_measure.all() and not part.seen.any() for part in other)
    whole = open_table(path, ["a"], load_task(path, 3, "label", drop=["key"], test_share=0).notes)
    assert all(part.seen.all() and part.to_measure.all() for part in whole)


def test_columns_that_are_not_there_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,c\n1,2\n")
    (part,) = open_table(path, ["b", "a"], {})
    assert part.absent == {"b": "b"}
    assert list(part.X.columns) == ["b", "a"]
    assert part.X["b"].isna().all()
    with pytest.raises(ValueError, match=r"table.csv has none of the columns the model asks for \(x, y\), only a, c"):
        list(open_table(path, ["x", "y"], {}))


def test_a_part_without_held_out_rows_was_seen_all_the_same(tmp_path: Path) -> None:
    """The latest rows are held out, and the first parts of a file in the order of time have none of them."""
    frame = pd.DataFrame({"day": np.arange(100), "a": np.arange(100) % 7, "label": np.tile(["x", "y"], 50)})
    frame.to_csv(tmp_path / "table.csv", index=False)
    source = open_table(
        tmp_path / "table.csv", ["a"], load_task(tmp_path / "table.csv", 0, "label", time="day").notes, part_rows=10
    )
    assert [int(part.seen.sum()) for part in source] == [10] * 8 + [0] * 2


def test_files_of_a_folder_are_shares_and_each_knows_whether_it_was_trained_on(tmp_path: Path) -> None:
    for name in ("1.csv", "deeper/2.csv", "_hidden.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        rows = "".join(f"{i},{'xy'[i % 2]}\n" for i in range(20 + len(name)))
        (tmp_path / name).write_text(f"a,label\n{rows}")
    task = load_task(tmp_path / "1.csv", 0, "label", column_types={"a": "number"})
    source = open_table(tmp_path, ["a"], task.notes)
    assert [Path(share).name for share in source.shares] == ["1.csv", "2.csv"]
    assert [part.file for part in source] == ["1.csv", "2.csv"]
    assert [int(part.seen.sum()) for part in source] == [len(task.X_train), 0]
    unseen = source.unseen()
    assert unseen.remark == f"The model was trained on 1.csv: only the {len(task.X_test)} held-out rows are used."
    assert unseen.y is not None
    assert len(unseen.X) == len(unseen.y) == len(task.X_test) + 32
    assert len(source.unseen(10).X) == 10
