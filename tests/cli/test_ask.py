"""`pursuit ask`: a person answers in the terminal, reports something first, and comes back later."""

import io
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from json_schema import problems
from known_bits import InBits, with_costs
from program import assert_refused, json_of, run, wait_for
from pursuit import MLP, ColumnQueries, Stage, VIPClassifier, yes_no
from pursuit.cli import main
from pursuit.inference.stopping import stopping_rule
from pursuit.sessions.session import Session


@cache
def fitted(reports_first: bool) -> VIPClassifier:
    X = np.random.default_rng(0).integers(0, 2, (80, 4))
    queries = ColumnQueries([yes_no(name) for name in ("fever", "cough", "rash", "a=b")])
    model = VIPClassifier(queries, network=MLP((8,)), stages=[Stage(5, batch_size=16)], random_state=0)
    return model.fit(X, np.where(X[:, 0] == 1, "flu", "well"), initially_known=X > 0 if reports_first else None)


def fit(folder: Path, reports_first: bool) -> Path:
    fitted(reports_first).save(folder, {"task": {"name": "clinic"}})
    return folder


def ask(monkeypatch: pytest.MonkeyPatch, *arguments: str, typed: str = "quit\n") -> int:
    monkeypatch.setattr(sys, "argv", ["pursuit", "ask", *arguments])
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def only_chain(printed: str) -> dict[str, Any]:
    """The chain of a session that was printed as JSON, which is as its published schema says."""
    described = json.loads(printed)
    assert problems(described, "chains-1") == []
    (chain,) = described["chains"]
    assert isinstance(chain, dict)
    return chain


