"""Figures are written whole, show what they should, and lose nothing at the edges."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from pursuit.evaluation import figures
from pursuit.evaluation.calibration import ReliabilityBin
from pursuit.evaluation.counts import count_classes
from pursuit.evaluation.curves import AtStop, Evaluation
from pursuit.evaluation.details import ClassResults
from pursuit.evaluation.figures import (
    ANSWERED_COLOUR,
    BLUE,
    UNKNOWN_COLOUR,
    accuracy_curve,
    answer_chain,
    draw_chain,
    image_chain,
    number_chain,
)
from pursuit.inference.chain import Chain, ChainStep
from pursuit.inference.target_bins import TargetBins
from pursuit.queries import ColumnQueries, PatchQueries, yes_no

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

pytestmark = pytest.mark.full_training  # which draws in full, too

BEGINNINGS = {".png": b"\x89PNG\r\n", ".svg": b"<?xml", ".pdf": b"%PDF"}
LONG_NAMES = tuple(f"the rather long name of class {i} and its subspecies" for i in range(200))
LONG_QUESTION = "Is this a question that goes on and on, " * 5 + "or is it not?"


def make_chain(
    n_steps: int,
    classes: tuple[str, ...] = ("cat", "dog", "owl"),
    answers: tuple[str | None, ...] = ("yes", "no"),
    text: str = "Does it have feathers?",
    n_given: int = 0,
) -> Chain:
    """A chain of queries 0, 1, 2, …; after step i the class i (modulo C) has probability 0.9."""
    n_classes = len(classes)

    def belief(favourite: int) -> torch.Tensor:
        posterior = torch.full((n_classes,), 0.1 / (n_classes - 1))
        posterior[favourite % n_classes] = 0.9
        return posterior

    steps = tuple(ChainStep(i, f"q{i}", text, answers[i % len(answers)], belief(i + 1)) for i in range(n_steps))
    prior = torch.full((n_classes,), 1 / n_classes)
    given = tuple(ChainStep(n_steps + i, f"g{i}", "Was it given?", "yes", prior) for i in range(n_given))
    return Chain(classes, prior, steps, given)


def make_evaluation(accuracy: list[float], stop: bool = True) -> Evaluation:
    at_stop = AtStop("confidence=0.9", 1.5, 1.25, 3.5, 0.7, (0.6, 0.8), 0.9, 0.1) if stop else None
    return Evaluation(100, len(accuracy) - 1, accuracy, 0.7, [], 0, 0.95, at_stop)


def assert_nothing_cut_off(figure: "Figure") -> None:
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01


def titles(figure: "Figure") -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def bars(axes: "Axes") -> "list[Rectangle]":
    return [patch for container in axes.containers for patch in container]


def legend_texts(figure: "Figure") -> list[str]:
    legend = figure.axes[0].get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def outlines(axes: "Axes") -> "list[Rectangle]":
    from matplotlib.patches import Rectangle

    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


# --- all figures ---


@pytest.mark.programs
def test_matplotlib_is_imported_only_to_draw_and_pyplot_never() -> None:
    code = """if True:
        import sys
        from pursuit.evaluation.figures import accuracy_curve
        assert "matplotlib" not in sys.modules
        accuracy_curve({"V-IP": [0.1, 0.9]})
        assert "matplotlib" in sys.modules
        assert "matplotlib.pyplot" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_files_are_written_with_their_folders(tmp_path: Path, suffix: str) -> None:
    from matplotlib.figure import Figure

    path = tmp_path / "some" / "where" / f"figure{suffix}"
    figure = answer_chain(make_chain(2), path, title="A chain")
    assert isinstance(figure, Figure)
    assert path.read_bytes().startswith(BEGINNINGS[suffix])
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["figure.xyz", "figure", "figure.txt"])
def test_an_unknown_ending_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="png, svg, pdf"):
        accuracy_curve({"V-IP": [0.1, 0.9]}, tmp_path / "folder" / name)
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_drawing_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    path = tmp_path / "curve.png"
    path.write_bytes(b"old")

    def fail(self: "Figure", file: object, **options: object) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(RuntimeError, match="no ink"):
        accuracy_curve({"V-IP": [0.1, 0.9]}, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_dollar_signs_are_not_formulas(tmp_path: Path) -> None:
    chain = make_chain(2, ("$\\frac$", "costs $5"), text="More than $3 or $4?", answers=("$\\nonsense$",))
    answer_chain(chain, tmp_path / "chain.svg", title="In $ and $")
    assert (tmp_path / "chain.svg").exists()


# --- accuracy_curve ---


def test_a_curve_starts_at_zero_queries() -> None:
    figure = accuracy_curve({"V-IP": [0.1, 0.5, 0.9], "random": [0.1, 0.3]}, title="Digits")
    first, second = figure.axes[0].get_lines()
    assert list(np.asarray(first.get_xdata())) == [0, 1, 2]
    assert list(np.asarray(first.get_ydata())) == [0.1, 0.5, 0.9]
    assert first.get_color() != second.get_color()
    assert legend_texts(figure) == ["V-IP", "random"]
    assert_nothing_cut_off(figure)


def test_seeds_are_a_mean_within_a_deviation() -> None:
    figure = accuracy_curve({"V-IP": [[0.1, 0.5], [0.3, 0.7]]})
    axes = figure.axes[0]
    assert np.allclose(np.asarray(axes.get_lines()[0].get_ydata()), [0.2, 0.6])
    (band,) = axes.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert heights.min() == pytest.approx(0.2 - 0.02**0.5)  # of a sample: two seeds are no population
    assert heights.max() == pytest.approx(0.6 + 0.02**0.5)


def test_stops_and_all_answers_are_marked() -> None:
    figure = accuracy_curve({"V-IP": [0.1, 0.5, 0.9]}, stops={"V-IP": (1.4, 0.75)}, all_answers=0.97)
    _, stop, line = figure.axes[0].get_lines()
    assert (list(np.asarray(stop.get_xdata())), list(np.asarray(stop.get_ydata()))) == ([1.4], [0.75])
    assert line.get_linestyle() == "--"
    assert set(np.asarray(line.get_ydata())) == {0.97}
    assert any("97.0%" in text for text in legend_texts(figure))


def test_an_evaluation_brings_its_stop_and_all_answers() -> None:
    texts = legend_texts(make_evaluation([0.1, 0.5, 0.9]).plot(name="V-IP"))
    assert len(texts) == 3
    assert texts[0] == "V-IP"
    assert "1.5 queries" in texts[1]
    assert "95.0%" in texts[2]
    assert len(legend_texts(make_evaluation([0.1, 0.5], stop=False).plot())) == 2


def test_an_evaluation_draws_how_far_it_can_be_trusted(tmp_path: Path) -> None:
    bins = (ReliabilityBin(0.4, 0.5, 2, 0.45, 0.5, (0.1, 0.9)), ReliabilityBin(0.9, 1.0, 3, 0.95, 1.0, (0.4, 1.0)))
    evaluation = replace(make_evaluation([0.1, 0.5]), reliability=bins, confidence_by_asked=[0.2, 0.6])
    left, right = evaluation.plot_reliability(tmp_path / "trust.png", "trust").axes
    assert left.get_title() == "at confidence=0.9: calibration error 0.100"
    assert [len(left.patches), len(left.collections)] == [2, 2]  # columns of rows, and intervals
    assert [list(np.asarray(line.get_ydata())) for line in right.get_lines()] == [[0.1, 0.5], [0.2, 0.6]]
    assert (tmp_path / "trust.png").exists()


def test_accuracy_is_drawn_against_cost_too() -> None:
    curves = {"V-IP": [0.05, 0.25, 0.45], "random": [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]}
    figure = accuracy_curve(curves, stops={"V-IP": (3.5, 0.7)}, costs=[0, 2.5, 5])
    (axes,) = figure.axes
    assert axes.get_xlabel() == "cost"
    first, stop, second = axes.get_lines()
    assert list(np.asarray(first.get_xdata())) == list(np.asarray(second.get_xdata())) == [0, 2.5, 5]
    assert list(np.asarray(first.get_ydata())) == [0.05, 0.25, 0.45]
    assert list(np.asarray(stop.get_xdata())) == [3.5]
    assert "stops: cost 3.5" in legend_texts(figure)[1]
    assert accuracy_curve(curves).axes[0].get_xlabel() == "queries asked"
    with pytest.raises(ValueError, match="The curve 'random' has 3 accuracies, but there are 2 costs"):
        accuracy_curve({"random": [0.1, 0.2, 0.3]}, costs=[0, 1])


def test_many_methods_with_long_names_fit() -> None:
    curves = {name: [0.1, 0.5] for name in LONG_NAMES[:9]}
    assert_nothing_cut_off(accuracy_curve(curves, stops=dict.fromkeys(curves, (1.0, 0.5)), all_answers=0.9))


def test_many_curves_differ_in_more_than_colour_and_share_the_entry_of_their_stops() -> None:
    curves = {f"method {i}": [[0.1, 0.5, 0.6], [0.2, 0.4, 0.7]] for i in range(14)}
    figure = accuracy_curve(curves, stops=dict.fromkeys(curves, (1.0, 0.5)), all_answers=0.9)
    lines = [line for line in figure.axes[0].get_lines() if str(line.get_label()).startswith("method")]
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 14  # apart even without colour
    assert legend_texts(figure) == [*curves, "where its rule stops", "all answers:\n90.0% right"]
    assert sum(line.get_marker() == "*" for line in figure.axes[0].get_lines()) == 15
    assert_nothing_cut_off(figure)


def test_curves_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="no curves"):
        accuracy_curve({})
    with pytest.raises(ValueError, match="no curve for"):
        accuracy_curve({"a": [0.1]}, stops={"b": (1, 0.5)})
    for wrong in ([], [[0.1, 0.2], [0.3]], [[[0.1]]]):
        with pytest.raises(ValueError, match="'a' is to be a list"):
            accuracy_curve({"a": wrong})  # type: ignore[dict-item]


