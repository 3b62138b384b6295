"""What all commands share."""

from pathlib import Path

from program import run
from pursuit.version import __version__


def test_version_and_help(tmp_path: Path) -> None:
    assert run(tmp_path, "--version").stdout.strip() == __version__
    assert "train" in run(tmp_path, "--help").stdout
    assert "--plugin" in run(tmp_path).stdout


def test_commands_come_in_the_order_people_need_them(tmp_path: Path) -> None:
    lines = run(tmp_path, "--help").stdout.splitlines()
    commands = [line.split()[1] for line in lines if line.startswith("│ ") and line[2] != " " and line[2] != "-"]
    names = ["demo", "train", "evaluate", "explain", "ask", "compare", "reproduce", "tasks", "methods"]
    assert commands == [*names, "concepts", "data"]
