"""`pursuit questions` drafts a file, `pursuit train --questions` takes it, and the model carries it."""

from pathlib import Path

import pandas as pd
import pytest

from ordered import clinic
from program import assert_refused, json_of, run
from pursuit import Questions, load
from pursuit.queries import Order

EDITED = """
[questions.sex]
text = "Are you a man or a woman?"
choices = { f = "woman", m = "man" }
ask = "beforehand"

[questions.pregnant]
text = "Are you pregnant?"
only_after = { sex = "f" }

[questions.pulse]
unit = "bpm"
range = [20, 250]
help = "Count for a minute."
cost = 3

[questions.note]
ask = "never"

[groups]
vitals = ["pulse", "pressure"]
"""
DRAFT = ("questions", "patients.csv", "--target", "label")
TRAIN = ("train", "patients.csv", "--target", "label", "--epochs", "4", "--json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("questions")
    X, y = clinic()
    frame = X.assign(note=[f"patient {i}" for i in range(len(X))], label=y)
    frame.to_csv(folder / "patients.csv", index=False)
    frame.to_parquet(folder / "patients.parquet")
    (folder / "edited.toml").write_text(EDITED, encoding="utf-8")
    trained = run(folder, *TRAIN, "--questions", "edited.toml", "--out", "model")
    assert trained.returncode == 0, trained.stderr
    return folder


def test_a_draft_is_written_and_never_over_another_file(folder: Path) -> None:
    done = run(folder, *DRAFT, "--drop", "note")
    assert done.returncode == 0, done.stderr
    assert "pursuit train patients.csv --target label --questions questions.toml" in done.stderr
    questions = Questions.read(folder / "questions.toml")
    assert [one.name for one in questions.settings] == [*clinic()[0].columns, "note"]
    assert questions.never_asked == ("note",)
    (folder / "questions.toml").write_text("[questions]\nfever = 'Hot?'\n")
    again = run(folder, *DRAFT, "--drop", "note")
    assert (again.returncode, "--force" in again.stderr) == (1, True)
    assert "Hot?" in (folder / "questions.toml").read_text()
    assert run(folder, *DRAFT, "--drop", "note", "--force").returncode == 0
    assert "Hot?" not in (folder / "questions.toml").read_text()


def test_a_draft_trains_the_same_model_as_none(folder: Path) -> None:
    assert run(folder, *DRAFT, "--drop", "note", "--out", "draft.toml").returncode == 0
    plain = json_of(run(folder, *TRAIN, "--drop", "note", "--out", "plain"))
    drafted = json_of(run(folder, *TRAIN, "--questions", "draft.toml", "--out", "drafted"))
    assert {**plain, "model": ""} == {**drafted, "model": ""}
    assert load(folder / "plain").model_.query_set.to_config() == load(folder / "drafted").model_.query_set.to_config()


def test_a_draft_for_a_number(folder: Path) -> None:
    table = pd.read_csv(folder / "patients.csv").assign(label=[i / 7 for i in range(len(clinic()[0]))])
    table.to_csv(folder / "amounts.csv", index=False)
    draft = ("questions", "amounts.csv", *DRAFT[2:], "--drop", "note", "--out", "amounts.toml")
    assert "train with --regress" in " ".join(run(folder, *draft).stderr.split())
    done = run(folder, *draft, "--regress")
    assert "pursuit train amounts.csv --regress --target label --questions amounts.toml" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("questions", "digits"), "'digits' is a task with its own questions"),
        (("questions", "patients.csv", "--out", "new.toml"), "--target"),
        ((*DRAFT, "--out", "."), "is there already"),
        ((*DRAFT, "--out", "nowhere/q.toml"), "There is no folder nowhere"),
        ((*TRAIN, "--questions", "nowhere.toml"), "There is no questions file nowhere.toml"),
        (("train", "digits", "--questions", "edited.toml"), "A questions file is for CSV and Parquet files"),
        ((*TRAIN, "--questions", "bad.toml"), "bad.toml: There is no column 'plse' to ask for. Did you mean 'pulse'?"),
    ],
)
def test_errors_are_sentences(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "bad.toml").write_text("[questions.plse]\ncost = 3\n[questions.note]\nask = 'never'\n")
    done = run(folder, *arguments)
    assert_refused(done, message)


