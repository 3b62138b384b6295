"""Small HTML for notebooks: tables and bars, with all that comes from data escaped."""

import html
from collections.abc import Iterable, Sequence

CELL = "text-align:left;vertical-align:top;padding:.15em .9em .15em 0;white-space:normal"
BAR = "display:inline-block;height:.7em;border-radius:.2em;background:#2456c7;vertical-align:baseline"
WIDEST = 8
"""The width of a full bar, in letters."""


class Bar(str):
    """A text beside a bar that is filled to a `share`."""

    share: float

    def __new__(cls, text: str, share: float) -> "Bar":
        made = super().__new__(cls, text)
        made.share = min(max(float(share), 0.0), 1.0)
        return made


def block(title: str, *parts: str) -> str:
    """A title above parts that are HTML already."""
    return f'<div style="line-height:1.45"><div style="font-weight:600">{_text(title)}</div>{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    return f"<div>{_text(text)}</div>" if text else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without numbers of its own; cells that are a `Bar` have one."""
    top = "".join(f'<th scope="col" style="{CELL};font-weight:400;opacity:.7">{_text(name)}</th>' for name in header)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    head = f"<thead><tr>{top}</tr></thead>" if any(header) else ""
    return f'<table style="border-collapse:collapse;margin:.3em 0">{head}<tbody>{body}</tbody></table>'


def _cell(text: str) -> str:
    if not isinstance(text, Bar):
        return f'<td style="{CELL}">{_text(text)}</td>'
    bar = f'<span style="{BAR};width:{text.share * WIDEST:.2f}em" aria-hidden="true"></span>'
    return (
        f'<td style="{CELL}"><span style="display:inline-block;min-width:{WIDEST + 1}em">{bar}</span>{_text(text)}</td>'
    )


def _text(text: object) -> str:
    return html.escape(str(text))
