"""The exported page in a browser, opened from a file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from browsing import Visit, assert_for_everybody, needs_browser
from exported import promising_model
from pursuit import export

needs_browser()
pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.programs]
Visits = Callable[..., Visit]


def test_a_file_guesses_and_goes_on_after_a_reload(visit: Visits, files: dict[str, str]) -> None:
    own = visit().open(files["animals"])
    own.press("s")
    own.press("1")
    own.press("0")
    heading, answers = own.heading, own.page.locator(".chain").first.inner_text()
    own.page.reload()
    own.page.wait_for_selector("main h1")
    assert (own.heading, own.page.locator(".chain").first.inner_text()) == (heading, answers)
    own.click("Start over")
    assert "Nothing yet." in own.page.inner_text("main")
    assert own.play("octopus") == "octopus"
    own.click("That's wrong, go on")
    assert "Is it octopus?" in own.page.locator(".chain").inner_text()
    own.step(lambda: own.page.locator(".chip").last.click())
    own.click("Keep asking")
    own.press("Backspace")
    own.click("That's right")
    assert own.heading == "Thank you. It is octopus."
    own.assert_well("file:")


def test_another_tab_begins_anew(visit: Visits, files: dict[str, str]) -> None:
    one = visit().open(files["animals"])
    one.press("1")
    other = Visit.of(one.page.context).open(files["animals"])
    assert "Nothing yet." in other.page.inner_text("main")
    other.assert_well("file:")


def test_a_doubtful_number_is_asked_again(visit: Visits, files: dict[str, str]) -> None:
    own = visit().open(files["fever"])
    own.page.fill("[data-number]", "385")
    own.press("Enter")
    assert own.heading == "38.5 °C or 385 °C?"
    own.press("2")
    assert "385 °C" in own.page.locator(".chip").inner_text()
    own.press("Backspace")
    own.page.fill("[data-number]", "38,5")
    own.press("Enter")
    assert "38.5 °C" in own.page.locator(".chip").inner_text()
    own.assert_well("file:")


def test_a_file_is_for_everybody(visit: Visits, files: dict[str, str]) -> None:
    own = visit(locale="de-DE").open(files["animals"])
    own.press("1")
    own.press("?")
    assert_for_everybody(own.page, "question")
    own.play("octopus")
    assert_for_everybody(own.page, "result")
    own.assert_well("file:")


def test_who_is_not_sure_leaves_it_to_a_person(visit: Visits, tmp_path: Path) -> None:
    export(promising_model(), tmp_path / "page.html")
    own = visit().open((tmp_path / "page.html").as_uri())
    for _ in range(7):
        if own.page.locator("h1.answer").count():
            break
        own.click("I don't know")
    text = own.page.inner_text("main")
    assert "I am not sure enough to say. The most probable is" in text
    assert "What remains possible" in text
    assert "a person who knows the subject should decide" in text
    assert "How far to trust this" not in text
    assert_for_everybody(own.page, "result")
    own.assert_well("file:")
