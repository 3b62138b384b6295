"""The page of the paper's tasks is written from results folders of `pursuit reproduce`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import task_figures
import task_tables
import tasks
from pursuit.evaluation.curves import AtStop, Evaluation
from pursuit.evaluation.figures import new_figure, save_figure
from pursuit.evaluation.protocols import AtProtocol
from pursuit.experiments import reproduce as experiment
from pursuit.experiments.beside import EXACT_IP
from pursuit.experiments.reproduce import Reproduction, reproduce
from pursuit.experiments.results import Beside, MethodResults, Result, Results
from pursuit.tasks import find_recipe
from report import OVERVIEW, RESULTS


def test_the_pages_say_what_the_files_say() -> None:
    assert (RESULTS / "tasks.md").read_text(encoding="utf-8") == tasks.page()
    assert tasks.overview_section() in OVERVIEW.read_text(encoding="utf-8")


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
    assert "| digits" not in tasks.overview_section()  # an embedded task
    assert f"| digits-fast | {kept_accuracy(results)} |" in page  # V-IP and its black box, with all answers
    monkeypatch.setattr(task_figures, "IMAGES", tmp_path / "images")
    drawn = task_figures.draw(tmp_path / "run", "digits-fast")
    assert [path.name for path in drawn] == ["digits-fast-chain.png", "digits-fast-asked.png"]
    assert all(0 < path.stat().st_size <= task_figures.MOST_BYTES for path in drawn)
    page = tasks.page()
    assert "![a chain, digits-fast](../images/tasks/digits-fast-chain.png)" in page
    assert "![what is asked when, digits-fast](../images/tasks/digits-fast-asked.png)" in page


def kept_accuracy(results: Results) -> str:
    vip, box = (results.methods[name].seeds[0].evaluation.accuracy_all_answers for name in ("vip", "all-answers"))
    return f"{vip:.3f} | {box:.3f} | {vip - box:+.3f}"


def test_a_large_figure_is_made_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = new_figure(4, 4, "made")
    figure.add_subplot().imshow(np.random.default_rng(0).random((400, 400)))
    save_figure(figure, tmp_path / "noise.png")
    before = (tmp_path / "noise.png").stat().st_size
    assert before > task_figures.MOST_BYTES
    task_figures._shrink(figure, tmp_path / "noise.png")
    assert (tmp_path / "noise.png").stat().st_size <= task_figures.MOST_BYTES


def made(task: str, *protocols: AtProtocol, exact_at_20: tuple[float, ...] = ()) -> Results:
    """V-IP that is right in 0.6 of the rows after 20 queries, with two seeds."""
    curve = [0.02 * n + 0.2 for n in range(31)]
    stop = AtStop("confidence=0.9", 6.5, 6.5, 6.5, 0.7, (0.6, 0.8), 0.9, 0.01)
    where = {"commit": "abc1234", "device": "CPU", "machine": "one", "torch": "2", "python": "3"}
    seeds = []
    for seed in (0, 1):
        evaluation = Evaluation(1000, 60, curve, 0.5, curve, 0.5, 0.9, stop)
        beside = {EXACT_IP: Beside([*curve[:20], exact_at_20[seed]], 0.6, 0.9)} if exact_at_20 else {}
        seeds.append(Result({}, "vip", seed, 10, 1000, 1.0, evaluation, where, {}, n_histories=5, beside=beside))
        seeds[-1] = replace(seeds[-1], protocols=list(protocols))
    run = {"task": task, "recipe": "fast", "options": [], "measured_on": "test rows"}
    return Results(run, {"vip": MethodResults.of("V-IP", seeds)})


def test_protocols_that_were_measured_stand_on_the_page_and_in_the_readme() -> None:
    older = made("mnist")
    assert "| mnist-fast | no cap | not measured | – |" in task_tables.protocol_table({"mnist-fast": older})
    assert "picked on test rows" in task_tables.headlines(older)[0][0]
    found = [
        AtProtocol("no cap", 0.93, 6.34, 6.33, 6000, 6.41, 0.975, 0.0),
        AtProtocol("at most 40", 0.94, 6.34, 6.34, 6000, 6.38, 0.976, 0.01),
    ]
    measured = made("mnist", *found)
    text = task_tables.protocol_table({"mnist-fast": measured})
    assert "| mnist-fast | no cap | 0.9300 | 6.33 | 6.41 | 0.0% | 0.975 | " in text
    assert "| mnist-fast | at most 40 | 0.9400 | 6.34 | 6.38 | 1.0% | 0.976 | " in text
    assert text.count("not measured") == 1  # the released code's
    assert task_tables.headlines(measured) == [("6.41 (no cap)", "0.975"), ("6.38 (at most 40)", "0.976")]
    assert "cub" not in task_tables.protocol_table({"cub-fast": made("cub")})


def test_symcat_is_judged_by_its_gap_to_exact_pursuit() -> None:
    results = made("symcat-200", exact_at_20=(0.62, 0.66))
    assert task_tables.gap_to_exact(results) == "0.040 ± 0.028"
    text = task_tables.exact_table({"symcat-200-fast": results})
    assert "| 0.040 ± 0.028 | 0.681 after 20 (not comparable) |" in text
    assert task_tables.gap_to_exact(made("symcat-200")) == ""


def test_small_test_sets_have_an_interval_over_seeds_and_rows() -> None:
    results = made("muzhi")
    assert "| muzhi-fast |" not in task_tables.interval_table({"muzhi-fast": results})  # 1,000 rows are not few
    seeds = [replace(seed, n_test=142) for seed in results.methods["vip"].seeds]
    few = Results(results.run, {"vip": MethodResults.of("V-IP", seeds)})
    low, high = few.worked["vip"][1].accuracy_after[20].interval or (0, 0)
    text = task_tables.interval_table({"muzhi-fast": few})
    assert f"| muzhi-fast | 2 | 142 | 0.600 | 0.000 | {low:.3f} to {high:.3f} |" in text
