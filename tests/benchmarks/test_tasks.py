"""The page of the paper's tasks is written from results folders of `pursuit reproduce`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import tasks
from pursuit.experiments import reproduce as experiment
from pursuit.experiments.reproduce import Reproduction, reproduce
from pursuit.experiments.results import Results
from pursuit.tasks import find_recipe


def test_a_results_folder_is_added_to_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(experiment, "N_CHAINS", 0)
    short = replace(find_recipe("digits").scaled(0.005), max_queries=20)
    for options in ((), ("effort 0.005",)):
        results = reproduce(Reproduction("digits", "fast", short, options=options), tmp_path / "run")
        tasks.add(tmp_path / "run")
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {
        "digits-fast.json",
        "digits-fast-curve.png",
        "digits-fast-effort-0.005.json",
        "digits-fast-effort-0.005-curve.png",
    }
    kept = Results.from_dict(json.loads((tmp_path / "kept" / "digits-fast-effort-0.005.json").read_text()))
    assert kept.run == results.run
    assert list(tasks.runs()) == ["digits-fast", "digits-fast-effort-0.005"]  # ablations last
    page = tasks.page()
    assert "| digits | fast (effort 0.005) |" in page
    assert "![accuracy against queries, digits-fast](tasks/digits-fast-curve.png)" in page
    assert "| digits" not in tasks.readme_section()  # an embedded task
