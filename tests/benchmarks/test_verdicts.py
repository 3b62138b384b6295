"""What pages conclude follows from the figures: other figures, other words."""

import numpy as np
import pytest
from benchmarks.report import grid, grouped, met, spread

from benchmarks import comparison, growth, many_rows, paper, tables
from pursuit.evaluation.curves import Evaluation
from pursuit.research.experiments.results import MethodResults, Result, Results

TITLES = {
    "vip": "V-IP",
    "random": "random order",
    "fixed": "fixed order",
    "gdfs": "GDFS",
    "exact": "exact IP",
    "all-answers": "all answers",
}


def made(n_queries: int = 12, **curves: list[list[float]]) -> Results:
    """Methods with the accuracies of their seeds after 0, 1, 2 … queries."""
    found = {}
    for name, seeds in curves.items():
        name = name.replace("_", "-")
        results = [
            Result({}, name, seed, 9, 9, 1.0, Evaluation(9, n_queries, curve, area, curve, area, 1.0, None), {}, {})
            for seed, curve in enumerate(seeds)
            if (area := sum(curve[1:]) / (len(curve) - 1)) is not None
        ]
        found[name] = MethodResults.of(TITLES[name], results)
    return Results({"task": "made"}, found)


def curve(after_1: float, later: float, longest: int = 6) -> list[float]:
    return [0.1, after_1, *[later] * (longest - 1)]


def test_the_figures_decide_who_leads() -> None:
    others = {"random": [curve(0.2, 0.3)] * 2, "exact": [curve(0.9, 0.9)], "all_answers": [curve(0.1, 0.1)]}
    ahead = comparison.standings(made(vip=[curve(0.3, 0.8), curve(0.3, 0.82)], gdfs=[curve(0.4, 0.5)] * 2, **others))
    assert ahead.startswith(
        "Area to 6 of 12 queries: V-IP has the highest, 0.725; then GDFS 0.483, 0.242 behind (more than two standard "
        "errors over seeds)."
    )
    assert "Highest after 1 query: GDFS (0.400 against 0.300 of V-IP); after 5 queries: V-IP." in ahead
    assert "None is behind random order." in ahead
    behind = comparison.standings(
        made(vip=[curve(0.3, 0.4)], gdfs=[curve(0.1, 0.1)], fixed=[curve(0.4, 0.5)], **others)
    )
    assert "fixed order has the highest, 0.483; then V-IP 0.383, 0.100 behind (one seed)." in behind
    assert "Highest after 1 and 5 queries: fixed order (0.400 against 0.300, 0.500 against 0.400 of V-IP)." in behind
    assert "Behind random order: GDFS." in behind
    assert "exact IP" not in ahead + behind  # which does not learn


def test_seeds_that_vary_leave_the_lead_open() -> None:
    text = comparison.standings(
        made(6, vip=[curve(0.3, 0.5), curve(0.3, 0.9)], gdfs=[curve(0.3, 0.6), curve(0.3, 0.7)])
    )
    assert text.startswith("Area to 6 queries: V-IP has the highest")
    assert "(within two standard errors over seeds)" in text


def test_v_ip_is_placed_even_if_it_is_third() -> None:
    text = comparison.standings(made(vip=[curve(0.1, 0.2)], gdfs=[curve(0.3, 0.4)], fixed=[curve(0.3, 0.5)]))
    assert "then GDFS 0.383, 0.083 behind (one seed); V-IP 0.183, 0.283 behind (one seed)." in text


def test_what_was_not_measured_is_named() -> None:
    text = comparison.standings(made(vip=[curve(0.1, 0.2)], random=[curve(0.1, 0.1)]))
    assert "Not measured: DIME, G-IP, GDFS, " in text
    assert "RAM and RAM+" in text or "RAM, RAM+" in text
    assert "V-IP by information" not in text
    assert "all answers" not in text  # which has no curve to lead with
    assert "only V-IP was measured (0.183)" in comparison.standings(made(vip=[curve(0.1, 0.2)]))


