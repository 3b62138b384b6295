"""The program as a person or a script meets it: its output, its complaints, and what it leaves behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from program import json_of, run, wait_for
from pursuit.tasks import TASKS

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
PURSUIT = [sys.executable, "-c", "from pursuit.cli import main; main()"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CSV file and a model trained on it."""
    folder = tmp_path_factory.mktemp("work")
    randomness = np.random.default_rng(0)
    fever, where = randomness.random(300) < 0.5, randomness.choice(["head", "belly"], 300)
    label = np.where(where == "belly", "gastritis", np.where(fever, "flu", "migraine"))
    columns = {
        "fever": np.where(fever, "yes", "no"),
        "where": where,
        "age": randomness.integers(1, 90, 300),
        "label": label,
    }
    frame = pd.DataFrame(columns)
    frame["note"] = [f"patient {i}" for i in range(300)]
    frame.loc[::20, "where"] = None
    frame.to_csv(folder / "patients.csv", index=False)
    done = run(
        folder,
        "train",
        "patients.csv",
        "--target",
        "label",
        "--drop",
        "note",
        "--out",
        "model",
        "--epochs",
        "40",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    return folder


def run_program(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own."""
    return subprocess.run([*PURSUIT, *arguments], cwd=folder, capture_output=True, text=True, env=ONE_THREAD)


def test_run_folder_holds_model_log_and_settings(workspace: Path) -> None:
    names = {path.name for path in (workspace / "model").iterdir()}
    assert names == {"model.json", "model.safetensors", "log.csv", "run.json", "checkpoints"}
    log = pd.read_csv(workspace / "model" / "log.csv")
    assert {"stage", "step", "loss", "lr", "tau", "seconds_left"} <= set(log.columns)
    assert log.loss.iloc[-1] < log.loss.iloc[0]


def test_evaluate_gives_what_the_design_promises(workspace: Path) -> None:
    arguments = ("evaluate", "model", "--data", "patients.csv", "--stop", "confidence=0.9", "--json")
    done = run(workspace, *arguments)
    result = json_of(done)
    assert result["task"] == "patients"
    assert result["n_rows"] == 60
    assert result["n_queries"] == 3
    curve = result["accuracy_by_answered"]
    assert len(curve) == 4
    assert result["area"] == pytest.approx(sum(curve[1:]) / 3)
    assert result["accuracy_all_answers"] > 0.9
    assert result["stop"]["rule"] == "confidence=0.9"
    assert {"mean_answered", "accuracy"} <= result["stop"].keys()
    assert "only the 60 rows it has not learnt from" in done.stderr
    assert run(workspace, *arguments[:-1]).stdout.count("queries") >= 1


def test_explain_as_text_json_and_figure(workspace: Path) -> None:
    text = run(workspace, "explain", "model", "--data", "patients.csv", "--row", "3")
    assert "Prediction:" in text.stdout
    assert re.search(r"Row 3 \(row \d+ of the file\), truly", text.stdout)
    picture = workspace / "chain.png"
    told = json_of(
        run(workspace, "explain", "model", "--data", "patients.csv", "--row", "3", "--figure", str(picture), "--json")
    )
    (chain,) = told["chains"]
    assert chain["row"] == 3
    assert len(chain["steps"]) >= 1
    assert sum(chain["steps"][0]["posterior"].values()) == pytest.approx(1, abs=1e-5)
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_explain_rows_without_labels(workspace: Path) -> None:
    pd.read_csv(workspace / "patients.csv").drop(columns=["label", "note"]).head(2).to_csv(
        workspace / "new.csv", index=False
    )
    told = json_of(run(workspace, "explain", "model", "--data", "new.csv", "--json"))
    assert [chain["label"] for chain in told["chains"]] == [None, None]
    refused = run(workspace, "evaluate", "model", "--data", "new.csv")
    assert refused.returncode == 1
    assert "--target" in refused.stderr


def test_ask_a_person(workspace: Path) -> None:
    told = json_of(run(workspace, "ask", "model", "--json", "--stop", "budget=3", typed="why\nnonsense\nundo\n\n\n\n"))
    assert len(told["steps"]) == 3
    assert all(step["answer"] is None for step in told["steps"])
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
    assert "no saved session" in run(workspace, *arguments, typed="").stderr


def test_tasks_are_listed(workspace: Path) -> None:
    listed = json_of(run(workspace, "tasks", "--json"))["tasks"]
    assert [task["task"] for task in listed] == list(TASKS)
    assert listed[1]["n_queries"] == 49
    assert listed[0]["n_classes"] >= 100
    lines = run(workspace, "tasks").stdout.splitlines()  # 80 columns wide
    for task in listed:
        (line,) = [line for line in lines if line.split()[:1] == [task["task"]]]
        assert f"{task['n_train']:,} + {task['n_test']:,} {', '.join(task['recipes'])}" in " ".join(line.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "patients.csv", "--out", "x"], "--target"),
        (["train", "patients.csv", "--target", "lable", "--out", "x"], "Did you mean 'label'"),
        (["train", "patients.csv", "--target", "label", "--out", "x"], "To leave them out: --drop note"),
        (["train", "patients.csv", "--target", "label", "--drop", "nothing", "--out", "x"], "no column 'nothing'"),
        (["train", "nowhere.csv", "--target", "label", "--out", "x"], "no file nowhere.csv"),
        (
            ["train", "patients.csv", "--target", "label", "--drop", "note", "--stop", "confidence=2", "--out", "x"],
            "confidence level",
        ),
        (
            ["train", "patients.csv", "--target", "label", "--drop", "note", "--stop", "soon", "--out", "x"],
            "no stopping rule",
        ),
        (["train", "patients.csv", "--target", "age", "--drop", "note", "--test-share", "1", "--out", "x"], "below 1"),
        (["train", "patients.csv", "--target", "label", "--drop", "note", "--out", "model"], "--overwrite"),
        (["train", "patients.csv", "--target", "label", "--drop", "note", "--out", "patients.csv"], "is a file"),
        (
            ["train", "patients.csv", "--target", "label", "--drop", "note", "--epochs", "0", "--out", "x"],
            "epochs above 0",
        ),
        (["train", "patients.csv", "--target", "label", "--drop", "note", "--out", "."], "holds other files"),
        (
            ["train", "patients.csv", "--target", "label", "--drop", "note", "--device", "tpu", "--out", "x"],
            "one of cpu",
        ),
        (
            ["train", "patients.csv", "--target", "label", "--drop", "note", "--log", "paper", "--out", "x"],
            "csv or tensorb",
        ),
        (["train", "mnistt"], "neither a task"),
        (["ask", "model", "--session", "nowhere/s.json"], "cannot be kept in nowhere/s.json"),
        (["evaluate", "nowhere", "--data", "animals"], "no model folder nowhere"),
        (
            ["evaluate", "model", "--data", "animals"],
            "trained on patients and asks other queries than those of animals",
        ),
        (["evaluate", "model", "--data", "patients.csv", "--target", "nothing"], "no column 'nothing'"),
        (["explain", "model", "--data", "patients.csv", "--row", "60"], "rows go from 0 to 59"),
        (["explain", "model", "--data", "patients.csv", "--figure", "chain.doc"], "png"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing(workspace: Path, arguments: list[str], message: str) -> None:
    result = run(workspace, *arguments)
    assert result.returncode == 1
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not (workspace / "x").exists()


def test_killed_training_goes_on_with_resume(workspace: Path) -> None:
    """The weights are bit for bit those of the run that nobody killed."""
    train = ("train", "patients.csv", "--target", "label", "--drop", "note", "--epochs", "500", "--json")
    killed = subprocess.Popen(
        [*PURSUIT, *train, "--out", "killed"],
        cwd=workspace,
        env=ONE_THREAD,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    checkpoints = workspace / "killed" / "checkpoints"
    wait_for(lambda: checkpoints.is_dir() and any(checkpoints.glob("checkpoint-*")))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (workspace / "killed" / "model.json").exists()
    unfinished = run(workspace, "evaluate", "killed", "--data", "patients.csv")
    assert "--resume" in unfinished.stderr
    again = run(workspace, *train, "--out", "killed")
    assert "holds an unfinished run: add --resume" in again.stderr
    resumed = json_of(run_program(workspace, *train, "--out", "killed", "--resume"))
    whole = json_of(run_program(workspace, *train, "--out", "whole"))
    assert (workspace / "killed" / "model.safetensors").read_bytes() == (
        workspace / "whole" / "model.safetensors"
    ).read_bytes()
    assert {**resumed, "model": ""} == {**whole, "model": ""}
    other = run(workspace, *train, "--seed", "1", "--out", "killed", "--resume")
    assert "cannot be resumed" in other.stderr


def test_parquet_files_are_streamed(workspace: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.read_csv(workspace / "patients.csv").drop(columns="note")
    (workspace / "parts").mkdir()
    for i in range(3):
        frame.iloc[i::3].to_parquet(workspace / "parts" / f"{i}.parquet", row_group_size=30)
    done = run(workspace, "train", "parts", "--target", "label", "--out", "streamed", "--epochs", "60", "--json")
    trained = json_of(done)
    n_apart = trained["n_rows"]
    assert f"{300 - n_apart} rows are streamed; {n_apart} are kept apart" in " ".join(done.stderr.split())
    assert trained["accuracy_all_answers"] > 0.85
    measured = run(workspace, "evaluate", "streamed", "--data", "parts", "--json")
    assert {**trained, "model": "", "task": ""} == {**json_of(measured), "model": "", "task": ""}
    assert f"{n_apart} of the {n_apart} rows kept apart are used" in " ".join(measured.stderr.split())
    told = run(workspace, "explain", "streamed", "--data", "parts/*.parquet", "--row", "2")
    assert re.search(r"Row 2 \(row \d+ of the file\), truly", told.stdout)
    elsewhere = run(workspace, "evaluate", "streamed", "--data", "parts/1.parquet", "--json")
    assert json_of(elsewhere)["n_rows"] == 100
    assert json_of(run(workspace, "evaluate", "streamed", "--data", "patients.csv", "--json"))["n_rows"] == 300


def test_two_processes_train_and_one_speaks(workspace: Path) -> None:
    train = ("train", "patients.csv", "--target", "label", "--drop", "note", "--epochs", "20", "--json")
    script = workspace / "pursuit_program.py"  # Fabric runs it again for the second process
    script.write_text("from pursuit.cli import main\nmain()\n")
    done = subprocess.run(
        [sys.executable, str(script), *train, "--devices", "2", "--out", "together"],
        cwd=workspace,
        capture_output=True,
        text=True,
        env=ONE_THREAD,
    )
    assert json_of(done)["accuracy_all_answers"] > 0.8
    assert done.stderr.count("Starting with 2 processes") == 1
    steps = pd.read_csv(workspace / "together" / "log.csv")["step"]
    assert steps.tolist() == list(range(1, len(steps) + 1))  # written by one process alone
    assert (workspace / "together" / "model.json").exists()


def test_version_and_help(workspace: Path) -> None:
    assert run(workspace, "--version").stdout.strip() == "0.1.0"
    assert "train" in run(workspace, "--help").stdout
