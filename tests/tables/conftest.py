"""Tables in files of Parquet and Arrow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes columns into a file of this name, Parquet or Arrow by its ending, in row groups of `group` rows."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def written(name: str, columns: Any, group: int = 1000) -> Path:
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            pq.write_table(table, path, row_group_size=group)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=group)
        return path

    return written
