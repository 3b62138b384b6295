"""The program: `main` runs it."""

from pursuit.cli import data
from pursuit.cli.app import app, main
from pursuit.cli.ask import ask
from pursuit.cli.compare import compare
from pursuit.cli.concepts import concepts
from pursuit.cli.reproduce import reproduce

app.command()(ask)
app.command()(reproduce)
app.command()(compare)
app.command()(concepts)
app.add_typer(data.commands, name="data")

__all__ = ["app", "main"]
