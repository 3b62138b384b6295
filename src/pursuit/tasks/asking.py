"""What the columns of a CSV file are asked as, and what a person should know of it, with the options to change it."""

import re
import shlex
from collections.abc import Mapping, Sequence

import pandas as pd

from pursuit.data.parquet.arrow_files import existing_column
from pursuit.queries import Choice, ColumnQueries, Number
from pursuit.queries.column import listed
from pursuit.queries.guessing import LEAST_MISSING, LEAST_SHARE_MISSING, NUMBERING, UNIQUE, guess_askable, on_ticked
from pursuit.queries.kinds import check_kinds
from pursuit.tasks.files.csv import CsvTable

MAX_STRAYS = 3
"""More different words than this among numbers are not marks for missing values."""
NOTHING_MISSING = (
    f"No column lacks a value in {LEAST_MISSING} rows and {LEAST_SHARE_MISSING:.0%} of them, so --missing-informs "
    "changes nothing."
)
IN_PYTHON = re.compile(r"kinds=\{(?P<quote>['\"])(?P<name>.*?)(?P=quote): '(?P<kind>[\w/]+)'\}")


def column_queries(
    X: pd.DataFrame, kinds: Mapping[str, str], table: CsvTable, missing_informs: bool = False
) -> tuple[ColumnQueries, list[str]]:
    """The queries of a table, whose numbers are not scaled yet, and remarks on columns that are not asked for or read
    in a way that may surprise."""
    for name in kinds:
        existing_column(name, X.columns, table.text.path.name)
    try:
        guess, refused = guess_askable(X, check_kinds(kinds, list(X.columns)), missing_informs=missing_informs)
    except ValueError as error:
        raise ValueError(in_options(str(error))) from None
    remarks = [f"Warning: not asked for. {in_options(refused)}"] if refused else []
    if guess.unasked:
        remarks.append(_on_unasked(guess.unasked))
    if guess.ticked:
        remarks.append(on_ticked(guess.ticked))
    for query in guess.queries:
        if isinstance(query, Number) and query.missing:
            words, where = _shown(X[query.name], query.missing, table)
            remarks.append(f"Among the numbers of '{query.name}', {words} count as missing{where}.")
        elif isinstance(query, Choice) and (marks := _marks(query)):
            words, where = _shown(X[query.name], marks, table)
            options = " ".join(f"--missing {shlex.quote(mark)}" for mark in marks)
            remarks.append(f"Warning: '{query.name}' holds {words}{where}. If that means missing, add {options}")
    if missing_informs:
        lacking = [f"'{query.name}'" for query in guess.queries if query.may_be_missing]
        remarks.append(f'These may be answered "not given": {listed(lacking)}.' if lacking else NOTHING_MISSING)
    return ColumnQueries(guess.queries), remarks


def in_options(text: str) -> str:
    """A message of the library with what it advises written as options of the program."""
    return IN_PYTHON.sub(lambda found: _option(found["name"], found["kind"]), text)


def _on_unasked(unasked: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for name, reason in unasked.items():
        by_reason.setdefault(reason, []).append(f"'{name}'")
    named = "; ".join(f"{listed(names)} ({reason})" for reason, names in by_reason.items())
    kinds = {NUMBERING: "number", UNIQUE: "choice"}  # what tells nothing is not worth asking anyway
    options = [_option(name, kinds[reason]) for name, reason in unasked.items() if reason in kinds]
    return f"Not asked for: {named}." + (f" To ask anyway, say what it is, as in {options[0]}" if options else "")


def _option(name: str, kind: str) -> str:
    return f"--drop {shlex.quote(name)}" if kind == "skip" else f"--kind {shlex.quote(f'{name}={kind}')}"


def _marks(query: Choice) -> list[str]:
    """The few choices without a letter or a digit, such as "?" and "-", which may mean that there is no answer."""
    marks = [choice for choice in query.choices if not any(character.isalnum() for character in choice)]
    return marks if len(marks) <= MAX_STRAYS and len(marks) < len(query.choices) else []


def _shown(column: pd.Series, words: Sequence[str], table: CsvTable) -> tuple[str, str]:
    """Words in quotation marks, and where the first is."""
    rows = column.index[column.astype(str).str.strip().isin(words)]
    line = table.line(rows[0]) if len(rows) else None
    return listed([f"'{word}'" for word in words], MAX_STRAYS), f" (first in line {line})" if line else ""
