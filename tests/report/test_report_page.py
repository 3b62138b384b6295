"""Whatever is written into a page stays text."""

from typing import Any

import pytest

from pages import Page
from pursuit.report.page import _environment, clean


def macro(name: str, *arguments: Any, **options: Any) -> str:
    """What a macro of the templates writes."""
    return str(getattr(_environment().get_template("macros.html").module, name)(*arguments, **options))


def test_text_is_escaped_and_characters_that_a_page_may_not_have_are_replaced() -> None:
    shown = macro("bars", [("<b>&\"'", "a\x00b\x1bc\ud800", 0.03)])
    assert Page(shown).words == "<b>&\"' a�b�c�"
    assert "<b>" not in shown
    shown.encode()
    assert clean("tab\tnew\nline") == "tab\tnew\nline"


def test_attributes_are_escaped() -> None:
    assert "<script>" not in macro("box", 0, 0, 1, 1, '"><script>')


@pytest.mark.parametrize(("share", "width"), [(1.7, "100.0%"), (-1, "0.0%"), (0.25, "25.0%")])
def test_bars_stay_within_their_track(share: float, width: str) -> None:
    assert f"width:{width}" in macro("bar", share)


def test_ranges_can_always_be_seen() -> None:
    assert "margin-left:25.0%;width:50.0%" in macro("range_bar", 0.25, 0.75)
    assert "width:1.0%" in macro("range_bar", 0.5, 0.5)


def test_a_table_has_a_caption_and_headings() -> None:
    page = Page(macro("table", "What <is>", ["name", "n"], caller=lambda: macro("row", ["<a>", 1])))
    assert page.under["caption"] == ["What <is>"]
    assert [heading["scope"] for heading in page.all("th")][:2] == ["col", "col"]


@pytest.mark.parametrize(("values", "n_ticks"), [([0.5], 2), ([0.1, 0.5, 0.9], 3), ([0.5] * 14, 7), ([-0.4] * 700, 7)])
def test_a_curve_has_all_its_points_and_few_ticks(values: list[float], n_ticks: int) -> None:
    page = Page(macro("curve", values, "A curve", "questions", "right", (0, 0.5, "stops"), values))
    curve, beside = (next(one for one in page.all("polyline") if one["class"] == kind) for kind in ("curve", "beside"))
    assert curve["points"] == beside["points"]
    assert len((curve["points"] or "").split()) == len(values)
    assert len([one for one in page.all("text") if one.get("y") == "272"]) == n_ticks
    assert all(14 <= float(point.split(",")[1]) <= 254 for point in (curve["points"] or "").split())
    assert page.all("svg")[0]["aria-label"] == "A curve"
