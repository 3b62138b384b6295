"""Small figures as SVG within a page: curves, calibration, patches of images. Their colours are those of the page."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import torch
from torch import Tensor

from pursuit.evaluation.calibration import ReliabilityBin
from pursuit.queries.query_set import PatchGrid
from pursuit.report.html import Markup, element

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 68, 24, 14, 46
MOST_TICKS = 8
Scale = Callable[[float], float]
"""Where a value is drawn."""


def figure(drawing: Markup, caption: object) -> Markup:
    return element("figure", drawing, element("figcaption", caption))


def svg(width: float, height: float, title: str, *children: object, class_: str | None = None) -> Markup:
    """A drawing with an alternative text."""
    view = f"0 0 {width:g} {height:g}"
    return element("svg", element("title", title), *children, viewBox=view, role="img", aria_label=title, class_=class_)


def curve(
    values: Sequence[float],
    title: str,
    x_name: str,
    y_name: str,
    mark: tuple[float, float, str] | None = None,
    beside: Sequence[float] = (),
) -> Markup:
    """`values` at 0, 1, 2 …, from 0 to 1 upward (below 0 where some are); `mark` is a point with a name, `beside` a
    second, dashed line."""
    low, last = min(0.0, *values), max(1, len(values) - 1)

    def x(place: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * place / last

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (1 - low))

    def line(heights: Sequence[float], class_: str) -> Markup:
        points = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(heights))
        return element("polyline", points=points, class_=class_)

    parts: list[object] = [*_levels(y, low), *_ticks(x, last), *_names(x_name, y_name)]
    parts += [line(beside, "beside")] if beside else []
    parts.append(line(values, "curve"))
    if len(values) <= 40:
        parts += [
            element("circle", cx=f"{x(i):.1f}", cy=f"{y(v):.1f}", r=3, class_="dot") for i, v in enumerate(values)
        ]
    if mark is not None:
        place, value, name = mark
        is_right = place > 0.6 * last  # its name then stands on the left
        parts += [
            element("line", x1=f"{x(place):.1f}", x2=f"{x(place):.1f}", y1=TOP, y2=HEIGHT - BOTTOM, class_="guide"),
            element("circle", cx=f"{x(place):.1f}", cy=f"{y(value):.1f}", r=6, class_="dot"),
            element(
                "text",
                name,
                x=f"{x(place) + (-10 if is_right else 10):.1f}",
                y=f"{min(y(value) + 24, HEIGHT - BOTTOM - 8):.1f}",
                text_anchor="end" if is_right else "start",
                class_="strong",
            ),
        ]
    return svg(WIDTH, HEIGHT, title, *parts)


def reliability_figure(bins: Sequence[ReliabilityBin], title: str) -> Markup:
    """How often each confidence is right, with 95 % intervals; on the dashed line, confidence is deserved."""

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value)

    most = max(one.n_rows for one in bins)
    parts: list[object] = [*_levels(y, 0.0), *_names("how sure it is", "how often it is right")]
    parts += [_tick(x(share / 5), f"{20 * share}%") for share in range(6)]
    for one in bins:  # how many rows there are, as columns at the bottom
        height = 0.25 * (HEIGHT - TOP - BOTTOM) * one.n_rows / most
        left, right = x(one.low) + 3, x(one.high) - 3
        parts.append(
            element(
                "rect",
                element("title", f"{one.n_rows} rows"),
                x=f"{left:.1f}",
                y=f"{y(0) - height:.1f}",
                width=f"{right - left:.1f}",
                height=f"{height:.1f}",
                class_="column",
            )
        )
    parts.append(element("line", x1=x(0), y1=y(0), x2=x(1), y2=y(1), class_="guide"))
    for one in bins:
        place, (low, high) = f"{x(one.confidence):.1f}", one.accuracy_interval
        parts.append(element("line", x1=place, x2=place, y1=f"{y(low):.1f}", y2=f"{y(high):.1f}", class_="whisker"))
        parts.append(element("circle", cx=place, cy=f"{y(one.accuracy):.1f}", r=4.5, class_="dot"))
    return svg(WIDTH, HEIGHT, title, *parts)


def patch_place(grid: PatchGrid, query: int) -> Markup:
    """Where a patch lies in its image."""
    _, height, width = grid.image_shape
    row, column = grid.corner(query)
    line = max(height, width) / 40
    title = f"{grid.size}x{grid.size} patch at row {row}, column {column} of an image of {height}x{width}"
    frame = element("rect", x=0, y=0, width=width, height=height, class_="frame", stroke_width=line)
    place = element("rect", x=column, y=row, width=grid.size, height=grid.size, class_="cell")
    return svg(width, height, title, frame, place, class_="grid")


def patch_map(grid: PatchGrid, shares: Sequence[float], title: str) -> Markup:
    """How often each patch is asked for, darker for more; `shares` (Q,) are from 0 to 1."""
    rows, columns = grid.shape
    most = max(*shares, 1e-9)
    cells = [
        element(
            "rect",
            element("title", f"{share:.1%} of the rows"),
            x=query % columns,
            y=query // columns,
            width=1.02,
            height=1.02,
            class_="cell",
            opacity=f"{(share / most) ** 0.5:.2f}",
        )
        for query, share in enumerate(shares)
        if share > 0
    ]
    frame = element("rect", x=0, y=0, width=columns, height=rows, class_="frame", stroke_width=columns / 100)
    return svg(columns, rows, title, *cells, frame, class_="map")


def revealed_image(grid: PatchGrid, x: Tensor, queries: Sequence[int], title: str) -> Markup:
    """The pixels of an image `x` (C, H, W), from -1 to 1, that are seen once the patches `queries` are; the last of
    them has a frame."""
    _, height, width = grid.image_shape
    seen = torch.zeros(height, width, dtype=torch.bool)
    for query in queries:
        row, column = grid.corner(query)
        seen[row : row + grid.size, column : column + grid.size] = True
    shades = ((x.float() + 1) * 127.5).round().clamp(0, 255).int()  # (C, H, W)
    shades = shades if len(shades) == 3 else shades[:1].expand(3, -1, -1)
    parts = [element("rect", x=0, y=0, width=width, height=height, class_="unseen")]
    for row, column in seen.nonzero().tolist():
        red, green, blue = shades[:, row, column].tolist()
        colour = f"#{red:02x}{green:02x}{blue:02x}"
        parts.append(element("rect", x=column, y=row, width=1.02, height=1.02, fill=colour))
    if queries:
        row, column = grid.corner(queries[-1])
        parts.append(element("rect", x=column, y=row, width=grid.size, height=grid.size, class_="mark"))
    return svg(width, height, title, *parts, class_="map")


def _levels(y: Scale, low: float) -> list[Markup]:
    """Lines across at round shares, with their names."""
    shares = [share / 4 for share in range(5)] + ([round(low, 2)] if low < -0.1 else [])
    return [
        part
        for share in shares
        for part in (
            element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y(share):.1f}", y2=f"{y(share):.1f}", class_="axis"),
            element("text", f"{share:.0%}", x=LEFT - 8, y=f"{y(share) + 4:.1f}", text_anchor="end"),
        )
    ]


def _ticks(x: Scale, last: int) -> list[Markup]:
    step = next(step for step in _steps() if last / step <= MOST_TICKS)
    return [_tick(x(place), str(place)) for place in range(0, last + 1, step)]


def _steps() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50 …"""
    return (digit * 10**power for power in count() for digit in (1, 2, 5))


def _tick(place: float, name: str) -> Markup:
    return element("text", name, x=f"{place:.1f}", y=HEIGHT - BOTTOM + 18, text_anchor="middle")


def _names(x_name: str, y_name: str) -> list[Markup]:
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    return [
        element("text", x_name, x=LEFT + (WIDTH - LEFT - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle"),
        element("text", y_name, x=12, y=middle, text_anchor="middle", transform=f"rotate(-90 12 {middle:g})"),
    ]
