"""docs/results/paper.md: its verdicts, and that it says what the JSON files do."""

from dataclasses import replace

import pytest

import paper
import paper_cells as cells
from pursuit.evaluation.curves import Evaluation
from pursuit.experiments.paper.runs import PLAN, PaperRun
from pursuit.experiments.results import Result


def after(accuracy: float, seed: int, n_test: int = 10_000) -> Result:
    """A result with this accuracy after any number of queries."""
    curve = [accuracy] * 30
    evaluation = Evaluation(n_test, 29, curve, accuracy, curve, accuracy, accuracy, None)
    return Result({"task": "muzhi"}, "vip", seed, 1, n_test, 1.0, evaluation, {}, {})


def test_the_page_shows_what_was_measured() -> None:
    assert paper.page() == paper.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "n_test", "expected"),
    [
        ([0.700, 0.702, 0.704], 10**9, "level"),  # a standard error of .0012 over seeds
        ([0.703, 0.705, 0.707], 10**9, "ahead"),
        ([0.695, 0.697, 0.699], 10**9, "behind"),
        ([0.703, 0.705, 0.707], 142, "level"),  # the rows leave more open
        ([0.705], 10_000, "level"),
        ([0.715], 10_000, "ahead"),
        ([0.600], 142, "behind"),
    ],
)
def test_verdicts(values: list[float], n_test: int, expected: str) -> None:
    assert paper.verdict(0.7, values, n_test) == expected


def test_a_cell_says_printed_ours_seeds_and_verdict() -> None:
    way = PaperRun("muzhi", recipe="fast", querier="straight-through")
    cell = cells.Cell(0.706, cells.after_20, way, 0.011)
    done = {replace(way, seed=seed): after(accuracy, seed) for seed, accuracy in enumerate((0.8, 0.9))}
    other = {replace(way, querier="information"): after(0.1, 0)}
    assert paper.cell_text(cell, {**done, **other}) == r"0.706 ± 0.011 \| 0.850 ± 0.071 \| 2 \| ahead"
    assert paper.cell_text(cell, other) == r"0.706 ± 0.011 \| – \| 0 \| not run (in the queue)"
    elsewhere = replace(cell, spread=None, not_comparable="other patients")
    assert paper.cell_text(elsewhere, done).endswith(r"\| 2 \| not comparable (other patients)")


def test_every_cell_is_measured_by_a_planned_run_or_says_why_not() -> None:
    ways = {run.way for run in PLAN}
    n_cells = 0
    for table in cells.TABLES:
        for row in table.rows:
            assert len(row) == len(table.columns)
            for cell in (cell for cell in row if isinstance(cell, cells.Cell)):
                n_cells += 1
                assert cell.way in ways or (cell.way is None and cell.not_run != cells.QUEUED)
    assert n_cells >= 68
