"""What pages conclude follows from the figures: other figures, other words."""

import numpy as np
import pytest
from benchmarks.report import grid, grouped, met, spread

from pursuit.methods import METHODS


def test_goals_are_met_or_missed_by_the_figures() -> None:
    from benchmarks import tables

    assert [met(None), met(0.5, least=0.5), met(0.4, least=0.5), met(2, most=1)] == [
        "not measured",
        "met",
        "**missed**",
        "**missed**",
    ]
    behind = {"heart": -0.02, "bank": 0.015}
    assert tables.goal("", behind, ".3f", mean_most=0.01)[2] == "met"
    assert tables.goal("", behind, ".3f", most=0.01)[1:] == ["-0.003 on average, 0.015 at most (bank)", "**missed**"]
    assert tables.goal("", {}, ".3f", 0.0)[2] == "not measured"


def test_the_paper_is_judged_by_two_standard_errors() -> None:
    from benchmarks import paper

    assert paper.verdict(0.90, [0.90, 0.92], 10_000) == "level"
    assert paper.verdict(0.85, [0.90, 0.901], 10_000) == "ahead"
    assert paper.verdict(0.95, [0.90, 0.901], 10_000) == "behind"
    assert paper.verdict(0.95, [0.90], 50) == "level"  # so few rows prove nothing
    assert paper.verdict(0.95, [0.90, 0.901], 50) == "level"
    assert paper.verdict(0.95, [0.90, 0.901], None) == "behind"  # by seeds alone


def test_a_part_of_a_published_recipe_is_not_said_to_be_behind_as_the_whole_is() -> None:
    from benchmarks import paper
    from pursuit.research.experiments.paper import PLAN

    part, whole = (paper.way(task, querier="straight-through", recipe="paper") for task in ("fashion-mnist", "mnist"))
    done = paper.read_records(paper.FOLDER, tuple(run for run in PLAN if run in (part, whole)))
    partly, wholly = (paper.cell_text(paper.Cell(0.999, "all answers", one), done) for one in (part, whole))
    assert partly.endswith(rf"at effort 0.2 \| 1 \| {paper.PARTLY}")
    assert wholly.endswith(r"\| behind")
    assert "recipe `paper` at effort 0.2" in paper.otherwise_table(done)
    counts = paper.counts_table(done)
    assert "seeds alone" not in counts  # no cell has several
    assert "| 2 (2) |" in counts.splitlines()[-1]


def test_accuracy_at_a_length_is_that_of_the_levels_next_in_length() -> None:
    from benchmarks import paper

    assert paper.accuracy_at(1, [0, 2], [0.5, 0.9]) == pytest.approx(0.7)
    assert paper.accuracy_at(3, [0, 2], [0.5, 0.9]) is None  # as where a recipe ends all chains sooner
    assert paper.accuracy_at(1, [], []) is None


def test_the_page_of_the_paper_needs_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import paper

    monkeypatch.setattr(paper, "read_records", lambda folder: {})
    sections = paper.page([])
    assert "not run" in sections["table 2"]
    assert sections["verdicts"].splitlines()[2].split(" | ")[1:6] == ["0 (0)"] * 5
    assert all(len(sections[name].splitlines()) == 2 for name in ("axis", "exact", "temperature"))
    assert sections["left"].startswith("Not done: `cub-gpu-straight-through-querier` (5 seeds), ")


def test_the_strongest_run_of_a_rival_stands_in_its_cell() -> None:
    from benchmarks import paper
    from pursuit.research.experiments.paper import PLAN

    first, longest = paper.way("symcat-200", "refuel"), paper.strongest_first("symcat-200", "refuel")[0]
    assert first is not None
    assert (first.recipe, first.effort, longest.recipe, longest.effort) == ("gpu", 0.2, "fast", 30.0)
    result = paper.read_records(paper.FOLDER, tuple(run for run in PLAN if run == first))[first]
    cell = paper.medical_row("symcat-200")[2]
    assert "at effort 0.2" in paper.cell_text(cell, {first: result})
    assert "at effort 30" in paper.cell_text(cell, {first: result, longest: result})
    assert (
        paper.longer_table({longest: result}).count("48.0 million") == 5
    )  # by two recipes, of two rivals, and BSODA's
    bsoda = paper.strongest_first("symcat-200", "partial-vae")[0]
    assert (bsoda.published, bsoda.recipe, bsoda.effort) == (True, "fast", 30.0)
    assert "BSODA's reward" in paper.longer_table({bsoda: result})


