"""The figure of a confusion matrix."""

from pathlib import Path

import pytest
import torch

from pursuit.evaluation.classes import ClassResults, class_results
from pursuit.evaluation.confusion import confusion_figure


def results(n_classes: int) -> ClassResults:
    y = torch.arange(n_classes).repeat(3)
    predicted = torch.where(torch.arange(3 * n_classes) < 2, 0, y)
    return class_results([f"label {i} $x$" for i in range(n_classes)], y, predicted, torch.ones(3 * n_classes))


def test_every_cell_has_its_number_of_rows(tmp_path: Path) -> None:
    figure = confusion_figure(results(3), tmp_path / "confusion.svg", "three")
    (axes,) = figure.axes
    cells = {tuple(map(int, reversed(text.get_position()))): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): "3", (1, 0): "1", (1, 1): "2", (2, 2): "3"}  # true label, predicted
    assert [label.get_text() for label in axes.get_yticklabels()] == [rf"label {i} \$x\$" for i in range(3)]
    assert "<svg" in (tmp_path / "confusion.svg").read_text()


@pytest.mark.parametrize("n_classes", [2, 40, 41, 300])
def test_any_number_of_classes_can_be_drawn(n_classes: int) -> None:
    (axes,) = confusion_figure(results(n_classes)).axes
    assert bool(axes.texts) == (n_classes <= 40)
    assert axes.images[0].get_array().shape == (n_classes, n_classes)
