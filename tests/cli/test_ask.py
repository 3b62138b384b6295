"""`pursuit ask`: a person answers in the terminal, reports something first, and comes back later."""

import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from known_bits import InBits, with_costs
from program import json_of, run
from pursuit import MLP, ColumnQueries, Stage, VIPClassifier, yes_no
from pursuit.cli import main
from pursuit.inference.session import Session
from pursuit.inference.stopping import stopping_rule


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
    talk = run(workspace, "ask", "model", "--stop", "budget=1", typed="why\nnonsense\nbelly\nyes\n40\n")
    assert talk.returncode == 0
    assert "Prediction:" in talk.stdout
    assert "Next best:" in talk.stdout
    assert "cost" not in talk.stdout  # all questions cost the same


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
    assert "--tell QUESTION=ANSWER" in capsys.readouterr().out
    assert ask(monkeypatch, silent) == 0
    assert "--tell" not in capsys.readouterr().out
    assert ask(monkeypatch, reporting, "--tell", "fever=yes", "--tell", "a=b=no") == 0
    printed = capsys.readouterr().out
    assert "--tell" not in printed
    assert "after 0 questions and 2 answers" in printed


@pytest.mark.parametrize(
    ("report", "message"),
    [("fever", "QUESTION=ANSWER"), ("fevr=yes", "Did you mean 'fever'?"), ("fever=perhaps", "is one of")],
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


@dataclass
class ExactModel:
    """As much of a classifier as the command needs, around a pursuer that knows its bits."""

    pursuer: InBits
    has_initially_known_: bool = False

    def session(self, stop: str | None) -> Session:
        return Session(self.pursuer, stopping_rule(stop))


def test_why_says_bits_costs_and_what_answers_would_change(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pursuer = with_costs(world.pursuer, {"season": 0.5, "fever": 20})
    why = Session(pursuer).why()
    monkeypatch.setattr("pursuit.cli.ask.load", lambda folder: ExactModel(pursuer))
    assert ask(monkeypatch, "folder", typed="why\nspring\nquit\n") == 0
    printed = capsys.readouterr().out
    assert all(line in printed for line in str(why).splitlines())
    assert "1. Which season is it?  (cost 0.5)\n   1  spring   2  summer   3  winter\n" in printed
    assert printed.count("Which season is it?") == 4  # asked, explained, asked again, and in the chain
    assert f"spring  {why.question.bits:.2f} bits" in printed


def test_json_has_bits(world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pursuer = with_costs(world.pursuer, {}, "bits")
    monkeypatch.setattr("pursuit.cli.ask.load", lambda folder: ExactModel(pursuer))
    assert ask(monkeypatch, "folder", "--json", "--stop", "bits=0.01,budget=2", typed="why\nyes\n\n") == 0
    asked = json.loads(capsys.readouterr().out)
    assert asked["finished"]
    assert (asked["n_asked"], asked["n_answered"]) == (2, 1)
    assert all(step["bits"] > 0.01 for step in asked["steps"])
    assert [step["gained"] for step in asked["steps"]] == pytest.approx([asked["bits_gained"], 0])


def test_a_process_of_its_own_knows_what_models_are_made_of(tmp_path: Path) -> None:
    """Nothing else that tests import may be needed to load one."""
    folder = fit(tmp_path / "model", reports_first=False)
    command = [sys.executable, "-m", "pursuit", "ask", str(folder), "--json"]
    done = subprocess.run(command, input="quit\n", capture_output=True, text=True, check=False)
    assert json_of(done)["finished"] is False
