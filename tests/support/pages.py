"""Reads a page and holds what every page must keep to."""

from html.parser import HTMLParser

TEXT = "title h1 h2 h3 p b i em small span a ul ol li dl dt dd table caption thead tbody tr th td details summary"
PARTS = "html head meta style body header nav main section article div footer figure figcaption"
DRAWINGS = "svg rect line circle polyline text"
ALLOWED = {*TEXT.split(), *PARTS.split(), *DRAWINGS.split()}
EVIL = "<script>alert('x')</script>"
HOSTILE = '"><img src=x onerror=alert(1)>'
"""Names and answers that must do no harm."""
VOID = {"meta", "br", "hr", "img"}


class Page(HTMLParser):
    """The elements of a page; fails where they are not nested."""

    def __init__(self, source: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.under: dict[str, list[str]] = {}
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.under.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        for tag in set(self.open):
            self.under[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def check_page(source: str) -> Page:
    """Whole by itself, accessible, and without anything that could run or be fetched."""
    page = Page(source)
    assert source.startswith('<!doctype html>\n<html lang="en">')
    assert {name for name, _ in page.elements} <= ALLOWED
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "action", "data")]
        assert (attributes.get("href") or "#").startswith("#")
        assert "url(" not in (attributes.get("style") or "")
    assert "http:" not in source
    assert "https:" not in source
    assert "url(" not in source
    assert "@import" not in source
    assert any((one.get("content") or "").startswith("default-src 'none'") for one in page.all("meta"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"] for attributes in page.all("a")} <= {f"#{name}" for name in ids}
    assert len(page.all("table")) == len(page.all("caption"))
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.all("th"))
    assert all(attributes.get("role") == "img" and attributes.get("aria-label") for attributes in page.all("svg"))
    assert len(page.all("h1")) >= 1
    assert all(heading.strip() for level in ("h1", "h2", "h3") for heading in page.under.get(level, []))
    return page
