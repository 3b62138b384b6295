"""The exported page in a browser, opened from a file."""

import copy
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from browsing import Visit, assert_for_everybody, fever_model, needs_browser
from exported import number_model, promising_model
from pursuit import MLP, Stage, VIPClassifier, export

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


def test_a_name_in_small_letters_has_a_capital_one_as_a_heading(visit: Visits, tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"heart_rate": [*["slow", "fast"] * 20], "pH": ["low"] * 20 + ["high"] * 20, "acidity": ["a", "b"] * 20}
    )
    model = VIPClassifier(network=MLP((8,)), stages=[Stage(2, batch_size=16)], stop="never", random_state=0)
    model.fit(rows, ["a", "b", "a", "c"] * 10)
    model.notes_ = {"task": {"questions": "[languages.de]\n'acidity?' = 'pH-Wert?'"}}
    export(model, tmp_path / "page.html")
    own, shown = visit(locale="de-DE").open((tmp_path / "page.html").as_uri()), {}
    while own.is_asking:
        shown[own.heading] = own.page.inner_text("main h1")
        own.press("1")
    assert shown == {"heart rate?": "Heart rate?", "pH?": "pH?", "pH-Wert?": "pH-Wert?"}


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


GERMAN = """[interview]
title = "Machines"
introduction = "Hello."

[results.flu]
text = "Stay in bed."

[languages.de]
"Machines" = "Maschinen"
"Hello." = "Guten Tag."
"How high is the fever?" = "Wie hoch ist das Fieber?"
"town?" = "Welche Stadt?"
"Town A0" = "Stadt A0"
"°C" = "Grad"
"flu" = "Grippe"
"Stay in bed." = "Bleiben Sie im Bett."
"""


def test_an_interview_in_two_languages(visit: Visits, tmp_path: Path) -> None:
    model = fever_model()
    noted = copy.copy(model)
    noted.notes_ = {"task": {"questions": GERMAN}}
    export(noted, tmp_path / "fever.html")
    own = visit(locale="de-DE").open((tmp_path / "fever.html").as_uri())
    assert own.heading == "Maschinen"
    assert "Guten Tag." in own.page.inner_text("main")
    own.page.locator("main button.first").click()
    own.page.get_by_role("heading", name="Wie hoch ist das Fieber?").wait_for()
    own.page.fill("[data-number]", "39,5 Grad")
    own.press("Enter")
    assert "39,5 Grad" in own.page.locator(".chip").inner_text()
    assert own.heading == "Welche Stadt?"
    own.page.get_by_role("button", name="Stadt A0").click()
    own.page.locator(".chip", has_text="Stadt A0").wait_for()
    own.press("d")
    own.press("1")
    assert "Grippe" in own.heading
    assert "Bleiben Sie im Bett." in own.page.inner_text("main")
    assert "flu" not in own.page.inner_text("main").lower().split()
    assert_for_everybody(own.page, "result in German")
    own.assert_well("file:")
    english = visit().open((tmp_path / "fever.html").as_uri())
    assert english.heading == "Machines"
    english.assert_well("file:")


def test_a_long_chain_leaves_no_half_of_the_page_empty(visit: Visits, files: dict[str, str]) -> None:
    own = visit().open(files["animals"])
    for key in "1000000000":
        own.press(key)
    question, answers = (own.page.locator("main section").nth(i).bounding_box() for i in (0, 2))
    assert question is not None
    assert answers is not None
    assert answers["x"] == question["x"]  # below the question, across the page
    assert answers["width"] > 1.4 * question["width"]
    assert answers["y"] >= question["y"] + question["height"]
    assert_for_everybody(own.page, "a long chain")
    own.assert_well("file:")


def test_what_answers_did_to_a_number_is_said_roughly(visit: Visits, tmp_path: Path) -> None:
    export(number_model(), tmp_path / "number.html", title="Pulse")
    own = visit().open((tmp_path / "number.html").as_uri())
    while not own.page.locator(".reasons").count():
        if own.page.locator("[data-number]").count():
            own.page.fill("[data-number]", "38")
            own.press("Enter")
        else:
            own.press("1")
    sizes = own.page.locator(".reasons em").all_inner_texts()
    assert sizes
    assert all(len(size.replace(".", "").lstrip("0")) <= 2 or size.endswith("0") for size in sizes), sizes
    own.assert_well("file:")
