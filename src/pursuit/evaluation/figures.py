"""Figures: accuracy curves, chains of revealed image patches, and heat maps of posteriors.

Every function returns a matplotlib `Figure` and, given a `path`, writes it as png, svg or pdf. matplotlib is only
imported when something is drawn, and never through pyplot, so no display is needed.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pursuit.evaluation.canvas import (
    BLUE,
    CHARACTER,
    CLASS_WIDTH,
    FAINT,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILLION,
    escape,
    new_figure,
    save_figure,
    shorten,
)
from pursuit.evaluation.curves import Evaluation
from pursuit.inference.chain import Chain, ChainStep, bits_text
from pursuit.queries import NO_AND_YES, QuerySet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = Evaluation | Sequence[float] | Sequence[Sequence[float]] | np.ndarray
"""Accuracy by the number of queries asked, from 0: of one run, or of several seeds (S, T + 1)."""

COLOURS, LINES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY), ("-", "-.", ":")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
"""One more than colours, so that each pair comes up late again."""
YES_COLOUR, NO_COLOUR, UNKNOWN_COLOUR, OTHER_COLOUR = "#007A59", "#C04A00", GREY, "#14306B"
UNSEEN, UNSEEN_HATCH = "#9DBDE3", "#6C97CC"

# "1" and "0" are left out: in a chain they may as well be numbers.
NO_WORDS, YES_WORDS = ({pair[i] for pair in NO_AND_YES if not pair[i].isdigit()} for i in (0, 1))

MAX_BARS, TOP_BARS = 12, 10
"""Up to MAX_BARS classes all have a bar; of more, only the TOP_BARS most probable."""
SHOWN_PROBABILITY = 0.005
"""Cells of a heat map above this carry their number."""
QUESTION_WIDTH, ANSWER_WIDTH = 52, 24
"""Characters in a line of a question and of an answer."""
PICTURE_WIDTH = 2.4
"""Inches of a picture beside a chain."""
FEW_CURVES = 3
"""Up to this many curves have a dot at every number of queries, and each stop an entry in the legend."""


def accuracy_curve(
    curves: Mapping[str, Curve],
    path: str | Path | None = None,
    title: str = "",
    stops: Mapping[str, tuple[float, float]] | None = None,
    all_answers: float | None = None,
    costs: Sequence[float] | None = None,
) -> "Figure":
    """Accuracy against queries asked, a line a method; several seeds are a mean within a sample standard deviation.

    With `costs` (P,) it is accuracy against cost instead, and curves hold the accuracy at each of these. `stops` has
    the (mean number asked or mean cost, accuracy) of a method's stopping rule, and `all_answers` the accuracy when
    everything is known. An `Evaluation` brings its own stop, and the only one its accuracy with all answers. Of many
    curves each has a mark of its own besides its colour, and one entry of the legend stands for all stops.
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    measured = {name: curve for name, curve in curves.items() if isinstance(curve, Evaluation)}
    points = {
        name: (stop.mean_asked if costs is None else stop.mean_cost, stop.accuracy)
        for name, evaluation in measured.items()
        if (stop := evaluation.at_stop)
    }
    points.update(stops or {})
    stray = [name for name in points if name not in curves]
    if not curves or stray:
        raise ValueError(f"There is no curve for the stops of {stray}." if curves else "There are no curves to draw.")
    if all_answers is None and len(curves) == len(measured) == 1:
        all_answers = next(iter(measured.values())).accuracy_all_answers
    are_few = len(curves) <= FEW_CURVES
    height = 0.4 * len(curves) + 0.45 * len(points) + 0.9 if are_few else 0.27 * _n_lines(curves) + 1.3
    figure = new_figure(7.4 if are_few else 8.6, max(4.2 if are_few else 5.0, height), title)  # room for the legend
    axes = figure.add_subplot()
    for i, (name, curve) in enumerate(curves.items()):
        _draw_curve(axes, name, _seeds(name, curve, costs), points.get(name), i, are_few, costs)
    if points and not are_few:
        axes.plot([], [], "*", color="white", mec=INK, markersize=12, label="where its rule stops")
    if all_answers is not None:
        label = f"all answers:\n{all_answers:.1%} right"
        axes.axhline(all_answers, color=INK, linestyle="--", linewidth=1.2, label=label)
    axes.set(xlabel="queries asked" if costs is None else "cost", ylabel="accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(integer=costs is None, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    axes.grid(color=FAINT, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    spacing = {"labelspacing": 0.8} if are_few else {"labelspacing": 0.5, "handlelength": 3.2}
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=10, **spacing)
    return save_figure(figure, path)


