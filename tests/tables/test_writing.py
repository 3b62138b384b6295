"""Tables written part by part."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from pursuit.tables.row_jobs import write_table

PARTS = [
    pd.DataFrame({"id": ["007", "a,b"], "p": [0.5, 0.25]}),
    pd.DataFrame({"id": ["x\ny", 'q"'], "p": [1.0, 0.0], "question": ["age", None], "answer": [None, None]}),
    pd.DataFrame({"id": ["é"], "p": [0.125], "question": ["fever"]}),
]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.PQ"])
def test_later_parts_may_have_more_columns(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, iter(PARTS))
    if name.startswith("t.p") or name == "t.PQ":
        found = pd.read_parquet(tmp_path / name)
    else:
        found = pd.read_csv(tmp_path / name, sep="\t" if name == "t.tsv" else ",", dtype={"id": str})
    assert list(found.columns) == ["id", "p", "question", "answer"]
    assert found["id"].tolist() == ["007", "a,b", "x\ny", 'q"', "é"]
    assert found["p"].tolist() == [0.5, 0.25, 1.0, 0.0, 0.125]
    assert found["question"].notna().tolist() == [False, False, True, False, True]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    def failing() -> Iterator[pd.DataFrame]:
        yield PARTS[0]
        raise ValueError("no more")

    (tmp_path / "t.csv").write_text("old")
    with pytest.raises(ValueError, match="no more"):
        write_table(tmp_path / "t.csv", failing())
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_parts_of_different_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="begin with the same columns"):
        write_table(tmp_path / "t.csv", [PARTS[0], pd.DataFrame({"p": [1], "id": [2]})])
