"""`pursuit predict`: a prediction for every row of a file, with what was asked for it."""

from typing import Annotated

import typer

from pursuit.cli.app import Address, Data, EngineName, MaxQueries, Model, Stop
from pursuit.cli.console import say, standard_output
from pursuit.cli.progress import rows_bar
from pursuit.cli.table_options import ReadingOptions, spread


@spread
def predict(
    model: Model,
    *,
    data: Data,
    to: Annotated[
        str | None,
        typer.Option(
            "--out",
            help="The file to write: .csv, .tsv or .parquet; or, by a name without an ending, a folder of Parquet "
            "files. By default CSV on standard output.",
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
    from pursuit.cli.rows import all_rows, open_rows, write_by_shares
    from pursuit.public import load
    from pursuit.scale.work import Predict, predictions_of
    from pursuit.tables.filesystem import display_name, find_path
    from pursuit.tables.writing import means_folder, write_csv, write_table

    by_shares = engine is not None or address is not None
    if by_shares and to is None:
        raise ValueError("--engine writes a file, or a folder of Parquet files: name it with --out.")
    by_shares = by_shares or (to is not None and means_folder(to))
    classifier = load(model)
    if max_queries is not None:
        classifier.max_queries = max_queries
    if by_shares and to is not None:
        rows = open_rows(classifier, data, id_column=id_column, **file.reading())
        write_by_shares(Predict, classifier, rows, stop, to, engine, address, "Predicting")
        return
    parts = all_rows(classifier, data, id_column, **file.reading())
    with rows_bar("Predicting") as on_rows:
        tables = predictions_of(classifier, parts, stop, on_rows)
        if to is None:
            write_csv(standard_output(), tables)
        else:
            write_table(find_path(to), tables)
    if to is not None:
        say(f"Written into {display_name(to)}")
