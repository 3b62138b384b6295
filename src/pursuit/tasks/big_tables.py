"""Parquet and Arrow files as tasks: streamed in training, measured on rows kept apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pursuit.parquet import ParquetRows
from pursuit.parquet.arrow_files import ENDINGS, ArrowTable
from pursuit.parquet.choosing import first_rows, rows_apart
from pursuit.parquet.survey import plain_labels
from pursuit.queries import NotAQuestion
from pursuit.tasks import tables
from pursuit.tasks.task import Task

MEASURED_MOST = 20_000
"""More rows than these make a measurement no better, and need not fit into memory."""


def is_big_table(source: str | Path) -> bool:
    """Whether it is a folder, or by its name a Parquet or Arrow file or a pattern of them."""
    return Path(source).is_dir() or Path(source).suffix.lower() in ENDINGS


def name_of(source: str | Path) -> str:
    """What to call the table: the name of its file or folder, without the stars of a pattern."""
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
) -> Task:
    """Files whose column `target` is the label, as `tables.load` gives a CSV file; rows are streamed in training, and
    of those kept apart at most 20,000 are measured on."""
    if target is None:
        table = ArrowTable(source, drop)
        raise ValueError(
            f"Which column of {table.name} is the label? Name it with --target: {', '.join(list(table.kinds)[:20])}."
        )
    try:
        rows = ParquetRows(source, target, drop=drop, missing=missing, test_share=test_share, seed=seed)
    except NotAQuestion as error:
        raise tables.with_advice(error) from None
    assert rows.query_set is not None
    X_test, y_test = rows.test_rows(MEASURED_MOST)
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
    """Rows that a model has not learnt from, at most 20,000, their labels if there are any, and a remark for the user.

    `columns` are the model's queries and `trained` the notes of the task it was trained on: should the files be those
    very ones, the rows are from all over those kept apart then; otherwise they are the first.
    """
    wanted = target or trained.get("target")
    table = ArrowTable(source, missing=missing or trained.get("missing", ()), only=[*columns, *filter(None, [wanted])])
    label = table.check_column(target) if target else wanted if wanted in table.kinds else None
    absent = [column for column in columns if column not in table.kinds]
    if absent:
        raise ValueError(
            f"{table.name} lacks columns the model asks for: {', '.join(absent[:10])}. Add them; unknown answers may "
            "stay empty."
        )
    if label is not None and label == trained.get("target") and table.fingerprint() == trained.get("fingerprint"):
        if n_apart := trained["n_test"]:
            share, seed = trained["test_share"], trained["seed"]
            X, labels = rows_apart(table, columns, label, share, seed, n_apart, MEASURED_MOST)
            remark = f"The model was trained on {table.name}: {len(X):,} of the {n_apart:,} rows kept apart are used."
            return X, plain_labels(labels), remark
        remark = f"Warning: the model has learnt from all rows of {table.name}: its accuracy on them says little."
    else:
        remark = f"{table.name} has {table.n_rows:,} rows: the first {MEASURED_MOST:,} are used."
        remark = remark if table.n_rows > MEASURED_MOST else ""
    X, labels = first_rows(table, columns, label, MEASURED_MOST)
    return X, None if label is None else plain_labels(labels), remark


def _numbering_columns(rows: ParquetRows) -> list[str]:
    """Columns that only count the rows, as far as the first rows tell."""
    whole = [name for name in rows.feature_names if rows.table.kinds[name] == "whole numbers"]
    if not whole:
        return []
    _, beginning = next(rows.table.read(rows.table.pieces[0], whole, whole, chunk_rows=1000))
    frame = beginning.to_pandas()
    return [name for name in whole if tables.is_numbering(frame[name])]
