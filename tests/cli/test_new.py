"""`pursuit new`: from a file to a served interview."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import messy_workbook
from program import assert_refused, run
from pursuit import load
from pursuit.cli.console import say_if_wide
from pursuit.cli.new import _frame, _print_questions
from pursuit.cli.options import ColumnOptions
from pursuit.queries import Questions
from pursuit.research.tasks import load_task
from pursuit.tables.labels import guess_target
from pursuit.tables.splitting import uniform_hash
from served import begin, client_of, move, port_of

ANSWERS = {
    "Symptoms: smoke": "yes",
    "Price": "1700,50 €",
    "Opened": "Sunday",
    "Comment: board": "yes",
    "Discount": "5 %",
}


@pytest.fixture
def workbook(tmp_path: Path) -> Path:
    pytest.importorskip("openpyxl")
    return messy_workbook.write(tmp_path / "messy.xlsx", 160)


@pytest.mark.programs
def test_a_messy_workbook_is_a_served_interview_by_one_command(workbook: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pursuit", "new", workbook.name, "--port", "0"]
    environment = {**os.environ, "PURSUIT_DATABASE": f"sqlite:///{tmp_path / 'sessions.sqlite'}"}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "said").open("w"),
        text=True,
    ) as process:
        try:
            with client_of(port_of(process)) as client:
                (model,) = client.get("/api/models").json()["models"]
                session = begin(client, model["id"])
                while (question := session["state"]["question"]) is not None:
                    assert question["name"] not in ("Ticket Nr", "Invoice code")
                    told = ANSWERS.get(question["name"])
                    known = {} if told is None else {"answer": told}
                    session = move(client, session, "tell" if known else "dont_know", **known)
                assert session["state"]["result"]["label"] == "replace"
        finally:
            process.kill()
    said = (tmp_path / "said").read_text()
    assert "The interview finds out 'Outcome'" in said
    assert "'Invoice code' gives 'Outcome' away by itself" in said
    assert "'Ticket Nr' (numbers the rows)" in said


def test_the_questions_of_a_messy_workbook(workbook: Path, tmp_path: Path) -> None:
    done = run(tmp_path, "new", workbook.name, "--no-serve", "--out", "model")
    assert done.returncode == 0, done.stderr
    assert "pursuit serve model" in done.stdout
    model = load(tmp_path / "model")
    queries = {query.name: query for query in model.model_.query_set.queries}
    assert set(model.classes_) == {"repair", "replace"}
    assert queries["Price"].unit == "€"
    assert queries["Discount"].unit == "%"
    assert queries["Warranty?"].choices == ("no", "yes")
    assert queries["Symptoms: no power"].choices == ("no", "yes")
    assert "Comment: pump" in queries
    assert queries["Opened"].choices[0] == "Monday"
    assert queries["Customer born"].unit == "years"
    assert Questions.read(tmp_path / "model.toml").settings  # as it was trained with
    again = run(tmp_path, "new", workbook.name, "--no-serve", "--out", "model")
    assert_refused(again, "holds a model already")  # before anything is asked about the questions
    kept = run(tmp_path, "new", workbook.name, "--no-serve", "--out", "kept", "--keep", "Invoice code")
    assert kept.returncode == 0, kept.stderr
    assert "Invoice code" in (query.name for query in load(tmp_path / "kept").model_.query_set.queries)


def test_each_step_is_asked_for(workbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.cli.new._somebody_is_there", lambda: True)
    typed = ["nothing", "11", "n", "Opened=date", "Opened=colour", "", "", "n"]
    done = run(tmp_path, "new", workbook.name, "--out", "model", typed="\n".join([*typed, ""]))
    assert done.returncode == 0, done.stderr
    assert "There is no column 'nothing'" in done.stderr
    assert "not as 'colour'" in done.stderr
    assert "Serve it: pursuit serve model" in done.stdout
    queries = {query.name: query for query in load(tmp_path / "model").model_.query_set.queries}
    assert "Invoice code" in queries  # nobody wanted it left out
    assert type(queries["Opened"]).__name__ == "Date"


def test_the_label_is_guessed_by_its_name_or_its_place() -> None:
    rows = range(30)
    frame = pd.DataFrame(
        {"Diagnosis": ["flu", "cold", "no"] * 10, "a": [i % 2 for i in rows], "n": [i / 7 for i in rows]}
    )
    assert guess_target(frame, "t.csv") == "Diagnosis"
    assert guess_target(frame.rename(columns={"Diagnosis": "x"}), "t.csv") == "a"
    years = pd.concat([frame] * 2).assign(since=[1990 + i % 12 for i in range(60)])
    assert guess_target(years.rename(columns={"Diagnosis": "x"}), "t.csv") == "a"  # hardly twelve labels
    assert guess_target(years[["since"]], "t.csv") == "since"
    loans = pd.DataFrame({"Decision ": ["no", "yes"] * 15, "Days to decision": [i % 4 for i in rows], "kids": rows})
    assert guess_target(loans, "t.csv") == "Decision "
    assert guess_target(loans.drop(columns="Decision "), "t.csv") == "Days to decision"
    with pytest.raises(ValueError, match=r"Which column of t.csv is the label\? Name it with --target: n"):
        guess_target(frame[["n"]], "t.csv")


def test_of_very_many_columns_it_says_so_first_and_lists_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names, rows = [f"c{i}" for i in range(12)], [[str((i * j) % 3) for j in range(1, 13)] for i in range(20)]
    file = tmp_path / "wide.csv"
    file.write_text("\n".join(";".join(row) for row in [names, *rows]))
    say_if_wide(str(file))
    say_if_wide(str(tmp_path))
    say_if_wide("animals")
    assert not capsys.readouterr().err
    monkeypatch.setattr("pursuit.cli.console.MANY_COLUMNS", 11)
    say_if_wide(str(file))
    assert "wide.csv has 12 columns: reading takes about half a minute for every 20,000" in capsys.readouterr().err
    monkeypatch.setattr("pursuit.cli.new.MOST_SHOWN", 5)
    _print_questions(load_task(str(file), target="c11"))
    printed = capsys.readouterr()
    assert "c4" in printed.out
    assert "c7" not in printed.out
    assert "These are the first of 8 questions." in printed.err


def test_numbers_are_predicted_as_such(tmp_path: Path) -> None:
    rows = "\n".join(f"{i % 7},{'ab'[i % 2]},{i % 7 * 3.5 + i % 2 + i / 997:.3f}" for i in range(120))
    (tmp_path / "t.csv").write_text(f"a,b,price result\n{rows}\n")
    done = run(tmp_path, "new", "t.csv", "--no-serve", "--out", "model")
    assert done.returncode == 0, done.stderr
    assert type(load(tmp_path / "model")).__name__ == "VIPRegressor"


@pytest.fixture
def cases() -> pd.DataFrame:
    """The label is the first column, stands in order, and is given away by the last one."""
    label = ["flu"] * 60 + ["well"] * 60
    return pd.DataFrame(
        {
            "diagnosis": label,
            "fever": [37 + i % 10 / 5 + (i < 60) for i in range(120)],
            "cough": ["no" if i % 3 else "yes" for i in range(120)],
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(range(120), unit="D"),
            "ward": ["A" if one == "flu" else "B" for one in label],
        }
    )


def test_words_that_were_edited_stay_when_the_model_is_replaced(cases: pd.DataFrame, tmp_path: Path) -> None:
    cases.to_csv(tmp_path / "t.csv", index=False)
    words = ("new", "t.csv", "--no-serve", "--out", "model", "--overwrite")
    assert run(tmp_path, *words).returncode == 0
    questions = tmp_path / "model.toml"
    questions.write_text(questions.read_text().replace('"cough?"', '"Do you cough?"'))
    again = run(tmp_path, *words)
    assert again.returncode == 0, again.stderr
    assert "It asks as model.toml says, which was there before" in again.stderr.replace("\n", " ")
    assert "Do you cough?" in [query.text for query in load(tmp_path / "model").model_.query_set.queries]


def test_files_that_are_streamed_need_no_target_either(cases: pd.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    cases.to_parquet(tmp_path / "t.parquet")
    done = run(tmp_path, "new", "t.parquet", "--no-serve", "--out", "model")
    assert done.returncode == 0, done.stderr
    assert "The interview finds out 'diagnosis'" in done.stderr
    assert "'ward' gives 'diagnosis' away by itself" in done.stderr
    assert {query.name for query in load(tmp_path / "model").model_.query_set.queries} == {"fever", "cough"}


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "json", "jsonl", "xlsx", "sqlite", "feather", "folder"])
def test_the_label_is_guessed_in_every_kind_of_file(
    cases: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    for needed in {"xlsx": ["openpyxl"], "sqlite": ["sqlalchemy"], "folder": ["pyarrow"], "feather": ["pyarrow"]}.get(
        ending, []
    ):
        pytest.importorskip(needed)
    monkeypatch.setattr("pursuit.cli.new.GUESSED_ROWS", 50)  # the first label alone fills more
    path, options = tmp_path / f"t.{ending}", ColumnOptions()
    match ending:
        case "csv" | "csv.gz":
            cases.to_csv(path, index=False)
        case "json" | "jsonl":
            cases.to_json(path, orient="records", lines=ending == "jsonl", date_format="iso")
        case "xlsx":
            cases.to_excel(path, index=False)
        case "sqlite":
            with contextlib.closing(sqlite3.connect(path)) as connection:
                cases.to_sql("cases", connection, index=False)
            options = ColumnOptions(query="select * from cases")
        case "feather":
            cases.to_feather(path)
        case "folder":
            path.mkdir()
            for number, part in enumerate((cases[:50], cases[50:])):
                part.to_parquet(path / f"{number}.parquet")
    source = f"sqlite:///{path}" if ending == "sqlite" else str(path)
    assert guess_target(_frame(source, options), "t") == "diagnosis"


@pytest.mark.parametrize("ending", ["parquet", pytest.param("feather", marks=pytest.mark.slow)])
def test_a_number_in_a_file_of_any_kind_is_predicted_as_such(cases: pd.DataFrame, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("pyarrow")
    fever = cases["fever"].rename("result") * 2 + pd.Series(range(120)) / 100
    table = cases.drop(columns=["ward", "diagnosis"]).assign(result=fever.where(cases.index != 5))
    getattr(table, f"to_{ending}")(tmp_path / f"t.{ending}")
    done = run(tmp_path, "new", f"t.{ending}", "--no-serve", "--out", "model")
    assert done.returncode == 0, done.stderr
    assert "The interview finds out 'result'" in done.stderr
    assert type(load(tmp_path / "model")).__name__ == "VIPRegressor"
    measured = run(tmp_path, "evaluate", "model", "--data", f"t.{ending}")
    assert measured.returncode == 0, measured.stderr
    n_held_out = int((uniform_hash(table.index.drop(5).to_numpy(), 0) < 0.2).sum())
    assert f"{n_held_out} of the {n_held_out} held-out rows are used" in measured.stderr


def test_numbers_of_files_that_do_not_fit_into_memory_are_refused(
    cases: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("pursuit.research.tasks.tables.MOST_CELLS", 500)
    cases.assign(result=[i / 7 for i in range(120)]).to_parquet(tmp_path / "t.parquet")
    done = run(tmp_path, "new", "t.parquet", "--no-serve", "--out", "model")
    assert_refused(done, "has 720 cells. Up to 500 can be read to predict a number")
