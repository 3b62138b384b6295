"""`pursuit watch`: what sessions with people say of a model after it was served."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column

from pursuit.cli.console import escaped, out, plain_table, print_json, show
from pursuit.cli.options import AsJson, Database, Model
from pursuit.options import Option


def watch(
    model: Model,
    *,
    database: Database = None,
    alarm: Annotated[
        float, Option("The share of models that keep their promise and are alarmed about, ever.", min=1e-6, max=0.5)
    ] = 0.01,
    tolerance: Annotated[
        float, Option("How much more often than it says the model may be wrong.", min=0.0, max=0.5)
    ] = 0.05,
    to: Annotated[Path | None, Option("Write a page into this file.", "--out")] = None,
    as_json: AsJson = False,
) -> None:
    """Watch a model that is served: accuracy, calibration, questions and answers over time, by sessions with people.

    With an alarm, the command ends with 3, for those who run it every day.
    """
    from pursuit.cli.report import check_page
    from pursuit.cli.served_models import kept_sessions
    from pursuit.files import write_whole
    from pursuit.public import load
    from pursuit.report.facts import share
    from pursuit.report.watch import Watch

    if to is not None:
        check_page(to)
    estimator = load(model)
    found = Watch.of(estimator, kept_sessions(model, database), alarm, tolerance)
    if to is not None:
        write_whole(to, found.html(model.resolve().name).encode())
    if as_json:
        print_json({"model": str(model), **found.to_dict()})
    else:
        for sentence in found.sentences:
            show(sentence)
        if found.periods:
            numbers = [
                Column(name, justify="right") for name in ("sessions", "questions", "judged", "right", "unusual")
            ]
            table = plain_table("begun", *numbers)
            for one in found.periods:
                right = "–" if one.accuracy_interval is None else share(one.n_right / one.n_judged)
                counts = str(one.n), f"{one.mean_asked:.1f}", str(one.n_judged), right, str(one.n_unusual)
                table.add_row(one.name, *counts)
            out.print(table)
        asked = [one for one in found.questions if one.n_unknown or one.has_moved][:20]
        if asked:
            table = plain_table(
                "question", *(Column(name, justify="right") for name in ("asked", "don't know", "moved"))
            )
            for question in asked:
                unknown = share(question.n_unknown / question.n_asked)
                moved = escaped(question.moved.text) if question.has_moved and question.moved is not None else ""
                table.add_row(escaped(question.text), str(question.n_asked), unknown, moved)
            out.print(table)
        if to is not None:
            show(f"Written: {to}")
    if found.is_alarmed:
        raise typer.Exit(3)
