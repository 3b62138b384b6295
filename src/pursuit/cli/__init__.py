"""The program: `main` runs it. Every command is a file with a few lines over the library."""

from pursuit.cli import (
    ask,
    compare,
    concepts,
    data,
    demo,
    evaluate,
    explain,
    methods,
    questions,
    reproduce,
    show,
    tasks,
    train,
)
from pursuit.cli.app import app, main

for _command in (
    demo.demo,
    questions.questions,
    train.train,
    show.show,
    evaluate.evaluate,
    explain.explain,
    ask.ask,
    compare.compare,
    reproduce.reproduce,
    tasks.tasks,
    methods.methods,
    concepts.concepts,
):
    app.command()(_command)
app.add_typer(data.commands, name="data")

__all__ = ["app", "main"]
