"""`pursuit report`: a page that shows a model before it is used."""

from pathlib import Path
from typing import Annotated, Any

from pursuit.cli.console import print_json, show
from pursuit.cli.options import AsJson, MeasuringOptions, Model
from pursuit.options import Option

TREE_ROWS = 20_000
"""Number of rows in the tree of questions when a model is measured on all rows of files."""


def report(
    model: Model,
    *,
    rows: MeasuringOptions,
    to: Annotated[Path, Option("Write the page into this file.", "--out")] = Path("report.html"),
    depth: Annotated[int, Option("How many levels of questions the tree shows.", min=1, max=8)] = 3,
    as_json: AsJson = False,
) -> None:
    """Write a page about a model: how good it is, how far to trust it, what it asks, the tree of its questions, and how
    far answers that are changed on purpose move results.

    It is one file that loads nothing from anywhere, to be read in a browser or printed.
    """
    check_page(to)
    from pursuit.cli.rows import (
        is_by_shares,
        measurable,
        measured_before,
        measured_on_all_rows,
        model_and_labelled_rows,
    )
    from pursuit.report import ModelReport
    from pursuit.report.measured import DEPTH, Measured, kept

    if is_by_shares(rows):
        classifier, source, evaluation = measured_on_all_rows(model, rows)
        some = measurable(classifier, source.unseen(TREE_ROWS))
        options: dict[str, Any] = {"initially_known": some.initially_known, "depth": depth, "name": some.name}
        found = ModelReport.of(classifier, some.X, some.y, rows.stop, **options, evaluation=evaluation)
    else:
        estimator, unseen = model_and_labelled_rows(model, rows)
        before = measured_before(model, estimator, unseen, rows.stop) if depth == DEPTH else None
        if before is not None:
            found = ModelReport.from_measured(estimator, before, rows.stop)
        else:
            options = {"initially_known": unseen.initially_known, "depth": depth, "name": unseen.name}
            measured = Measured.of(estimator, unseen.X, unseen.y, rows.stop, **options)
            found = ModelReport.from_measured(estimator, measured, rows.stop)
            is_usual = rows.stop is None and rows.max_queries is None and depth == DEPTH
            if is_usual and kept(model, estimator) is None:
                measured.keep(model, estimator)  # for all who show the model to people
    found.save(to)
    if as_json:
        print_json({**found.to_dict(), "page": str(to)})
        return
    show(f"Written: {to}")


def check_page(path: Path) -> None:
    """Refuse a file that a page cannot be written to, before anything is computed."""
    if path.suffix.lower() not in (".html", ".htm") or not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: give a file that ends in .html, in a folder that exists.")