def test_the_model_carries_the_questions(folder: Path) -> None:
    query_set = load(folder / "model").model_.query_set
    assert query_set.queries[0].choices == ("woman", "man")
    assert query_set.order is not None
    assert query_set.order.beforehand == ("sex",)
    evaluated = json_of(run(folder, "evaluate", "model", "--data", "patients.csv", "--json"))
    assert evaluated["n_queries"] == 7
    explained = json_of(run(folder, "explain", "model", "--data", "patients.csv", "--json"))
    for chain in explained["chains"]:
        assert [step["query"] for step in chain["initially_known"]] == ["sex"]
        assert chain["initially_known"][0]["answer"] in ("woman", "man")


def test_a_person_is_asked_as_the_file_says(folder: Path) -> None:
    typed = "man\nno\n10\n70 bpm\n"
    talk = run(folder, "ask", "model", "--stop", "budget=9", typed=typed)
    assert talk.returncode == 0, talk.stderr
    assert "+ Are you a man or a woman?\n   1  woman   2  man\n" in talk.stdout
    assert "Are you pregnant?" not in talk.stdout
    asked = json_of(run(folder, "ask", "model", "--json", "--tell", "sex=f", "--stop", "budget=1", typed="\n"))
    assert [step["volunteered"] for step in asked["chains"][0]["steps"]] == [True, False]


def test_help_range_and_unit_are_shown_and_a_number_beyond_is_asked_again(folder: Path) -> None:
    told = ["--tell", "sex=m", "--tell", "fever=no", "--tell", "pressure=120"]
    talk = run(folder, "ask", "model", *told, "--stop", "budget=1", typed="700\n70 bpm\n")
    assert "1. pulse?  (20 to 250 bpm, cost 3)" in talk.stdout  # the rest of its group was told
    assert "Count for a minute." in talk.stdout
    assert "is 20 to 250 bpm, not 700 bpm." in talk.stdout
    assert "70 bpm" in talk.stdout.splitlines()[-1]


def test_parquet_files_are_asked_as_the_file_says(folder: Path) -> None:
    arguments = ("train", "patients.parquet", *TRAIN[2:], "--questions", "edited.toml", "--out", "streamed")
    trained = run(folder, *arguments)
    assert trained.returncode == 0, trained.stderr
    model = load(folder / "streamed")
    assert model.has_initially_known_
    assert model.model_.query_set.order == load(folder / "model").model_.query_set.order
    explained = json_of(run(folder, "explain", "streamed", "--data", "patients.parquet", "--json"))
    assert [step["query"] for step in explained["chains"][0]["initially_known"]] == ["sex"]


def test_methods_are_compared_with_the_questions(folder: Path) -> None:
    arguments = ("compare", "patients.csv", "--target", "label", "--questions", "edited.toml", "--out", "compared")
    done = run(folder, *arguments, "--methods", "naive-bayes,tree")
    assert done.returncode == 0, done.stderr
    assert "naive-Bayes IP" in done.stdout


def test_a_column_without_a_question_is_what_it_was(folder: Path) -> None:
    (folder / "one.toml").write_text("[questions.fever]\ntext = 'Hot?'\n[questions.note]\nask = 'never'\n")
    frame = pd.read_csv(folder / "patients.csv")
    assert "note" in frame.columns
    json_of(run(folder, *TRAIN, "--questions", "one.toml", "--out", "one", "--cost", "fever=7"))
    query_set = load(folder / "one").model_.query_set
    assert [query.text for query in query_set.queries if query.name in ("fever", "week")] == [
        "week?",
        "Hot?",
    ]
    assert query_set.queries[query_set.index_of["fever"]].cost == 7
    assert (query_set.order or Order()) == Order()
