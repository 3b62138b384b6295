"""How numbers are predicted is measured against a world in which everything is known."""

import itertools
import math

import numpy as np
import pytest
import torch

from pursuit.evaluation.regression import evaluate_regression
from pursuit.exact import TableIP
from pursuit.inference.chain import explain
from pursuit.inference.stopping import Budget, IntervalWidth
from pursuit.inference.target_bins import TargetBins
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training.rows import Rows

QUERIES = ColumnQueries([yes_no("a"), yes_no("b"), yes_no("c")])


def world() -> tuple[TableIP, Rows, np.ndarray]:
    """The number is 4a + 2b, each of the eight rows as likely: exact Information Pursuit knows that, and c is noise."""
    answers = np.array(list(itertools.product([0, 1], repeat=3)))
    numbers = answers @ np.array([4.0, 2.0, 0.0])
    bins = TargetBins.of(numbers, 8)
    codes = torch.from_numpy(bins.codes(numbers))
    x, available = QUERIES.answers(answers)
    joint = torch.nn.functional.one_hot(codes, len(bins)).double() / 8
    return TableIP(QUERIES, bins, x, joint), Rows(x, available, codes), numbers


def test_each_answer_explains_its_share_of_the_variance() -> None:
    """The variance of 4a + 2b is 4 + 1; a tells as many bits as b, so that either may come first, but not c."""
    pursuer, rows, numbers = world()
    found = evaluate_regression(pursuer, rows, numbers, IntervalWidth(0.5))
    first = explain(pursuer, rows.x, rows.available, Budget(1))[0].steps[0].name
    after_one = {"a": 0.8, "b": 0.2}[first]
    assert [scores.r2 for scores in found.by_asked] == pytest.approx([0, after_one, 1, 1], abs=1e-6)
    assert [scores.mae for scores in found.by_asked][2:] == pytest.approx([0, 0], abs=1e-6)
    assert found.by_asked[0].mae == pytest.approx(2.0)
    assert all(scores.coverage == 1 for scores in found.by_asked)
    assert [scores.width for scores in found.by_asked] == pytest.approx([6, {"a": 2, "b": 4}[first], 0, 0], abs=1e-6)
    assert found.all_answers == found.by_asked[-1]
    assert found.area == pytest.approx((after_one + 2) / 3)
    assert found.at_stop is not None
    assert (found.at_stop.mean_asked, found.at_stop.mean_answered, found.at_stop.mean_cost) == (2, 2, 2)
    assert found.at_stop.r2 == pytest.approx(1)
    assert found.at_stop.rule == "width=0.5"


def test_what_cannot_be_answered_is_asked_for_nothing_and_a_row_keeps_its_last_belief() -> None:
    pursuer, rows, numbers = world()
    available = rows.available.clone()
    available[:4, 0] = False  # for these, a is not known, whatever is asked
    found = evaluate_regression(pursuer, Rows(rows.x, available, rows.y), numbers, Budget(2), max_queries=2)
    assert len(found.by_asked) == 3
    assert found.at_stop is not None
    assert found.at_stop.mean_asked == 2
    assert found.at_stop.mean_answered == 1.5
    assert found.all_answers.r2 == pytest.approx(1 - (0.5 * 4) / 5)  # half of the rows are 2 away


def test_numbers_beyond_those_of_training_count_as_they_are() -> None:
    pursuer, rows, numbers = world()
    found = evaluate_regression(pursuer, rows, numbers + np.where(numbers == 6, 100, 0))
    assert found.at_stop is None
    assert found.by_asked[-1].mae == pytest.approx(25)
    assert found.by_asked[-1].coverage == 0.75
    assert not math.isnan(evaluate_regression(pursuer, rows.take(slice(1)), numbers[:1]).by_asked[0].r2)


def test_what_cannot_be_measured_gets_a_sentence() -> None:
    pursuer, rows, numbers = world()
    with pytest.raises(ValueError, match="no rows to measure on"):
        evaluate_regression(pursuer, rows.take(slice(0)), numbers[:0])
    of_classes = TableIP(QUERIES, list("wxyz"), rows.x, torch.full((8, 4), 1 / 32))
    with pytest.raises(ValueError, match="predicts classes, not a number"):
        evaluate_regression(of_classes, rows, numbers)