def image_chain(
    chain: Chain,
    query_set: QuerySet,
    x: Tensor,
    path: str | Path | None = None,
    title: str = "",
    max_steps: int = 12,
) -> "Figure":
    """A column a step: the patches of image `x` (C, H, W) seen so far, and below them the posterior.

    The first column is the whole image and the prior. Chains of more than `max_steps` are thinned evenly, keeping the
    first and the last step; columns bear the true number of their step.
    """
    if query_set.patches is None:
        raise ValueError(f"Only queries about patches of an image can be drawn on it, not {query_set}.")
    if tuple(x.shape) != query_set.patches.image_shape:
        raise ValueError(f"One image of shape {query_set.patches.image_shape} is expected, not {tuple(x.shape)}.")
    if max_steps < 1:
        raise ValueError(f"At least one step must be shown, not {max_steps}.")
    shown = [0, *thinned(len(chain), max_steps)]
    beliefs = _beliefs(chain)  # (T + 1, C)
    classes = np.arange(len(chain.classes)) if len(chain.classes) <= MAX_BARS else _top_classes(beliefs, TOP_BARS)
    names = [shorten(str(chain.classes[c]), CLASS_WIDTH) for c in classes]
    picture, bars = 1.25 * x.shape[1] / x.shape[2], max(0.7, 0.17 * len(classes))  # heights in inches
    figure = new_figure(1.3 * len(shown) + CHARACTER * max(map(len, names)) + 0.3, picture + bars + 1.2, title)
    grid = figure.subplots(2, len(shown), squeeze=False, height_ratios=[picture, bars])
    for column, n in enumerate(shown):
        _draw_patches(grid[0, column], chain, query_set, x, n)
        bits, name = chain.steps[n - 1].bits if n else None, f"step {n}" if n else "the picture"
        grid[0, column].set_title(name if bits is None else f"{name}\n{bits_text(bits)}", fontsize=10)
        _draw_bars(grid[1, column], beliefs[n], classes, chain.classes)
        grid[1, column].set_yticks(range(len(names)), names if column == 0 else [""] * len(names), fontsize=9)
    return save_figure(figure, path)


def answer_chain(
    chain: Chain,
    path: str | Path | None = None,
    title: str = "",
    top: int = 10,
    max_steps: int = 40,
    picture: np.ndarray | None = None,
) -> "Figure":
    """The posterior as a heat map: a row a step, a column for each of the `top` classes most probable at any time.

    Columns are ordered by the final posterior. Questions are coloured by their answer: yes, no, unknown or other.
    Chains of more than `max_steps` are thinned evenly, keeping the first and the last step and their true numbers. A
    `picture` (H, W, 3) of what the questions are about stands beside them.
    """
    if top < 1 or max_steps < 1:
        raise ValueError(f"At least one class and one step must be shown, not {top} and {max_steps}.")
    steps = thinned(len(chain), max_steps)
    beliefs = _beliefs(chain)  # (T + 1, C)
    classes = _top_classes(beliefs, top)
    beliefs = beliefs[[0, *steps]]
    asked = [chain.steps[n - 1] for n in steps]
    given = [query_and_answer("given:", step) for step in chain.initially_known]
    labels = [*given, "start", *(query_and_answer(f"{n}.", step) for n, step in zip(steps, asked, strict=True))]
    colours = [*map(_colour, chain.initially_known), INK, *map(_colour, asked)]
    names = [shorten(str(chain.classes[c]), CLASS_WIDTH) for c in classes]
    lines = [line for label in labels for line in label.split("\n")]
    row_height = 0.29 if len(lines) == len(labels) else 0.36
    label_width, name_height = (CHARACTER * max(map(len, texts)) for texts in (lines, names))
    width = label_width + 0.58 * len(classes) + 0.6 * name_height + 0.3
    beside = 0.0 if picture is None else PICTURE_WIDTH
    figure = new_figure(width + beside, max(row_height * len(labels) + 0.75 * name_height + 0.5, beside), title)
    if picture is None:
        axes = figure.add_subplot()
    else:
        photo, axes = figure.subplots(1, 2, width_ratios=[beside, width])
        photo.imshow(picture)
        photo.set_anchor("N")
        photo.axis("off")
    shown = beliefs[:, classes]  # (T + 1, K)
    axes.imshow(shown, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_ylim(len(beliefs) - 0.5, -len(given) - 0.5)  # what is given has rows without cells, above the prior
    for row, column in np.argwhere(shown > SHOWN_PROBABILITY).tolist():
        p = float(shown[row, column])
        cell = axes.text(column, row, _number(p), ha="center", va="center", fontsize=8.5)
        cell.set_color("white" if p > 0.55 else INK)
        cell.set_fontweight("bold" if classes[column] == beliefs[row].argmax() else "normal")
    axes.set_yticks(range(-len(given), len(beliefs)), labels, fontsize=9.5, linespacing=1.05, va="center")
    for tick, colour in zip(axes.get_yticklabels(), colours, strict=True):
        tick.set_color(colour)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(names)), names, fontsize=9.5, rotation=40, ha="left", rotation_mode="anchor")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.hlines(np.arange(1, len(beliefs)) - 0.5, -0.5, len(classes) - 0.5, color="white", linewidth=1)
    return save_figure(figure, path)


