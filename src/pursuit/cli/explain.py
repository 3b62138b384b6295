"""`pursuit explain`: the chains of questions and answers behind predictions."""

from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.app import AsJson, Data, Missing, Model, Stop, Target
from pursuit.cli.console import escaped, out, print_json
from pursuit.cli.rows import UnseenRows, unseen_rows
from pursuit.estimators import load
from pursuit.evaluation.chains import draw_chain
from pursuit.tasks.task import take_rows


def explain(
    model: Model,
    data: Data,
    row: Annotated[
        list[int] | None, typer.Option(help="The number of a row, from 0; repeatable. By default 0, 1 and 2.")
    ] = None,
    target: Target = None,
    missing: Missing = None,
    stop: Stop = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the first chain into this file (png, svg or pdf).")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the chains of questions and answers that lead to predictions: as text, JSON or a figure."""
    classifier = load(model)
    rows = unseen_rows(classifier, data, target, missing)
    wanted = row if row else list(range(min(3, len(rows.X))))
    beyond = [number for number in wanted if not 0 <= number < len(rows.X)]
    if beyond:
        raise ValueError(f"There is no row {beyond[0]}: rows go from 0 to {len(rows.X) - 1}.")
    X = take_rows(rows.X, wanted)
    labels = [None if rows.y is None else str(rows.y[number]) for number in wanted]
    titles = [_row_title(rows, number, label) for number, label in zip(wanted, labels, strict=True)]
    known = None if rows.initially_known is None else rows.initially_known[wanted]
    chains = classifier.explain(X, stop, initially_known=known)
    if figure:
        draw_chain(classifier.model_.query_set, X, chains[0], figure, titles[0])
    if as_json:
        shown = zip(wanted, labels, chains, strict=True)
        print_json({"task": rows.name, "chains": [{"row": n, "label": y, **chain.to_dict()} for n, y, chain in shown]})
        return
    for title, chain in zip(titles, chains, strict=True):
        out.print(escaped(title), style="bold", highlight=False)
        print(f"{chain}\n")
    if figure:
        out.print(f"Drawn into {figure}", soft_wrap=True)


def _row_title(rows: UnseenRows, number: int, label: str | None) -> str:
    """The number of a row among those shown, its number in the file if that is another one, and its label."""
    in_file = rows.X.index[number] if hasattr(rows.X, "index") else number
    return (
        f"Row {number}"
        + (f" (row {in_file} of the file)" if in_file != number else "")
        + (f", true label: {label}" if label else "")
    )
