"""Parquet and Arrow files as tasks: streamed in training, with rows held out for testing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pursuit.data.parquet import ParquetRows
from pursuit.data.parquet.arrow_files import ENDINGS, ArrowTable
from pursuit.data.parquet.choosing import first_rows, held_out_rows
from pursuit.data.parquet.survey import labels_as_array
from pursuit.queries import NotAQuestion
from pursuit.tasks.tables import is_numbering, with_advice
from pursuit.tasks.task import Task

MAX_MEASURED = 20_000
"""Test rows in memory; more would not make a measurement much better."""


def is_big_table(source: str | Path) -> bool:
    """Whether it is a folder, or has the name of a Parquet or Arrow file or of a pattern of them."""
    return Path(source).is_dir() or Path(source).suffix.lower() in ENDINGS


def name_of(source: str | Path) -> str:
    """The name of the table: that of its file or folder, without the stars of a pattern."""
    path = Path(source)
    return next((part for part in (path.stem, *(p.name for p in path.parents)) if part and "*" not in part), "table")


def load(
    source: str | Path,
    target: str | None,
    *,
    drop: Sequence[str] = (),
    missing: Sequence[str] = (),
    test_share: float = 0.2,
    seed: int = 0,
    regress: bool = False,
) -> Task:
    """Read files whose column `target` is the label, as `tables.load` reads a CSV file; rows are streamed in training,
    and at most 20,000 of the held-out rows are test rows."""
    if regress:
        raise ValueError(
            f"{name_of(source)} is streamed, but a number is predicted from rows in memory, because its bins need all "
            "of them: write some of the rows into a CSV file, or group the number into classes."
        )
    if target is None:
        table = ArrowTable(source, drop)
        columns = ", ".join(list(table.column_types)[:20])
        raise ValueError(f"Which column of {table.name} is the label? Name it with --target: {columns}.")
    try:
        rows = ParquetRows(source, target, drop=drop, missing=missing, test_share=test_share, seed=seed)
    except NotAQuestion as error:
        raise with_advice(error) from None
    assert rows.query_set is not None
    X_test, y_test = rows.test_rows(MAX_MEASURED)
    notes = {
        "file": rows.table.name,
        "fingerprint": rows.table.fingerprint(),
        "target": target,
        "missing": list(missing),
        "n_rows": rows.labels.n_labelled,
        "n_rows_without_label": rows.n_rows_without_label,
        "silent_columns": rows.silent_columns,
        "numbering_columns": _numbering_columns(rows),
        "test_share": test_share,
        "n_test": rows.n_test,
        "seed": seed,
    }
    return Task(name_of(source), rows.query_set, rows, None, X_test, y_test, notes=notes)


def unseen_rows(
    source: str | Path,
    columns: Sequence[str],
    trained: Mapping[str, Any],
    target: str | None = None,
    missing: Sequence[str] = (),
) -> tuple[pd.DataFrame, np.ndarray | None, str]:
    """At most 20,000 rows that a model was not trained on, their labels if there are any, and a remark for the user.

    `columns` are the model's queries, and `trained` the notes of the task it was trained on: if those were these
    files, the rows are spread over those held out then; otherwise they are the first.
    """
    wanted = target or trained.get("target")
    table = ArrowTable(source, missing=missing or trained.get("missing", ()), only=[*columns, *filter(None, [wanted])])
    label = table.check_column(target) if target else wanted if wanted in table.column_types else None
    absent = [column for column in columns if column not in table.column_types]
    if absent:
        raise ValueError(
            f"{table.name} lacks columns the model asks for: {', '.join(absent[:10])}. Add them; unknown answers may "
            "stay empty."
        )
    if label is not None and label == trained.get("target") and table.fingerprint() == trained.get("fingerprint"):
        if n_held_out := trained["n_test"]:
            share, seed = trained["test_share"], trained["seed"]
            X, labels = held_out_rows(table, columns, label, share, seed, n_held_out, MAX_MEASURED)
            remark = f"The model was trained on {table.name}: {len(X):,} of the {n_held_out:,} held-out rows are used."
            return X, labels_as_array(labels), remark
        remark = f"Warning: the model was trained on all rows of {table.name}: its accuracy on them says little."
    else:
        remark = f"{table.name} has {table.n_rows:,} rows: the first {MAX_MEASURED:,} are used."
        remark = remark if table.n_rows > MAX_MEASURED else ""
    X, labels = first_rows(table, columns, label, MAX_MEASURED)
    return X, None if label is None else labels_as_array(labels), remark


def _numbering_columns(rows: ParquetRows) -> list[str]:
    """Columns that only count the rows, judged by the first rows."""
    whole = [name for name in rows.feature_names if rows.table.column_types[name] == "whole numbers"]
    if not whole:
        return []
    _, beginning = next(rows.table.read(rows.table.pieces[0], whole, whole, chunk_rows=1000))
    frame = beginning.to_pandas()
    return [name for name in whole if is_numbering(frame[name])]
