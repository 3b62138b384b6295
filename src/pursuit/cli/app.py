"""The app and `main`."""

import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from pursuit.cli.commands import CommandsByName, add_commands
from pursuit.cli.console import err, escaped, in_words, show
from pursuit.cli.plugins import PLUGINS_VARIABLE, load_plugins
from pursuit.version import __version__

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


add_commands(app)