def _draw_curve(
    axes: "Axes",
    name: str,
    seeds: np.ndarray,
    stop: tuple[float, float] | None,
    place: int,
    are_few: bool,
    costs: Sequence[float] | None,
) -> None:
    """The line of one method, from the curves of its seeds (S, T + 1), and the point where it stops."""
    mean, deviation = seeds.mean(axis=0), seeds.std(axis=0, ddof=min(1, len(seeds) - 1))
    n = np.arange(seeds.shape[1]) if costs is None else np.asarray(costs)
    colour, line = COLOURS[place % len(COLOURS)], LINES[place // len(COLOURS) % len(LINES)]
    style: dict[str, Any] = {"marker": "o" if len(n) <= 30 else None, "markersize": 3.5}
    if not are_few:
        # A few marks a line, at other places for each, so that they do not lie upon each other.
        every = max(1, len(n) // 6)
        style = {
            "marker": MARKS[place % len(MARKS)],
            "markersize": 5.5,
            "markevery": (place * every // 7 % every, every),
        }
    label = escape("\n".join(textwrap.wrap(name, CLASS_WIDTH)))
    axes.plot(n, mean, line, color=colour, label=label, linewidth=1.8 if are_few else 1.5, **style)
    if len(seeds) > 1:
        alpha = 0.18 if are_few else 0.12
        axes.fill_between(n, mean - deviation, mean + deviation, color=colour, alpha=alpha, linewidth=0)
    if stop:
        length = f"{stop[0]:.1f} queries" if costs is None else f"cost {stop[0]:.3g}"
        label = f"stops: {length},\n{stop[1]:.1%} right" if are_few else "_"
        axes.plot(*stop, "*", color=colour, mec=INK, markersize=14 if are_few else 11, zorder=5, label=label)


def _n_lines(names: Iterable[str]) -> int:
    """How many lines a legend of these names has."""
    return sum(max(1, len(textwrap.wrap(name, CLASS_WIDTH))) for name in names)


def _draw_patches(axes: "Axes", chain: Chain, query_set: QuerySet, x: Tensor, n: int) -> None:
    """The image as seen after n steps, the patch asked last outlined; all of it for n = 0."""
    from matplotlib.patches import Rectangle

    assert query_set.patches is not None
    known = torch.zeros(1, len(query_set), dtype=torch.bool)
    for step in (*chain.initially_known, *chain.steps[:n]):
        if step.answer is not None:
            known[0, step.query] = True
    is_seen = query_set.units.known(known.to(x.device)).view(x.shape)  # (C, H, W)
    seen = is_seen[:1] if n else torch.ones(1, *x.shape[1:])
    colours = (x.detach().cpu().float() + 1) / 2
    colours = colours if len(colours) == 3 else colours.mean(dim=0).expand(3, -1, -1)
    # Pixels not seen are transparent and show the hatched background.
    image = torch.cat([colours, seen.cpu().float()]).clamp(0, 1).permute(1, 2, 0)  # (H, W, 4)
    axes.imshow(image.numpy(), interpolation="nearest")
    axes.patch.set(facecolor=UNSEEN, edgecolor=UNSEEN_HATCH, hatch="/////", linewidth=0)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=GREY, linewidth=0.8)
    if n:
        row, column = query_set.patches.corner(chain.steps[n - 1].query)
        outline = Rectangle((column - 0.5, row - 0.5), query_set.patches.size, query_set.patches.size, fill=False)
        line = ":" if chain.steps[n - 1].answer is None else "-"
        outline.set(edgecolor=VERMILLION, linewidth=2, linestyle=line, zorder=4, clip_on=False)
        axes.add_patch(outline)


def _draw_bars(axes: "Axes", belief: np.ndarray, classes: np.ndarray, names: Sequence[object]) -> None:
    """The posterior (C,) of some classes, the predicted one highlighted and named below."""
    predicted = int(belief.argmax())
    colours = [BLUE if c == predicted else PALE for c in classes]
    axes.barh(range(len(classes)), belief[classes], color=colours, height=0.8)
    axes.set(xlim=(0, 1.02), ylim=(len(classes) - 0.4, -0.6), xticks=[0.5, 1], xticklabels=[], axisbelow=True)
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.set_xlabel(
        f"{shorten(str(names[predicted]), 16)}\n{_number(float(belief[predicted]))}", fontsize=9, color=BLUE
    )
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def _seeds(name: str, curve: Curve, costs: Sequence[float] | None) -> np.ndarray:
    """The curves of all seeds: (S, T + 1), or at the `costs` (S, P)."""
    if isinstance(curve, Evaluation):
        curve = curve.accuracy_by_asked if costs is None else [accuracy for _, accuracy in curve.accuracy_by_cost]
    try:
        seeds = np.atleast_2d(np.asarray(curve, dtype=float))
    except ValueError:
        seeds = np.empty(0)
    if seeds.ndim != 2 or seeds.size == 0:
        raise ValueError(f"The curve '{name}' is to be a list of accuracies, or one of equal length for each seed.")
    if costs is not None and seeds.shape[1] != len(costs):
        raise ValueError(f"The curve '{name}' has {seeds.shape[1]} accuracies, but there are {len(costs)} costs.")
    return seeds


def thinned(n_steps: int, most: int) -> list[int]:
    """At most `most` of the steps 1 to n_steps, evenly spaced, with the first and the last."""
    if n_steps <= most:
        return list(range(1, n_steps + 1))
    return np.linspace(n_steps, 1, most).round().astype(int).tolist()[::-1]


def _beliefs(chain: Chain) -> np.ndarray:
    """Prior and posteriors: (T + 1, C)."""
    return torch.stack([chain.prior, *(step.posterior for step in chain.steps)]).detach().cpu().double().numpy()


def _top_classes(beliefs: np.ndarray, most: int) -> np.ndarray:
    """The classes most probable at any time, the prediction always among them, ordered by the final posterior."""
    final, highest = beliefs[-1], beliefs.max(axis=0)
    highest[final.argmax()] = np.inf
    chosen = np.sort(np.argsort(-highest, kind="stable")[:most])
    return chosen[np.argsort(-final[chosen], kind="stable")]


def query_and_answer(number: str, step: ChainStep) -> str:
    """A query and its answer, on at most two lines."""
    question = textwrap.wrap(f"{number} {step.text}", QUESTION_WIDTH, max_lines=2, placeholder=" …")
    answer = "unknown" if step.answer is None else shorten(step.answer, ANSWER_WIDTH)
    bits = "" if step.bits is None else f"  {bits_text(step.bits)}"
    return escape("\n".join(question)) + "  " + answer + bits


def _colour(step: ChainStep) -> str:
    if step.answer is None:
        return UNKNOWN_COLOUR
    word = step.answer.split(" (")[0].strip().lower()  # a predicted answer has its probability behind it
    return YES_COLOUR if word in YES_WORDS else NO_COLOUR if word in NO_WORDS else OTHER_COLOUR


def _number(probability: float) -> str:
    # Only certainty itself is written 1: rounding must not promise it.
    return ">0.99" if 0.995 <= probability < 1 else f"{probability:.2f}"