def test_a_person_is_asked_in_the_terminal(workspace: Path) -> None:
    done = run(workspace, "ask", "model", "--json", "--stop", "budget=3", typed="why\nnonsense\nundo\n\n\n\n")
    (asked,) = json_of(done)["chains"]
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
    (begun,) = json_of(run(workspace, *arguments, typed="\n"))["chains"]
    assert len(begun["steps"]) == 1
    assert not begun["finished"]
    (ended,) = json_of(run(workspace, *arguments, typed="\n"))["chains"]
    assert len(ended["steps"]) == 2
    assert ended["finished"]
    file.write_text("{}")
    assert "This is not a saved session" in run(workspace, *arguments, typed="").stderr
    nowhere = run(workspace, "ask", "model", "--session", "nowhere/s.json")
    assert_refused(nowhere, "cannot be kept in nowhere/s.json")


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
    [
        ("fever", "QUESTION=ANSWER"),
        ("fevr=yes", "Did you mean 'fever'? All questions: pursuit show "),
        ("legs=yes", "Queries are "),
        ("fever=perhaps", "is one of"),
    ],
)
def test_reports_that_cannot_be_read(
    report: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(monkeypatch, str(fit(tmp_path, True)), "--tell", report) == 1
    assert message in " ".join(capsys.readouterr().err.split())


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
    notes_: dict[str, Any] = field(default_factory=dict)

    def session(self, stop: str | None, **more: Any) -> Session:
        return Session(self.pursuer, stopping_rule(stop))

    def further_targets(self, also: Any, **more: Any) -> dict[str, Any]:
        return {}


def test_why_says_bits_costs_and_what_answers_would_change(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pursuer = with_costs(world.pursuer, {"season": 0.5, "fever": 20})
    why = Session(pursuer).why()
    monkeypatch.setattr("pursuit.load", lambda folder: ExactModel(pursuer))
    assert ask(monkeypatch, ".", typed="why\nspring\nquit\n") == 0
    printed = capsys.readouterr().out
    assert all(line in printed for line in str(why).splitlines())
    assert "1. Which season is it?  (cost 0.5)\n   1  spring   2  summer   3  winter\n" in printed
    assert printed.count("Which season is it?") == 4  # asked, explained, asked again, and in the chain
    assert f"spring  {why.question.bits:.2f} bits" in printed


def test_json_has_bits(world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pursuer = with_costs(world.pursuer, {}, "bits")
    monkeypatch.setattr("pursuit.load", lambda folder: ExactModel(pursuer))
    assert ask(monkeypatch, ".", "--json", "--stop", "bits=0.01,budget=2", typed="why\nyes\n\n") == 0
    asked = only_chain(capsys.readouterr().out)
    assert asked["finished"]
    assert (asked["n_asked"], asked["n_answered"]) == (2, 1)
    assert all(step["bits"] > 0.01 for step in asked["steps"])
    assert [step["gained"] for step in asked["steps"]] == pytest.approx([asked["bits_gained"], 0])


def test_reports_are_heard_with_a_kept_session_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, kept = str(fit(tmp_path / "model", True)), tmp_path / "session.json"
    assert ask(monkeypatch, model, "--session", str(kept), "--tell", "fever=yes") == 0
    assert json.loads(kept.read_text())["moves"][0]["answer"] == "yes"  # although nothing was asked
    assert ask(monkeypatch, model, "--session", str(kept), "--tell", "rash=no", "--tell", "FEVER=no") == 0
    answers = {move["query"]: move["answer"] for move in json.loads(kept.read_text())["moves"]}
    assert answers == {"fever": "no", "rash": "no"}
    assert "Answered so far: 2." in capsys.readouterr().out


def test_a_doubtful_report_is_refused_unless_it_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    X = np.random.default_rng(0).random((60, 2)) * 5
    model = VIPClassifier(network=MLP((4,)), stages=[Stage(1)], random_state=0).fit(X, X[:, 0] > 2)
    model.save(tmp_path)
    name = model.model_.query_set.queries[0].name
    assert ask(monkeypatch, str(tmp_path), "--tell", f"{name}=375") == 1
    complaint = capsys.readouterr().err.replace("\n", " ")
    assert "Did you mean 3.75?" in complaint
    assert f"write {name}=375!" in complaint.replace("'", "")
    assert ask(monkeypatch, str(tmp_path), "--tell", f"{name}=375!", "--json") == 0
    (step,) = only_chain(capsys.readouterr().out)["steps"]
    assert step["answer"].startswith("375")


def test_json_has_the_reasons_and_what_is_excluded(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pursuit.load", lambda folder: ExactModel(world.pursuer))
    assert ask(monkeypatch, ".", "--json", "--stop", "budget=1", typed="yes\nn\nyes\n") == 0
    asked = only_chain(capsys.readouterr().out)
    assert asked["excluded"] == ["flu"]
    assert asked["reasons"]["label"] == asked["prediction"]
    assert {reason["query"] for reason in asked["reasons"]["for"]} <= {"fever", "sneezing", "itching", "season"}
    assert asked["what_if"]
    assert "flu" not in {change["prediction"] for change in asked["what_if"]}


def test_who_leaves_is_told_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fit(tmp_path / "my model", reports_first=False)
    assert ask(monkeypatch, "my model", "--session", "s.json", "--stop", "budget=3", typed="yes\nquit\n") == 0
    command = "pursuit ask 'my model' --stop budget=3 --session s.json"
    assert f"Saved. Go on with: {command}" in capsys.readouterr().err
    assert ask(monkeypatch, *shlex.split(command)[2:], typed="yes\nyes\n\n") == 0
    captured = capsys.readouterr()
    assert "after 3 answers" in captured.out
    assert "Go on with" not in captured.err  # it is finished
    assert ask(monkeypatch, "my model", typed="yes\n") == 0
    assert not list(tmp_path.glob("session-*"))  # whoever pipes answers in did not leave by a mistake


class Terminal:
    """The program at a pseudo-terminal, which a person types into."""

    def __init__(self, folder: Path, *arguments: str, **environment: str):
        pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
        self.control, terminal = pty.openpty()
        settings = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40", **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pursuit", "ask", *arguments],
            cwd=folder,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**os.environ, **settings},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)
        self.text, self.place = "", 0

    def comes(self, text: str, seconds: float) -> bool:
        """Whether this text comes on the screen in so many seconds, or came since the last one that was waited for."""
        until = time.monotonic() + seconds
        while text not in self.plain(self.text)[self.place :] and time.monotonic() < until:
            if select.select([self.control], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.control, 65536).decode(errors="replace")
                except OSError:  # the other end was closed
                    until = 0.0
        return text in self.plain(self.text)[self.place :]

    def interrupt_until(self, text: str) -> str:
        """Press Ctrl-C, again if need be: Python misses one that comes just before it waits for a key."""
        for _ in range(6):
            self.type("\x03")
            if self.comes(text, 20):
                break
        return self.wait_for(text, 0)

    def wait_for(self, text: str, seconds: float = 120) -> str:
        """What came on the screen up to this text, since the last one that was waited for."""
        assert self.comes(text, seconds), self.text
        start, self.place = self.place, self.plain(self.text).index(text, self.place) + len(text)
        return self.plain(self.text)[start : self.place]

    @staticmethod
    def plain(text: str) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "")

    def type(self, keys: str) -> None:
        os.write(self.control, keys.encode())

    def end(self) -> int:
        code = self.process.wait(60)
        os.close(self.control)
        return code