# --- image_chain ---


def test_a_column_a_step_and_the_image_first() -> None:
    from matplotlib.colors import to_hex

    query_set = PatchQueries((1, 4, 4), 2, 2)
    x = torch.linspace(-1, 1, 16).view(1, 4, 4)
    figure = image_chain(make_chain(3), query_set, x, title="A digit")
    assert titles(figure) == ["the picture", "step 1", "step 2", "step 3"]
    above, below = figure.axes[:4], figure.axes[4:]
    # How many of the 16 pixels are seen: all in the first column, then a patch more each step.
    seen = [int((np.asarray(axes.images[0].get_array())[:, :, 3] == 1).sum()) for axes in above]
    assert seen == [16, 4, 8, 12]
    assert [len(outlines(axes)) for axes in above] == [0, 1, 1, 1]
    assert outlines(above[2])[0].get_xy() == (1.5, -0.5)
    assert [len(bars(axes)) for axes in below] == [3, 3, 3, 3]
    highlighted = [[to_hex(bar.get_facecolor()) == BLUE.lower() for bar in bars(axes)].index(True) for axes in below]
    assert highlighted == [0, 1, 2, 0]
    assert [label.get_text() for label in below[0].get_yticklabels()] == ["cat", "dog", "owl"]
    assert_nothing_cut_off(figure)


