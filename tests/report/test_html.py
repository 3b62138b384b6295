"""Whatever is written into a page stays text."""

from pages import Page
from pursuit.report.html import Markup, bar, bars, element, range_bar, table, text


def test_text_is_escaped_and_markup_is_not() -> None:
    assert text("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#x27;"
    assert text(Markup("<b>")) == "<b>"
    assert element("p", "<", element("b", "x")) == "<p>&lt;<b>x</b></p>"
    assert element("a", "x", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;">x</a>'


def test_attributes_are_named_as_html_names_them_and_left_out_if_none() -> None:
    assert element("svg", class_="a", aria_label="b", viewBox="0 0 1 1", id_=None) == (
        '<svg class="a" aria-label="b" viewBox="0 0 1 1"></svg>'
    )
    assert element("meta", name="viewport") == '<meta name="viewport">'


def test_characters_that_a_page_may_not_have_are_replaced() -> None:
    assert text("a\x00b\x1bc\ud800") == "a�b�c�"
    text("a\x00b\ud800").encode()
    assert text("tab\tnew\nline") == "tab\tnew\nline"


def test_bars_stay_within_their_track() -> None:
    assert "width:100.0%" in bar(1.7)
    assert "width:0.0%" in bar(-1)
    assert "margin-left:25.0%;width:50.0%" in range_bar(0.25, 0.75)
    assert "width:1.0%" in range_bar(0.5, 0.5)  # still to be seen


def test_a_table_has_a_caption_and_headings() -> None:
    page = Page(table("What <is>", ("name", "n"), [("<a>", "1")]))
    assert page.under["caption"] == ["What <is>"]
    assert [heading["scope"] for heading in page.all("th")] == ["col", "col", "row"]
    assert page.all("td") == [{"class": "n"}]
    assert page.under["th"][-1] == "<a>"


def test_bars_have_names_and_values_in_words() -> None:
    assert Page(bars([("<x>", "3%", 0.03)])).text == "<x>3%"
