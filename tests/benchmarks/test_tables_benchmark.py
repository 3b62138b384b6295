"""Tiny tables are measured run by run; what is measured is kept, and what takes too long is ended."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import runs
import table_data
import table_methods
import tables

MADE = "made"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=100)
    frame = pd.DataFrame({"a": y + rng.normal(size=100), "b": np.where(rng.random(100) < 0.5, "x", "y"), "label": y})
    folder = tmp_path / "data"
    folder.mkdir()
    frame.to_csv(folder / f"{MADE}.csv.gz", index=False)
    monkeypatch.setitem(table_data.TARGETS, MADE, "label")
    return folder


def run(data: Path, folder: Path, methods: str, *others: str) -> None:
    tables.main(
        [
            "--tables",
            MADE,
            "--seeds",
            "0,1",
            "--methods",
            methods,
            "--data",
            str(data),
            "--folder",
            str(folder),
            *others,
        ]
    )


def read(folder: Path, method: str, seed: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / MADE / f"{method}-{seed}.json").read_text())
    return found


def test_every_run_is_a_file_that_is_not_measured_again(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "found"
    run(data, folder, "naive-bayes,logistic", "--jobs", "2")
    names = sorted(path.name for path in (folder / MADE).iterdir())
    assert names == ["logistic-0.json", "logistic-1.json", "naive-bayes-0.json", "naive-bayes-1.json"]
    found = read(folder, "naive-bayes")
    assert found["shape"] == {"rows": 100, "test_rows": 20, "columns": 2, "labels": 2}
    assert found["source"] == runs.source_of_code()
    assert {"commit", "torch", "processor"} <= found["where"].keys()
    text = (folder / "tables.md").read_text()
    assert f"| {MADE} |" in text
    assert "4 of 4" in capsys.readouterr().out
    run(data, folder, "naive-bayes,logistic")
    assert " of 4)" not in capsys.readouterr().out  # nothing is left to measure
    # If our code changes, our methods are measured again, and only these
    monkeypatch.setattr(runs, "source_of_code", lambda: "another")
    run(data, folder, "naive-bayes,logistic", "--keep")
    assert read(folder, "naive-bayes")["source"] != "another"
    run(data, folder, "naive-bayes,logistic")
    assert read(folder, "naive-bayes")["source"] == "another"
    assert read(folder, "logistic")["source"] != "another"
    (folder / "tables.md").unlink()
    run(data, folder, "naive-bayes", "--page")
    assert (folder / "tables.md").read_text() == text


def test_settings_are_chosen_elsewhere_and_have_no_page(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "inner", "logistic", "--validation")
    assert read(tmp_path / "inner", "logistic")["shape"]["rows"] == 80
    assert not (tmp_path / "inner" / "tables.md").exists()


def test_what_takes_too_long_is_ended_and_not_tried_with_another_seed(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(*_: Any) -> None:
        end = time.process_time() + 60
        while time.process_time() < end:
            pass

    monkeypatch.setattr(tables, "measure", compute)
    start = time.perf_counter()
    run(data, tmp_path / "found", "forest", "--seconds", "0.5")
    assert time.perf_counter() - start < 30
    assert read(tmp_path / "found", "forest", 0)["not_run"] == "takes more than 0.5 s of computing"
    assert read(tmp_path / "found", "forest", 1)["not_run"] == "takes more than 0.5 s of computing"
    said = capsys.readouterr().out
    assert "forest, seed 0: takes more than 0.5 s of computing" in said
    assert "forest, seed 1" not in said
    (tmp_path / "found" / MADE / "forest-1.json").unlink()
    run(data, tmp_path / "found", "forest")
    assert read(tmp_path / "found", "forest", 1)["not_run"] == "takes more than 0.5 s of computing"


def test_what_fails_says_why_and_is_tried_with_every_seed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(method: str, rows: Any, seed: int) -> dict[str, Any]:
        if seed:
            return {"all_answers": 1.0}
        if method == "forest":
            raise MemoryError
        if method == "hgb":
            raise SystemExit(3)  # as a process that is killed
        raise ValueError("no such thing")

    monkeypatch.setattr(tables, "measure", fail)
    run(data, tmp_path / "found", "logistic,forest,hgb")
    assert read(tmp_path / "found", "logistic", 0)["not_run"] == "ValueError: no such thing"
    assert read(tmp_path / "found", "logistic", 1)["all_answers"] == 1.0
    assert read(tmp_path / "found", "forest", 1)["not_run"] == "needs more than 8 GB"
    assert read(tmp_path / "found", "hgb", 0)["not_run"] == "its process was killed"


def test_without_interpret_there_is_no_ebm(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_methods, "find_spec", lambda name: None)
    run(data, tmp_path / "found", "ebm,logistic")
    assert "pip install interpret-core" in capsys.readouterr().out
    assert not (tmp_path / "found" / MADE / "ebm-0.json").exists()
    assert (tmp_path / "found" / MADE / "logistic-0.json").exists()


def test_unknown_tables_and_methods_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option, name in (("--tables", "hart"), ("--methods", "xgboost")):
        with pytest.raises(SystemExit):
            tables.main([option, name, "--folder", str(tmp_path)])
        assert name in capsys.readouterr().err
