"""HTML that cannot go wrong by what is written in it: whatever is not `Markup` is text, and escaped."""

import html
import re
from collections.abc import Iterable, Sequence

VOID = {"meta", "br", "hr", "img"}
"""Elements without content."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff￾￿]")
"""Characters that a page may not have."""


class Markup(str):
    """HTML that is ready to be part of a page."""

    __slots__ = ()


def text(value: object) -> Markup:
    """A value as text of a page; characters that a page may not have become �."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(_CONTROL.sub("�", str(value)), quote=True))


def joined(parts: Iterable[object]) -> Markup:
    return Markup("".join(text(part) for part in parts))


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. Attributes that are None are left out; `class_` is class, and `stroke_width` is stroke-width."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def card(title: str, *children: object, id_: str | None = None, class_: str | None = None) -> Markup:
    """A section of a page with a heading."""
    return element("section", element("h2", title), *children, id_=id_, class_=class_)


def paragraph(*children: object, class_: str | None = None) -> Markup:
    return element("p", *children, class_=class_)


def bar(share: float, class_: str = "b") -> Markup:
    """A bar that is filled up to a share from 0 to 1. What it shows stands beside it in numbers."""
    width = f"{100 * min(1.0, max(0.0, share)):.1f}%"
    return element("span", element("i", style=f"width:{width}"), class_=class_, aria_hidden="true")


def range_bar(low: float, high: float, class_: str = "b range") -> Markup:
    """A bar that is filled between two shares from 0 to 1."""
    low, high = min(1.0, max(0.0, low)), min(1.0, max(0.0, high))
    place = f"margin-left:{100 * low:.1f}%;width:{max(1.0, 100 * (high - low)):.1f}%"
    return element("span", element("i", style=place), class_=class_, aria_hidden="true")


def bars(rows: Iterable[tuple[object, object, float]], label: str | None = None) -> Markup:
    """Names with a value in words and a bar each, the first of them highlighted."""
    items = [element("li", element("span", name), element("em", value), bar(share)) for name, value, share in rows]
    return element("ul", *items, class_="bars", aria_label=label)


def table(
    caption: object, head: Sequence[object], rows: Iterable[Sequence[object]], numbers_from: int = 1, class_: str = ""
) -> Markup:
    """A table with a caption, whose first cell of each row is a heading; columns from `numbers_from` on are numbers."""
    kind = [None if i < numbers_from else "n" for i in range(len(head))]
    top = element("tr", *(element("th", name, scope="col", class_=c) for name, c in zip(head, kind, strict=True)))
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_=c) for cell, c in zip(row[1:], kind[1:], strict=True)),
        )
        for row in rows
    ]
    whole = element(
        "table", element("caption", caption), element("thead", top), element("tbody", *body), class_=class_ or None
    )
    # Wide tables scroll by themselves, also by keyboard, so that a narrow page does not.
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def details(summary: object, *children: object) -> Markup:
    return element("details", element("summary", summary), *children)
