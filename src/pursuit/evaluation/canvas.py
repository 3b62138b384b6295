"""What all figures share: colours, a canvas with a title, short names, and writing a file. matplotlib is only imported
when something is drawn, and never through pyplot, so no display is needed."""

import io
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from pursuit.files import make_folder, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which colour-blind people can tell apart.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#B8588F", "#E69F00", "#56B4E9"
INK, GREY, PALE, FAINT = "#222222", "#767676", "#C3C8CE", "#E4E7EA"
FORMATS, DPI = ("png", "svg", "pdf"), 160
CLASS_WIDTH = 28
"""Characters in a line of the name of a class."""
CHARACTER = 0.073
"""Inches that a character of the usual size takes, generously."""


def shorten(text: str, width: int) -> str:
    """The text on one line, cut in the middle where it is too long: names often differ at their end."""
    text = " ".join(text.split())
    return escape(text if len(text) <= width else f"{text[: width // 2 - 1].rstrip()}…{text[-(width // 2) :].lstrip()}")


def escape(text: str) -> str:
    # Between dollar signs matplotlib would read a formula.
    return text.replace("$", r"\$")


def new_figure(width: float, height: float, title: str) -> "Figure":
    """An empty figure, large enough for its title, which stands above the rest."""
    from matplotlib.figure import Figure

    width = max(width, 3.2)
    lines = textwrap.wrap(title, int(9 * width))
    figure = Figure((width, height + 0.25 * len(lines)), dpi=DPI, layout="constrained")
    if lines:
        figure.suptitle(escape("\n".join(lines)), fontsize=12)
    return figure


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
