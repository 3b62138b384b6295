"""Any CSV file as a task: every column but the target is a query."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pursuit.data.parquet.arrow_files import existing_column
from pursuit.queries import QuerySet
from pursuit.tasks.asking import column_queries
from pursuit.tasks.files.csv import CsvOptions, CsvTable, read_csv
from pursuit.tasks.files.text import COMPRESSED
from pursuit.tasks.holding_out import USUAL_SHARE, Division, group_numbers, time_numbers
from pursuit.tasks.labels import refuse_amounts, remarks_on_labels, split_number, split_target
from pursuit.tasks.task import Task

ENDINGS = tuple(f"{ending}{packed}" for ending in (".csv", ".tsv", ".tab", ".txt") for packed in ("", *COMPRESSED))
"""How the names of CSV files end."""


def load(
    path: str | Path,
    target: str | None,
    *,
    drop: Sequence[str] = (),
    missing: Sequence[str] = (),
    encoding: str | None = None,
    decimal: str | None = None,
    kinds: Mapping[str, str] | None = None,
    missing_informs: bool = False,
    group: str | None = None,
    time: str | None = None,
    test_share: float | None = None,
    seed: int = 0,
    regress: bool = False,
    from_data: Callable[[pd.DataFrame], QuerySet] | None = None,
) -> Task:
    """Read a CSV file, compressed or not, whose column `target` is the label, or to `regress` a number; a share
    `test_share` of the rows is held out for testing. Rows without a label are left out. By default the share is 0.2, or
    0 where no row can be held out; one that is given, but leaves nothing to train or to test on, is refused.

    Columns in `drop` are left out, and texts in `missing` (such as "?") count as missing in addition to the usual ones.
    The `encoding` and what stands before decimals (`decimal`: "." or ",") are guessed where they are not given; `kinds`
    and `missing_informs` say how columns are asked (`ColumnQueries.from_data`). Rows with the same value in the column
    `group` are held out together, and of a column `time` the latest rows are. Neither column is asked for, unless
    `kinds` says what a time is. `from_data` makes the query set from training rows, if columns are not the queries.
    """
    share = USUAL_SHARE if test_share is None else test_share
    if not 0 <= share < 1:
        raise ValueError(f"The share of test rows must be at least 0 and below 1, not {share}.")
    path, kinds = Path(path), dict(kinds or {})
    table = read_csv(path, CsvOptions(tuple(missing), encoding, decimal))
    X, y, division = _divided(table, target, regress, group, time)
    if not regress:
        refuse_amounts(table.frame[target].dropna(), path.name)
    unasked = [*drop, *([group] if group else []), *([time] if time and time not in kinds else [])]
    X = X.drop(columns=[existing_column(column, X.columns, path.name) for column in unasked])
    train, test = division.split(share, seed)
    if test_share and not len(test):
        raise ValueError(
            f"No rows would be held out to measure on, because {_why_none(division, share, group, time)}. Choose "
            "another --test-share; 0 trains on all rows, and measures on none."
        )
    remarks = list(table.remarks)
    if from_data is not None:
        if missing_informs:
            raise ValueError("--missing-informs is for columns as queries: leave it out, or leave --queries out.")
        query_set = from_data(X.iloc[train])
    else:
        queries, on_columns = column_queries(X, kinds, table, missing_informs)
        X, remarks = X[[query.name for query in queries.queries]], [*remarks, *on_columns]
        query_set = queries.rescaled(X.iloc[train])  # test rows have no influence on the scale of numbers
    remarks += [] if regress else remarks_on_labels(y)
    remarks += _remarks_on_split(table.frame, division, train, test, share, group, time)
    notes = {
        "file": path.name,
        "sha256": fingerprint(path),
        "target": target,
        "regress": regress,
        "missing": list(missing),
        "encoding": encoding,
        "decimal": decimal,
        "group": group,
        "time": time,
        "n_rows": len(X),
        "n_rows_without_label": len(table.frame) - len(X),
        "unasked_columns": [name for name in table.frame.columns if name not in X.columns and name != target],
        "remarks": remarks,
        "test_share": share,
        "seed": seed,
    }
    return Task(
        name_of(path),
        query_set,
        X.iloc[train],
        y[train],
        X.iloc[test],
        y[test],
        notes=notes,
        division_train=division.take(train),
    )


def name_of(path: Path) -> str:
    """The name of the table: that of its file, without what says how it is stored."""
    ending = next(
        (ending for ending in sorted(ENDINGS, key=len, reverse=True) if path.name.lower().endswith(ending)), ""
    )
    return path.name[: -len(ending)] if ending and path.name != ending else path.stem


def _divided(
    table: CsvTable, target: str | None, regress: bool, group: str | None, time: str | None
) -> tuple[pd.DataFrame, np.ndarray, Division]:
    """Queries, labels or numbers, and what decides which rows may be held out."""
    X, y = (split_number if regress else split_target)(table.frame, target, table.text.path.name)
    return X, y, _division(table, X, np.zeros(len(y)) if regress else y, group, time)  # numbers make no classes


def _division(table: CsvTable, X: pd.DataFrame, y: np.ndarray, group: str | None, time: str | None) -> Division:
    """What decides which rows may be held out, from labelled rows."""
    where = table.text.path.name
    if group is not None and time is not None:
        raise ValueError("Rows are held out by --group or by --time: leave one of them out.")
    if group is not None:
        return Division(y, groups=group_numbers(X[existing_column(group, X.columns, where)]))
    if time is not None:
        column = X[existing_column(time, X.columns, where)]
        return Division(y, times=time_numbers(column, time, lambda row: table.line(column.index[row])))
    return Division(y)


def _remarks_on_split(
    frame: pd.DataFrame,
    division: Division,
    train: np.ndarray,
    test: np.ndarray,
    share: float,
    group: str | None,
    time: str | None,
) -> list[str]:
    """Which rows are held out, where that is not just a random share of them."""
    n_rows, remarks = len(division.y), []
    if share > 0 and not len(test):
        why = _why_none(division, share, group, time)
        remarks.append(f"Warning: no rows are held out to measure on, because {why}.")
    elif division.groups is not None and len(test):
        n_test, n_groups = (len(np.unique(groups[groups >= 0])) for groups in (division.groups[test], division.groups))
        remarks.append(f"The {len(test):,} rows of {n_test:,} of the {n_groups:,} groups of '{group}' are held out.")
        if n_loose := int((division.groups < 0).sum()):
            remarks.append(f"Warning: {n_loose:,} rows without a value of '{group}' are training rows.")
    elif division.times is not None and len(test):
        first = test[division.times[test].argmin()]
        remarks.append(f"The {len(test):,} latest rows are held out, from '{time}' = {frame[time].iloc[first]} on.")
        if n_loose := int(np.isnan(division.times).sum()):
            remarks.append(f"Warning: {n_loose:,} rows without a value of '{time}' are training rows.")
    if n_neither := n_rows - len(train) - len(test):
        remarks.append(f"Warning: {n_neither:,} of the latest rows are left out: no earlier row has their label.")
    return remarks


def _why_none(division: Division, share: float, group: str | None, time: str | None) -> str:
    """Why no row can be held out."""
    n_rows, n_test = len(division.y), round(share * len(division.y))
    if n_test == 0:
        return f"{share:g} of {n_rows:,} rows is less than one"
    if group:
        return f"no group of '{group}' can be, without all rows of some label"
    if time:
        return f"all rows have the same '{time}'"
    _, counts = np.unique(division.y, return_counts=True)
    n_single = int((counts == 1).sum())
    return f"{share:g} of {n_rows:,} rows is {n_test:,}, and {n_single:,} rows are the only ones of their label"


def parse_costs(texts: Sequence[str]) -> dict[str, float]:
    """What queries cost, from texts NAME=NUMBER and paths of CSV files with the columns query and cost, of which the
    last counts; raises ValueError saying what is wrong."""
    costs: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if Path(text).is_file():
            costs |= _read_costs(Path(text))
        elif equals:
            costs[name.strip()] = _parse_cost(name.strip(), number, text)
        else:
            raise ValueError(
                f"'{text}' is not a cost: write NAME=NUMBER, as in mri=500, or the path of a CSV file with the columns "
                "query and cost."
            )
    return costs


def parse_kinds(texts: Sequence[str]) -> dict[str, str]:
    """What columns are, from texts COLUMN=KIND."""
    pairs = [text.rpartition("=") for text in texts]
    for text, (name, equals, kind) in zip(texts, pairs, strict=True):
        if not (name.strip() and equals and kind.strip()):
            raise ValueError(f"'{text}' does not say what a column is: write COLUMN=KIND, as in born=date.")
    return {name.strip(): kind.strip() for name, _, kind in pairs}


def _read_costs(path: Path) -> dict[str, float]:
    frame = read_csv(path, as_text=True).frame  # a query may be called "01" or "NA"
    if absent := [column for column in ("query", "cost") if column not in frame.columns]:
        raise ValueError(
            f"{path} has no column '{absent[0]}', only {', '.join(frame.columns)}: a file of costs has the columns "
            "query and cost."
        )
    twice = frame["query"][frame["query"].duplicated()]
    if len(twice):
        raise ValueError(f"{path} gives more than one cost for '{twice.iloc[0]}': keep one.")
    return {name: _parse_cost(name, cost, str(path)) for name, cost in zip(frame["query"], frame["cost"], strict=True)}


def _parse_cost(name: str, text: str | None, where: str) -> float:
    try:
        cost = float(text or "")
    except ValueError:
        cost = np.nan
    if not 0 <= cost < np.inf:
        raise ValueError(f"The cost of '{name}' in {where} must be a number of at least 0, as in mri=500.")
    return cost


def unseen_rows(
    path: str | Path,
    columns: Sequence[str],
    trained: Mapping[str, Any],
    target: str | None = None,
    missing: Sequence[str] = (),
    encoding: str | None = None,
    decimal: str | None = None,
) -> tuple[pd.DataFrame, np.ndarray | None, str]:
    """The rows of a CSV file that a model was not trained on, their labels if there are any, and a remark for the user.

    `columns` are the model's queries, and `trained` the notes of the task it was trained on: the file is read as that
    one was, unless other options are given, and if it is that file, only the rows held out then are returned.
    """
    path = Path(path)
    as_trained, options = reading_options(trained), reading_options(trained, missing, encoding, decimal)
    table = read_csv(path, options)
    if target is None and trained.get("target") not in table.frame.columns:
        X, y = table.frame, None
    else:
        split = split_number if trained.get("regress") else split_target
        X, y = split(table.frame, target or trained.get("target"), path.name)
    absent = [column for column in columns if column not in X.columns]
    if absent:
        raise ValueError(
            f"{path.name} lacks columns the model asks for: {', '.join(absent[:10])}. Add them; unknown answers may "
            "stay empty."
        )
    X, remarks = X[list(columns)], list(table.remarks)
    if y is not None and trained.get("sha256") == fingerprint(path):
        held_out = _held_out(table if options == as_trained else read_csv(path, as_trained), trained)
        is_held_out = X.index.isin(held_out)
        if is_held_out.any():
            X, y = X[is_held_out], y[is_held_out]
            remarks.append(f"The model was trained on {path.name}: only the {len(X)} held-out rows are used.")
        else:
            remarks.append(
                f"Warning: the model was trained on all rows of {path.name}: its accuracy on them says little."
            )
    return X, y, "\n".join(remarks)


def reading_options(
    trained: Mapping[str, Any], missing: Sequence[str] = (), encoding: str | None = None, decimal: str | None = None
) -> CsvOptions:
    """How to read a CSV file for a model: as that of its training rows was read, but for what is given here."""
    return CsvOptions(
        tuple(missing) or tuple(trained.get("missing", ())),
        encoding or trained.get("encoding"),
        decimal or trained.get("decimal"),
    )


def _held_out(table: CsvTable, trained: Mapping[str, Any]) -> pd.Index:
    """The rows of the file trained on that were held out then."""
    how = [trained.get(name) for name in ("group", "time")]
    X, _, division = _divided(table, trained["target"], trained.get("regress", False), *how)
    _, test = division.split(trained["test_share"], trained["seed"])
    return X.index[test]


def fingerprint(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
