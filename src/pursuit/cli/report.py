"""`pursuit report`: a page that shows a model before it is used."""

from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.app import Address, AsJson, Data, Device, EngineName, Keep, MaxQueries, Model, Stop, Target
from pursuit.cli.console import escaped, out, print_json
from pursuit.cli.table_options import ReadingOptions, spread

TREE_ROWS = 20_000
"""How many rows the tree of questions shows, where a model is measured on all rows of files."""


@spread
def report(
    model: Model,
    *,
    data: Data,
    target: Target = None,
    file: ReadingOptions,
    to: Annotated[Path, typer.Option("--out", help="Write the page into this file.")] = Path("report.html"),
    depth: Annotated[int, typer.Option(help="How many levels of questions the tree shows.", min=1, max=8)] = 3,
    stop: Stop = None,
    max_queries: MaxQueries = None,
    device: Device = "cpu",
    engine: EngineName = None,
    address: Address = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Write a page about a model: how good it is, how far to trust it, what it asks, and the tree of its questions.

    It is one file that loads nothing from anywhere, to be read in a browser or printed.
    """
    check_page(to)
    from pursuit.cli.rows import is_by_shares, kept_measurement, measured_on_all_rows, model_and_labelled_rows
    from pursuit.report import ModelReport
    from pursuit.report.kept import DEPTH

    reading = file.reading()
    if is_by_shares(engine, address, keep):
        classifier, every, evaluation = measured_on_all_rows(
            model, data, target, stop, max_queries, device, engine, address, keep, reading
        )
        from pursuit.scale.work import first_rows

        X, y = first_rows(classifier, every, TREE_ROWS)
        found = ModelReport.of(classifier, X, y, stop, depth=depth, name=every.name, evaluation=evaluation)
    else:
        estimator, rows = model_and_labelled_rows(model, data, target, device, max_queries, **reading)
        known = rows.initially_known
        before = kept_measurement(model, estimator, rows, stop) if depth == DEPTH else None
        if before is not None:
            found = ModelReport.from_measured(estimator, before, stop)
        else:
            found = ModelReport.of(estimator, rows.X, rows.y, stop, initially_known=known, depth=depth, name=rows.name)
    found.save(to)
    if as_json:
        print_json({**found.to_dict(), "page": str(to)})
        return
    out.print(escaped(f"Written: {to}"), highlight=False, soft_wrap=True)


def check_page(path: Path) -> None:
    """Refuse a file that a page cannot be written to, before anything is computed."""
    if path.suffix.lower() not in (".html", ".htm") or not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: give a file that ends in .html, in a folder that exists.")