def test_goals_are_met_or_missed_by_the_figures() -> None:
    assert [met(None), met(0.5, least=0.5), met(0.4, least=0.5), met(2, most=1)] == [
        "not measured",
        "met",
        "**missed**",
        "**missed**",
    ]
    gaps = {"heart": 0.02, "bank": -0.015}
    assert tables.gap_goal("", gaps, mean_least=-0.01)[2] == "met"
    assert tables.gap_goal("", gaps, least=-0.01)[1:] == (
        "+0.3 points on average, -1.5 at worst (bank); missed on bank",
        "**missed**",
    )
    assert tables.gap_goal("", {}, 0.0)[2] == "not measured"
    assert tables.most_goal("", {"a": 0.01, "b": 0.06}, ".2f", 0.05)[1:] == ("missed on b 0.06", "**missed**")
    assert tables.most_goal("", {"a": 0.01, "b": 0.04}, ".2f", 0.05)[1:] == ("0.04 at most (b)", "met")


def test_the_paper_is_judged_by_two_standard_errors() -> None:
    assert paper.verdict(0.90, [0.90, 0.92], 10_000) == "level"
    assert paper.verdict(0.85, [0.90, 0.901], 10_000) == "ahead"
    assert paper.verdict(0.95, [0.90, 0.901], 10_000) == "behind"
    assert paper.verdict(0.95, [0.90], 50) == "level"  # so few rows prove nothing


def test_trees_are_chosen_on_held_out_rows_and_ask_columns_once() -> None:
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


def test_growth_and_the_price_of_a_step_are_found_again() -> None:
    points = [
        {"value": n, "histories_per_second": 1 / n, "start_seconds": 1, "rows_per_second": 1, "all_steps_us": None}
        | {"p50_ms": n**2, "p99_ms": 1, "peak_of_training_mb": 1, "peak_mb": 1}
        for n in (10, 100)
    ]
    (powers,) = growth.exponents(points)
    assert (powers["training"], powers["session"], powers["start"]) == pytest.approx((1, 2, 0))
    assert "all_steps" not in powers
    sizes = [
        {"queries": q, "labels": c, "seconds": 5e-6 + 8e-8 * q + 5e-9 * q * c, "model_bytes": 1}
        for q in (20, 1000, 10_000)
        for c in (2, 100)
    ]
    assert np.allclose(many_rows.fitted(sizes), [5e-6, 8e-8, 5e-9])
    assert many_rows.foretold(sizes, 10_000, 1000) == pytest.approx(5e-6 + 8e-4 + 5e-2)
    assert "50,851 ms" in many_rows.reckoned(sizes) or "51 ms a step" in many_rows.reckoned(sizes)


def test_a_grid_shows_means_and_deviations_of_what_there_is() -> None:
    records = [{"a": "x", "b": {"c": 1.0}}, {"a": "x", "b": {"c": 2.0}}, {"a": "y"}]
    assert grid(grouped(records, "a"), {"mean": "b.c|.1f±", "n": len}, "a").splitlines()[2:] == [
        "| x | 1.5 ± 0.7 | 2 |",
        "| y | – | 1 |",
    ]
    assert [spread([1234.5], "figure"), spread([0.25, 0.25], ".0%"), spread([])] == ["1,234", "25%", "–"]


def test_rows_are_drawn_once_and_measured_all(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pursuit.tables.engine import Local

    monkeypatch.setattr(many_rows, "FILE_ROWS", 1500)
    rows = many_rows.drawn(4000, tmp_path)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "4000-rows").iterdir()}
    many_rows.drawn(4000, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "4000-rows").iterdir()} == files
    assert len(files) == 3
    few = many_rows.draw(300, 0)
    model = comparison.METHODS["naive-bayes"].build(random_state=0, stop="confidence=0.9")
    model.fit(few[many_rows.COLUMNS], few["disease"].astype(str))
    found = many_rows.evaluated(model, rows, Local())
    assert found["rows"] == 4000
    assert found["accuracy"] > 0.8  # counting is enough for these rows, on any machine
