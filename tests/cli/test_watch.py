"""`pursuit watch`, `pursuit recalibrate` and `pursuit train --and`: what people confirmed, by a server's database."""

import shutil
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from typing import Any

import pandas as pd
import pytest

from program import assert_refused, json_of, run
from pursuit import load
from pursuit.estimators.saving import fingerprint
from pursuit.web.serving.interviews import Interviews
from pursuit.web.serving.models import load_models
from pursuit.web.serving.schemas import Move
from pursuit.web.serving.store import Store
from served import begin, client_of, letters_model, move, port_of, program

TRAIN = ("train", "patients.csv", "--target", "label", "--drop", "note")


N_SESSIONS = 50


@pytest.fixture(scope="module")
def databases(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two databases with the same sessions of people like those of the table, who then say what it really was (`good`),
    or something else (`bad`)."""
    folder = tmp_path_factory.mktemp("databases")
    models, store = load_models([workspace / "model"]), Store(f"sqlite:///{folder / 'good.sqlite'}")
    frame = pd.read_csv(workspace / "patients.csv").dropna().sample(N_SESSIONS, random_state=0)
    interviews, truths = Interviews(models, store), {}
    for row in frame.to_dict("records"):
        session = interviews.begin("model")
        while not session.state.done:
            assert session.state.question is not None
            answer = row[session.state.question.name]
            move = Move(move="tell", answer=answer, revision=session.revision, confirmed=True)
            session = interviews.move(session.id, move)
        truths[session.id] = row["label"]
    labels = sorted(set(truths.values()))
    for session_id, truth in truths.items():
        interviews.note_truth(session_id, labels[(labels.index(truth) + 1) % len(labels)])
    with closing(connect(folder / "good.sqlite")) as noted, closing(connect(folder / "bad.sqlite")) as copy:
        noted.backup(copy)
    for session_id, truth in truths.items():
        interviews.note_truth(session_id, truth)
    store.close()
    return folder


@pytest.fixture
def served(workspace: Path, databases: Path, tmp_path: Path) -> Path:
    """A folder of one's own with the table, the model and the databases."""
    for path in (workspace / "patients.csv", *databases.glob("*.sqlite")):
        shutil.copy(path, tmp_path)
    load(workspace / "model").save(tmp_path / "model")
    return tmp_path


def test_a_model_is_watched_and_alarmed_about(served: Path) -> None:
    watched = json_of(run(served, "watch", "model", "--database", "good.sqlite", "--json"))
    assert watched["n_judged"] == watched["n_sessions"] == N_SESSIONS
    assert not watched["is_alarmed"]
    address = f"sqlite:///{served / 'bad.sqlite'}"
    alarmed = run(served, "watch", "model", "--database", address, "--out", "watch.html")
    assert alarmed.returncode == 3
    assert "Alarm: since" in alarmed.stdout
    assert "Alarm: a promise is not kept" in (served / "watch.html").read_text(encoding="utf-8")


def test_sessions_are_judged_by_what_they_stated_under_the_rule_that_was_served(
    workspace: Path, tmp_path: Path
) -> None:
    """The model's own rule would have asked more. Who objects, or goes on, saw a first result all the same."""
    models, store = load_models([workspace / "model"], stop="budget=1"), Store(f"sqlite:///{tmp_path / 's.sqlite'}")
    interviews, first = Interviews(models, store), {}
    for moves in ((), ("reject",), ("go_on", "dont_know"), ("reject", "undo")):
        session = interviews.begin("model")
        session = interviews.move(session.id, Move(move="dont_know", revision=session.revision))
        assert session.state.done
        first[session.id] = session.probability
        for one in moves:
            session = interviews.move(session.id, Move(move=one, revision=session.revision))
        interviews.note_truth(session.id, "flu")
    store.close()
    watched = json_of(run(workspace, "watch", "model", "--database", f"sqlite:///{tmp_path / 's.sqlite'}", "--json"))
    assert watched["n_judged"] == watched["n_sessions"] == 4
    assert watched["stated"] == pytest.approx(sum(first.values()) / 4)
    load(workspace / "model").save(tmp_path / "model", {"title": "anew"})
    address = f"sqlite:///{tmp_path / 's.sqlite'}"
    watched = json_of(run(tmp_path, "watch", "model", "--database", address, "--settled-after", "1", "--json"))
    assert (watched["n_sessions"], watched["n_earlier"], watched["periods"][0]["n_judged"]) == (0, 4, 0)


@pytest.mark.programs
def test_questions_that_are_answered_by_name_count_as_asked(tmp_path: Path) -> None:
    model, address = letters_model(tmp_path / "letters"), f"sqlite:///{tmp_path / 'sessions.sqlite'}"
    with program(model, "--port", "0", "--database", address) as server, client_of(port_of(server)) as client:
        for _ in range(2):
            session, told = begin(client, "letters"), []
            for _ in range(3):
                told.append(session["state"]["question"]["name"])
                session = move(client, session, "tell", query=told[-1], answer="yes")
            told.append(session["state"]["question"]["name"])
            unasked = next(name for name in (f"q{i}" for i in range(12)) if name not in told)
            session = move(client, session, "tell", query=unasked, answer="yes")
            assert [given["volunteered"] for given in session["state"]["answers"]] == [False, False, False, True]
    watched = json_of(run(tmp_path, "watch", "letters", "--database", address, "--json"))
    (period,) = watched["periods"]
    assert (watched["n_sessions"], period["mean_asked"]) == (2, 3.0)


def test_nothing_to_watch_is_said(served: Path) -> None:
    for database in ("none.sqlite", f"sqlite:///{served / 'none.sqlite'}"):
        done = run(served, "watch", "model", "--database", database)
        assert_refused(done, "No sessions are kept in")
    assert not (served / "none.sqlite").exists()


def test_beliefs_are_fitted_to_what_was_confirmed_only_if_that_is_better(served: Path) -> None:
    few = run(served, "recalibrate", "model", "--database", f"sqlite:///{served / 'none.sqlite'}")
    assert few.returncode == 1
    before = fingerprint(served / "model")
    done = json_of(run(served, "recalibrate", "model", "--database", f"sqlite:///{served / 'good.sqlite'}", "--json"))
    assert done["n"] == N_SESSIONS
    assert done["is_changed"] == (done["after"] < done["before"]) == (fingerprint(served / "model") != before)
    address = f"sqlite:///{served / 'bad.sqlite'}"
    done = json_of(run(served, "recalibrate", "model", "--database", address, "--json"))
    assert done["is_changed"]  # a model that is always wrong is less sure afterwards
    assert done["after"] < done["before"]


def test_a_model_with_a_guarantee_keeps_it(served: Path) -> None:
    """Beliefs of other temperatures would undo it, and the model could not stop by it any more."""
    model, table = load(served / "model"), pd.read_csv(served / "patients.csv").dropna()
    model.guarantee(table[["fever", "where", "age"]], table["label"].to_numpy(), stop="risk=0.3").save(served / "model")
    before = fingerprint(served / "model")
    done = run(served, "recalibrate", "model", "--database", f"sqlite:///{served / 'bad.sqlite'}")
    assert_refused(done, "could guarantee nothing with others")
    assert fingerprint(served / "model") == before
    assert run(served, "predict", "model", "--data", "patients.csv", "--out", "predictions.csv").returncode == 0


def _learn_again(served: Path, epochs: str) -> Any:
    return run(served, *TRAIN, "--out", "model", "--epochs", epochs, "--and", "good.sqlite")


def test_sessions_are_learnt_from_and_a_worse_model_replaces_nothing(served: Path) -> None:
    before = fingerprint(served / "model")
    (served / "model.new").mkdir()
    (served / "model.new" / "notes.txt").write_text("of somebody else")
    refused = _learn_again(served, "0.01")
    assert_refused(refused, "model.new holds other files")
    assert [path.name for path in (served / "model.new").iterdir()] == ["notes.txt"]
    shutil.rmtree(served / "model.new")
    here = ("train", "../patients.csv", *TRAIN[2:], "--out", ".", "--epochs", "0.01", "--and", "../good.sqlite")
    worse = run(served / "model", *here)
    assert worse.returncode == 0, worse.stderr
    assert f"{N_SESSIONS} confirmed sessions are learnt from beside 240 rows" in " ".join(worse.stderr.split())
    assert "stays as it was, because the new one is worse" in " ".join(worse.stderr.split())
    assert fingerprint(served / "model") == before
    done = _learn_again(served, "5")
    assert done.returncode == 0, done.stderr
    assert (fingerprint(served / "model") != before) == ("takes its place" in done.stderr)
    assert not (served / "model.new").exists()


def test_sessions_of_other_columns_or_labels_are_refused_before_anything_is_trained(served: Path) -> None:
    table, before = pd.read_csv(served / "patients.csv"), fingerprint(served / "model")
    numbers = {"flu": 1, "gastritis": 2, "migraine": 3}
    for changed, sentence in (
        (table.rename(columns={"fever": "hot"}), "have other columns (fever, hot)"),
        (table.drop(columns="where"), "have other columns (where)"),
        (table.assign(label=table["label"].map(numbers)), "is a label of the model or of the table"),
        (table.assign(label=table["label"].str[:3]), "is a label of the model or of the table"),
    ):
        changed.to_csv(served / "patients.csv", index=False)
        done = run(served, *TRAIN, "--out", "model", "--and", "good.sqlite")
        assert done.returncode == 1, done.stderr
        assert sentence in " ".join(done.stderr.split())
        assert "step" not in done.stderr
    assert fingerprint(served / "model") == before
    assert not (served / "model.new").exists()
