"""`pursuit report`, and the page of `pursuit explain`."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from exported import described
from json_schema import problems
from pages import check_page
from program import assert_refused, json_of, run
from pursuit.report.measured import MEASURED


def test_a_model_gets_a_page_and_json(workspace: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    arguments = ("report", "model", "--data", "patients.csv", "--out", str(page), "--depth", "2")
    written = json_of(run(workspace, *arguments, "--json"))
    assert problems(written, "report-1") == []
    assert written["evaluation"]["n_rows"] == written["tree"]["n_rows"] == 60
    shown = check_page(page.read_text(encoding="utf-8"))
    assert shown.under["h1"] == ["patients"]
    assert "It was trained on patients.csv" in shown.words


def test_a_row_gets_a_page(workspace: Path, tmp_path: Path) -> None:
    page = tmp_path / "row.html"
    done = run(workspace, "explain", "model", "--data", "patients.csv", "--line", "17", "--html", str(page), "--json")
    written = json_of(done)
    assert problems(written, "chains-1") == []
    shown = check_page(page.read_text(encoding="utf-8"))
    assert shown.under["h1"] == [written["chains"][0]["prediction"]]
    assert "Line 17." in shown.words
    assert "Measured on 60 rows of patients" in shown.words
    assert ("The model was trained on this row" in shown.words) == ("was trained on line 17" in done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [("report", ".", "--data", "patients.csv", "--out"), ("explain", ".", "--data", "patients.csv", "--html")],
)
def test_a_file_that_cannot_be_written_is_refused_at_once(workspace: Path, arguments: tuple[str, ...]) -> None:
    for name in ("report.pdf", "nowhere/report.html"):
        refused = run(workspace, *arguments, name)
        assert_refused(refused, f"{name} cannot be written: give a file that ends in .html")


def test_rows_without_labels_cannot_be_reported_on_but_explained(workspace: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(workspace / "patients.csv").drop(columns=["label", "note"])
    frame.head(2).to_csv(workspace / "nolabels.csv", index=False)
    refused = run(workspace, "report", "model", "--data", "nolabels.csv", "--out", str(tmp_path / "a.html"))
    assert "nolabels.csv has no labels to measure by" in " ".join(refused.stderr.split())
    page = tmp_path / "b.html"
    assert run(workspace, "explain", "model", "--data", "nolabels.csv", "--html", str(page)).returncode == 0
    assert "was not measured here" in check_page(page.read_text(encoding="utf-8")).words


def test_all_rows_are_measured_share_by_share_and_the_tree_is_that_of_the_first(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.read_csv(workspace / "patients.csv")
    for name, part in (("a", frame[:100]), ("b", frame[100:])):
        (tmp_path / "rows").mkdir(exist_ok=True)
        part.to_csv(tmp_path / "rows" / f"{name}.csv", index=False)
    monkeypatch.setattr("pursuit.cli.evaluate.TREE_ROWS", 130)
    page = tmp_path / "report.html"
    arguments = ("report", "model", "--data", str(tmp_path / "rows"), "--engine", "local", "--out", str(page))
    described = json_of(run(workspace, *arguments, "--keep", str(tmp_path / "counts"), "--json"))
    assert problems(described, "report-1") == []
    assert (described["evaluation"]["n_rows"], described["tree"]["n_rows"]) == (300, 130)
    shown = check_page(page.read_text(encoding="utf-8"))
    assert "It shows the first 130 of the 300 rows." in shown.words
    frame.assign(other=1).to_csv(tmp_path / "whole.csv", index=False)  # not the file it was trained on
    whole = run(workspace, "evaluate", "model", "--data", str(tmp_path / "whole.csv"), "--engine", "local", "--json")
    assert json_of(whole)["accuracy_by_asked"] == described["evaluation"]["accuracy_by_asked"]
    assert len(list((tmp_path / "counts").glob("counts-*"))) == 2


def test_what_cannot_be_measured_share_by_share_is_refused(workspace: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(workspace / "patients.csv").drop(columns=["label", "note"])
    frame.to_csv(tmp_path / "unlabelled.csv", index=False)
    for data, options, message in (
        ("patients.csv", ("--keep", "counts"), "--keep is for rows that are counted share by share"),
        (str(tmp_path / "unlabelled.csv"), ("--engine", "local"), "no labels to measure by: name their column"),
    ):
        for command in ("report", "evaluate"):
            refused = run(workspace, command, "model", "--data", data, *options)
            assert_refused(refused, message)


def test_what_was_measured_goes_with_the_model_wherever_it_is_shown(workspace: Path, tmp_path: Path) -> None:
    """Also of a model whose training measured nothing, and from any folder."""
    folder, page = tmp_path / "model", tmp_path / "page.html"
    shutil.copytree(workspace / "model", folder)
    (folder / MEASURED).unlink()
    assert run(tmp_path, "export", "model", "page.html").returncode == 0
    assert described(page)["experience"] is None
    data = str(workspace / "patients.csv")
    assert run(workspace, "report", str(folder), "--data", data, "--out", str(tmp_path / "a.html")).returncode == 0
    assert run(tmp_path, "export", "model", "page.html").returncode == 0
    assert described(page)["experience"]["n_rows"] == 60
    asked = run(tmp_path, "ask", "model", typed="\n" * 5).stdout
    assert "Measured: it was about as sure in" in asked
    assert run(tmp_path, "export", "model", "page.html", "--stop", "budget=1").returncode == 0
    assert described(page)["experience"] is None  # by another rule it was not measured
