"""Writing a table part by part, as CSV or Parquet, where later parts may have more columns than earlier ones."""

import csv
import io
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import pandas as pd

from pursuit.tables.arrow import require_pyarrow
from pursuit.tables.filesystem import AnyPath, find_path, open_to_write

CSV, PARQUET = (".csv", ".tsv"), (".parquet", ".pq")


def means_folder(name: str) -> bool:
    """Whether a table of this name is a folder of Parquet files: there is one, or the name has no ending. Otherwise it
    is a file; raises ValueError if that cannot be written."""
    path = find_path(name)
    is_folder = path.is_dir() or not path.suffix or name.endswith("/")
    if is_folder or path.suffix.lower() in PARQUET:
        require_pyarrow()
    elif path.suffix.lower() not in CSV:
        raise ValueError(
            f"{path} cannot be written: give a name that ends in {', '.join(CSV + PARQUET)}, or that of a folder."
        )
    if not is_folder and isinstance(path, Path) and not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: give a file in a folder that exists.")
    return is_folder


def write_table(path: AnyPath, parts: Iterable[pd.DataFrame]) -> None:
    """Write the parts of a table, one below the other, to a file that is whole or not there.

    Parts have the same first columns; what a part lacks at the end is missing in its rows.
    """
    with open_to_write(path) as file:
        if path.suffix.lower() in PARQUET:
            write_parquet(file, parts)
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            write_csv(text, parts, "\t" if path.suffix.lower() == ".tsv" else ",")
            text.detach()  # closing is left to whoever opened the file


def write_csv(file: TextIO, parts: Iterable[pd.DataFrame], separator: str = ",") -> None:
    """Write the parts as one CSV file."""
    names: list[str] = []
    # How many columns there are shows with the last part, but their names come first: so the rows wait in a file.
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as waiting:
        for part in parts:
            names = _joined(names, part.columns)
            part.to_csv(waiting, header=False, index=False)
        waiting.seek(0)
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(row + [""] * (len(names) - len(row)) for row in csv.reader(waiting))


def write_parquet(file: BinaryIO, parts: Iterable[pd.DataFrame]) -> None:
    """Write the parts as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        waiting: list[Path] = []
        for part in parts:
            names = _joined(names, part.columns)
            waiting.append(Path(folder) / f"{len(waiting)}.parquet")
            pq.write_table(pa.Table.from_pandas(part, preserve_index=False), waiting[-1])
        schemas = [pq.read_schema(path).remove_metadata() for path in waiting]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        schema = pa.schema([_with_values(schema.field(name)) for name in names])
        with pq.ParquetWriter(file, schema) as writer:
            for path in waiting:
                table = pq.read_table(path)
                for name in names[table.num_columns :]:
                    table = table.append_column(name, pa.nulls(len(table)))
                writer.write_table(table.cast(schema))


def _with_values(field: Any) -> Any:
    """A column of nothing but missing values, or of lists of nothing, as one of texts, which more programs can read and
    which other files of the same folder have."""
    import pyarrow as pa

    is_list = pa.types.is_list(field.type)
    held = field.type.value_type if is_list else field.type
    held = pa.string() if pa.types.is_null(held) else held
    return field.with_type(pa.list_(held) if is_list else held)


def _joined(names: Sequence[str], more: Iterable[str]) -> list[str]:
    """The names of the part with the most columns; raises ValueError for parts that do not belong together."""
    more = [str(name) for name in more]
    longest, shortest = (names, more) if len(names) > len(more) else (more, names)
    if list(longest[: len(shortest)]) != list(shortest):
        raise ValueError(f"The parts of a table begin with the same columns, but these differ: {names} and {more}.")
    return list(longest)
