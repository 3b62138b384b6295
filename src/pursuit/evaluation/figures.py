"""Figures: accuracy curves, reliability, confusion matrices, what is asked when, and chains.

Every function returns a matplotlib `Figure` and, given a `path`, writes it as png, svg or pdf. matplotlib is only
imported when something is drawn, and never through pyplot, so no display is needed.
"""

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pursuit.evaluation.calibration import ReliabilityBin
from pursuit.files import make_folder, write_whole
from pursuit.inference.chain import Chain, ChainStep, bits_text
from pursuit.queries import QuerySet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS, DPI = ("png", "svg", "pdf"), 160
# The palette of Okabe and Ito, which colour-blind people can tell apart.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#B8588F", "#E69F00", "#56B4E9"
INK, GREY, PALE, FAINT = "#222222", "#767676", "#C3C8CE", "#E4E7EA"
COLOURS, LINES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY), ("-", "-.", ":")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
"""One more than colours, so that a pair of mark and colour repeats late."""
ANSWERED_COLOUR, UNKNOWN_COLOUR = "#14306B", GREY
"""One colour for every answer: yes is no better than no."""
UNSEEN, UNSEEN_HATCH = "#9DBDE3", "#6C97CC"

CHARACTER = 0.073
"""Inches that a character of the usual size takes, generously."""
CLASS_WIDTH, QUERY_WIDTH, QUESTION_WIDTH, ANSWER_WIDTH = 28, 46, 52, 24
"""Characters in a line of the name of a class, the name of a query, a question and an answer."""
FEW_CURVES = 3
"""Up to this many curves have a dot at every number of queries, and each stop an entry in the legend."""
MOST_NAMED_CLASSES = 40
"""Up to this many classes of a confusion matrix have names, and cells with numbers."""
MAX_BARS, TOP_CLASSES = 12, 10
"""Up to MAX_BARS classes all have a bar; of more, and in a heat map, only the TOP_CLASSES most probable at any time."""
MOST_PICTURES, MOST_ROWS = 12, 40
"""Steps of a chain that are shown, as pictures and as rows; longer chains are thinned evenly, and keep the first step,
the last and the true numbers."""
SHOWN_PROBABILITY = 0.005
"""Cells of a heat map of probabilities above this have a number."""
PICTURE_WIDTH, INTERVAL_WIDTH = 2.4, 4.0
"""Inches of a picture beside a chain, and of the intervals of a number."""
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that are drawn: the interval of 90 % as a thin line, its middle half as a thick one."""

Curve = Sequence[float] | Sequence[Sequence[float]] | np.ndarray
"""Accuracy by the number of queries asked, from 0: of one run, or of several seeds (S, T + 1)."""


def shorten(text: str, width: int) -> str:
    """The text on one line, cut in the middle where it is too long: names often differ at their end."""
    text = " ".join(text.split())
    return escape(text if len(text) <= width else f"{text[: width // 2 - 1].rstrip()}…{text[-(width // 2) :].lstrip()}")


def escape(text: str) -> str:
    # Between dollar signs matplotlib would read a formula.
    return text.replace("$", r"\$")


def new_figure(width: float, height: float, title: str) -> "Figure":
    """An empty figure, large enough for its title, which stands above the rest."""
    width = max(width, 3.2)
    lines = textwrap.wrap(title, int(9 * width))
    figure: Figure = _figure_class()((width, height + 0.25 * len(lines)), dpi=DPI, layout="constrained")
    if lines:
        figure.suptitle(escape("\n".join(lines)), fontsize=12)
    return figure


@cache
def _figure_class() -> "type[Figure]":
    """Figures that notebooks show, though pyplot does not know of them."""
    from matplotlib.figure import Figure

    class Drawn(Figure):
        def _repr_png_(self) -> bytes:
            drawn = io.BytesIO()
            self.savefig(drawn, format="png", dpi=DPI)
            return drawn.getvalue()

    return Drawn


def save_figure(figure: "Figure", path: str | Path | None) -> "Figure":
    """Write the figure whole or not at all: it is drawn in memory first."""
    if path is None:
        return figure
    path = Path(path)
    suffix = path.suffix[1:].lower()
    if suffix not in FORMATS:
        raise ValueError(f"Figures are written as {', '.join(FORMATS)}: give {path.name!r} one of these endings.")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=suffix, dpi=DPI)
    make_folder(path.parent)
    write_whole(path, drawn.getvalue())
    return figure


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
    everything is known. Of many curves each has a mark of its own besides its colour, and one entry of the legend
    stands for all stops.
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    stops = stops or {}
    stray = [name for name in stops if name not in curves]
    if not curves or stray:
        raise ValueError(f"There is no curve for the stops of {stray}." if curves else "There are no curves to draw.")
    are_few = len(curves) <= FEW_CURVES
    n_lines = sum(max(1, len(textwrap.wrap(name, CLASS_WIDTH))) for name in curves)  # of the legend
    height = 0.4 * len(curves) + 0.45 * len(stops) + 0.9 if are_few else 0.27 * n_lines + 1.3
    figure = new_figure(7.4 if are_few else 8.6, max(4.2 if are_few else 5.0, height), title)  # room for the legend
    axes = figure.add_subplot()
    for i, (name, curve) in enumerate(curves.items()):
        _draw_curve(axes, name, _seeds(name, curve, costs), stops.get(name), i, are_few, costs)
    if stops and not are_few:
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


def _seeds(name: str, curve: Curve, costs: Sequence[float] | None) -> np.ndarray:
    """The curves of all seeds: (S, T + 1), or at the `costs` (S, P)."""
    try:
        seeds = np.atleast_2d(np.asarray(curve, dtype=float))
    except ValueError:
        seeds = np.empty(0)
    if seeds.ndim != 2 or seeds.size == 0:
        raise ValueError(f"The curve '{name}' is to be a list of accuracies, or one of equal length for each seed.")
    if costs is not None and seeds.shape[1] != len(costs):
        raise ValueError(f"The curve '{name}' has {seeds.shape[1]} accuracies, but there are {len(costs)} costs.")
    return seeds


def bars(
    names: Sequence[str], values: Sequence[float], unit: str, path: str | Path | None = None, title: str = ""
) -> "Figure":
    """A bar a name, the first on top."""
    figure = new_figure(7.4, 0.8 + 0.4 * len(names), title)
    axes = figure.add_subplot()
    axes.barh([escape(shorten(name, QUERY_WIDTH)) for name in names], values, color=BLUE)
    axes.invert_yaxis()
    axes.set(xlabel=unit)
    axes.spines[["top", "right"]].set_visible(False)
    return save_figure(figure, path)


def reliability_figure(
    bins: Sequence[ReliabilityBin],
    accuracy: Sequence[float],
    confidence: Sequence[float],
    path: str | Path | None = None,
    title: str = "",
    remark: str = "",
) -> "Figure":
    """On the left, how often beliefs of each confidence are right: on the dashed line where they can be trusted. On the
    right, mean confidence and accuracy after each query."""
    figure = new_figure(8.6, 3.6, title)
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], linestyle="--", color=GREY, linewidth=1)
    most = max((one.n_rows for one in bins), default=1)
    for one in bins:
        low, high = one.accuracy_interval
        left.bar(one.low + 0.05, 0.25 * one.n_rows / most, width=0.08, color=PALE)
        errors = [[max(0.0, one.accuracy - low)], [max(0.0, high - one.accuracy)]]
        left.errorbar(one.confidence, one.accuracy, yerr=errors, fmt="o", color=BLUE, capsize=2, markersize=5)
    left.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy")
    left.set_title(remark, fontsize=9, color=INK)
    right.plot(accuracy, color=BLUE, label="accuracy")
    if len(confidence):
        right.plot(confidence, color=VERMILLION, linestyle="--", label="confidence")
    right.set(xlabel="queries asked", ylim=(0, 1.02))
    right.legend(frameon=False, loc="lower right")
    return save_figure(figure, path)


def confusion_figure(
    labels: Sequence[object], confusion: Sequence[Sequence[int]], path: str | Path | None = None, title: str = ""
) -> "Figure":
    """How many rows of each class were taken for each (C, C), coloured by their share of the class."""
    counts = np.array(confusion)  # (C, C), true by predicted
    shares = counts / counts.sum(axis=1, keepdims=True).clip(1)
    names = [shorten(str(label), CLASS_WIDTH) for label in labels]
    has_names = len(names) <= MOST_NAMED_CLASSES
    name_width = CHARACTER * max(map(len, names)) if has_names else 0.3
    digits = len(str(counts.max()))
    cell = max(0.34, CHARACTER * digits + 0.1) if has_names else max(0.04, 6 / len(names))
    side = cell * len(names) + name_width
    figure = new_figure(side + 0.9, side + 0.5, title)
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted", ylabel="true label")
    if has_names:
        _write_cells(axes, shares, counts > 0, lambda row, column: f"{counts[row, column]}")
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor", fontsize=9)
        axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.tick_params(length=0)
    return save_figure(figure, path)


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
        return image_chain(chain, query_set, query_set.answers(X).x[0], path, title)
    return answer_chain(chain, path, title, picture=picture)


def image_chain(
    chain: Chain, query_set: QuerySet, x: Tensor, path: str | Path | None = None, title: str = ""
) -> "Figure":
    """A column a step: the patches of image `x` (C, H, W) seen so far, and below them the posterior. The first column
    is the whole image and the prior."""
    if query_set.patches is None:
        raise ValueError(f"Only queries about patches of an image can be drawn on it, not {query_set}.")
    if tuple(x.shape) != query_set.patches.image_shape:
        raise ValueError(f"One image of shape {query_set.patches.image_shape} is expected, not {tuple(x.shape)}.")
    shown = [0, *_thinned(len(chain), MOST_PICTURES)]
    beliefs = _beliefs(chain)  # (T + 1, C)
    classes = np.arange(len(chain.classes)) if len(chain.classes) <= MAX_BARS else _top_classes(beliefs, TOP_CLASSES)
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


def answer_chain(
    chain: Chain, path: str | Path | None = None, title: str = "", picture: np.ndarray | None = None
) -> "Figure":
    """The posterior as a heat map: a row a step, a column a class, ordered by the final posterior. Questions without an
    answer are grey. A `picture` (H, W, 3) of what the questions are about stands beside them."""
    rows = _ChainRows.of(chain)
    classes = _top_classes(_beliefs(chain), TOP_CLASSES)
    beliefs = _beliefs(chain)[[0, *rows.steps]]
    names = [shorten(str(chain.classes[c]), CLASS_WIDTH) for c in classes]
    row_height = 0.29 if rows.n_lines == len(rows.labels) else 0.36
    name_height = CHARACTER * max(map(len, names))
    width = rows.width + 0.58 * len(classes) + 0.6 * name_height + 0.3
    beside = 0.0 if picture is None else PICTURE_WIDTH
    figure = new_figure(width + beside, max(row_height * len(rows.labels) + 0.75 * name_height + 0.5, beside), title)
    if picture is None:
        axes = figure.add_subplot()
    else:
        photo, axes = figure.subplots(1, 2, width_ratios=[beside, width])
        photo.imshow(picture)
        photo.set_anchor("N")
        photo.axis("off")
    shown = beliefs[:, classes]  # (T + 1, K)
    axes.imshow(shown, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_ylim(len(beliefs) - 0.5, -rows.n_given - 0.5)  # what is given has rows without cells, above the prior
    _write_cells(axes, shown, shown > SHOWN_PROBABILITY, lambda row, column: _number(float(shown[row, column])))
    for cell in axes.texts:
        column, row = map(int, cell.get_position())
        cell.set_fontweight("bold" if classes[column] == beliefs[row].argmax() else "normal")
    rows.label(axes)
    for tick, colour in zip(axes.get_yticklabels(), rows.colours, strict=True):
        tick.set_color(colour)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(names)), names, fontsize=9.5, rotation=40, ha="left", rotation_mode="anchor")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.hlines(np.arange(1, len(beliefs)) - 0.5, -0.5, len(classes) - 0.5, color="white", linewidth=1)
    return save_figure(figure, path)


def number_chain(chain: Chain, path: str | Path | None = None, title: str = "") -> "Figure":
    """The belief about a number as intervals, a row a step: 90 % of it within the thin line, half within the thick
    one, and its mean as a point."""
    if chain.target is None:
        raise ValueError("This chain predicts a class: draw it with answer_chain.")
    rows = _ChainRows.of(chain)
    posterior = torch.stack([chain.prior, *(chain.steps[n - 1].posterior for n in rows.steps)])
    lowest, low, _, high, highest = chain.target.quantiles(posterior, LEVELS).T.tolist()
    means = chain.target.mean(posterior).tolist()
    figure = new_figure(rows.width + INTERVAL_WIDTH, 0.36 * len(rows.labels) + 0.6, title)
    axes, places = figure.add_subplot(), range(len(means))
    axes.hlines(places, lowest, highest, color=BLUE, linewidth=1.5)
    axes.hlines(places, low, high, color=BLUE, linewidth=5, alpha=0.6)
    axes.plot(means, places, "o", color=INK, markersize=5)
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8.5, "ha": "center"}
    for row, mean in zip(places, means, strict=True):
        axes.annotate(chain.target.text(mean), (mean, row), (0, 6), **style)
    rows.label(axes)
    axes.set_ylim(len(means) - 0.5, -rows.n_given - 0.7)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    return save_figure(figure, path)


class _ChainRows(NamedTuple):
    """The rows of a figure of a chain: what is given, the start, and a row for each step that is shown."""

    steps: list[int]
    """The numbers of these steps."""
    n_given: int
    labels: list[str]
    colours: list[str]

    @classmethod
    def of(cls, chain: Chain) -> "_ChainRows":
        steps = _thinned(len(chain), MOST_ROWS)
        asked = [chain.steps[n - 1] for n in steps]
        given = [_query_and_answer("given:", step) for step in chain.initially_known]
        labels = [*given, "start", *(_query_and_answer(f"{n}.", step) for n, step in zip(steps, asked, strict=True))]
        colours = [
            UNKNOWN_COLOUR if step.answer is None else ANSWERED_COLOUR for step in (*chain.initially_known, *asked)
        ]
        colours.insert(len(given), INK)
        return cls(steps, len(given), labels, colours)

    @property
    def n_lines(self) -> int:
        return sum(label.count("\n") + 1 for label in self.labels)

    @property
    def width(self) -> float:
        """Inches that the longest line takes."""
        return CHARACTER * max(len(line) for label in self.labels for line in label.split("\n"))

    def label(self, axes: "Axes") -> None:
        """Write the labels beside the rows; the start is row 0."""
        places = range(-self.n_given, len(self.steps) + 1)
        axes.set_yticks(places, self.labels, fontsize=9.5, linespacing=1.05, va="center")


def _write_cells(axes: "Axes", shades: np.ndarray, has_text: np.ndarray, text: Callable[[int, int], str]) -> None:
    """Write a text into the cells of a heat map, in white where the shade is dark."""
    for row, column in np.argwhere(has_text).tolist():
        colour = "white" if shades[row, column] > 0.55 else INK
        axes.text(column, row, text(row, column), ha="center", va="center", fontsize=8.5, color=colour)


def _thinned(n_steps: int, most: int) -> list[int]:
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


def _query_and_answer(number: str, step: ChainStep) -> str:
    """A query and its answer, on at most two lines."""
    question = textwrap.wrap(f"{number} {step.text}", QUESTION_WIDTH, max_lines=2, placeholder=" …")
    answer = "unknown" if step.answer is None else shorten(step.answer, ANSWER_WIDTH)
    bits = "" if step.bits is None else f"  {bits_text(step.bits)}"
    return escape("\n".join(question)) + "  " + answer + bits


def _number(probability: float) -> str:
    # Only certainty itself is written 1: rounding must not promise it.
    return ">0.99" if 0.995 <= probability < 1 else f"{probability:.2f}"