def test_unseen_pixels_are_not_grey() -> None:
    from matplotlib.colors import to_rgba

    figure = image_chain(make_chain(1), PatchQueries((1, 4, 4), 2), torch.zeros(1, 4, 4))
    red, _, blue, _ = to_rgba(figure.axes[1].patch.get_facecolor())
    assert blue - red > 0.2
    assert figure.axes[1].patch.get_hatch()


def test_an_unknown_patch_stays_unseen_and_a_given_one_is_seen() -> None:
    query_set = PatchQueries((1, 4, 4), 2, 2)
    figure = image_chain(make_chain(2, answers=("seen", None), n_given=1), query_set, torch.zeros(1, 4, 4))
    seen = [int((np.asarray(axes.images[0].get_array())[:, :, 3] == 1).sum()) for axes in figure.axes[:3]]
    assert seen == [16, 8, 8]
    assert outlines(figure.axes[1])[0].get_linestyle() in ("-", "solid")
    assert outlines(figure.axes[2])[0].get_linestyle() in (":", "dotted")


def test_long_chains_are_thinned_evenly_between_first_and_last(monkeypatch: pytest.MonkeyPatch) -> None:
    query_set = PatchQueries((1, 28, 28), 3)
    chain = make_chain(45, tuple("0123456789"))
    figure = image_chain(chain, query_set, torch.zeros(1, 28, 28))
    numbers = [int(title.removeprefix("step ")) for title in titles(figure)[1:]]
    assert len(numbers) == 12
    assert (numbers[0], numbers[-1]) == (1, 45)
    assert set(np.diff(numbers)) == {4}
    for n, shown in ((1, ["the picture", "step 45"]), (2, ["the picture", "step 1", "step 45"])):
        monkeypatch.setattr(figures, "MOST_PICTURES", n)
        assert titles(image_chain(chain, query_set, torch.zeros(1, 28, 28))) == shown


