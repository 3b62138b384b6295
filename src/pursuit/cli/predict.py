"""`pursuit predict`: a prediction for every row of a file, with what was asked for it."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pursuit.cli.app import Address, Data, EngineName, MaxQueries, Model, Stop
from pursuit.cli.console import say, standard_output, stoppable
from pursuit.cli.progress import rows_bar
from pursuit.cli.table_options import ReadingOptions, spread
from pursuit.data.storage import bare, is_remote, place

if TYPE_CHECKING:
    import pandas as pd

    from pursuit.estimators import PursuitEstimator
    from pursuit.tasks.every_row import RowsPart


@spread
def predict(
    model: Model,
    *,
    data: Data,
    to: Annotated[
        str | None,
        typer.Option(
            "--out",
            help="The file to write: .csv, .tsv or .parquet; by default CSV on standard output. With --engine, a "
            "folder of Parquet files.",
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="A column to copy, to tell rows apart; by default the line in the file."),
    ] = None,
    file: ReadingOptions,
    stop: Stop = None,
    max_queries: MaxQueries = None,
    engine: EngineName = None,
    address: Address = None,
) -> None:
    """Predict every row of a file, in its order: the label, the probability of every label, and what was asked.

    Of a number, it is the mean and the 90 % interval. The file needs no labels. Further columns do not matter, and what
    columns that are not there would say is unknown.
    """
    from pursuit.cli.rows import every_row, rows_of_files
    from pursuit.data.writing import check_table_path, write_csv, write_table
    from pursuit.public import load

    by_shares = engine is not None or address is not None
    if by_shares and to is None:
        raise ValueError("--engine writes a folder of Parquet files: name it with --out.")
    if to is not None and not by_shares:
        if is_remote(to):
            raise ValueError(f"{bare(to)} is on another machine: add --engine local, or name a file here.")
        check_table_path(Path(to))
    classifier = load(model)
    if max_queries is not None:
        classifier.max_queries = max_queries
    if by_shares:
        from pursuit.scale.engines import find_engine
        from pursuit.scale.running import predict_all

        assert to is not None
        does = find_engine(engine, address)
        rows = rows_of_files(classifier, data, id_column=id_column, **file.reading())
        with stoppable("Run the same command again to continue."), rows_bar("Predicting") as on_rows:
            n_rows = predict_all(classifier, rows, stop, place(to), does, on_rows)
        say(f"Written into {bare(to)}: {n_rows:,} rows in {len(rows.shares):,} files")
        return
    parts = every_row(classifier, data, id_column=id_column, **file.reading())
    with rows_bar("Predicting") as on_rows:
        tables = _predicted(classifier, parts, stop, on_rows)
        if to is None:
            write_csv(standard_output(), tables)
        else:
            write_table(Path(to), tables)
    if to is not None:
        say(f"Written into {to}")


def _predicted(
    classifier: "PursuitEstimator", parts: "Iterable[RowsPart]", stop: str | None, on_rows: Callable[[int], None]
) -> "Iterator[pd.DataFrame]":
    """The predictions of each part."""
    from pursuit.scale.work import predicted

    n_rows = 0
    for part in parts:
        table = predicted(classifier, part, stop)
        n_rows += len(table)
        on_rows(n_rows)
        yield table
