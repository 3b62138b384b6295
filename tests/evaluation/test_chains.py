"""Figures of chains that predict a number."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pursuit.evaluation.chains import draw_chain, number_chain
from pursuit.inference.chain import Chain, ChainStep
from pursuit.inference.target import TargetBins
from pursuit.queries import ColumnQueries, yes_no

BINS = TargetBins.of(np.arange(0.0, 100.0), 4)
QUERIES = ColumnQueries([yes_no("garden"), yes_no("garage")])


def chain(n_steps: int) -> Chain:
    """The belief moves to the right."""
    beliefs = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    steps = [ChainStep(i % 2, "q", f"Question {i}?", "yes", beliefs[i % 2], 0.5) for i in range(n_steps)]
    given = (ChainStep(1, "garage", "Garage?", "no", beliefs[0]),)
    return Chain(tuple(BINS), torch.full((4,), 0.25), tuple(steps), given, BINS)


def test_a_row_a_step_shows_the_mean_and_the_interval(tmp_path: Path) -> None:
    figure = draw_chain(QUERIES, None, chain(2), tmp_path / "chain.png", "a house")
    assert (tmp_path / "chain.png").stat().st_size > 1000
    (axes,) = figure.axes
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert [label.split("  ")[0] for label in labels] == ["given: Garage?", "start", "1. Question 0?", "2. Question 1?"]
    (means,) = axes.lines
    shown = BINS.mean(torch.stack([chain(2).prior, *(step.posterior for step in chain(2).steps)]))
    np.testing.assert_allclose(means.get_xdata(), shown)
    assert [text.get_text() for text in axes.texts] == [BINS.text(mean) for mean in shown.tolist()]


def test_long_chains_are_thinned() -> None:
    (axes,) = number_chain(chain(100), max_steps=10).axes
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert len(labels) == 12
    assert labels[-1].startswith("100.")


def test_a_chain_of_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="predicts a class"):
        number_chain(Chain(("a", "b"), torch.tensor([0.5, 0.5]), ()))
