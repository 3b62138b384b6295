"""A page that is whole by itself: no other hosts, no scripts, light and dark, narrow and printed."""

from collections.abc import Sequence
from functools import cache
from importlib import resources

from pursuit.report.html import Markup, element, joined, paragraph
from pursuit.version import __version__

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may do with the page: show it. Nothing is fetched and nothing is run, whatever the data say."""


@cache
def _style() -> Markup:
    return Markup(resources.files("pursuit.report").joinpath("style.css").read_text(encoding="utf-8"))


def page(title: str, subtitle: str, body: Sequence[Markup], contents: Sequence[tuple[str, str]] = ()) -> str:
    """A page of sections below a header; `contents` are the ids of some of them, with their names."""
    links = [element("a", name, href=f"#{anchor}") for anchor, name in contents]
    header = element(
        "header",
        element("b", title),
        element("span", subtitle),
        *([element("nav", *links, aria_label="Contents")] if links else []),
    )
    footer = element("footer", paragraph(f"Written by pursuit {__version__}. This page is one file and loads nothing."))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · pursuit"),
        element("style", _style()),
    )
    content = element("body", header, element("main", *body), footer)
    return joined([Markup("<!doctype html>\n"), element("html", head, content, lang="en"), "\n"])
