"""Figures of chains: on their image, as posteriors of classes, or as intervals of a number."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pursuit.evaluation import figures
from pursuit.evaluation.canvas import BLUE, CHARACTER, INK, new_figure, save_figure
from pursuit.inference.chain import Chain
from pursuit.queries import QuerySet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOT_WIDTH, ROW_HEIGHT = 4.0, 0.36
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that are drawn: the interval of 90 % as a thin line, its middle half as a thick one."""


def draw_chain(
    query_set: QuerySet, X: Any, chain: Chain, path: Path, title: str, picture: np.ndarray | None = None
) -> "Figure":
    """A chain on its image if queries are patches, as intervals if a number is predicted, otherwise as a heat map of
    posteriors beside a `picture`.

    `X` holds the row of the chain first.
    """
    if chain.target is not None:
        return number_chain(chain, path, title)
    if query_set.patches is not None:
        return figures.image_chain(chain, query_set, query_set.answers(X).x[0], path, title)
    return figures.answer_chain(chain, path, title, picture=picture)


def number_chain(chain: Chain, path: str | Path | None = None, title: str = "", max_steps: int = 40) -> "Figure":
    """The belief about a number as intervals, a row a step: 90 % of it within the thin line, half within the thick
    one, and its mean as a point."""
    if chain.target is None:
        raise ValueError("This chain predicts a class: draw it with answer_chain.")
    steps = figures.thinned(len(chain), max_steps)
    asked = [chain.steps[n - 1] for n in steps]
    posterior = torch.stack([chain.prior, *(step.posterior for step in asked)])
    lowest, low, _, high, highest = chain.target.quantiles(posterior, LEVELS).T.tolist()
    means = chain.target.mean(posterior).tolist()
    given = [figures.query_and_answer("given:", step) for step in chain.initially_known]
    labels = [*given, "start", *(figures.query_and_answer(f"{n}.", s) for n, s in zip(steps, asked, strict=True))]
    width = CHARACTER * max(len(line) for label in labels for line in label.split("\n")) + PLOT_WIDTH
    figure = new_figure(width, ROW_HEIGHT * len(labels) + 0.6, title)
    axes, rows = figure.add_subplot(), range(len(means))
    axes.hlines(rows, lowest, highest, color=BLUE, linewidth=1.5)
    axes.hlines(rows, low, high, color=BLUE, linewidth=5, alpha=0.6)
    axes.plot(means, rows, "o", color=INK, markersize=5)
    for row, mean in zip(rows, means, strict=True):
        axes.annotate(
            chain.target.text(mean), (mean, row), (0, 6), textcoords="offset points", fontsize=8.5, ha="center"
        )
    axes.set_yticks(range(-len(given), len(means)), labels, fontsize=9.5, linespacing=1.05, va="center")
    axes.set_ylim(len(means) - 0.5, -len(given) - 0.7)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    return save_figure(figure, path)
