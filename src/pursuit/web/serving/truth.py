"""What it really was: how sessions are judged by it, how often they were right, and all of it as a CSV file."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from pursuit.evaluation.calibration import accuracy_interval
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.target_bins import target_of
from pursuit.web.serving import schemas
from pursuit.web.serving.store import Judged, StoredSession


def checked_truth(pursuer: Pursuer, label: str | None) -> str | None:
    """What a person says that it was. It may be a label that the model does not know; a number must be one."""
    if label is None or not label.strip():
        return None
    if target_of(pursuer) is not None and _number(label) is None:
        raise ValueError(f"The model predicts a number, so the truth is one too, not “{label.strip()}”.")
    return label.strip()


def is_right(stored: StoredSession | Judged) -> bool | None:
    """Whether the first guess of a session was right, or the number lay in the range that was given; None where nobody
    knows. A person who accepts a result says that it is right; one who called a guess wrong, that it was not."""
    if stored.outcome is None or (stored.truth is None and not stored.accepted):
        return None
    if stored.low is not None and stored.high is not None:
        number = None if stored.truth is None else _number(stored.truth)
        return stored.accepted if number is None else stored.low <= number <= stored.high
    if stored.n_rejected:
        return False
    return stored.truth is None or stored.truth.casefold() == stored.outcome.casefold()


def accuracy_of(sessions: Iterable[Judged]) -> schemas.Accuracy:
    """How often sessions, the oldest first, were right, day by day and so far."""
    judged = [(one.date, one.n, one.n * right) for one in sessions if (right := is_right(one)) is not None]
    points, n, n_right = [], 0, 0
    for date, group in groupby(judged, key=lambda one: one[0]):
        own = [sum(counts) for counts in zip(*((total, right) for _, total, right in group), strict=True)]
        n, n_right = n + own[0], n_right + own[1]
        points.append(
            schemas.DayOfAccuracy(
                date=date,
                n=own[0],
                n_right=own[1],
                so_far_n=n,
                so_far_right=n_right,
                so_far_accuracy=n_right / n,
            )
        )
    return schemas.Accuracy(
        n=n,
        n_right=n_right,
        accuracy=n_right / n if n else None,
        interval=accuracy_interval(n_right, n) if n else None,
        points=points,
    )


def _number(text: str) -> float | None:
    try:
        number = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


COLUMNS: dict[str, Callable[[StoredSession], Any]] = {
    "id": lambda one: one.id,
    "model": lambda one: one.model,
    "title": lambda one: one.title,
    "begun": lambda one: f"{one.created:%Y-%m-%d %H:%M:%S}",
    "last change": lambda one: f"{one.updated:%Y-%m-%d %H:%M:%S}",
    "finished": lambda one: _yes_no(one.done),
    "result": lambda one: one.outcome or "",
    "probability": lambda one: "" if one.probability is None else f"{one.probability:.4f}",
    "decided": lambda one: "" if one.decided is None else "decided" if one.decided else "not sure",
    "labels that remain": lambda one: one.label_set or "",
    "questions asked": lambda one: one.n_asked,
    "accepted": lambda one: _yes_no(one.accepted),
    "true result": lambda one: one.truth or "",
    "right": lambda one: _yes_no(is_right(one)),
    "answers": lambda one: one.answers,
}
"""The columns of the file by their titles."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a text begins that a spreadsheet would compute."""


def csv_lines(sessions: Iterable[StoredSession]) -> Iterator[str]:
    """The file, line by line. It begins with the mark by which spreadsheets know that it is UTF-8."""
    yield "\ufeff" + _line(COLUMNS)
    for one in sessions:
        yield _line(cell(one) for cell in COLUMNS.values())


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


def _yes_no(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"
