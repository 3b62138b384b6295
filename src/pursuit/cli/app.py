"""The app and `main`; commands by name, and plugins.

A command's file is imported when the command is named, and imports at its top only what its options and its help need.
What computes takes seconds to import, so it is imported inside of functions.
"""

import ast
import gc
import importlib
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from pursuit.cli.console import err, escaped, in_words, show
from pursuit.cli.options import with_options
from pursuit.version import __version__

COMMANDS = {
    "demo": "experiments",
    "new": "new",
    "questions": "questions",
    "train": "train",
    "show": "show",
    "evaluate": "evaluate",
    "report": "evaluate",
    "predict": "predict",
    "explain": "predict",
    "ask": "ask",
    "serve": "serve",
    "watch": "watch",
    "recalibrate": "watch",
    "export": "export",
    "mcp": "serve",
    "compare": "experiments",
    "tune": "experiments",
    "reproduce": "experiments",
    "tasks": "listing",
    "methods": "listing",
    "concepts": "experiments",
    "data": "data",
}
"""In the order in which people need them, each with the file that has a function of its name. A group of commands is
`commands` in its file."""
PLUGINS_VARIABLE = "PURSUIT_PLUGINS"
"""Names plugins for every command, with the separator of PATH between them."""


class CommandsByName(TyperGroup):
    """The group of all commands, of which only the one that is run is loaded."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest


def load_command(name: str) -> Any:
    """The command of this name, ready to run."""
    module = importlib.import_module(f"{__package__}.{COMMANDS[name]}")
    if (group := getattr(module, "commands", None)) is None:
        group = typer.Typer(add_completion=False)
        group.command(name)(with_options(getattr(module, name)))
    return get_command(group)


def _loaded_later() -> None:
    """Stands for a command in the list of all."""
    raise RuntimeError("A command is loaded before it is run: see CommandsByName.")


def _help(name: str) -> str | None:
    """The documentation of a command's function, read from its file without importing it."""
    spec = find_spec(f"{__package__}.{COMMANDS[name]}")
    source = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    if source is None:
        return None
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return ast.get_docstring(functions[0]) if functions else None


app = typer.Typer(
    name="pursuit",
    cls=CommandsByName,
    help="Predictions that explain themselves by the questions they ask.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the program; an error that a user can mend is one sentence, without a traceback."""
    warnings.showwarning = _show_warning
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is imported: threads that wait do not spin
    gc.set_threshold(50_000)  # imports make many objects and no garbage, and collecting by default takes long
    try:
        app()
    except BrokenPipeError:  # whoever reads what is printed has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        err.quiet = False  # whichever process it happens in
        err.print(f"[bold red]Error:[/] {escaped(in_words(error))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        err.print("Stopped.")
        sys.exit(130)


def _show_warning(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
    """Print a warning that is meant for users: those of the libraries beneath are about their own functions."""
    own, libraries = Path(__file__).parents[1], Path(typer.__file__).parents[1]
    path = Path(filename)
    is_for_users = issubclass(category, UserWarning) and category.__module__.split(".")[0] in ("builtins", "pursuit")
    if is_for_users and (path.is_relative_to(own) or not path.is_relative_to(libraries)):
        err.print(f"Warning: {escaped(str(message))}", soft_wrap=True)


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE_OR_FILE.py",
            help="Import your own module or file first, so that what it registers is known: stopping rules, networks, "
            f"query sets, methods, tasks. Repeatable; also from {PLUGINS_VARIABLE}, separated by '{os.pathsep}'.",
        ),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        show(__version__)
        raise typer.Exit
    load_plugins(plugin or [])
    if context.invoked_subcommand is None:
        show(context.get_help())


def load_plugins(names: Sequence[str]) -> None:
    """Import the plugins that the environment names, and then these."""
    from_environment = filter(None, os.environ.get(PLUGINS_VARIABLE, "").split(os.pathsep))
    for name in dict.fromkeys([*from_environment, *names]):
        load_plugin(name)


def load_plugin(name: str) -> None:
    """Import a Python file by its path or a module by its name, once; raises ValueError saying what is wrong."""
    is_file = name.endswith(".py") or os.sep in name
    if is_file and not Path(name).is_file():
        raise ValueError(f"There is no plugin file {name}: give the path of a Python file, or the name of a module.")
    try:
        if is_file:
            _import_file(Path(name).resolve())
        else:
            importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and not is_file and f"{name}.".startswith(f"{error.name}."):
            raise ValueError(
                f"There is no module '{name}' to import as a plugin: install its package, or give the path of its file."
            ) from None
        message = error.msg if isinstance(error, SyntaxError) else error
        raise ValueError(
            f"The plugin {name} cannot be imported: {type(error).__name__}: {message} ({_place(error)})."
        ) from error


def _import_file(path: Path) -> None:
    module_name = str(path)  # no module of another package has such a name
    if module_name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ValueError("it is not a Python file")
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise


def _place(error: Exception) -> str:
    """The line of the plugin at which its import failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"line {error.lineno} of {error.filename}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    if not frames:
        return "before its first line"
    # The first frame is the plugin's own, and the last one in the same file is nearest to the error.
    last = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    return f"line {last.lineno} of {last.filename}"


for _name in COMMANDS:  # each is listed with the first lines of its documentation
    app.command(_name, help=_help(_name))(_loaded_later)
