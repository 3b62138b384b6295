"""`pursuit predict`: a prediction for every row of a file, with what was asked for it."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from pursuit.cli.app import Data, MaxQueries, Model, Stop
from pursuit.cli.console import say, standard_output
from pursuit.cli.progress import rows_bar
from pursuit.cli.rows import every_row
from pursuit.cli.table_options import ReadingOptions, spread
from pursuit.data.writing import check_table_path, write_csv, write_table
from pursuit.estimators import PursuitEstimator, load
from pursuit.inference.predictions import PROBABILITY
from pursuit.tasks.every_row import RowsPart

DIGITS = 6
"""Of a probability in a file, behind the point, and of a number, from the first that is not 0."""


@spread
def predict(
    model: Model,
    *,
    data: Data,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="The file to write: .csv, .tsv or .parquet; by default CSV on standard output."),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="A column to copy, to tell rows apart; by default the line in the file."),
    ] = None,
    file: ReadingOptions,
    stop: Stop = None,
    max_queries: MaxQueries = None,
) -> None:
    """Predict every row of a file, in its order: the label, the probability of every label, and what was asked.

    Of a number, it is the mean and the 90 % interval. The file needs no labels. Further columns do not matter, and what
    columns that are not there would say is unknown.
    """
    if to is not None:
        check_table_path(to)
    classifier = load(model)
    if max_queries is not None:
        classifier.max_queries = max_queries
    parts = every_row(classifier, data, id_column=id_column, **file.reading())
    with rows_bar("Predicting") as on_rows:
        tables = _predicted(classifier, parts, stop, on_rows)
        if to is None:
            write_csv(standard_output(), tables)
        else:
            write_table(to, tables)
    if to is not None:
        say(f"Written into {to}")


def _predicted(
    classifier: PursuitEstimator, parts: Iterable[RowsPart], stop: str | None, on_rows: Callable[[int], None]
) -> Iterator[pd.DataFrame]:
    """The predictions of each part, which begin with what tells the rows apart."""
    n_rows = 0
    for part in parts:
        table = classifier.predict_table(part.X, stop, initially_known=part.initially_known)
        for column in map(str, table.select_dtypes("float")):
            is_share = column.startswith(PROBABILITY)
            table[column] = table[column].round(DIGITS) if is_share else table[column].map(_significant)
        name, values = (part.place, part.places) if part.ids is None else (str(part.ids.name), part.ids.to_numpy())
        if name in table.columns:
            raise ValueError(f"The predictions have a column '{name}' of their own: rename yours, or leave --id out.")
        table.insert(0, name, values)
        n_rows += len(table)
        on_rows(n_rows)
        yield table


def _significant(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
