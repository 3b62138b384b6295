"""The other pages of the server: models, past sessions, all about a model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browsing import Visit, assert_for_everybody, fever_model, needs_browser

needs_browser()
pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.programs]
Visits = Callable[..., Visit]


def test_the_first_page_lists_models_and_begins(visit: Visits, address: str) -> None:
    own = visit().open(address)
    assert own.page.locator(".model h2").count() == 4
    own.page.wait_for_function("() => document.querySelector('main')?.innerText.includes('Right in')", timeout=20_000)
    own.step(lambda: own.page.locator(".model a.first").first.click())
    own.page.wait_for_selector("#question")
    own.press("1")
    own.open(address)
    assert "Go on where you stopped" in own.page.inner_text("main")
    own.assert_well(address)


def test_past_sessions_are_found_noted_and_deleted(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/animals")
    assert own.play("giraffe") == "giraffe"
    own.open(f"{address}/m/animals")
    assert own.play("hedgehog") == "hedgehog"
    own.open(f"{address}/sessions")
    own.step(lambda: own.page.fill("input[type=search]", "giraffe"))
    rows = own.page.locator(".sessions > li")
    own.page.wait_for_function("() => document.querySelectorAll('.sessions > li').length === 1")
    assert "giraffe" in rows.inner_text()
    own.click("What was it?")
    own.click("Yes, giraffe")
    assert "right" in rows.inner_text()
    assert "Results that were right: " in own.page.inner_text("main")
    own.click("What was it?")
    own.page.fill("#truth", "okapi")
    own.press("Enter")
    assert "it was okapi" in rows.inner_text()
    with own.page.expect_download() as download:
        own.page.get_by_role("link", name="Save as CSV").click()
    assert "okapi" in download.value.path().read_text()
    own.click("Delete")
    own.click("Keep")
    assert rows.count() == 1
    own.click("Delete")
    own.click("Delete")
    assert rows.count() == 0
    assert "Nothing fits" in own.page.inner_text("main")
    own.assert_well(address)


def test_all_about_a_model(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/about/animals")
    text = own.page.inner_text("main")
    for part in ("How good it is", "How far to trust it", "What it asks most", "The first questions", "187"):
        assert part in text
    assert own.page.locator("svg.chart").count() == 2
    assert own.page.locator(".tree li").count() > 4
    own.open(f"{address}/about/pulse")
    assert "cannot be measured here" in own.page.inner_text("main")
    own.assert_well(address)


def test_ranges_of_numbers_are_named_in_the_language_of_the_page(visit: Visits, address: str) -> None:
    answers = ["up to 36.5 °C", "above 36.5 °C, up to 38 °C", "above 38 °C", "0 to 45 °C", "up to date"]
    own = visit(locale="de-DE")

    def with_numbers(route: Any) -> None:
        about = route.fetch().json()
        question = about["report"]["tree"]["questions"][0]
        question["branches"] = [{**question["branches"][0], "answer": answer} for answer in answers]
        for branch in question["branches"]:
            branch["node"] = {**branch["node"], "questions": []}
        route.fulfill(json=about)

    own.page.route("**/api/models/animals", with_numbers)
    own.open(f"{address}/about/animals")
    named = own.page.locator(".tree .chip").all_inner_texts()
    assert named == ["bis 36.5 °C", "36.5 °C bis 38 °C", "über 38 °C", "0 bis 45 °C", "up to date"]
    own.assert_well(address)


def test_what_is_not_there_is_said(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/s/nothing")
    assert "session" in own.heading
    own.page.get_by_role("link", name="Start page").last.click()
    own.page.wait_for_selector(".model")
    own.assert_well(address)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/s/nothing", "Dieses Gespräch gibt es nicht"),
        ("/m/nothing", "Dieses Modell gibt es hier nicht"),
        ("/about/nothing", "Dieses Modell gibt es hier nicht"),
        ("/operator", "Hier kann niemand die Gespräche aller auflisten"),
    ],
)
def test_what_is_not_there_is_said_in_the_language_of_the_page(
    visit: Visits, address: str, path: str, said: str
) -> None:
    own = visit(locale="de-DE").open(f"{address}{path}")
    assert own.heading.startswith(said)
    assert_for_everybody(own.page, path)


def test_an_address_without_anything_is_a_page_and_for_programs_a_sentence(visit: Visits, address: str) -> None:
    for path in ("/nothing", "/sessions/nothing", "/api/sessions/nothing/report"):
        own = visit()
        answer = own.page.goto(f"{address}{path}")
        assert answer is not None
        assert answer.status == 404
        own.page.wait_for_selector("main h1")
        assert own.heading == "There is nothing at this address."
    assert_for_everybody(own.page, "nothing here")
    own.page.get_by_role("link", name="Start page").last.click()
    own.page.wait_for_selector(".model")


def test_a_server_with_a_token_asks_for_it_once(visit: Visits, tmp_path: Path) -> None:
    from pursuit.web.serving.models import load_models
    from served import running

    fever_model().save(tmp_path / "fever")
    options = {"token": "a-token-of-the-tests", "lists_sessions": False}
    with running(load_models([tmp_path / "fever"]), f"sqlite:///{tmp_path / 'a.sqlite'}", **options) as client:
        address = str(client.base_url).rstrip("/")
        own = visit().open(f"{address}/m/fever")
        assert own.heading == "This server asks for a token"
        assert_for_everybody(own.page, "the token")
        own.page.get_by_label("Token").fill("a-wrong-token-of-mine")
        own.press("Enter")
        assert "That is not the right token" in own.page.inner_text("main")
        own.page.get_by_label("Token").fill("a-token-of-the-tests")
        own.page.keyboard.press("Enter")
        own.page.wait_for_selector("#question")
        assert own.page.evaluate("document.cookie") == ""  # no script can read it
        own.click("I don't know")
        assert own.page.get_by_role("link", name="Past sessions").count() == 0
        assert "only the address of this page leads back to them" in own.page.inner_text("main")
        own.assert_well(address)


def test_one_model_is_the_interview_itself_and_a_browser_sees_its_own_alone(visit: Visits, tmp_path: Path) -> None:
    from pursuit.web.serving.models import load_models
    from served import running

    fever_model().save(tmp_path / "fever")
    options = {"operator_token": "the-operators-own-token", "keep_days": 30}
    with running(load_models([tmp_path / "fever"]), f"sqlite:///{tmp_path / 'a.sqlite'}", **options) as client:
        address = str(client.base_url).rstrip("/")
        own = visit().open(address)
        assert own.page.locator("#question").count() == 1
        own.click("I don't know")
        assert "They are deleted 30 days after the last one." in own.page.inner_text(".footnote")
        own.open(address)
        assert "Go on where you stopped" in own.page.inner_text(".notice")
        assert "0 questions" not in own.page.inner_text(".notice")
        stranger = visit().open(address)
        assert stranger.page.locator(".notice").count() == 0
        stranger.open(f"{address}/sessions")
        assert stranger.page.locator(".sessions > li").count() == 0
        stranger.open(f"{address}/operator")
        assert stranger.heading == "This list asks for the operator's token"
        stranger.page.get_by_label("Token").fill("the-operators-own-token")
        stranger.page.keyboard.press("Enter")
        stranger.page.wait_for_selector(".sessions > li")
        assert stranger.heading == "Sessions of all"
        assert_for_everybody(stranger.page, "sessions of all")
        link = stranger.page.get_by_role("link", name="How the model fares")
        stranger.open(f"{address}{link.get_attribute('href')}")
        assert stranger.heading == "After it was served"
        free = visit()  # the page itself may run no script, and what looks for findings is one
        free.page.set_content(stranger.page.content())
        assert_for_everybody(free.page, "watching a model")
        own.page.get_by_role("link", name="Go on where you stopped").click()
        own.page.wait_for_selector(".footnote .tools")
        with own.page.expect_download() as download:
            own.page.get_by_role("link", name="Save my answers").click()
        assert '"question":"How high is the fever?"' in download.value.path().read_text()
        own.click("Delete my answers")
        own.click("Keep")
        own.click("Delete my answers")
        assert_for_everybody(own.page, "deleting answers")
        own.click("Delete")
        assert own.heading == "Deleted."
        own.open(address)
        assert own.page.locator(".notice").count() == 0
        own.assert_well(address)


def test_language_and_colours_are_chosen_and_remembered(visit: Visits, address: str) -> None:
    own = visit(dark=True, locale="de-DE").open(f"{address}/m/animals")
    assert own.page.get_attribute("html", "lang") == "de"
    assert own.page.get_attribute("html", "data-theme") == "dark"
    assert "Weiß ich nicht" in own.page.inner_text("main")
    own.page.locator("summary").first.click()
    own.step(lambda: own.page.get_by_role("button", name="English").click())
    assert "I don't know" in own.page.inner_text("main")
    own.page.get_by_role("button", name="Light", exact=True).click()
    assert own.page.get_attribute("html", "data-theme") == "light"
    own.page.reload()
    own.page.wait_for_selector("main h1")
    assert own.page.get_attribute("html", "lang") == "en"
    assert own.page.get_attribute("html", "data-theme") == "light"
    own.assert_well(address)


def test_pages_are_for_everybody(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/pulse")
    for _ in range(8):
        if own.is_asking:
            own.press("d")
    assert_for_everybody(own.page, "a number as the result")
    for path, screen in (("", "models"), ("/about/animals", "all about a model"), ("/s/nothing", "what is not there")):
        assert_for_everybody(own.open(f"{address}{path}").page, screen)
    own.open(f"{address}/sessions")
    own.step(lambda: own.page.locator(".tools button").first.click())
    assert_for_everybody(own.page, "past sessions")
    own.assert_well(address)


INTERVIEW = """
[interview]
title = "Is it the flu?"
introduction = "Four questions.\\n\\nNobody is examined here."
consent = "I agree that my answers are kept."
contact = "praxis@example.org"
colour = "#ffe100"
logo = "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4="
[results.flu]
text = "Stay in bed."
link = "https://example.org/book"
link_text = "Book a visit"
[results.well]
text = "Go out."
[languages.de]
"Is it the flu?" = "Ist es die Grippe?"
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_an_interview_of_ones_own(visit: Visits, tmp_path: Path, dark: bool) -> None:
    from pursuit import export
    from pursuit.web.serving.models import load_models
    from served import running

    folder = tmp_path / "fever"
    fever_model().save(folder, {"task": {"questions": INTERVIEW}})
    export(folder, tmp_path / "page.html")
    with running(load_models([folder]), f"sqlite:///{tmp_path / 'a.sqlite'}") as client:
        refused = client.post("/api/sessions", json={"model": "fever"})
        assert refused.status_code == 422
        assert "consented" in refused.json()["message"]
        address = str(client.base_url).rstrip("/")
        for place in (address, (tmp_path / "page.html").as_uri()):
            own = visit(dark=dark).open(place)
            assert own.heading == "Is it the flu?"
            assert own.page.locator("header img.logo").count() == 1
            assert own.page.locator(".welcome p").all_inner_texts() == ["Four questions.", "Nobody is examined here."]
            assert "praxis@example.org" in own.page.inner_text(".footnote")
            assert_for_everybody(own.page, "what is read first")
            own.page.get_by_role("button", name="Begin").click()
            assert own.page.locator("#question").count() == 0  # nothing was agreed to
            own.page.get_by_label("I agree that my answers are kept.").check()
            own.click("Begin")
            for _ in range(4):
                own.click("I don't know")
            advice = {"flu": "Stay in bed.", "well": "Go out."}[own.heading]
            assert advice in own.page.inner_text("main")
            link = own.page.get_by_role("link", name="Book a visit")
            assert link.count() == (own.heading == "flu")
            if own.heading == "flu":
                assert link.get_attribute("class") == "button first"
                assert own.page.locator(".actions .first").count() == 1
            assert_for_everybody(own.page, "a result with advice")
            own.page.get_by_role("button", name="Start over").click()
            own.page.wait_for_selector(".welcome")
            own.assert_well(place.split("/page.html")[0])
        own = visit(dark=dark, locale="de-DE").open(f"{address}/about/fever")
        assert own.heading == "Ist es die Grippe?"
        assert own.page.locator("header img.logo").count() == 1
        assert own.page.evaluate("document.documentElement.style.getPropertyValue('--own-light')")
        assert_for_everybody(own.page, "about an interview of one's own")
        own.assert_well(address)
