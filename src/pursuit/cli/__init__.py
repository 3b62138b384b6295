"""The program: `main` runs it."""

from pursuit.cli import data
from pursuit.cli.app import app, main
from pursuit.cli.reproduce import reproduce

app.add_typer(data.commands, name="data")
app.command()(reproduce)

__all__ = ["app", "main"]