@pytest.mark.programs
def test_a_person_at_a_terminal(tmp_path: Path) -> None:
    """Keys, editing, Ctrl-C and Ctrl-D, each of which saves the session and says how to go on."""
    fit(tmp_path / "model", reports_first=False)
    screen = Terminal(tmp_path, "model", "--stop", "budget=3")
    shown = screen.wait_for("\n> ")
    assert "1. " in shown
    assert "y  yes   n  no" in shown
    screen.type("nonsense\x15y\r")  # Ctrl-U deletes the line, and must leave the question alone
    shown = screen.wait_for("2. ")
    assert "%" in shown
    assert "is one of" not in shown
    screen.wait_for("\n> ")
    screen.interrupt_until("Go on with: pursuit ask model --stop budget=3 --session session-")
    assert screen.end() == 130
    (kept,) = tmp_path.glob("session-*.json")
    assert [move["answer"] for move in json.loads(kept.read_text())["moves"]] == ["yes"]

    screen = Terminal(tmp_path, "model", "--stop", "budget=3", "--session", kept.name, NO_COLOR="1")
    assert "Answered so far: 1." in screen.wait_for("\n> ")
    screen.type("?\r")
    screen.wait_for("What an answer would change:")
    screen.wait_for("\n> ")
    screen.type("n\r")
    screen.wait_for("3. ")
    screen.wait_for("\n> ")
    screen.type("\x04")  # Ctrl-D
    shown = screen.wait_for("after 2 answers")
    assert f"Go on with: pursuit ask model --stop budget=3 --session {kept.name}" in shown
    assert screen.end() == 0
    assert len(json.loads(kept.read_text())["moves"]) == 2


@pytest.mark.programs
def test_an_interrupted_pipe_saves_too(tmp_path: Path) -> None:
    fit(tmp_path / "model", reports_first=False)
    command = [sys.executable, "-m", "pursuit", "ask", "model", "--session", "s.json"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write("y\n")
        process.stdin.flush()
        wait_for(lambda: (tmp_path / "s.json").exists() and "yes" in (tmp_path / "s.json").read_text(), 120)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Go on with: pursuit ask model --session s.json" in complaint


@pytest.mark.programs
def test_a_process_of_its_own_knows_what_models_are_made_of(tmp_path: Path) -> None:
    """Nothing else that tests import may be needed to load one."""
    folder = fit(tmp_path / "model", reports_first=False)
    command = [sys.executable, "-m", "pursuit", "ask", str(folder), "--json"]
    done = subprocess.run(command, input="quit\n", capture_output=True, text=True, check=False)
    assert json_of(done)["chains"][0]["finished"] is False
