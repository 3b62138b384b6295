"""What all commands share."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.text import Text

from program import run
from pursuit import cli
from pursuit.cli import listing
from pursuit.cli.app import COMMANDS, load_command
from pursuit.version import __version__


def test_version_and_help(tmp_path: Path) -> None:
    assert run(tmp_path, "--version").stdout.strip() == __version__
    assert "train" in run(tmp_path, "--help").stdout
    assert "--plugin" in run(tmp_path).stdout


def test_commands_come_in_the_order_people_need_them(tmp_path: Path) -> None:
    lines = run(tmp_path, "--help").stdout.splitlines()
    commands = [line.split()[1] for line in lines if line.startswith("│ ") and line[2] != " " and line[2] != "-"]
    first = ["demo", "new", "questions", "train", "show", "evaluate", "report", "predict", "explain", "ask", "serve"]
    then = [
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
    ]
    assert commands == [*first, *then]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_shown_to_the_letter(name: str) -> None:
    """Words in square brackets would be taken for colours, and left out."""
    command = load_command(name)
    for one in [command, *getattr(command, "commands", {}).values()]:
        for text in [one.help or "", *(getattr(parameter, "help", None) or "" for parameter in one.params)]:
            assert Text.from_markup(text).plain == text


HEAVY = ("torch", "pandas", "sklearn", "scipy", "matplotlib", "lightning_fabric", "narwhals")
"""Packages that take long to import, and that only computing needs."""
QUICK = [
    [],
    ["--help"],
    ["--version"],
    *([name, "--help"] for name in COMMANDS),
    ["data", "get", "--help"],
    ["methods"],
    ["tasks", "--json"],
    ["trian"],
    ["train", "--trget", "x"],
    ["train", "nowhere.csv"],
    ["evaluate", ".", "--data", "nowhere.parquet"],
    ["show", "nowhere"],
    ["serve", "nowhere"],
]


@pytest.mark.programs
def test_what_computes_nothing_imports_nothing_heavy(tmp_path: Path) -> None:
    code = f"""
import sys
from pursuit.cli import main
for arguments in {QUICK}:
    sys.argv = ["pursuit", *arguments]
    try:
        main()
    except SystemExit:
        pass
    heavy = [name for name in {HEAVY} if name in sys.modules]
    assert not heavy, (arguments, heavy)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_listing_is_that_of_the_registry() -> None:
    assert json.loads(listing.FILE.read_text()) == listing.registered(), "write it by python -m pursuit.cli.listing"


def test_the_list_has_every_command_and_what_its_own_help_says(tmp_path: Path) -> None:
    listed = " ".join(run(tmp_path, "--help").stdout.replace("│", " ").split())
    for name in COMMANDS:
        command = load_command(name)
        assert command.help, name
        assert " ".join(command.help.split("\n\n")[0].split()) in listed
    files = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    parts = {"__init__", "app", "console", "conversation", "measurements", "options", "rows", "served_models"}
    assert files - parts == set(COMMANDS.values())


def test_a_command_that_is_not_there_has_a_likely_one(tmp_path: Path) -> None:
    done = run(tmp_path, "explian")
    assert done.returncode == 2
    assert "Did you mean 'explain'?" in " ".join(done.stderr.replace("│", " ").split())


def test_warnings_of_libraries_do_not_reach_people(tmp_path: Path) -> None:
    (tmp_path / "warns.py").write_text(
        "import warnings\n"
        "from sklearn.exceptions import ConvergenceWarning\n"
        "from pursuit.cli import app\n"
        "warnings.warn('of a plugin')\n"
        "warnings.warn('did not converge', ConvergenceWarning)\n"
        "warnings.warn('will be gone', FutureWarning)\n"
        "warnings.warn_explicit('of torch', UserWarning, __import__('typer').__file__, 1)\n"
    )
    said = run(tmp_path, "--plugin", "warns.py", "methods").stderr
    assert said.splitlines() == ["Warning: of a plugin"]
