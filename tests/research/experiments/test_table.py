"""What a comparison shows of its numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pursuit.evaluation.calibration import seeds_and_rows_interval
from pursuit.evaluation.curves import AtStop, Evaluation
from pursuit.research.experiments.results import (
    Failure,
    MethodResults,
    Result,
    Results,
    cells,
    draw_curves,
    header,
    in_brief,
    markdown_table,
    remark,
)


def seed_of(seed: int, accuracy: float, longest: int = 12, n_test: int = 200, **changes: Any) -> Result:
    asked = 10 * accuracy
    stop = AtStop("confidence=0.9", asked, asked, asked, accuracy / 4, (0.0, 1.0), 0.9, 0.01)
    curve = [accuracy * n / longest for n in range(longest + 1)]
    result = Result(
        run={"task": "made"},
        method="vip",
        seed=seed,
        n_train=1000,
        n_test=n_test,
        training_seconds=60.0,
        evaluation=Evaluation(n_test, longest, curve, accuracy / 2, curve, accuracy / 2, accuracy, stop),
        provenance={"device": "CPU", "machine": "x86_64, 2 CPU threads", "commit": "abc1234"},
        notes={},
        step_milliseconds=1.5,
    )
    return replace(result, **changes)


def method_of(title: str, seeds: list[Result], *errors: str) -> MethodResults:
    return MethodResults.of(title, [*seeds, *(Failure(9, error) for error in errors)])


def results_of(**methods: MethodResults) -> Results:
    named = {name.replace("_", "-"): method for name, method in methods.items()}
    return Results({"task": "made", "measured_on": "test rows"}, named)


def split(row: str) -> list[str]:
    assert row.startswith("| ")
    assert row.endswith(" |")
    return row[2:-2].split(" | ")


def test_every_row_has_as_many_cells_as_the_header() -> None:
    seeds = [seed_of(0, 0.8), seed_of(1, 0.6)]
    results = results_of(
        vip=method_of("V-IP", seeds),
        random=method_of("random order", seeds[:1], "ValueError: too | late"),
        all_answers=method_of("all answers", seeds),
        tree=method_of("decision tree", [], "TypeError: " + "very " * 100 + "long", "TypeError: another"),
    )
    lines = markdown_table(results).splitlines()
    titles, rule, vip, random, everything, tree = (split(line) for line in lines[:6])
    assert len(titles) == len(rule) == len(vip) == len(random) == len(everything) == len(tree) == 11
    assert titles[4] == "area to 12"
    low, high = seeds_and_rows_interval([0.2, 0.15], 200)
    assert vip[0:2] == ["V-IP", "0.292 ± 0.059"]
    assert vip[3] == "–"
    assert vip[5:9] == ["7.00", f"0.175 ± 0.035 ({low:.3f} to {high:.3f})", "0.700 ± 0.141", "60 s"]
    assert vip[9:] == ["1.5", "2"]
    assert random[-1] == r"1 of 2 (failed: ValueError: too \| late)"
    assert everything[:8] == ["all answers", *["–"] * 6, "0.700 ± 0.141"]
    assert tree[1].startswith("failed: TypeError: very very")
    assert tree[1].endswith("…; TypeError: another")
    assert tree[2:] == [*["–"] * 8, "0"]
    assert "After ±" in "\n".join(lines)
    assert list(results.worked) == ["vip", "random", "all-answers"]
    for name in results.methods:
        assert len(cells(results, name, in_full=False)) == len(header(results, in_full=False)) == 11
    assert cells(results, "vip", in_full=False)[6] == "0.175"


def with_costs(seed: Result) -> Result:
    """Where an answer in four is missing, and a query costs 3 on average."""
    evaluation, stop = seed.evaluation, seed.evaluation.at_stop
    assert stop is not None
    changed = replace(
        evaluation,
        accuracy_by_answered=[2 * accuracy for accuracy in evaluation.accuracy_by_asked],
        area_by_answered=2 * evaluation.area,
        accuracy_by_cost=[(0.0, 0.1), (9.0, 0.3), (18.0, evaluation.accuracy_all_answers)],
        area_by_cost=0.31,
        at_stop=replace(stop, mean_answered=0.75 * stop.mean_asked, mean_cost=3 * stop.mean_asked),
    )
    return replace(seed, evaluation=changed)


def test_answers_and_costs_have_columns_where_they_differ_from_queries() -> None:
    seeds = [with_costs(seed_of(0, 0.8)), with_costs(seed_of(1, 0.6))]
    results = results_of(
        vip=method_of("V-IP", seeds),
        all_answers=method_of("all answers", seeds),
        tree=method_of("decision tree", [], "no"),
    )
    for in_full in (True, False):
        titles = header(results, in_full)
        vip, everything, tree = (cells(results, name, in_full) for name in results.methods)
        assert len(titles) == len(vip) == len(everything) == len(tree) == 14
        shown = dict(zip(titles, vip, strict=True))
        assert shown["area to 12"].startswith("0.350")
        assert shown["area by answers"].startswith("0.700")
        assert shown["area by cost"].startswith("0.310")
        assert (shown["stops after"], shown["cost there"]) == ("7.00 (5.25 answered)", "21")
        assert everything[1:10] == ["–"] * 9
    assert "0.200 right after 8.0 queries (6.0 answered)" in in_brief(seeds[0])


def test_where_costs_differ_a_second_figure_shows_them(tmp_path: Path) -> None:
    plain, dear = (method_of("V-IP", seeds) for seeds in ([seed_of(0, 0.8)], [with_costs(seed_of(0, 0.8))]))
    draw_curves(results_of(vip=plain), tmp_path / "plain.png")
    assert [path.name for path in tmp_path.iterdir()] == ["plain.png"]
    draw_curves(results_of(vip=dear, random=dear), tmp_path / "dear.png")
    assert sorted(path.name for path in tmp_path.glob("dear*")) == ["dear-by-cost.png", "dear.png"]


def test_many_rows_have_no_interval_and_one_seed_no_deviation() -> None:
    text = markdown_table(results_of(vip=method_of("V-IP", [seed_of(0, 0.8, n_test=10_000, resumed=True)])))
    assert "| 0.200 |" in text
    assert "±" not in text
    assert "interval" not in text
    assert "60 s, resumed" in text
    assert "accuracy on 10,000 test rows, learnt from 1,000" in text


def test_the_remark_says_where_numbers_come_from() -> None:
    seed = seed_of(0, 0.8)
    here = remark(results_of(vip=method_of("V-IP", [seed]), random=method_of("random order", [seed])))
    assert here.endswith("Measured on CPU (x86_64, 2 CPU threads), commit abc1234.")
    there = replace(seed, provenance={**seed.provenance, "device": "NVIDIA H200"})
    both = remark(results_of(vip=method_of("V-IP", [there]), random=method_of("random order", [seed])))
    assert "NVIDIA H200 (x86_64, 2 CPU threads), commit abc1234: V-IP; CPU (x86_64" in both
    assert both.endswith("abc1234: random order.")
    assert remark(results_of(vip=method_of("V-IP", [], "no"))) == "made: no method worked."


def test_one_result_in_brief() -> None:
    assert in_brief(seed_of(0, 0.8)) == (
        "area 0.400, 0.200 right after 8.0 queries, 0.800 right with all, trained in 60 s"
    )
    black_box = seed_of(0, 0.8, method="all-answers")
    assert in_brief(black_box) == "0.800 right with all, trained in 60 s"
    assert in_brief(Failure(0, "ValueError: on\n two lines")) == "failed: ValueError: on two lines"


def test_the_curves_of_all_methods_that_have_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(
        "pursuit.research.experiments.results.accuracy_curve", lambda *given, **more: drawn.append((given, more))
    )
    vip, black_box = method_of("V-IP", [seed_of(0, 0.8), seed_of(1, 0.6)]), method_of("all answers", [seed_of(0, 0.9)])
    failed = method_of("tree", [], "no")
    draw_curves(results_of(vip=vip, tree=failed, all_answers=black_box), tmp_path / "curve.png")
    (((curves, path, _, stops, all_answers), _),) = drawn
    assert list(curves) == ["V-IP"]
    assert len(curves["V-IP"]) == 2
    assert path == tmp_path / "curve.png"
    assert all_answers == pytest.approx(0.9)
    assert stops["V-IP"] == pytest.approx((7.0, 0.175))
    draw_curves(results_of(tree=failed, all_answers=black_box), tmp_path / "curve.png")
    assert len(drawn) == 1  # nothing to draw
    draw_curves(results_of(vip=vip, random=method_of("random order", [seed_of(0, 0.5)])), tmp_path / "curve.png")
    assert drawn[1][0][4] == pytest.approx(0.7)  # of V-IP


def test_a_method_without_a_stopping_rule_has_a_row_too() -> None:
    seed = seed_of(0, 0.8)
    results = results_of(vip=method_of("V-IP", [replace(seed, evaluation=replace(seed.evaluation, at_stop=None))]))
    assert cells(results, "vip")[5:7] == ["–", "–"]
    assert "queries asked. A step is timed" in remark(results)
    assert in_brief(results.methods["vip"].seeds[0]).startswith("area 0.400, 0.800 right with all")
