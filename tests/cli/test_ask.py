"""`pursuit ask` where people report something before they are asked, and rows of other tasks than the model's."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from pursuit import VIPClassifier
from pursuit.cli import main
from pursuit.cli.app import _data_of
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training.schedule import Stage


def fit(folder: Path, opens: bool) -> Path:
    X = np.random.default_rng(0).integers(0, 2, (80, 4))
    queries = ColumnQueries([yes_no(name) for name in ("fever", "cough", "rash", "a=b")])
    model = VIPClassifier(queries, network=MLP((8,)), stages=[Stage(5, batch_size=16)], random_state=0)
    model.fit(X, np.where(X[:, 0] == 1, "flu", "well"), initially_known=X > 0 if opens else None)
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


def test_a_person_may_report_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opens, silent = (str(fit(tmp_path / name, name == "opens")) for name in ("opens", "silent"))
    assert ask(monkeypatch, opens) == 0
    assert "--tell QUERY=ANSWER" in capsys.readouterr().out
    assert ask(monkeypatch, silent) == 0
    assert "--tell" not in capsys.readouterr().out
    assert ask(monkeypatch, opens, "--tell", "fever=yes", "--tell", "a=b=no") == 0
    printed = capsys.readouterr().out
    assert "--tell" not in printed
    assert "after 2 answers" in printed


@pytest.mark.parametrize(
    ("told", "message"),
    [("fever", "QUERY=ANSWER"), ("fevr=yes", "Did you mean 'fever'?"), ("fever=perhaps", "is one of")],
)
def test_reports_that_cannot_be_read(
    told: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(monkeypatch, str(fit(tmp_path, True)), "--tell", told) == 1
    assert message in capsys.readouterr().err


def test_a_kept_session_does_not_hear_reports_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, kept = str(fit(tmp_path / "model", True)), str(tmp_path / "session.json")
    for _ in range(2):
        command = (model, "--tell", "fever=yes", "--session", kept, "--stop", "budget=4")
        assert ask(monkeypatch, *command, typed="no\nquit\n") == 0


def test_rows_of_another_task_and_rows_learnt_from_are_refused(tmp_path: Path) -> None:
    model = VIPClassifier.load(fit(tmp_path, False))
    with pytest.raises(ValueError, match="trained on clinic and asks other queries than those of digits"):
        _data_of(model, "digits", None, None)
    model.notes_["task"] = {"name": "kmnist-test-split", "learnt_from_test_rows_of": "kmnist"}
    with pytest.raises(ValueError, match="measure it on kmnist-test-split"):
        _data_of(model, "kmnist", None, None)
