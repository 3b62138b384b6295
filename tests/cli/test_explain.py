"""`pursuit explain`."""

import re
from pathlib import Path

import pandas as pd
import pytest

from json_schema import problems
from program import assert_refused, json_of, run
from pursuit import load
from pursuit.cli.rows import unseen_rows


def test_a_chain_as_text_json_and_figure(workspace: Path) -> None:
    text = run(workspace, "explain", "model", "--data", "patients.csv", "--row", "3")
    assert "Prediction:" in text.stdout
    named = re.search(r"Row 3 \(line (\d+) of the file\), true label: ", text.stdout)
    assert named is not None
    by_line = run(workspace, "explain", "model", "--data", "patients.csv", "--line", named[1])
    assert by_line.stdout.replace(f"Line {named[1]}", f"Row 3 (line {named[1]} of the file)") == text.stdout
    picture = workspace / "chain.png"
    explained = json_of(
        run(workspace, "explain", "model", "--data", "patients.csv", "--row", "3", "--figure", str(picture), "--json")
    )
    assert problems(explained, "chains-1") == []
    (chain,) = explained["chains"]
    assert chain["row"] == 3
    assert chain["reasons"]["label"] == chain["prediction"]
    assert len(chain["steps"]) >= 1
    assert sum(chain["steps"][0]["posterior"].values()) == pytest.approx(1, abs=1e-5)
    assert sum(step["gained"] for step in chain["steps"]) == pytest.approx(chain["bits_gained"], abs=1e-6)
    assert chain["steps"][0].keys() >= {"bits", "gained"}
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_rows_without_labels(workspace: Path) -> None:
    frame = pd.read_csv(workspace / "patients.csv").drop(columns=["label", "note"])
    frame.head(2).to_csv(workspace / "new.csv", index=False)
    explained = json_of(run(workspace, "explain", "model", "--data", "new.csv", "--json"))
    assert [chain["label"] for chain in explained["chains"]] == [None, None]
    assert "true label" not in run(workspace, "explain", "model", "--data", "new.csv").stdout


def test_any_row_by_its_line_or_its_id(workspace: Path) -> None:
    frame = pd.read_csv(workspace / "patients.csv")
    found = run(workspace, "explain", "model", "--data", "patients.csv", *("--line", "17", "--line", "18"), "--json")
    assert problems(json_of(found), "chains-1") == []
    chains = json_of(found)["chains"]
    assert [(chain["line"], chain["label"]) for chain in chains] == [(n, frame["label"][n - 2]) for n in (17, 18)]
    arguments = ("explain", "model", "--data", "patients.csv", "--id", "patient 15", "--id-column", "note", "--json")
    (chain,) = json_of(run(workspace, *arguments))["chains"]
    assert (chain["id"], chain["label"], chain["n_asked"]) == ("patient 15", chains[0]["label"], chains[0]["n_asked"])
    assert chain["posterior"] == pytest.approx(chains[0]["posterior"], abs=1e-5)
    assert [step["answer"] for step in chain["steps"]] == [step["answer"] for step in chains[0]["steps"]]
    text = run(workspace, "explain", "model", "--data", "patients.csv", "--line", "17")
    assert f"Line 17, true label: {frame['label'][15]}" in text.stdout


def test_rows_trained_on_are_remarked_on(workspace: Path) -> None:
    unseen = unseen_rows(load(workspace / "model"), str(workspace / "patients.csv")).X.index
    trained = next(row for row in range(300) if row not in unseen)
    lines = [str(row + 2) for row in (trained, unseen[0])]
    done = run(workspace, "explain", "model", "--data", "patients.csv", "--line", lines[0], "--line", lines[1])
    assert f"The model was trained on line {lines[0]}, so it may be more certain here" in " ".join(done.stderr.split())
    assert "trained on" not in run(workspace, "explain", "model", "--data", "patients.csv", "--line", lines[1]).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--row", "60"], "Row 60 does not exist: rows are numbered from 0 to 59"),
        (["--figure", "chain.doc"], "png"),
        (["--line", "1"], "Line 1 is not a row of the file: its rows are in lines 2 to 301."),
        (["--line", "302"], "Line 302 is not a row of the file"),
        (["--id", "nobody", "--id-column", "note"], "No row of the file has note nobody."),
        (["--id", "yes", "--id-column", "fever"], "Several rows of the file have fever yes"),
        (["--id", "1"], "--id and --id-column belong together"),
        (["--id-column", "note"], "--id and --id-column belong together"),
        (["--row", "1", "--line", "3"], "use either --row, or --line and --id"),
    ],
)
def test_mistakes_get_one_sentence(workspace: Path, arguments: list[str], message: str) -> None:
    result = run(workspace, "explain", "model", "--data", "patients.csv", *arguments)
    assert_refused(result, message)


def test_the_chains_of_all_rows_are_written_share_by_share(workspace: Path, tmp_path: Path) -> None:
    arguments = ("explain", "model", "--data", "patients.csv", "--engine", "local", "--out", str(tmp_path / "chains"))
    done = run(workspace, *arguments, "--stop", "confidence=0.9", "--id-column", "note")
    assert done.returncode == 0, done.stderr
    assert "the chains of 300 rows in 1 files" in " ".join(done.stderr.split())
    table, frame = pd.read_parquet(tmp_path / "chains"), pd.read_csv(workspace / "patients.csv")
    assert table["note"].drop_duplicates().tolist() == frame["note"].tolist()
    (chain,) = load(workspace / "model").explain(frame[["fever", "where", "age"]][7:8], "confidence=0.9")
    steps = table[table["note"] == "patient 7"]
    assert steps["question"].tolist()[1:] == [step.name for step in chain.steps]
    assert steps["answer"].tolist()[1:] == [step.answer for step in chain.steps]
    assert steps["prediction"].iloc[-1] == chain.prediction
    without_engine = run(workspace, *arguments[:4], "--out", str(tmp_path / "c.csv"), "--stop", "confidence=0.9")
    assert without_engine.returncode == 0, without_engine.stderr
    assert len(pd.read_csv(tmp_path / "c.csv")) == len(table)
    again = run(workspace, *arguments, "--stop", "budget=1")
    assert "holds what came of another stop" in " ".join(again.stderr.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engine", "local"), "into a file or a folder: name it with --out, and leave out --row"),
        (("--engine", "local", "--out", "chains", "--row", "1"), "leave out --row"),
        (("--out", "chains", "--line", "2"), "leave out --row, --line"),
    ],
)
def test_all_rows_or_some(workspace: Path, options: tuple[str, ...], message: str) -> None:
    refused = run(workspace, "explain", "model", "--data", "patients.csv", *options)
    assert_refused(refused, message)
    assert not (workspace / "chains").exists()
