"""`pursuit predict`: a prediction for every row of a file, with the questions and answers behind it."""

from typing import Annotated

from pursuit.cli.console import rows_bar, say, standard_output
from pursuit.cli.options import Model, RowsOptions
from pursuit.options import MaxQueries, Option


def predict(
    model: Model,
    *,
    rows: RowsOptions,
    to: Annotated[
        str | None,
        Option(
            "The file to write: .csv, .tsv or .parquet; or, by a name without an ending, a folder of Parquet "
            "files. By default CSV on standard output.",
            "--out",
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        Option("A column to copy, to tell rows apart; by default the line in the file.", "--id"),
    ] = None,
    max_queries: MaxQueries = None,
) -> None:
    """Predict every row of a file, in its order: the label, the probability of every label, and what was asked.

    Of a number, it is the mean and the 90 % interval. The file needs no labels. Further columns do not matter, and what
    columns that are not there would say is unknown.
    """
    from pursuit.cli.rows import open_rows, remarked, write_by_shares
    from pursuit.public import load
    from pursuit.tables.filesystem import display_name, find_path
    from pursuit.tables.row_jobs import Predict
    from pursuit.tables.writing import means_folder, write_csv, write_table

    if rows.names_engine and to is None:
        raise ValueError("--engine writes a file, or a folder of Parquet files: name it with --out.")
    classifier = load(model)
    if max_queries is not None:
        classifier.max_queries = max_queries
    source = open_rows(classifier, rows.data, id_column=id_column, **rows.file.reading())
    if to is not None and (rows.names_engine or means_folder(to)):
        write_by_shares(Predict, classifier, source, rows, to, "Predicting")
        return
    work = Predict(classifier, source, rows.stop, folder=None, in_lists=False)
    with rows_bar("Predicting") as on_rows:
        tables = work.tables(remarked(source), on_rows)
        if to is None:
            write_csv(standard_output(), tables)
        else:
            write_table(find_path(to), tables)
    if to is not None:
        say(f"Written into {display_name(to)}")
