"""`pursuit evaluate`."""

import json
from pathlib import Path

import pandas as pd
import pytest

from program import assert_refused, json_of, run
from pursuit import load


def test_everything_that_is_measured_is_printed(workspace: Path) -> None:
    arguments = ("evaluate", "model", "--data", "patients.csv", "--stop", "confidence=0.9", "--json")
    done = run(workspace, *arguments)
    result = json_of(done)
    assert result["task"] == "patients"
    assert result["n_rows"] == 60
    assert result["n_queries"] == 3
    curve = result["accuracy_by_asked"]
    assert len(curve) == 4
    assert result["area"] == pytest.approx(sum(curve[1:]) / 3)
    assert result["accuracy_all_answers"] > 0.9
    assert result["at_stop"]["rule"] == "confidence=0.9"
    assert {"mean_asked", "accuracy"} <= result["at_stop"].keys()
    assert "only the 60 held-out rows are used" in " ".join(done.stderr.split())
    shown = " ".join(run(workspace, *arguments[:-1]).stdout.split())
    assert "patients: 60 rows, 3 queries" in shown
    assert f"accuracy {result['at_stop']['accuracy']:.3f} (95 % interval" in shown


def test_no_more_than_the_most_queries_are_asked(workspace: Path) -> None:
    result = json_of(run(workspace, "evaluate", "model", "--data", "patients.csv", "--max-queries", "1", "--json"))
    assert len(result["accuracy_by_asked"]) == 2
    own = load(workspace / "model").stop_
    assert str(own).startswith("confidence=")
    assert result["at_stop"]["rule"] == f"{own},budget=1"


def test_rows_without_labels_cannot_be_measured(workspace: Path) -> None:
    frame = pd.read_csv(workspace / "patients.csv").drop(columns=["label", "note"])
    frame.head(2).to_csv(workspace / "unlabelled.csv", index=False)
    refused = run(workspace, "evaluate", "model", "--data", "unlabelled.csv")
    assert_refused(refused, "unlabelled.csv has no labels to measure by: name their column with --target.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--data", "animals"], "no model folder nowhere"),
        (["model", "--data", "animals"], "trained on patients and asks other queries than those of animals"),
        (["model", "--data", "patients.csv", "--target", "nothing"], "no column 'nothing'"),
    ],
)
def test_mistakes_get_one_sentence(workspace: Path, arguments: list[str], message: str) -> None:
    result = run(workspace, "evaluate", *arguments)
    assert_refused(result, message)


def test_classes_and_questions_are_shown_and_written(workspace: Path, tmp_path: Path) -> None:
    arguments = ("evaluate", "model", "--data", "patients.csv", "--stop", "confidence=0.9")
    written, folder = tmp_path / "result.json", tmp_path / "figures"
    done = run(workspace, *arguments, "--out", str(written), "--figures", str(folder))
    assert done.returncode == 0, done.stderr
    result = json.loads(written.read_text())
    assert result == json_of(run(workspace, *arguments, "--json"))
    assert [one["label"] for one in result["by_class"]["classes"]] == ["flu", "gastritis", "migraine"]
    assert sum(map(sum, result["by_class"]["confusion"])) == 60
    shown = [" ".join(line.replace("│", " ").split()) for line in done.stdout.splitlines()]
    flu, first = result["by_class"]["classes"][0], result["questions"][0]
    assert f"flu {flu['n_rows']} {flu['precision']:.3f} {flu['recall']:.3f} {flu['f1']:.3f}" in " ".join(shown)
    assert " ".join(["flu", *(str(n) if n else "·" for n in result["by_class"]["confusion"][0])]) in shown
    assert any(line.startswith(f"{first['name']} {first['share_asked']:.0%}") for line in shown)
    assert {path.name for path in folder.iterdir()} == {"curve.png", "confusion.png", "reliability.png"}
    table = tmp_path / "questions.csv"
    assert run(workspace, *arguments, "--out", str(table)).returncode == 0
    assert pd.read_csv(table)["share_asked"].tolist() == [use["share_asked"] for use in result["questions"]]


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(workspace: Path) -> None:
    for name in ("result.txt", "nowhere/result.json"):
        refused = run(workspace, "evaluate", ".", "--data", "patients.csv", "--out", name)
        assert f"{name} cannot be written: give a file that ends in .json or .csv" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--target", "label"), marks=pytest.mark.slow), ("--max-queries", "2")]
)
def test_what_is_measured_does_not_depend_on_the_engine(workspace: Path, options: tuple[str, ...]) -> None:
    frame = pd.read_csv(workspace / "patients.csv")
    frame.loc[[3, 7], "label"] = [None, "boredom"]
    frame.to_csv(workspace / "others.csv", index=False)
    for data, n_rows in (("patients.csv", 60), ("others.csv", 298)):
        arguments = ("evaluate", "model", "--data", data, *options, "--json")
        here, by_shares = run(workspace, *arguments), run(workspace, *arguments, "--engine", "local")
        assert json_of(here) == json_of(by_shares)
        assert json_of(here)["n_rows"] == n_rows
        assert all(("Left out: " in done.stderr) == (data == "others.csv") for done in (here, by_shares))


def test_a_class_without_rows_has_no_scores(workspace: Path) -> None:
    frame = pd.read_csv(workspace / "patients.csv")
    frame[frame["label"] != "flu"].to_csv(workspace / "no-flu.csv", index=False)
    shown = run(workspace, "evaluate", "model", "--data", "no-flu.csv").stdout.splitlines()
    (line,) = [line for line in shown if line.replace("│", " ").split()[:2] == ["flu", "0"]]
    assert line.replace("│", " ").split() == ["flu", "0"]
