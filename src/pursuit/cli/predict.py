"""`pursuit predict`: a prediction for every row of a file; `pursuit explain`: the questions and answers behind it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pursuit.cli.console import escaped, out, print_json, rows_bar, say, show, standard_output
from pursuit.cli.evaluate import check_page
from pursuit.cli.options import AsJson, Model, RowsOptions, Target
from pursuit.registry import MaxQueries, Option

if TYPE_CHECKING:
    import numpy as np

    from pursuit.estimators import PursuitEstimator
    from pursuit.evaluation import Evaluation, RegressionEvaluation
    from pursuit.tables.source import TableSource


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
    from pursuit import load
    from pursuit.cli.rows import open_rows, remarked, write_by_shares
    from pursuit.tables.filesystem import display_name, find_path
    from pursuit.tables.row_jobs import Predict, means_folder, write_csv, write_table

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


MOST_MEASURED = 2000
"""Most rows that a model is measured on for the page of a single prediction."""
AT_ONCE = 2000
"""Number of rows explained at once when all rows are, since all of their posteriors are in memory."""


class _Selection(NamedTuple):
    """The rows to explain."""

    X: Any
    names: list[dict[str, Any]]
    """The key of each row in JSON: its row, its line or its id."""
    titles: list[str]
    labels: list[str | None]
    initially_known: "np.ndarray | None" = None
    trained_on: tuple[str, ...] = ()
    """The titles of those that the model was trained on, as far as that is known."""


def explain(
    model: Model,
    *,
    rows: RowsOptions,
    row: Annotated[
        list[int] | None,
        Option("A row by its number, from 0, among those not trained on; repeatable; by default the first 3."),
    ] = None,
    line: Annotated[
        list[int] | None,
        Option("A row by its line in a CSV file or an Excel workbook, where the header is line 1; repeatable."),
    ] = None,
    id_value: Annotated[list[str] | None, Option("A row by its value in the --id-column; repeatable.", "--id")] = None,
    id_column: Annotated[
        str | None, Option("The column to look up --id in; with --engine, one to tell rows apart by.")
    ] = None,
    target: Target = None,
    figure: Annotated[Path | None, Option("Draw the first chain into this file (png, svg or pdf).")] = None,
    html: Annotated[
        Path | None,
        Option("Write a page with the chains, the reasons and what the model is into this file."),
    ] = None,
    to: Annotated[
        str | None,
        Option("Write the chains of all rows, with a row for each step, as `predict` does.", "--out"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the chains of questions and answers that lead to predictions: as text, JSON, a figure or a page.

    Lines and ids name any row of a file, those that the model was trained on included. With --out, the chains of all
    rows are written into a file or a folder, with a row for each step.
    """
    from pursuit import load
    from pursuit.cli.rows import open_rows, write_by_shares
    from pursuit.report import ChainsReport
    from pursuit.research.tasks import TASKS
    from pursuit.tables.row_jobs import Explain
    from pursuit.tables.source import name_of

    data, reading = rows.data, rows.file.reading()
    if rows.names_engine or to is not None:
        if row or line or id_value or figure or html or as_json or to is None:
            raise ValueError(
                "--out and --engine write the chains of all rows into a file or a folder: name it with --out, and "
                "leave out --row, --line, --id, --figure, --html and --json."
            )
        classifier = load(model)
        source = open_rows(classifier, data, id_column=id_column, part_rows=AT_ONCE, **reading)
        write_by_shares(Explain, classifier, source, rows, to, "Explaining", "the chains of ")
        return
    if bool(id_value) != (id_column is not None):
        raise ValueError("--id and --id-column belong together, as in --id 4711 --id-column patient.")
    if row and (line or id_value):
        raise ValueError(
            "--row counts only rows that the model was not trained on: use either --row, or --line and --id."
        )
    if data in TASKS and (line or id_value):
        raise ValueError(f"{data} is a task, whose rows have neither lines nor ids: name them with --row.")
    if html is not None:
        check_page(html)
    classifier = load(model)
    if line or id_value:
        source = open_rows(classifier, data, target=target, id_column=id_column, **reading)
        selected = _rows_of_file(source, line or [], id_value or [])
        _remark_on_training(selected)
    else:
        selected = _unseen_rows(classifier, data, row, target, **reading)
    titled = zip(selected.titles, selected.labels, strict=True)
    headings = [title + (f", true label: {label}" if label else "") for title, label in titled]
    report = ChainsReport.of(
        classifier,
        selected.X,
        selected.titles,
        selected.labels,
        stop=rows.stop,
        initially_known=selected.initially_known,
        name=data if data in TASKS else name_of(data),
    )
    if figure:
        from pursuit.evaluation.figures import draw_chain

        draw_chain(classifier.model_.query_set, selected.X, report.chains[0], figure, headings[0])
    if html is not None:
        measured = _measured(model, classifier, data, target, rows.stop, **reading)
        seen = "The model was trained on this row, so it may be more certain here than on a new row."
        remarked = tuple(replace(one, remark=seen) if one.title in selected.trained_on else one for one in report.rows)
        replace(report, evaluation=measured, rows=remarked).save(html)
    if as_json:
        described = report.to_dict()
        chains = [{**name, **chain} for name, chain in zip(selected.names, described["chains"], strict=True)]
        print_json({**described, "chains": chains})
        return
    for heading, explained in zip(headings, report.rows, strict=True):
        out.print(escaped(heading), style="bold", highlight=False)
        show("\n".join([str(explained.chain), *explained.remarks(), ""]))
    for path in (figure, html):
        if path is not None:
            show(f"Written: {path}")


