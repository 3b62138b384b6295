"""`pursuit watch`, `pursuit recalibrate` and `pursuit train --and`: what people confirmed, by a server's database."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from program import json_of, run
from pursuit import load
from pursuit.estimators.saving import fingerprint
from pursuit.web.serving.interviews import Interviews
from pursuit.web.serving.models import load_models
from pursuit.web.serving.schemas import Move
from pursuit.web.serving.store import Store

TRAIN = ("train", "patients.csv", "--target", "label", "--drop", "note")


def play(folder: Path, database: Path, n: int, is_right: bool = True) -> None:
    """Sessions with people like those of the table, who then say what it really was, or something else."""
    models, store = load_models([folder / "model"]), Store(f"sqlite:///{database}")
    interviews, frame = (
        Interviews(models, store),
        pd.read_csv(folder / "patients.csv").dropna().sample(n, random_state=0),
    )
    labels = sorted(set(frame["label"]))
    for row in frame.to_dict("records"):
        session = interviews.begin("model")
        while not session.state.done:
            assert session.state.question is not None
            answer = row[session.state.question.name]
            move = Move(move="tell", answer=answer, revision=session.revision, confirmed=True)
            session = interviews.move(session.id, move)
        truth = row["label"] if is_right else labels[(labels.index(row["label"]) + 1) % len(labels)]
        interviews.note_truth(session.id, truth)
    store.close()


@pytest.fixture
def served(workspace: Path, tmp_path: Path) -> Path:
    """A folder of one's own with the table and the model."""
    (tmp_path / "patients.csv").write_bytes((workspace / "patients.csv").read_bytes())
    load(workspace / "model").save(tmp_path / "model")
    return tmp_path


def test_a_model_is_watched_and_alarmed_about(served: Path) -> None:
    play(served, served / "good.sqlite", 60)
    watched = json_of(run(served, "watch", "model", "--database", f"sqlite:///{served / 'good.sqlite'}", "--json"))
    assert watched["n_judged"] == watched["n_sessions"] == 60
    assert not watched["is_alarmed"]
    play(served, served / "bad.sqlite", 60, is_right=False)
    address = f"sqlite:///{served / 'bad.sqlite'}"
    alarmed = run(served, "watch", "model", "--database", address, "--out", "watch.html")
    assert alarmed.returncode == 3
    assert "Alarm: since" in alarmed.stdout
    assert "Alarm: a promise is not kept" in (served / "watch.html").read_text(encoding="utf-8")


def test_nothing_to_watch_is_said(served: Path) -> None:
    done = run(served, "watch", "model", "--database", f"sqlite:///{served / 'none.sqlite'}")
    assert done.returncode == 1
    assert "No sessions are kept in" in done.stderr
    assert not (served / "none.sqlite").exists()


def test_beliefs_are_fitted_to_what_was_confirmed_only_if_that_is_better(served: Path) -> None:
    few = run(served, "recalibrate", "model", "--database", f"sqlite:///{served / 'none.sqlite'}")
    assert few.returncode == 1
    play(served, served / "a.sqlite", 100)
    before = fingerprint(served / "model")
    done = json_of(run(served, "recalibrate", "model", "--database", f"sqlite:///{served / 'a.sqlite'}", "--json"))
    assert done["n"] == 100
    assert done["is_changed"] == (done["after"] < done["before"]) == (fingerprint(served / "model") != before)
    play(served, served / "wrong.sqlite", 100, is_right=False)
    address = f"sqlite:///{served / 'wrong.sqlite'}"
    done = json_of(run(served, "recalibrate", "model", "--database", address, "--json"))
    assert done["is_changed"]  # a model that is always wrong is less sure afterwards
    assert done["after"] < done["before"]


def _learn_again(served: Path, epochs: str) -> Any:
    return run(served, *TRAIN, "--out", "model", "--epochs", epochs, "--and", "a.sqlite")


def test_sessions_are_learnt_from_and_a_worse_model_replaces_nothing(served: Path) -> None:
    play(served, served / "a.sqlite", 60)
    before = fingerprint(served / "model")
    worse = _learn_again(served, "0.01")
    assert worse.returncode == 0, worse.stderr
    assert "60 confirmed sessions are learnt from beside 240 rows" in " ".join(worse.stderr.split())
    assert "stays as it was, because the new one is worse" in " ".join(worse.stderr.split())
    assert fingerprint(served / "model") == before
    done = _learn_again(served, "40")
    assert done.returncode == 0, done.stderr
    assert (fingerprint(served / "model") != before) == ("takes its place" in done.stderr)
    assert not (served / "model.new").exists()