@pytest.mark.parametrize("n_steps", [0, 1])
def test_short_image_chains_with_two_classes(n_steps: int, tmp_path: Path) -> None:
    chain = make_chain(n_steps, ("cat", "dog"))
    title = "A title that is much longer than so small a figure is wide"
    figure = image_chain(chain, PatchQueries((1, 28, 28), 3), torch.zeros(1, 28, 28), tmp_path / "chain.png", title)
    assert len(figure.axes) == 2 * (n_steps + 1)
    assert_nothing_cut_off(figure)


def test_colour_images_and_many_classes() -> None:
    from matplotlib.colors import to_hex

    x = torch.stack([torch.full((8, 12), value) for value in (-1.0, 0.0, 1.0)])
    figure = image_chain(make_chain(4, LONG_NAMES), PatchQueries((3, 8, 12), 4, 4), x)
    assert np.allclose(np.asarray(figure.axes[0].images[0].get_array())[0, 0], [0, 0.5, 1, 1])
    below = figure.axes[5:]
    assert [len(bars(axes)) for axes in below] == [10] * 5
    # The favourites of all steps are among the ten, the last one first.
    assert to_hex(bars(below[4])[0].get_facecolor()) == BLUE.lower()
    assert all(any(to_hex(bar.get_facecolor()) == BLUE.lower() for bar in bars(axes)) for axes in below[1:])
    assert_nothing_cut_off(figure)


def test_only_patches_are_drawn_on_an_image() -> None:
    with pytest.raises(ValueError, match=r"Only queries about patches .*, not ColumnQueries\(1 queries\)"):
        image_chain(make_chain(1), ColumnQueries([yes_no("a")]), torch.zeros(1, 4, 4))


def test_wrong_images_are_refused() -> None:
    with pytest.raises(ValueError, match="One image of shape"):
        image_chain(make_chain(1), PatchQueries((1, 4, 4), 2), torch.zeros(1, 1, 4, 4))


# --- answer_chain ---


def test_questions_without_an_answer_are_grey_and_all_others_alike() -> None:
    answers = ("yes", "no", None, "3.5", "Yes", "false", "red", "1")
    figure = answer_chain(make_chain(8, answers=answers))
    labels = figure.axes[0].get_yticklabels()
    assert [label.get_text() for label in labels[:4]] == [
        "start",
        "1. Does it have feathers?  yes",
        "2. Does it have feathers?  no",
        "3. Does it have feathers?  unknown",
    ]
    colours = [UNKNOWN_COLOUR if answer is None else ANSWERED_COLOUR for answer in answers]
    assert [label.get_color() for label in labels[1:]] == colours
    assert_nothing_cut_off(figure)


def test_columns_are_ordered_by_the_final_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "TOP_CLASSES", 4)
    figure = answer_chain(make_chain(4, ("ant", "bee", "cat", "dog", "eel", "fox")))
    axes = figure.axes[0]
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names[0] == "eel"  # the favourite of the fourth and last step
    assert sorted(names) == ["bee", "cat", "dog", "eel"]
    assert np.asarray(axes.images[0].get_array()).shape == (5, 4)


