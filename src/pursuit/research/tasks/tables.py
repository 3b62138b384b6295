"""Tables of users as tasks: every column but the target is a query. CSV files are read whole; Parquet and Arrow files
are streamed in training, with rows held out for testing."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from pursuit.queries import Choice, ColumnQueries, Date, NotAQuestion, Number, Query, QuerySet
from pursuit.queries.column import listed
from pursuit.queries.column_types import (
    LEAST_MISSING,
    LEAST_SHARE_MISSING,
    check_column_types,
    guess_askable,
    on_parts,
    on_rounded,
    on_ticked,
    on_unasked,
)
from pursuit.queries.parts import Age
from pursuit.queries.reading import read_column
from pursuit.research.tasks.task import Task
from pursuit.tables.arrow import existing_column
from pursuit.tables.csv import CsvOptions, CsvTable, read_csv
from pursuit.tables.filesystem import find_path, is_database, local
from pursuit.tables.labels import (
    leaks,
    refuse_amounts,
    remark_on_same,
    remarks_on_counts,
    remarks_on_labels,
    same_labels,
    target_values,
)
from pursuit.tables.source import (
    MAX_MEASURED,
    ArrowSource,
    divided,
    find_csv_file,
    hash_of_file,
    name_of,
    refuse_csv_options,
)
from pursuit.tables.splitting import USUAL_SHARE, Division, remarks_on_copies, uniform_hash
from pursuit.tables.streaming import ParquetRows, guess_queries

T = TypeVar("T")
MOST_CELLS = 20_000_000
"""The most cells of a Parquet or Arrow file that is read into memory to predict a number."""
MAX_STRAYS = 3
"""More different words than this among numbers are not marks for missing values."""
CODE = re.compile(r"-9+|99+")
"""Numbers that often stand for a missing value."""
NOTHING_MISSING = (
    f"No column lacks a value in {LEAST_MISSING} rows and {LEAST_SHARE_MISSING:.0%} of them, so --missing-informs "
    "changes nothing."
)
IN_PYTHON = re.compile(r"column_types=\{(?P<quote>['\"])(?P<name>.*?)(?P=quote): '(?P<kind>[\w/]+)'\}")


@dataclass(frozen=True, kw_only=True)
class TableReading:
    """How a table is read, and which of its rows are held out."""

    drop: Sequence[str]
    missing: Sequence[str]
    test_share: float
    seed: int
    regress: bool
    # Of CSV files alone.
    encoding: str | None = None
    """Guessed where it is not given, as is what stands before decimals."""
    decimal: str | None = None
    sheet: str | None = None
    """Of a workbook; by default the fullest."""
    column_types: Mapping[str, str] = field(default_factory=dict)
    """How columns are asked, as is `missing_informs` (`ColumnQueries.from_data`)."""
    missing_informs: bool = False
    language: str | None = None
    """"en" or "de", by default that of the table."""
    group: str | None = None
    """A column: rows with the same value in it are held out together. It is not asked for."""
    time: str | None = None
    """A column whose latest rows are held out. It is not asked for, unless `column_types` says what a time is."""
    from_data: Callable[[pd.DataFrame], QuerySet] | None = None
    """Makes the query set from training rows, if columns are not the queries."""


def load_table(
    source: str | Path,
    target: str | None,
    *,
    drop: Sequence[str] = (),
    missing: Sequence[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    regress: bool = False,
    **of_csv: Any,
) -> Task:
    """Read a CSV file, compressed or not, or Parquet or Arrow files whose column `target` is the label, or to `regress`
    a number; a share `test_share` of the rows is held out for testing. Rows without a label are left out. By default
    the share is 0.2, or 0 where no row can be held out; one that is given, but leaves nothing to train or to test on,
    is refused.

    Columns in `drop` are left out, and texts in `missing` (such as "?") count as missing in addition to the usual ones.
    Rows of Parquet and Arrow files are streamed in training, and at most 20,000 of those held out are test rows.
    `of_csv` are options of `TableReading` that they do not have.
    """
    share = USUAL_SHARE if test_share is None else test_share
    if not 0 <= share < 1:
        raise ValueError(f"The share of test rows must be at least 0 and below 1, not {share}.")
    database = find_path(source) if is_database(source) else None
    path = None if database else find_csv_file(source)
    if database is None and path is None:
        refuse_csv_options(**of_csv)
    of_csv["column_types"] = dict(of_csv.get("column_types") or {})
    how = TableReading(drop=drop, missing=missing, test_share=share, seed=seed, regress=regress, **of_csv)
    if database is not None:
        with local(database) as copy:
            task, why_none = _read_rows(copy, target, how)
        task = replace(task, notes={**task.notes, "file": str(database), "query": str(source).partition("#")[2]})
    elif path is None:
        task, why_none = _stream_rows(source, target, how)
    else:
        task, why_none = _read_rows(path, target, how)
    remarks = list(task.notes["remarks"])
    if why_none and test_share:
        raise ValueError(
            f"No rows would be held out to measure on, because {why_none}. Choose another --test-share; 0 trains on "
            "all rows, and measures on none."
        )
    if why_none and share:
        remarks.append(f"Warning: no rows are held out to measure on, because {why_none}.")
    chosen = {"target": target, "missing": list(missing), "test_share": share, "seed": seed}
    return replace(task, notes={**task.notes, **chosen, "remarks": remarks})


def _read_rows(path: Path, target: str | None, how: TableReading) -> tuple[Task, str | None]:
    """The task of a CSV file, and why it has no test rows, if it has none."""
    regress, group, time = how.regress, how.group, how.time
    options = CsvOptions(tuple(how.missing), how.encoding, how.decimal, how.sheet)
    table = read_csv(path, options, names=[] if target is None else [target])
    X, y, division = divided(table, target, regress, group, time)
    if not regress:
        refuse_amounts(table.frame[target].dropna(), path.name)
    unasked = [*how.drop, *([group] if group else []), *([time] if time and time not in how.column_types else [])]
    X = X.drop(columns=[existing_column(column, X.columns, path.name) for column in unasked])
    train, test = division.split(how.test_share, how.seed)
    remarks = list(table.remarks)
    if how.from_data is not None:
        if how.missing_informs:
            raise ValueError("--missing-informs is for columns as queries: leave it out, or leave --queries out.")
        query_set = how.from_data(X.iloc[train])
    else:
        labels = _label_numbers(y, train, regress)
        queries, on_columns = column_queries(X, how.column_types, table, how.missing_informs, labels, how.language)
        X, remarks = X[queries.columns], [*remarks, *on_columns]
        query_set = queries.rescaled(X.iloc[train])  # test rows have no influence on the scale of numbers
    if regress:
        remarks += _on_codes({target: y})
    else:
        written = np.unique(table.frame[target].dropna().astype(str), return_counts=True)
        remarks += [*remark_on_same(same_labels(*written)), *remarks_on_labels(y)]
    remarks += leaks(X.iloc[train], y[train], regress)
    remarks += [*_remarks_on_split(table.frame, X.index, division, train, test), *remarks_on_copies(X, train, test)]
    notes = {
        "file": path.name,
        "sha256": hash_of_file(path),
        "regress": regress,
        "encoding": how.encoding,
        "decimal": how.decimal,
        "usual_decimal": table.decimal,
        "sheet": how.sheet,
        "group": group,
        "time": time,
        "n_rows": len(X),
        "n_rows_without_label": len(table.frame) - len(X),
        "unasked_columns": [name for name in table.frame.columns if name not in X.columns and name != target],
        "remarks": remarks,
    }
    parts = X.iloc[train], y[train], X.iloc[test], y[test]
    task = Task(name_of(path), query_set, *parts, notes=notes, division_train=division.take(train))
    return task, None if len(test) else _why_none(division, how.test_share)


def _remarks_on_split(
    frame: pd.DataFrame, rows: pd.Index, division: Division, train: np.ndarray, test: np.ndarray
) -> list[str]:
    """Which rows are held out, where that is not just a random share of them."""
    remarks, column, n_loose = [], division.column, 0
    if division.groups is not None and len(test):
        n_test, n_groups = (len(np.unique(groups[groups >= 0])) for groups in (division.groups[test], division.groups))
        remarks.append(f"The {len(test):,} rows of {n_test:,} of the {n_groups:,} groups of '{column}' are held out.")
        n_loose = int((division.groups < 0).sum())
    elif division.times is not None and len(test):
        first = frame[column].loc[rows].iloc[test[division.times[test].argmin()]]
        remarks.append(f"The {len(test):,} latest rows are held out, from '{column}' = {first} on.")
        n_loose = int(np.isnan(division.times).sum())
    if n_loose:
        remarks.append(f"Warning: {n_loose:,} rows without a value of '{column}' are training rows.")
    if n_neither := len(division.y) - len(train) - len(test):
        remarks.append(f"Warning: {n_neither:,} of the latest rows are left out: no earlier row has their label.")
    return remarks


def _why_none(division: Division, share: float) -> str:
    """Why no row can be held out."""
    n_rows, n_test = len(division.y), round(share * len(division.y))
    if n_test == 0:
        return f"{share:g} of {n_rows:,} rows is less than one"
    if division.groups is not None:
        return f"no group of '{division.column}' can be, without all rows of some label"
    if division.times is not None:
        return f"all rows have the same '{division.column}'"
    _, counts = np.unique(division.y, return_counts=True)
    n_single = int((counts == 1).sum())
    return f"{share:g} of {n_rows:,} rows is {n_test:,}, and {n_single:,} rows are the only ones of their label"


def _stream_rows(source: str | Path, target: str | None, how: TableReading) -> tuple[Task, str | None]:
    """The task of Parquet or Arrow files, and why it has no test rows, if it has none."""
    table = ArrowSource(source, target=target, drop=how.drop, missing=how.missing)
    if target is None:
        columns = ", ".join(list(table.column_types)[:20])
        raise ValueError(f"Which column of {table.where} is the label? Name it with --target: {columns}.")
    if how.regress:
        return _read_numbers(table, target, how)

    def opened(drop: list[str]) -> ParquetRows:
        return ParquetRows(source, target, drop=drop, missing=how.missing, test_share=how.test_share, seed=how.seed)

    rows, left_out, remarks = _asking(table, how.drop, opened)
    assert rows.query_set is not None
    remarks += _on_streamed(rows.query_set.queries, rows.silent_columns)
    labels, (X_test, y_test) = rows.labels, rows.test_rows(MAX_MEASURED)
    remarks += [*remark_on_same(labels.same), *remarks_on_counts(labels.classes, labels.counts)]
    notes = {
        "file": rows.table.where,
        "fingerprint": rows.table.fingerprint(),
        "n_rows": labels.n_labelled,
        "n_rows_without_label": rows.n_rows_without_label,
        "unasked_columns": [*how.drop, *left_out, *rows.silent_columns],
        "remarks": [*remarks, *leaks(X_test, y_test)],
        "n_test": rows.n_test,
    }
    task = Task(name_of(source), rows.query_set, rows, None, X_test, y_test, notes=notes)
    return task, None if rows.n_test else f"{how.test_share:g} of {labels.n_labelled:,} rows is too few"


def _read_numbers(table: ArrowSource, target: str, how: TableReading) -> tuple[Task, str | None]:
    """The task of Parquet or Arrow files whose target is a number, and why it has no test rows, if it has none. The
    rows are read into memory, because the bins of the number need all of them."""
    if (n_cells := table.n_rows * len(table.column_types)) > MOST_CELLS:
        raise ValueError(
            f"{table.where} has {n_cells:,} cells. Up to {MOST_CELLS:,} can be read to predict a number, because its "
            "bins need all rows in memory: write some of the rows into a smaller file, or group the number into "
            "classes."
        )

    def guessed(drop: list[str]) -> tuple[ColumnQueries, list[str]]:
        return guess_queries(table, [name for name in table.columns if name not in drop])

    (queries, silent), left_out, remarks = _asking(table, how.drop, guessed)
    numbers, rows = table.rows(queries.columns)
    y = target_values(rows[target].to_pandas().rename(target), regress=True, where=table.where)
    if not len(y):
        raise ValueError(f"Column '{target}' of {table.where} has no numbers: all its values are missing.")
    X = rows.select(queries.columns).to_pandas().set_axis(numbers, axis=0)
    test = uniform_hash(numbers, how.seed) < how.test_share  # as `ArrowSource` finds them again
    if test.all():
        test[:] = False
    remarks += [*_on_streamed(queries.queries, silent), *leaks(X[~test], y[~test], regress=True)]
    notes = {
        "file": table.where,
        "fingerprint": table.fingerprint(),
        "regress": True,
        "n_rows": len(y),
        "n_rows_without_label": table.n_rows - len(y),
        "unasked_columns": [*how.drop, *left_out, *silent],
        "remarks": remarks,
        "n_test": int(test.sum()),
    }
    parts = X[~test], y[~test], X[test], y[test]
    task = Task(name_of(table.path), queries.rescaled(X[~test]), *parts, notes=notes)
    return task, None if test.any() else f"{how.test_share:g} of {len(y):,} rows is too few"


def _asking(
    table: ArrowSource, drop: Sequence[str], opened: Callable[[list[str]], T]
) -> tuple[T, list[str], list[str]]:
    """What `opened` makes of the columns that can be asked for, given those to drop; the columns left out, and what a
    person should know of them."""
    left_out = _numbering_columns(table)
    remarks = [f"Not asked for: {listed(left_out)} (numbers the rows)."] if left_out else []
    while True:  # at most twice, because dates are found before texts
        try:
            return opened([*drop, *left_out]), left_out, remarks
        except NotAQuestion as error:
            left_out += error.columns
            remarks.append(f"Warning: not asked for. {in_options(str(error))}")


def _on_streamed(queries: Sequence[Query], silent: Sequence[str]) -> list[str]:
    """What a person should know of how the columns of Parquet and Arrow files are asked."""
    remarks = [f"Not asked for: {listed(silent)} (empty, or the same in every row)."] if silent else []
    if ticked := [one.name for one in queries if isinstance(one, Choice) and one.empty_means is not None]:
        remarks.append(on_ticked(ticked))
    return remarks


def _numbering_columns(table: ArrowSource) -> list[str]:
    """Columns that only count the rows, judged by the first rows; none if there are no others."""
    whole = [name for name in table.columns if table.column_types[name] == "whole numbers"]
    if not whole:
        return []
    _, beginning = next(table.chunks(table.pieces[0], whole, whole, chunk_rows=1000))
    steps = beginning.to_pandas().diff().iloc[1:]
    counting = [name for name in whole if len(steps) > 1 and (steps[name] == 1).all()]
    return counting if len(counting) < len(table.columns) else []


def column_queries(
    X: pd.DataFrame,
    column_types: Mapping[str, str],
    table: CsvTable,
    missing_informs: bool = False,
    labels: np.ndarray | None = None,
    language: str | None = None,
) -> tuple[ColumnQueries, list[str]]:
    """The queries of a table, whose numbers are not scaled yet, and remarks on columns that are not asked for or read
    in a way that may surprise."""
    for name in column_types:
        existing_column(name, X.columns, table.text.path.name)
    try:
        checked = check_column_types(column_types, list(X.columns))
        guess, refused = guess_askable(X, checked, missing_informs=missing_informs, labels=labels, language=language)
    except ValueError as error:
        raise ValueError(in_options(str(error))) from None
    remarks = [f"Warning: not asked for. {in_options(refused)}"] if refused else []
    if guess.unasked:
        remarks.append(in_options(on_unasked(guess.unasked)))
    if guess.ticked:
        remarks.append(on_ticked(guess.ticked))
    if rounded := [f"'{query.name}'" for query in guess.queries if query.name in guess.rounded]:
        remarks.append(f"Warning: {on_rounded(rounded)} {_option(guess.rounded[0], 'skip')} leaves it out.")
    remarks += on_parts(guess.queries, guess.in_parts)
    for query in guess.queries:
        if isinstance(query, Number) and query.missing:
            words, where = _quoted(X[query.source], query.missing, table)
            remarks.append(f"Among the numbers of '{query.name}', {words} count as missing{where}.")
        elif isinstance(query, Choice) and (marks := _marks(query)):
            words, where = _quoted(X[query.source], marks, table)
            options = " ".join(f"--missing {shlex.quote(mark)}" for mark in marks)
            remarks.append(f"Warning: '{query.name}' holds {words}{where}. If that means missing, add {options}")
    read = {one.name: one for one in guess.queries if isinstance(one, Number) and not isinstance(one, Date | Age)}
    remarks += _on_codes({name: read_column(one, X[one.source])[0] for name, one in read.items()})
    if missing_informs:
        lacking = [f"'{query.name}'" for query in guess.queries if query.may_be_missing]
        remarks.append(f'These may be answered "not given": {listed(lacking)}.' if lacking else NOTHING_MISSING)
    queries = [
        replace(query, unit=table.units[query.name])
        if isinstance(query, Number) and not query.unit and query.name in table.units
        else query
        for query in guess.queries
    ]
    return ColumnQueries(queries), remarks


def _label_numbers(y: np.ndarray, train: np.ndarray, regress: bool) -> np.ndarray:
    """The label of each training row as a whole number, or in which quarter a number lies; -1 for other rows."""
    numbers = np.full(len(y), -1)
    if regress:
        numbers[train] = np.searchsorted(np.quantile(y[train], (0.25, 0.5, 0.75)), y[train])
    else:
        numbers[train] = np.unique(y[train], return_inverse=True)[1]
    return numbers


def in_options(text: str) -> str:
    """A message of the library, with its advice written as options of the program."""
    return IN_PYTHON.sub(lambda found: _option(found["name"], found["kind"]), text)


def _option(name: str, kind: str) -> str:
    return f"--drop {shlex.quote(name)}" if kind == "skip" else f"--column-type {shlex.quote(f'{name}={kind}')}"


def _marks(query: Choice) -> list[str]:
    """The few choices without a letter or a digit, such as "?" and "-", which may mean that there is no answer."""
    marks = [choice for choice in query.choices if not any(character.isalnum() for character in choice)]
    return marks if len(marks) <= MAX_STRAYS and len(marks) < len(query.choices) else []


def _on_codes(columns: Mapping[Any, np.ndarray]) -> list[str]:
    """Warnings of numbers such as -999 that lie far outside of a column's others: they may be codes of missing
    answers. A column is (N,)."""
    by_code: dict[str, list[str]] = {}
    for name, column in columns.items():
        numbers = np.unique(column[~np.isnan(column)])
        while len(numbers) > 2 and (end := next((one for one in (0, -1) if _is_code(numbers, one)), None)) is not None:
            by_code.setdefault(f"{numbers[end]:.0f}", []).append(f"'{name}'")
            numbers = np.delete(numbers, end)
    return [
        f"Warning: {code} stands among the numbers of {listed(names)}. If that means missing, add --missing {code}"
        for code, names in by_code.items()
    ]


def _is_code(numbers: np.ndarray, end: int) -> bool:
    """Whether the first (0) or the last (-1) of the sorted `numbers` is one of nines and further from the others than
    these are from one another, or the only one below zero."""
    others = np.delete(numbers, end)
    if CODE.fullmatch(f"{numbers[end]:g}") is None:
        return False
    return bool((numbers[end] < 0 <= others[0]) or np.abs(others - numbers[end]).min() > others[-1] - others[0])


def _quoted(column: pd.Series, words: Sequence[str], table: CsvTable) -> tuple[str, str]:
    """Words in quotation marks, and where the first is."""
    rows = column.index[column.astype(str).str.strip().isin(words)]
    line = table.line(rows[0]) if len(rows) else None
    return listed([f"'{word}'" for word in words], MAX_STRAYS), f" (first in line {line})" if line else ""


def parse_costs(texts: Sequence[str]) -> dict[str, float]:
    """Costs of queries, from texts NAME=NUMBER and paths of CSV files with the columns query and cost, of which the
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


def parse_column_types(texts: Sequence[str]) -> dict[str, str]:
    """Types of columns, from texts COLUMN=KIND."""
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
