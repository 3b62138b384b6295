"""Sessions as a CSV file."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from pursuit.web.serving.store import StoredSession
from pursuit.web.serving.truth import is_right

COLUMNS = (
    "id",
    "model",
    "title",
    "begun",
    "last change",
    "finished",
    "result",
    "probability",
    "decided",
    "labels that remain",
    "questions asked",
    "accepted",
    "true result",
    "right",
    "answers",
)
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a text begins that a spreadsheet would compute."""


def csv_lines(sessions: Iterable[StoredSession]) -> Iterator[str]:
    """The file, line by line. It begins with the mark by which spreadsheets know that it is UTF-8."""
    yield "\ufeff" + _line(COLUMNS)
    for one in sessions:
        right = is_right(one)
        yield _line(
            (
                one.id,
                one.model,
                one.title,
                f"{one.created:%Y-%m-%d %H:%M:%S}",
                f"{one.updated:%Y-%m-%d %H:%M:%S}",
                _yes_no(one.done),
                one.outcome or "",
                "" if one.probability is None else f"{one.probability:.4f}",
                "" if one.decided is None else "decided" if one.decided else "not sure",
                one.label_set or "",
                one.n_asked,
                _yes_no(one.accepted),
                one.truth or "",
                "" if right is None else _yes_no(right),
                one.answers,
            )
        )


def _line(cells: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([harmless(str(cell)) for cell in cells])
    return text.getvalue()


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: numbers stay as they are, other texts get an apostrophe."""
    if not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"