def test_the_prediction_has_a_column_even_if_others_were_once_more_probable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "TOP_CLASSES", 1)
    certain, doubtful = torch.tensor([0.0, 0.1, 0.9]), torch.tensor([0.4, 0.3, 0.3])
    steps = (ChainStep(0, "a", "a?", "yes", certain), ChainStep(1, "b", "b?", "yes", doubtful))
    figure = answer_chain(Chain(("cat", "dog", "owl"), certain, steps))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["cat"]


def test_cells_are_numbered_where_there_is_something_to_say() -> None:
    beliefs = torch.tensor([[0.5, 0.496, 0.004], [0.9999, 0.0001, 0.0], [1.0, 0.0, 0.0]])
    steps = tuple(ChainStep(i, "q", "q?", "yes", belief) for i, belief in enumerate(beliefs[1:]))
    figure = answer_chain(Chain(("cat", "dog", "owl"), beliefs[0], steps))
    texts = {text.get_position(): text.get_text() for text in figure.axes[0].texts}
    assert texts == {(0, 0): "0.50", (1, 0): "0.50", (0, 1): ">0.99", (0, 2): "1.00"}


def test_given_answers_are_listed_above_the_start() -> None:
    figure = answer_chain(make_chain(2, n_given=2))
    axes = figure.axes[0]
    texts = [label.get_text() for label in axes.get_yticklabels()]
    assert texts[:3] == ["given: Was it given?  yes", "given: Was it given?  yes", "start"]
    assert list(axes.get_yticks()) == [-2, -1, 0, 1, 2]
    assert axes.get_ylim() == (2.5, -2.5)
    assert np.asarray(axes.images[0].get_array()).shape == (3, 3)
    assert_nothing_cut_off(figure)


@pytest.mark.parametrize(("n_steps", "classes"), [(0, LONG_NAMES), (1, ("cat", "dog")), (45, LONG_NAMES)])
def test_nothing_is_cut_off(n_steps: int, classes: tuple[str, ...]) -> None:
    answers = ("yes", None, "one of several possible answers, all of them long")
    chain = make_chain(n_steps, classes, answers, LONG_QUESTION)
    figure = answer_chain(chain, title="A title that is much longer than so small a figure is wide")
    axes = figure.axes[0]
    assert np.asarray(axes.images[0].get_array()).shape == (min(n_steps, 40) + 1, min(10, len(classes)))
    assert_nothing_cut_off(figure)
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]  # from the first row down
    assert all(lower.y1 <= upper.y0 for upper, lower in pairwise(boxes))


