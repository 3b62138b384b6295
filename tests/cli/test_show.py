"""`pursuit show`: what a model predicts, asks and stops at, for people, as JSON, and as a questions file."""

from pathlib import Path

import pytest

from ordered import clinic, clinic_queries
from program import assert_refused, json_of, run
from pursuit import Questions
from pursuit.estimators import PursuitClassifier
from pursuit.methods import METHODS
from pursuit.methods.naive_bayes import NaiveBayesIPClassifier
from pursuit.queries import ColumnQueries


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show")
    X, y = clinic()
    notes = {"task": {"name": "patients", "file": "patients.csv", "target": "label", "n_rows": 1240}}
    NaiveBayesIPClassifier(clinic_queries(), stop="budget=3").fit(X, y).save(folder / "ordered", notes)
    plain = ColumnQueries.from_data(X[["fever", "scan"]])
    NaiveBayesIPClassifier(plain).fit(X[["fever", "scan"]], y).save(folder / "plain")
    return folder


def test_a_model_is_shown_in_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = run(folder, "show", "ordered")
    assert shown.returncode == 0, shown.stderr
    assert "naive-Bayes IP (naive-bayes), which predicts one of 4 labels: early, flu, late, well." in shown.stdout
    assert "Trained on patients.csv, column 'label', 1,240 rows with a label." in shown.stdout
    assert "It stops asking at budget=3." in shown.stdout
    lines = {line.split()[0]: " ".join(line.split()) for line in shown.stdout.splitlines() if line.strip()}
    assert lines["column"] == "column question answers when"
    assert lines["sex"] == "sex sex? f, m known beforehand"
    assert lines["pregnant"] == "pregnant pregnant? no, yes only after sex = f"
    assert lines["scan"] == "scan scan? large, none, small only after fever"
    assert lines["pulse"].endswith("together with pressure")
    assert "Classifier(" not in shown.stdout


def test_columns_that_say_nothing_are_left_out(folder: Path) -> None:
    shown = run(folder, "show", "plain")
    header = next(line for line in shown.stdout.splitlines() if line.startswith("column"))
    assert header.split() == ["column", "question", "answers"]


def test_the_questions_come_back_as_a_file(folder: Path, tmp_path: Path) -> None:
    shown = run(folder, "show", "ordered", "--questions")
    (tmp_path / "q.toml").write_text(shown.stdout, encoding="utf-8")
    again = ColumnQueries.from_data(clinic()[0], questions=tmp_path / "q.toml")
    assert again.to_config() == clinic_queries().to_config()
    assert Questions.of(again).to_toml() == shown.stdout


def test_a_model_is_shown_as_json(folder: Path) -> None:
    shown = json_of(run(folder, "show", "ordered", "--json"))
    assert (shown["method"], shown["stop"]) == ("naive-bayes", "budget=3")
    assert shown["labels"] == ["early", "flu", "late", "well"]
    assert [one["when"] for one in shown["questions"]][:2] == ["known beforehand", "only after sex = f"]
    assert shown["groups"] == {"vitals": ["pulse", "pressure"]}
    assert shown["task"]["n_rows"] == 1240


def test_a_folder_that_is_not_a_model(folder: Path) -> None:
    done = run(folder, "show", "nothing")
    assert_refused(done, "There is no model folder")


def test_a_method_is_named_by_its_parameters() -> None:
    from pursuit.methods import method_of

    for name, method in METHODS.items():
        assert method_of(method.build()).name == name

    class Own(NaiveBayesIPClassifier):
        pass

    own: PursuitClassifier = Own()
    assert method_of(own).title == "Own"
