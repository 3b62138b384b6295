"""The commands by name. A command's file is imported when the command is named, and imports at its top only what its
options and its help need. What computes takes seconds to import, so it is imported inside of functions."""

import ast
import importlib
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from pursuit.cli.options import with_options

COMMANDS = (
    "demo",
    "new",
    "questions",
    "train",
    "show",
    "evaluate",
    "report",
    "predict",
    "explain",
    "ask",
    "serve",
    "watch",
    "recalibrate",
    "export",
    "mcp",
    "compare",
    "tune",
    "reproduce",
    "tasks",
    "methods",
    "concepts",
    "data",
)
"""In the order in which people need them. A file has a function of the same name, and a group of commands
is `commands` in its file."""


class CommandsByName(TyperGroup):
    """The group of all commands, of which only the one that is run is loaded."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest


def add_commands(app: typer.Typer) -> None:
    """List all commands in `app`, each with the first lines of its documentation."""
    for name in COMMANDS:
        app.command(name, help=_help(name))(_loaded_later)


def load_command(name: str) -> Any:
    """The command of this name, ready to run."""
    module = importlib.import_module(f"{__package__}.{name}")
    if (group := getattr(module, "commands", None)) is None:
        group = typer.Typer(add_completion=False)
        group.command(name)(with_options(getattr(module, name)))
    return get_command(group)


def _loaded_later() -> None:
    """Stands for a command in the list of all."""
    raise RuntimeError("A command is loaded before it is run: see CommandsByName.")


def _help(name: str) -> str | None:
    """The documentation of a command's function, read from its file without importing it."""
    spec = find_spec(f"{__package__}.{name}")
    source = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    if source is None:
        return None
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return ast.get_docstring(functions[0]) if functions else None
