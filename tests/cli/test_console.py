"""How the program speaks, and what it never sends to a terminal."""

import errno
import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from rich.table import Table

from program import run
from pursuit import cli
from pursuit.cli import console
from pursuit.cli.console import err, escaped, in_words, print_json, say, show, visible

EVIL = "\x1b]52;c;ZXZpbA==\x07\x9b31m\x7f\u202e\r"
"""Sets the clipboard, changes colours, deletes, turns the direction of writing, and goes back in the line."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_square_brackets_are_shown_as_they_are() -> None:
    with err.capture() as captured:
        err.print(escaped("a [red]column[/red] [0]"))
    assert captured.get().strip() == "a [red]column[/red] [0]"


def test_control_characters_are_written_out() -> None:
    assert visible(EVIL) == r"\x1b]52;c;ZXZpbA==\x07\x9b31m\x7f\u202e\x0d"
    assert visible("a\tb\nç 😀 ½") == "a\tb\nç 😀 ½"


def test_whatever_is_printed_holds_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    show(EVIL)
    print_json({EVIL: [EVIL]})
    printed, said = capsys.readouterr()
    assert not CONTROL.search(printed + said)
    assert json.loads(printed.splitlines()[1]) == {EVIL: [EVIL]}


def test_what_is_printed_without_being_escaped_first_is_safe_too(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    out = Console(file=file, force_terminal=True)
    out.push_render_hook(console._MakeVisible())
    table = Table("a")
    table.add_row(EVIL)
    out.print(f"[bold]{EVIL}[/]", table)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())  # the colours of rich itself
    assert file.getvalue() != plain
    assert not CONTROL.search(plain)


def test_nothing_prints_past_the_console() -> None:
    for path in Path(cli.__file__).parent.glob("*.py"):
        bare = re.findall(r"(?<![.\w])print\(", path.read_text(encoding="utf-8"))
        assert len(bare) == (2 if path.name == "console.py" else 0), path


def test_an_error_of_the_system_is_a_sentence() -> None:
    full = in_words(OSError(errno.ENOSPC, "No space left on device", "/data/x"))
    assert (
        full
        == "/data/x cannot be written: the disk is full. Free some space there, or choose a folder on another disk."
    )
    assert in_words(PermissionError(errno.EACCES, "Permission denied", "a.csv")) == "a.csv: Permission denied."
    assert in_words(ValueError("Two words.")) == "Two words."


@pytest.mark.parametrize("method", ["tree", "naive-bayes"])
def test_names_labels_and_answers_of_a_hostile_table_are_shown_harmlessly(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = f"a{EVIL}b".replace("\r", "")
    frame = pd.DataFrame({odd: [f"v{i % 2}{odd}" for i in range(40)], "n": range(40)})
    frame["y"] = [f"l{i % 2}{odd}" for i in range(40)]
    name = "t\x1b[2J.csv"
    frame.to_csv(tmp_path / name, index=False)
    trained = run(tmp_path, "train", name, "--target", "y", "--method", method, "--out", "m\x1b[2J")
    assert trained.returncode == 0, trained.stderr
    said = [trained]
    monkeypatch.setattr(console, "_is_looked_at", lambda: True)
    for command in ("show", "evaluate", "explain", "predict"):
        data = [] if command == "show" else ["--data", name]
        said.append(run(tmp_path, command, "m\x1b[2J", *data))
        assert said[-1].returncode == 0, said[-1].stderr
    said.append(run(tmp_path, "ask", "m\x1b[2J", typed="?\nd\nd\n\n"))
    said.append(run(tmp_path, "train", name, "--target", f"z{EVIL}", "--method", method, "--out", "other"))
    for one in said:
        assert not CONTROL.search(one.stdout + one.stderr), one.args