@pytest.mark.parametrize(
    ("n_steps", "max_steps", "numbers"), [(9, 4, 4), (9, 9, 9), (9, 1, 1), (50, 12, 12), (0, 5, 0)]
)
def test_long_answer_chains_are_thinned_and_keep_their_numbers(
    n_steps: int, max_steps: int, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MOST_ROWS", max_steps)
    chain = make_chain(n_steps, n_given=1)
    figure = answer_chain(chain)
    axes = figure.axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[:2] == ["given: Was it given?  yes", "start"]
    shown = [int(label.split(".")[0]) for label in labels[2:]]
    assert len(shown) == numbers
    assert shown == sorted(set(shown))
    if numbers:
        assert shown[-1] == n_steps
    if numbers > 1:
        assert shown[0] == 1
    cells = np.asarray(axes.images[0].get_array())
    names = [label.get_text() for label in axes.get_xticklabels()]
    order = [chain.classes.index(name) for name in names]
    beliefs = [chain.prior, *(chain.steps[n - 1].posterior for n in shown)]
    np.testing.assert_allclose(cells, np.stack([belief.numpy()[order] for belief in beliefs]), rtol=1e-6)
    assert_nothing_cut_off(figure)


@pytest.mark.parametrize("n_steps", [0, 12])
def test_a_picture_stands_beside_the_chain(n_steps: int, tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    figure = answer_chain(make_chain(n_steps), tmp_path / "bird.png", title="a bird", picture=picture)
    photo, axes = figure.axes
    np.testing.assert_array_equal(np.asarray(photo.images[0].get_array()), picture)
    assert len(axes.get_yticklabels()) == n_steps + 1
    alone = answer_chain(make_chain(n_steps), title="a bird")
    assert figure.get_size_inches()[0] > alone.get_size_inches()[0]
    assert photo.get_position().x1 <= axes.get_position().x0
    assert (tmp_path / "bird.png").exists()
    assert_nothing_cut_off(figure)


def chain_of_bits(*bits: float | None) -> Chain:
    belief = torch.tensor([0.3, 0.7])
    steps = tuple(ChainStep(i, f"q{i}", "Is it so?", "yes", belief, expected) for i, expected in enumerate(bits))
    return Chain(("cat", "dog"), belief, steps)


def test_bits_stand_beside_their_question() -> None:
    figure = answer_chain(chain_of_bits(0.62, None, 0.001))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "start",
        "1. Is it so?  yes  0.62 bits",
        "2. Is it so?  yes",
        "3. Is it so?  yes  <0.01 bits",
    ]


def test_bits_stand_above_their_patch() -> None:
    figure = image_chain(chain_of_bits(0.62, None), PatchQueries((1, 4, 4), 2, 2), torch.zeros(1, 4, 4))
    assert [axes.get_title() for axes in figure.axes[:3]] == ["the picture", "step 1\n0.62 bits", "step 2"]
    figure.draw_without_rendering()
    assert figure.get_tightbbox().y1 <= figure.get_size_inches()[1] + 0.01


# --- number_chain ---

BINS = TargetBins.of(np.arange(0.0, 100.0), 4)
QUERIES = ColumnQueries([yes_no("garden"), yes_no("garage")])


def house(n_steps: int) -> Chain:
    """The belief moves to the right."""
    beliefs = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    steps = [ChainStep(i % 2, "q", f"Question {i}?", "yes", beliefs[i % 2], 0.5) for i in range(n_steps)]
    given = (ChainStep(1, "garage", "Garage?", "no", beliefs[0]),)
    return Chain(tuple(BINS), torch.full((4,), 0.25), tuple(steps), given, BINS)


def test_a_row_a_step_shows_the_mean_and_the_interval(tmp_path: Path) -> None:
    figure = draw_chain(QUERIES, None, house(2), tmp_path / "chain.png", "a house")
    assert (tmp_path / "chain.png").stat().st_size > 1000
    (axes,) = figure.axes
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert [label.split("  ")[0] for label in labels] == ["given: Garage?", "start", "1. Question 0?", "2. Question 1?"]
    (means,) = axes.lines
    shown = BINS.mean(torch.stack([house(2).prior, *(step.posterior for step in house(2).steps)]))
    np.testing.assert_allclose(means.get_xdata(), shown)
    assert [text.get_text() for text in axes.texts] == [BINS.text(mean) for mean in shown.tolist()]


def test_long_chains_of_a_number_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MOST_ROWS", 10)
    (axes,) = number_chain(house(100)).axes
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert len(labels) == 12
    assert labels[-1].startswith("100.")


def test_a_chain_of_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="predicts a class"):
        number_chain(Chain(("a", "b"), torch.tensor([0.5, 0.5]), ()))


# --- confusion and what is asked when ---


def class_results(n_classes: int) -> ClassResults:
    y = torch.arange(n_classes).repeat(3)
    predicted = torch.where(torch.arange(3 * n_classes) < 2, 0, y)
    ones = torch.ones_like(y)
    return ClassResults.of(
        [f"label {i} $x$" for i in range(n_classes)], *count_classes(y, predicted, ones, n_classes, ones)
    )


def test_every_cell_has_its_number_of_rows(tmp_path: Path) -> None:
    figure = class_results(3).plot(tmp_path / "confusion.svg", "three")
    (axes,) = figure.axes
    cells = {tuple(map(int, reversed(text.get_position()))): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): "3", (1, 0): "1", (1, 1): "2", (2, 2): "3"}  # true label, predicted
    assert [label.get_text() for label in axes.get_yticklabels()] == [rf"label {i} \$x\$" for i in range(3)]
    assert "<svg" in (tmp_path / "confusion.svg").read_text()


@pytest.mark.parametrize("n_classes", [2, 40, 41, 300])
def test_any_number_of_classes_can_be_drawn(n_classes: int) -> None:
    (axes,) = class_results(n_classes).plot().axes
    assert bool(axes.texts) == (n_classes <= 40)
    assert axes.images[0].get_array().shape == (n_classes, n_classes)