def test_areas_are_compared_over_an_axis_that_one_of_them_sets() -> None:
    from benchmarks import paper
    from pursuit.research.experiments.paper import PLAN

    straight, ram = paper.way("cub"), paper.way("cub", "ram")
    done = paper.read_records(paper.FOLDER, tuple(run for run in PLAN if run in (straight, ram)))
    lines = paper.axis_table(done).splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == ["Random", paper.STRAIGHT]
    assert [line.count("sets the axis") for line in lines] == [1, 1]


@pytest.mark.slow
def test_trees_are_chosen_on_held_out_rows_and_ask_columns_once() -> None:
    from benchmarks import tables

    trees = [
        {"cv_asked": 1.0, "cv_accuracy": 0.7, "asked": 1.0, "accuracy": 0.9},
        {"cv_asked": 2.0, "cv_accuracy": 0.8, "asked": 2.0, "accuracy": 0.6},
    ]
    assert tables.best_tree(trees) is trees[1]
    assert tables.best_tree(trees, 1.5) is trees[0]
    assert tables.best_tree(trees, 0.5) is None
    assert tables.accuracy_at([(0, 0.5), (2, 0.9)], 1) == pytest.approx(0.7)
    X, y = np.arange(24.0)[:, None], np.arange(24) // 6  # one column, split again and again, is one question
    found = tables.measure_trees(X, y, X, y, np.array([0]), 0)
    assert max(tree["asked"] for tree in found) == 1
    assert found[-1]["depth"] == 1_000


def test_a_grid_shows_means_and_deviations_of_what_there_is() -> None:
    records = [{"a": "x", "b": {"c": 1.0}}, {"a": "x", "b": {"c": 2.0}}, {"a": "y"}]
    assert grid(grouped(records, "a"), {"mean": "b.c|.1f±", "n": len}, "a").splitlines()[2:] == [
        "| x | 1.5 ± 0.7 | 2 |",
        "| y | – | 1 |",
    ]
    assert [spread([1234.5], "figure"), spread([0.25, 0.25], ".0%"), spread([])] == ["1,234", "25%", "–"]


@pytest.mark.slow
def test_rows_are_drawn_once_and_measured_all(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import many_rows
    from pursuit.tables.engine import Local

    monkeypatch.setattr(many_rows, "FILE_ROWS", 1500)
    rows = many_rows.drawn(4000, tmp_path)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "4000-rows").iterdir()}
    many_rows.drawn(4000, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "4000-rows").iterdir()} == files
    assert len(files) == 3
    few = many_rows.draw(300, 0)
    model = METHODS["naive-bayes"].build(random_state=0, stop="confidence=0.9")
    model.fit(few[many_rows.COLUMNS], few["disease"].astype(str))
    found = many_rows.evaluated(model, rows, Local())
    assert found["rows"] == 4000
    assert found["accuracy"] > 0.8  # counting is enough for these rows, on any machine


@pytest.mark.slow
def test_legends_of_the_paper_lie_on_no_curve() -> None:
    from matplotlib.figure import Figure

    from benchmarks import paper

    figure = Figure(figsize=(4, 3.5))
    axes = figure.subplots()
    (panel,) = (panel for panel in paper.FIGURES["figure-5"] if panel.task == "symcat-200")
    paper.draw_panel(axes, panel, paper.read_records(paper.FOLDER))
    legend = axes.get_legend()
    assert legend is not None
    figure.draw_without_rendering()
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
