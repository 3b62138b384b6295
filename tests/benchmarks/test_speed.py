"""The comparison of speed runs from end to end at toy sizes, and its page says what was measured."""

import json
import sys
from pathlib import Path

import pytest
import torch

import speed
from pursuit.inference.stopping import Standing
from report import RESULTS


@pytest.mark.programs
def test_the_program_measures_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["speed.py", "--quick", "--into", str(tmp_path)])
    speed.main()
    measured = json.loads((tmp_path / "speed.json").read_text())
    shown = [(case["task"], case["histories"], case["batch_size"]) for case in measured["training"]]
    biased = "biased, up to 3 queries"
    assert shown == [("mnist", "random", 4), ("symcat-200", "random", 4), ("mnist", biased, 4), ("huffpost", biased, 4)]
    for case in measured["training"]:
        assert case["ratio"] == pytest.approx(case["library"] / case["per_row"], rel=1e-3)
    assert [case["task"] for case in measured["evaluation"]] == ["digits", "mnist"]
    assert [case["recipe"] for case in measured["session"]] == ["paper", "fast"]
    assert measured["session"][0]["library"]["steps"] == 6
    assert [goal["by"]["library"] is None for goal in measured["quality"]["goals"]] == [False, True]
    page = (tmp_path / "speed.md").read_text()
    assert page == speed.page(measured)
    assert "PaperConv()" in page
    assert "| 1.01 | not reached | not reached | not reached | – |" in page
    assert f"- torch: {torch.__version__}" in page


def test_goals_are_compared_with_what_was_measured() -> None:
    assert speed._against(1.3, 1.3) == "1.3, met"
    assert speed._against(50, 49.9) == "50, missed"


def test_cases_are_those_that_were_promised() -> None:
    wanted = {(case.task, case.max_queries): case.goal for case in speed.TRAINING}
    assert wanted == {("mnist", None): 1.3, ("symcat-200", None): 3, ("mnist", 21): 6, ("huffpost", 999): 50}


def test_given_lengths_stop_rows_where_looking_back_does() -> None:
    rule = speed.GivenLengths(torch.tensor([2, 0, 5]))
    memory = rule.start(3)
    stops = []
    for n in range(6):
        asked = torch.full((3,), n)
        enough, memory = rule.step(memory, Standing(torch.zeros(3, 2), asked, asked, asked))
        stops.append(enough)
    looked_back = rule.looking_back(torch.zeros(3, 6, 2))
    assert torch.equal(torch.stack(stops, dim=1), looked_back)
    assert looked_back.float().argmax(dim=1).tolist() == [2, 0, 5]


def test_the_page_shows_what_was_measured() -> None:
    if not (RESULTS / "speed.json").exists():
        pytest.skip("speed was not measured yet")
    measured = json.loads((RESULTS / "speed.json").read_text())
    assert speed.page(measured) == (RESULTS / "speed.md").read_text(encoding="utf-8")
