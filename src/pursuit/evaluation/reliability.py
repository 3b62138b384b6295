"""The figure of how far beliefs can be trusted: at the stopping rule, and question by question."""

from pathlib import Path
from typing import TYPE_CHECKING

from pursuit.evaluation.canvas import BLUE, GREY, INK, PALE, VERMILLION, new_figure, save_figure
from pursuit.evaluation.curves import Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reliability_figure(evaluation: Evaluation, path: str | Path | None = None, title: str = "") -> "Figure":
    """On the left, how often beliefs of each confidence are right at the stopping rule: on the dashed line where they
    can be trusted. On the right, mean confidence and accuracy after each query."""
    figure = new_figure(8.6, 3.6, title)
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], linestyle="--", color=GREY, linewidth=1)
    bins = evaluation.reliability or ()
    most = max((one.n_rows for one in bins), default=1)
    for one in bins:
        low, high = one.accuracy_interval
        left.bar(one.low + 0.05, 0.25 * one.n_rows / most, width=0.08, color=PALE)
        errors = [[max(0.0, one.accuracy - low)], [max(0.0, high - one.accuracy)]]
        left.errorbar(one.confidence, one.accuracy, yerr=errors, fmt="o", color=BLUE, capsize=2, markersize=5)
    left.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy")
    if evaluation.at_stop is not None:
        said = f"at {evaluation.at_stop.rule}: calibration error {evaluation.at_stop.calibration_error:.3f}"
        left.set_title(said, fontsize=9, color=INK)
    asked = range(len(evaluation.accuracy_by_asked))
    right.plot(asked, evaluation.accuracy_by_asked, color=BLUE, label="accuracy")
    if evaluation.confidence_by_asked:
        right.plot(asked, evaluation.confidence_by_asked, color=VERMILLION, linestyle="--", label="confidence")
    right.set(xlabel="queries asked", ylim=(0, 1.02))
    right.legend(frameon=False, loc="lower right")
    return save_figure(figure, path)
