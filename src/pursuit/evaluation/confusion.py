"""The figure of a confusion matrix."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pursuit.evaluation.canvas import CHARACTER, CLASS_WIDTH, INK, new_figure, save_figure, shorten
from pursuit.evaluation.classes import ClassResults

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NUMBERS = 40
"""Up to this many classes every cell has room for its number of rows, and every class for its name."""


def confusion_figure(results: ClassResults, path: str | Path | None = None, title: str = "") -> "Figure":
    """How many rows of each class were taken for each, coloured by their share of the class."""
    counts = np.array(results.confusion)  # (C, C), true by predicted
    shares = counts / counts.sum(axis=1, keepdims=True).clip(1)
    names = [shorten(str(label), CLASS_WIDTH) for label in results.labels]
    has_names = len(names) <= MOST_NUMBERS
    name_width = CHARACTER * max(map(len, names)) if has_names else 0.3
    digits = len(str(counts.max()))
    cell = max(0.34, CHARACTER * digits + 0.1) if has_names else max(0.04, 6 / len(names))
    side = cell * len(names) + name_width
    figure = new_figure(side + 0.9, side + 0.5, title)
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted", ylabel="true label")
    if has_names:
        for row, column in np.argwhere(counts > 0).tolist():
            colour = "white" if shares[row, column] > 0.55 else INK
            axes.text(column, row, f"{counts[row, column]}", ha="center", va="center", fontsize=8.5, color=colour)
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor", fontsize=9)
        axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.tick_params(length=0)
    return save_figure(figure, path)
