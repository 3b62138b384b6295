"""How many bits a question must promise, judged by what is lost on held-out rows."""

import itertools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pursuit.estimators.regressor import suitable_bins
from pursuit.estimators.selection import suitable_bits
from pursuit.exact import TableIP
from pursuit.inference.target_bins import TargetBins
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training.rows import Rows


class Known(TableIP):
    """Exact Information Pursuit, which is never rough."""

    log_prior = torch.zeros(())  # on the CPU

    def roughly(self) -> AbstractContextManager[None]:
        return nullcontext()


QUERIES = ColumnQueries([yes_no("a"), yes_no("b"), yes_no("c")])
ANSWERS = np.array(list(itertools.product([0, 1], repeat=3)))


def bits_for(numbers: np.ndarray, worse: float) -> float | None:
    """In a world of eight rows, known to exact Information Pursuit, with the squared error as what is lost."""
    bins = TargetBins.of(numbers, 8)
    codes = torch.from_numpy(bins.codes(numbers))
    x, available = QUERIES.answers(ANSWERS)
    joint = torch.nn.functional.one_hot(codes, len(bins)).double() / 8
    means = torch.tensor(bins.means, dtype=torch.double)

    def judge(log_posterior: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        posterior = log_posterior.exp()
        error = (bins.mean(posterior) - means[rows.y]) ** 2 / bins.spread**2
        return error, torch.zeros(len(rows), dtype=torch.bool)

    learner: Any = Known(QUERIES, bins, x, joint)
    return suitable_bits(learner, Rows(x, available, codes), judge, worse)


def test_questions_that_tell_nothing_need_not_be_asked() -> None:
    """Two answers tell a bit each, and the third nothing: half a bit is asked for at most, and nothing is lost."""
    assert bits_for(ANSWERS @ np.array([4.0, 2.0, 0.0]), 0.02) == 0.5


def test_what_matters_is_asked_for_however_few_bits_it_tells() -> None:
    """Only one of eight rows has a garden, a garage and a cat, and it is worth a thousand: each answer tells less than
    half a bit before the others are known, and all of them matter."""
    numbers = 1000.0 * (ANSWERS.sum(axis=1) == 3)
    chosen = bits_for(numbers, 0.02)
    assert chosen is not None
    assert chosen < 0.2
    assert bits_for(numbers, 10.0) == 0.5  # unless a great loss is acceptable


def test_bins_have_rows_enough() -> None:
    assert [suitable_bins(n) for n in (2, 300, 800, 10_000)] == [8, 8, 20, 32]
