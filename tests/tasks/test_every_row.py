"""All rows of a file in their order."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pursuit.tasks import load_task
from pursuit.tasks.every_row import every_row, was_held_out

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
    (part,) = every_row(path, ["a"], {"target": "label"}, id_column="key")
    assert part.places.tolist() == [3, 5, 8]
    assert part.ids is not None
    assert part.ids.tolist() == ["007", "008", "009"]
    assert part.X["a"].tolist() == ["one\ntwo", "three", "fo,ur"]
    assert part.labels is not None
    assert part.labels.isna().tolist() == [False, True, False]


@pytest.mark.parametrize("end", ["", "\n"])
def test_plain_files_have_a_line_a_row(tmp_path: Path, end: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n3,4" + end)
    (part,) = every_row(path, ["a"], {})
    assert part.places.tolist() == [2, 3]


def test_a_file_is_read_like_that_of_training_and_what_is_guessed_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("a;größe\n1,5;?\n2,5;x\n".encode("cp1252"))
    parts = list(every_row(path, ["a", "größe"], {"missing": ["?"]}, part_rows=1))
    assert [part.X["a"].tolist() for part in parts] == [[1.5], [2.5]]
    assert parts[0].X["größe"].isna().all()
    assert [len(part.remarks) for part in parts] == [2, 0]
    (part,) = every_row(path, ["a", "größe"], {"missing": ["?"]}, encoding="latin-1", decimal=".", missing=["x"])
    assert (part.X["a"].tolist(), part.X["größe"].isna().tolist()) == (["1,5", "2,5"], [False, True])


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_rows_trained_on_are_told_apart(tmp_path: Path, name: str) -> None:
    path, chance = tmp_path / name, np.random.default_rng(0)
    frame = pd.DataFrame({"key": np.arange(400) * 3, "a": chance.random(400), "label": chance.choice(["x", "y"], 400)})
    frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path, row_group_size=150)
    task = load_task(path, 3, "label", drop=["key"])
    parts = list(every_row(path, ["a"], task.notes, id_column="key", part_rows=64))
    assert np.concatenate([part.places for part in parts]).tolist() == [
        i + (2 if name.endswith("csv") else 0) for i in range(400)
    ]
    assert [int(key) for part in parts for key in part.ids] == frame["key"].tolist()  # type: ignore[union-attr]
    assert pd.concat([part.X for part in parts])["a"].tolist() == pytest.approx(frame["a"].tolist())
    held_out = was_held_out(path, ["a"], task.notes, range(400))
    assert held_out is not None
    assert np.flatnonzero(held_out).tolist() == sorted(task.X_test.index)
    assert was_held_out(path, ["a"], {**task.notes, "sha256": "other", "fingerprint": "other"}, [0]) is None
    without = load_task(path, 3, "label", drop=["key"], test_share=0)
    assert was_held_out(path, ["a"], without.notes, [0, 7]) == [False, False]


def test_columns_that_are_not_there_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,c\n1,2\n")
    (part,) = every_row(path, ["b", "a"], {})
    assert part.absent == ("b",)
    assert list(part.X.columns) == ["b", "a"]
    assert part.X["b"].isna().all()
    with pytest.raises(ValueError, match=r"table.csv has none of the columns the model asks for \(x, y\), only a, c"):
        list(every_row(path, ["x", "y"], {}))
