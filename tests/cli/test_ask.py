"""`pursuit ask`: a person answers in the terminal, reports something first, and comes back later."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from program import json_of, run
from pursuit import MLP, ColumnQueries, Stage, VIPClassifier, yes_no
from pursuit.cli import main


def fit(folder: Path, reports_first: bool) -> Path:
    X = np.random.default_rng(0).integers(0, 2, (80, 4))
    queries = ColumnQueries([yes_no(name) for name in ("fever", "cough", "rash", "a=b")])
    model = VIPClassifier(queries, network=MLP((8,)), stages=[Stage(5, batch_size=16)], random_state=0)
    model.fit(X, np.where(X[:, 0] == 1, "flu", "well"), initially_known=X > 0 if reports_first else None)
    model.save(folder, {"task": {"name": "clinic"}})
    return folder


def ask(monkeypatch: pytest.MonkeyPatch, *arguments: str, typed: str = "quit\n") -> int:
    monkeypatch.setattr(sys, "argv", ["pursuit", "ask", *arguments])
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_a_person_is_asked_in_the_terminal(workspace: Path) -> None:
    asked = json_of(run(workspace, "ask", "model", "--json", "--stop", "budget=3", typed="why\nnonsense\nundo\n\n\n\n"))
    assert len(asked["steps"]) == 3
    assert all(step["answer"] is None for step in asked["steps"])
    talk = run(workspace, "ask", "model", "--stop", "budget=1", typed="nonsense\nbelly\nyes\n40\n")
    assert talk.returncode == 0
    assert "Prediction:" in talk.stdout


def test_a_session_goes_on_from_its_file(workspace: Path) -> None:
    file = workspace / "session.json"
    arguments = ("ask", "model", "--json", "--stop", "budget=2", "--session", str(file))
    begun = json_of(run(workspace, *arguments, typed="\n"))
    assert len(begun["steps"]) == 1
    assert not begun["finished"]
    ended = json_of(run(workspace, *arguments, typed="\n"))
    assert len(ended["steps"]) == 2
    assert ended["finished"]
    file.write_text("{}")
    assert "This is not a saved session" in run(workspace, *arguments, typed="").stderr
    nowhere = run(workspace, "ask", "model", "--session", "nowhere/s.json")
    assert nowhere.returncode == 1
    assert "cannot be kept in nowhere/s.json" in nowhere.stderr


def test_a_person_may_report_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reporting, silent = (str(fit(tmp_path / name, name == "reporting")) for name in ("reporting", "silent"))
    assert ask(monkeypatch, reporting) == 0
    assert "--tell QUERY=ANSWER" in capsys.readouterr().out
    assert ask(monkeypatch, silent) == 0
    assert "--tell" not in capsys.readouterr().out
    assert ask(monkeypatch, reporting, "--tell", "fever=yes", "--tell", "a=b=no") == 0
    printed = capsys.readouterr().out
    assert "--tell" not in printed
    assert "after 2 answers" in printed


@pytest.mark.parametrize(
    ("report", "message"),
    [("fever", "QUERY=ANSWER"), ("fevr=yes", "Did you mean 'fever'?"), ("fever=perhaps", "is one of")],
)
def test_reports_that_cannot_be_read(
    report: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(monkeypatch, str(fit(tmp_path, True)), "--tell", report) == 1
    assert message in capsys.readouterr().err


def test_a_kept_session_does_not_hear_reports_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, kept = str(fit(tmp_path / "model", True)), str(tmp_path / "session.json")
    for _ in range(2):
        command = (model, "--tell", "fever=yes", "--session", kept, "--stop", "budget=4")
        assert ask(monkeypatch, *command, typed="no\nquit\n") == 0