def _measured(
    model: Path, classifier: "PursuitEstimator", data: str, target: str | None, stop: str | None, **reading: Any
) -> "Evaluation | RegressionEvaluation | None":
    """An evaluation on rows of the same data that the model was not trained on; None if no row has a label."""
    from pursuit.cli.rows import measurable, measured_before, unseen_rows
    from pursuit.estimators import PursuitClassifier, PursuitRegressor

    assert isinstance(classifier, PursuitClassifier | PursuitRegressor)
    try:
        rows = unseen_rows(classifier, data, target, **reading)
    except ValueError:  # the rows that are explained could be read, but not measured on: some columns are not there
        return None
    if rows.y is None:
        return None
    rows = measurable(classifier, rows)
    if (before := measured_before(model, classifier, rows, stop)) is not None:
        return before.evaluation
    first = rows.take(slice(MOST_MEASURED))
    return classifier.evaluate(first.X, first.y, stop, initially_known=first.initially_known)


def _unseen_rows(
    classifier: "PursuitEstimator", data: str, numbers: list[int] | None, target: str | None, **reading: Any
) -> _Selection:
    """Rows by their numbers among those that the model was not trained on."""
    from pursuit.cli.rows import unseen_rows

    rows = unseen_rows(classifier, data, target, **reading)
    wanted = numbers or list(range(min(3, len(rows.X))))
    beyond = [number for number in wanted if not 0 <= number < len(rows.X)]
    if beyond:
        raise ValueError(f"Row {beyond[0]} does not exist: rows are numbered from 0 to {len(rows.X) - 1}.")
    chosen = rows.take(wanted)
    places = [""] * len(wanted) if chosen.where is None else [f" ({place})" for place in chosen.where]
    return _Selection(
        chosen.X,
        [{"row": number} for number in wanted],
        [f"Row {number}{place}" for number, place in zip(wanted, places, strict=True)],
        [None] * len(wanted) if chosen.y is None else [_as_written(label) for label in chosen.y],
        chosen.initially_known,
    )


def _rows_of_file(source: "TableSource", lines: list[int], ids: list[str]) -> _Selection:
    """Rows of a file by their lines, and by their values in the id column."""
    import numpy as np
    import pandas as pd

    from pursuit.cli.rows import remarked
    from pursuit.tables.source import refuse_absent

    titles = [*(f"Line {line}" for line in lines), *(f"{source.id_column} {value}" for value in ids)]
    found: dict[str, tuple[pd.DataFrame, str | None, bool]] = {}
    last = 0
    for part in remarked(source):
        refuse_absent(part.absent, source.name)
        if lines and part.position != "line":
            raise ValueError("Only CSV files have lines: name the rows of other files by --id and --id-column.")
        in_column = np.empty(0) if part.ids is None else part.ids.map(_as_written).to_numpy()
        matches = [*(part.positions == line for line in lines), *(in_column == value for value in ids)]
        for title, matching in zip(titles, matches, strict=True):
            rows = np.flatnonzero(matching)
            if len(rows) + (title in found) > 1:
                raise ValueError(f"Several rows of the file have {title}: choose one of them with --line.")
            if len(rows):
                label = None if part.labels is None else part.labels.iloc[rows[0]]
                written = None if pd.isna(label) else _as_written(label)
                found[title] = (part.X.iloc[rows], written, bool(part.seen[rows[0]]))
        last = int(part.positions[-1])
    if absent := [title for title in titles if title not in found]:
        is_line = absent[0] in titles[: len(lines)]
        raise ValueError(
            f"{absent[0]} is not a row of the file: its rows are in lines 2 to {last}."
            if is_line
            else f"No row of the file has {absent[0]}."
        )
    return _Selection(
        pd.concat([found[title][0] for title in titles]),
        [*({"line": line} for line in lines), *({"id": value} for value in ids)],
        titles,
        [found[title][1] for title in titles],
        trained_on=tuple(title for title in titles if found[title][2]),
    )


def _as_written(value: Any) -> str:
    """A value of a column as it is written: whole numbers, which may have been read as fractions, without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _remark_on_training(selected: _Selection) -> None:
    """Say which rows the model was trained on."""
    seen = [
        f"line{title.removeprefix('Line')}" if title.startswith("Line ") else title for title in selected.trained_on
    ]
    if seen:
        say(f"The model was trained on {', '.join(seen)}, so it may be more certain here than on a new row.")
