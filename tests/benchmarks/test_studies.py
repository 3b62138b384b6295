"""Every study: its runs are well-formed, its pages say what its results say, and its smallest run works."""

import os
from pathlib import Path

import pytest
from benchmarks.report import RESULTS, fill, significant
from benchmarks.runner import chosen, find_study, names

from pursuit.research.experiments.paper import PLAN

every_study = pytest.mark.parametrize("name", names())
PAPER = pytest.param("paper", marks=pytest.mark.slow)
"""It reads all runs of the paper's tables and figures."""
QUICK = {
    "calibration": ["heart"],
    "costs": ["heart", "naive-Bayes IP, bits per cost"],
    "guarantees": ["credit"],
    "known_world": ["V-IP"],
    "many_rows": ["plain batches"],
    "play": ["one in twenty wrong"],
    "regression": ["diabetes"],
    "speed": ["session"],
    "subsets": ["heart"],
    "tables": ["heart", "tree"],
}
"""Of studies that take seconds so, which runs."""


@every_study
def test_the_runs_are_all_different_and_have_settings_of_the_study(name: str) -> None:
    study = find_study(name)
    settings = [study.settings(run) for run in study.runs]
    assert all(run.keys() <= settings[0].keys() for run in study.runs)
    assert len({str(one) for one in settings}) == len(settings)
    assert study.quick.keys() <= study.settings({}).keys()


ALSO = {"paper": len(PLAN), "serving": 1, "many_rows": 1}
"""How many results there are besides those planned: by `pursuit reproduce paper`, or by `--run`."""


@every_study
def test_what_is_published_counts_as_done(name: str) -> None:
    study = find_study(name)
    planned = {study.key(run) for run in study.runs}
    others = [record for record in study.read() if study.key(record) not in planned]
    assert len(others) <= ALSO.get(study.name, 0)


@pytest.mark.parametrize("name", [PAPER if name == "paper" else name for name in names()])
def test_the_pages_say_what_was_measured(name: str) -> None:
    study = find_study(name)
    sections = study.page(study.read())
    assert sections
    for place, text in sections.items():
        page, _, mark = place.rpartition("#")
        path = RESULTS / (page or f"{study.name}.md")
        written = path.read_text(encoding="utf-8").split(f"<!-- {mark} -->\n")[1].split(f"<!-- end of {mark} -->")[0]
        assert written.rstrip() == text.rstrip(), f"python -m benchmarks {study.name} --page"


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_the_smallest_run_works(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import many_rows

    study = find_study(name)
    data = Path(os.environ.get("PURSUIT_DATA", "")) / "tables"
    if name in ("calibration", "costs", "guarantees", "subsets", "tables") and not data.exists():
        pytest.skip("there are no tables below $PURSUIT_DATA")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(many_rows, "TRAIN_ROWS", 300)
    run = {**chosen(study.runs, [], None)[0], **study.quick}
    for planned in study.runs:
        if all(word in map(str, {**planned, **study.quick}.values()) for word in QUICK[name]):
            run = {**planned, **study.quick}
            break
    found = significant(study.measure(**run))
    study.write(run, {**run, **found, "where": {"commit": "none"}}, tmp_path)
    assert study.key(run) in map(study.key, study.read(tmp_path))
    assert all(isinstance(text, str) for text in study.page(study.read(tmp_path)).values())


def test_only_what_is_between_the_marks_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("by hand\n<!-- a -->\nold\n<!-- end of a -->\nafter\n")
    fill(page, {"a": "new"})
    assert page.read_text() == "by hand\n<!-- a -->\nnew\n<!-- end of a -->\nafter\n"
    with pytest.raises(ValueError, match="must have the lines"):
        fill(page, {"b": "new"})
