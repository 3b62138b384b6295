"""`pursuit train`: what it leaves behind, and how it goes on after it was killed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from cli.conftest import TRAIN
from program import assert_refused, json_of, run
from pursuit import load
from pursuit.cli.app import load_command
from pursuit.inference.pursuer import score_unit
from pursuit.inference.stopping import AnyOf, Never
from pursuit.methods.decision_tree import TreeClassifier
from pursuit.registry import known

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
KILLED = """
import itertools, os, signal, types
import pursuit.training.run as run

save, numbers = run.save_checkpoint, itertools.count(1)

def save_and_be_killed(*state):
    save(*state)
    if next(numbers) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

run.save_checkpoint = save_and_be_killed
run.time = types.SimpleNamespace(monotonic=itertools.count(0, 60).__next__)  # a checkpoint is due at every report
from pursuit.cli import main
main()
"""
"""The program, which is killed once its second checkpoint is written."""


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums of numbers are the same to the last bit only if as many threads add them up."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_run_folder_holds_model_log_and_settings(workspace: Path) -> None:
    names = {path.name for path in (workspace / "model").iterdir()}
    assert names == {"model.json", "model.safetensors", "measured.json", "log.csv", "run.json", "checkpoints"}
    log = pd.read_csv(workspace / "model" / "log.csv")
    assert {"stage", "step", "loss", "lr", "tau", "seconds_left"} <= set(log.columns)
    assert log.loss.iloc[-1] < log.loss.iloc[0]


def test_it_says_what_was_chosen_and_what_to_expect(workspace: Path) -> None:
    done = run(workspace, *TRAIN, "--out", "chosen")
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.split("Settings:\n")[1].split("Saved in")[0].strip().split("\n")]
    assert lines == [str(reason) for reason in load(workspace / "chosen").chosen_]
    assert any(line.startswith("expected: about ") and line.endswith(" rows as teachers label them)") for line in lines)
    assert any(line.startswith("teachers: ") and line.endswith(" (best on rows they did not see)") for line in lines)
    assert "querier: information (too few rows to tell which of two asks better)" in lines


def test_what_was_given_is_said_to_be(workspace: Path) -> None:
    options = ("--epochs", "3", "--held-out", "0.2", "--stop", "budget=2", "--json")
    trained = json_of(run(workspace, *TRAIN, "--out", "given", *options))
    found = {reason["setting"]: reason for reason in trained["chosen"]}
    assert {name for name, reason in found.items() if reason["why"] == "given"} == {"held out", "stages", "stop"}
    assert found["held out"]["value"] == "20%"
    assert found["expected"]["why"].endswith(" held-out rows")
    assert json_of(run(workspace, *TRAIN, "--out", "tree", "--method", "tree", "--json"))["chosen"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["patients.csv"], "--target"),
        (["patients.csv", "--target", "lable"], "Did you mean 'label'"),
        (["patients.csv", "--target", "age", "--drop", "note"], "To predict the number itself, train with --regress"),
        (
            [*TRAIN[1:], "--column-type", "age"],
            "'age' does not say what a column is: write COLUMN=KIND, as in born=date",
        ),
        ([*TRAIN[1:], "--group", "agee"], "Did you mean 'age'?"),
        ([*TRAIN[1:], "--group", "age", "--time", "age"], "by --group or by --time"),
        ([*TRAIN[1:], "--encoding", "latin9x"], "'latin9x' is not a known encoding"),
        ([*TRAIN[1:], "--test-share", "0.9999"], "leaves 0 of 300 rows to train on"),
        (["digits", "--time", "date", "--decimal", ","], "--decimal and --time are for CSV files"),
        (["patients.csv", "--target", "label", "--drop", "nothing"], "no column 'nothing'"),
        (["nowhere.csv", "--target", "label"], "no file nowhere.csv"),
        ([*TRAIN[1:], "--stop", "confidence=2"], "confidence level"),
        ([*TRAIN[1:], "--stop", "soon"], "'soon' is not a stopping rule"),
        (["patients.csv", "--target", "age", "--drop", "note", "--test-share", "1"], "below 1"),
        ([*TRAIN[1:], "--out", "model"], "--overwrite"),
        ([*TRAIN[1:], "--out", "patients.csv"], "is a file"),
        ([*TRAIN[1:], "--epochs", "0"], "epochs above 0"),
        ([*TRAIN[1:], "--epochs", "inf"], "epochs above 0"),
        ([*TRAIN[1:], "--max-queries", "9" * 30], "a whole number of queries from 0 to"),
        ([*TRAIN[1:], "--out", "."], "holds other files"),
        ([*TRAIN[1:], "--device", "tpu"], "one of cpu"),
        ([*TRAIN[1:], "--log", "paper"], "csv or tensorb"),
        (["mnistt"], "neither a task"),
        ([*TRAIN[1:], "--method", "tre"], "'tre' is not a known method. Did you mean 'tree'?"),
        ([*TRAIN[1:], "--method", "tree", "--held-out", "0.1"], "--held-out does not apply to the method tree"),
        ([*TRAIN[1:], "--method", "tree", "--epochs", "3"], "--epochs does not apply to the method tree"),
        ([*TRAIN[1:], "--method", "tree", "--devices", "2"], "--devices does not apply to the method tree"),
        ([*TRAIN[1:], "--method", "naive-bayes", "--resume"], "--resume does not apply to the method naive-bayes"),
        ([*TRAIN[1:], "--method", "tree", "--log", "tensorboard"], "--log does not apply to the method tree"),
        ([*TRAIN[1:], "--method", "tree", "--cost-aware"], "--cost-aware does not apply to the method tree"),
        ([*TRAIN[1:], "--method", "tree", "--querier", "auto"], "--querier does not apply to the method tree"),
        (
            [*TRAIN[1:], "--method", "vip-information", "--querier", "straight-through"],
            "--querier does not apply to the method vip-information",
        ),
        ([*TRAIN[1:], "--querier", "gradient"], "querier is one of auto, information, straight-through"),
        ([*TRAIN[1:], "--querier", "straight-through", "--cost-aware"], "use querier='information' with cost_aware"),
        ([*TRAIN[1:], "--cost", "fevre=2"], "no query 'fevre' to give a cost. Did you mean 'fever'?"),
        ([*TRAIN[1:], "--cost", "fever=-2"], "The cost of 'fever' in fever=-2 must be a number of at least 0"),
        ([*TRAIN[1:], "--cost", "costs.csv"], "'costs.csv' is not a cost: write NAME=NUMBER"),
        ([*TRAIN[1:], "--cost", "patients.csv"], "patients.csv has no column 'query', only fever, where, age"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing(workspace: Path, arguments: list[str], message: str) -> None:
    result = run(workspace, "train", *arguments, *([] if "--out" in arguments else ["--out", "x"]))
    assert_refused(result, message)
    assert "━" not in result.stderr  # a bar is for what is trained
    assert result.stdout == ""
    assert not (workspace / "x").exists()


def test_a_file_from_elsewhere_is_read_the_same_way_ever_after(workspace: Path) -> None:
    """In Windows-1252, with semicolons, decimal commas and a mark for what is missing; of several visits a patient."""
    frame = pd.read_csv(workspace / "patients.csv").drop(columns="note")
    frame["größe"] = [f"{150 + i % 50},{i % 10}" for i in range(300)]
    frame["patient"] = [f"p{i // 3}" for i in range(300)]
    frame["where"] = frame["where"].fillna("k. A.")
    path = workspace / "praxis.csv"
    frame.to_csv(path, sep=";", index=False, encoding="cp1252")
    options = ("--group", "patient", "--missing", "k. A.", "--method", "tree", "--out", "praxis")
    done = run(workspace, "train", "praxis.csv", "--target", "label", *options, "--json")
    trained = json_of(done)
    said = " ".join(done.stderr.split())
    assert "praxis.csv is not UTF-8: it is read as Windows-1252." in said
    assert "12,5 is read as 12.5, as in größe." in said
    assert "The 60 rows of 20 of the 100 groups of 'patient' are held out." in said
    model = load(workspace / "praxis")
    assert [query.name for query in model.model_.query_set.queries] == ["fever", "where", "age", "größe"]
    assert model.model_.query_set.queries[1].choices == ("belly", "head")
    measured = run(workspace, "evaluate", "praxis", "--data", "praxis.csv", "--json")
    assert trained.pop("chosen") == []
    assert {**trained, "model": ""} == {**json_of(measured), "model": ""}
    assert "only the 60 held-out rows are used" in measured.stderr.replace("\n", " ")
    frame.head(30).to_csv(workspace / "other.csv.gz", sep="\t", index=False)
    explained = run(workspace, "explain", "praxis", "--data", "other.csv.gz", "--row", "0", "--json")
    assert json_of(explained)["task"] == "other"
    frame.head(30).to_csv(workspace / "other.csv", index=False, encoding="utf-16-le")
    refused = run(workspace, "evaluate", "praxis", "--data", "other.csv")
    assert "add --encoding utf-16-le" in refused.stderr.replace("\n", " ")
    options = ("--encoding", "utf-16-le", "--decimal", ",")
    assert json_of(run(workspace, "evaluate", "praxis", "--data", "other.csv", *options, "--json"))["n_rows"] == 30


def test_another_method_is_trained_saved_and_used(workspace: Path) -> None:
    trained = json_of(run(workspace, *TRAIN, "--method", "tree", "--stop", "budget=2", "--json"))
    folder = Path(trained["model"])
    assert folder == Path("runs/patients-tree")  # beside that of V-IP
    model = load(workspace / folder)
    assert isinstance(model, TreeClassifier)
    assert (model.stop, model.random_state) == ("budget=2", 0)
    measured = json_of(run(workspace, "evaluate", str(folder), "--data", "patients.csv", "--json"))
    assert trained.pop("chosen") == []
    assert {**trained, "model": ""} == {**measured, "model": ""}
    assert "Prediction:" in run(workspace, "explain", str(folder), "--data", "patients.csv").stdout


def test_costs_are_given_and_kept(workspace: Path) -> None:
    (workspace / "prices.csv").write_text("query,cost\nfever,100\nwhere,3\nnote,9\n")  # a note is not asked for
    costs = ("--cost", "prices.csv", "--cost", "where=0", "--cost-aware")
    done = run(workspace, *TRAIN, "--method", "naive-bayes", *costs, "--out", "priced")
    assert done.returncode == 0, done.stderr
    model = load(workspace / "priced")
    assert model.model_.query_set.costs.tolist() == [100, 0, 1]
    assert model.model_.score_unit == "bits per cost"
    frame = pd.read_csv(workspace / "patients.csv")
    assert [chain.steps[0].query for chain in model.explain(frame[["fever", "where", "age"]][1:4])] == [1, 1, 1]


def test_costs_that_differ_are_weighed_by_default(workspace: Path) -> None:
    for options, unit in ((), "bits per cost"), (("--no-cost-aware", "--querier", "information"), "bits"):
        arguments = ("--cost", "where=50", "--epochs", "3", "--out", "weighed", "--overwrite")
        done = run(workspace, *TRAIN, *arguments, *options)
        assert done.returncode == 0, done.stderr
        assert load(workspace / "weighed").model_.score_unit == unit
        assert ("the most bits per unit of cost" in " ".join(done.stderr.split())) == (unit == "bits per cost")


@pytest.mark.parametrize(("querier", "unit"), [("information", "bits"), ("straight-through", None)])
def test_the_querier_is_chosen_and_kept(workspace: Path, querier: str, unit: str | None) -> None:
    done = run(workspace, *TRAIN, "--querier", querier, "--epochs", "3", "--out", f"by-{querier}")
    assert done.returncode == 0, done.stderr
    model = load(workspace / f"by-{querier}")
    assert model.querier == querier
    assert score_unit(model.model_) == unit


def test_help_names_every_stopping_rule() -> None:
    (text,) = [option.help for option in load_command("train").params if option.name == "stop"]
    for rule in known("stopping rule").values():
        if rule not in (AnyOf, Never) and rule.__module__ == AnyOf.__module__:
            assert f"{rule.keyword_of()}=" in text


def test_a_method_trained_by_the_loop_has_its_options(workspace: Path) -> None:
    options = ("--method", "random", "--epochs", "3", "--held-out", "0.2", "--out", "random")
    done = run(workspace, *TRAIN, *options)
    assert done.returncode == 0, done.stderr
    model = load(workspace / "random")
    assert ([stage.epochs for stage in model.stages], model.held_out) == ([3.0], 0.2)
    assert "Try next:\n  pursuit explain random --data patients.csv" in done.stdout
    assert "held_out_loss" in pd.read_csv(workspace / "random" / "log.csv").columns


def test_without_test_rows_nothing_is_measured(workspace: Path) -> None:
    arguments = (*TRAIN, "--method", "tree", "--test-share", "0", "--out", "everything", "--json")
    assert json_of(run(workspace, *arguments)) == {"model": "everything", "task": "patients", "chosen": []}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.programs
def test_killed_training_goes_on_with_resume(workspace: Path) -> None:
    """The weights are bit for bit those of the run that was not killed."""
    train = (*TRAIN, "--epochs", "40", "--json")
    command = [sys.executable, "-c", KILLED, *train, "--out", "killed"]
    killed = subprocess.run(command, cwd=workspace, env=ONE_THREAD, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert any((workspace / "killed" / "checkpoints").glob("checkpoint-*"))
    assert not (workspace / "killed" / "model.json").exists()
    unfinished = run(workspace, "evaluate", "killed", "--data", "patients.csv")
    assert "--resume" in unfinished.stderr
    again = run(workspace, *train, "--out", "killed")
    assert "holds an unfinished run: add --resume" in again.stderr
    resumed = json_of(run(workspace, *train, "--out", "killed", "--resume"))
    whole = json_of(run(workspace, *train, "--out", "whole"))
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
    done = run(workspace, "train", "parts", "--target", "label", "--out", "streamed", "--epochs", "12", "--json")
    trained = json_of(done)
    n_held_out = trained["n_rows"]
    assert f"{300 - n_held_out} rows are streamed; {n_held_out} are held out" in " ".join(done.stderr.split())
    assert trained["accuracy_all_answers"] > 0.85
    measured = run(workspace, "evaluate", "streamed", "--data", "parts", "--json")
    assert [reason["setting"] for reason in trained.pop("chosen")] == ["network", "stages", "stop"]
    assert {**trained, "model": "", "task": ""} == {**json_of(measured), "model": "", "task": ""}
    assert f"{n_held_out} of the {n_held_out} held-out rows are used" in " ".join(measured.stderr.split())
    explained = run(workspace, "explain", "streamed", "--data", "parts/*.parquet", "--row", "2")
    assert re.search(r"Row 2 \(row \d+ of .+\), true label: ", explained.stdout)
    elsewhere = run(workspace, "evaluate", "streamed", "--data", "parts/1.parquet", "--json")
    assert json_of(elsewhere)["n_rows"] == 100
    assert json_of(run(workspace, "evaluate", "streamed", "--data", "patients.csv", "--json"))["n_rows"] == 300


@pytest.mark.programs
def test_two_processes_train_and_one_speaks(workspace: Path) -> None:
    script = workspace / "pursuit_program.py"  # Fabric runs it again for the second process
    script.write_text("from pursuit.cli import main\nmain()\n")
    done = subprocess.run(
        [sys.executable, str(script), *TRAIN, "--epochs", "20", "--json", "--devices", "2", "--out", "together"],
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


def test_resuming_does_not_replace_a_model_that_no_run_made(workspace: Path, tmp_path: Path) -> None:
    """As one of a method that is not trained by the loop, or one copied there."""
    for name in ("model.json", "model.safetensors"):
        (tmp_path / name).write_bytes((workspace / "model" / name).read_bytes())
    before = (tmp_path / "model.json").read_bytes()
    done = run(workspace, *TRAIN, "--out", str(tmp_path), "--resume")
    assert_refused(done, "holds a model already")
    assert (tmp_path / "model.json").read_bytes() == before


def test_it_says_that_it_looks_through_a_folder(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "a.csv").write_text("a,b\n1,2\n")
    said = run(tmp_path, "train", "many", "--target", "b").stderr
    assert said.startswith("Looking for files in many and all folders below it …")


def test_a_messy_table_is_trained_on_what_it_means_and_the_rest_is_said(tmp_path: Path) -> None:
    """Answers in several spellings, money, a leak, and whole numbers beyond all precision."""
    random, n = np.random.default_rng(0), 160
    bought = random.random(n) < 0.5
    words = {True: ["yes", "Yes", "Y"], False: ["no", "N", "NO"]}
    frame = pd.DataFrame(
        {
            "price": [f"€ 1.{one:.0f},50" for one in random.integers(100, 900, n) + 50 * bought],
            "receipt": np.where(bought, "printed", "never"),
            "account": random.integers(2**60, 2**61, n),
            "bought": [random.choice(words[bool(one)]) for one in bought],
        }
    )
    frame.to_csv(tmp_path / "shop.csv", index=False)
    said = run(tmp_path, "train", "shop.csv", "--target", "bought", "--method", "naive-bayes")
    assert said.returncode == 0, said.stderr
    told = " ".join(said.stderr.split())
    assert (
        "Labels that are written in several ways count as one: 'no' is also 'N', 'NO'; 'yes' is also 'Y', 'Yes'."
        in told
    )
    assert "'receipt' nearly always gives the label away" in told
    assert "Whole numbers beyond 9,007,199,254,740,992 are rounded" in told
    assert load(tmp_path / "runs" / "shop-naive-bayes").classes_.tolist() == ["no", "yes"]
    measured = json_of(run(tmp_path, "evaluate", "runs/shop-naive-bayes", "--data", "shop.csv", "--json"))
    assert measured["n_rows"] == 32


def test_an_accuracy_no_better_than_guessing_is_said(tmp_path: Path) -> None:
    random, n = np.random.default_rng(0), 200
    frame = pd.DataFrame({"a": random.normal(size=n), "b": random.choice(["x", "y"], n)})
    frame.assign(label=random.choice(["heads", "tails"], n, p=[0.8, 0.2])).to_csv(tmp_path / "coin.csv", index=False)
    said = run(tmp_path, "train", "coin.csv", "--target", "label", "--method", "naive-bayes").stdout
    assert said.startswith("As far as 40 rows can tell, this model is no better than guessing: always saying “")
    shown = run(tmp_path, "show", "runs/coin-naive-bayes").stdout
    assert "no better than guessing" in " ".join(shown.split())
