"""The page of all commands, from the program itself: docs/reference/commands.md.

python tools/command_reference.py
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from pursuit.cli import app
from pursuit.cli.app import load_command

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "commands.md"
ABOUT = """\
# Commands

Every command of the program with all its options, as its own help says them. `--json` prints exactly one
JSON object instead of tables. A command ends with 0 if it did what it was asked to; with 1 if something was wrong,
which it says in a sentence; and with 2 if its options were wrong. Written by `python tools/command_reference.py`.
"""


def page() -> str:
    group: Any = get_command(app)
    parts = [ABOUT, *_options(group)]
    for name in group.commands:
        parts += _described(f"pursuit {name}", load_command(name))
    return "\n".join(parts)


def _described(name: str, command: Any) -> Iterator[str]:
    arguments = [_value(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    last = "COMMAND" if hasattr(command, "commands") else "[OPTIONS]"
    yield f"## {name}\n"
    yield f"```text\n{' '.join([name, *arguments, last])}\n```\n"
    yield f"{_plain(command.help)}\n"
    yield from _options(command)
    for other, further in getattr(command, "commands", {}).items():
        yield from _described(f"{name} {other}", further)


def _options(command: Any) -> Iterator[str]:
    rows = [f"| {left} | {right} |" for parameter in command.params for left, right in _row(parameter)]
    if rows:
        yield "\n".join(["| argument or option | what it says |", "|---|---|", *rows]) + "\n"


def _row(parameter: Any) -> Iterator[tuple[str, str]]:
    text = _plain(getattr(parameter, "help", None))
    if parameter.param_type_name == "argument":
        yield f"`{_plain(_value(parameter))}`", text
    elif "--help" not in parameter.opts and not parameter.hidden:
        names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
        value = "" if parameter.is_flag else f" `{_plain(_value(parameter))}`"
        is_told = isinstance(parameter.default, int | float | str | Path) and not parameter.is_flag
        default = f" By default `{parameter.default}`." if is_told and "default" not in text else ""
        yield names + value, text + default


def _value(parameter: Any) -> str:
    """What stands for the value in the usage."""
    name = parameter.metavar or str(parameter.name).upper()
    is_several = parameter.nargs != 1 or (parameter.param_type_name == "argument" and parameter.multiple)
    return f"{name}…" if is_several and "..." not in name and "…" not in name else name


def _plain(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Written: {PAGE}")
