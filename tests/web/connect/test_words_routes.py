"""The server proposes answers to what people say, and a client confirms them one by one."""

from pathlib import Path

import pytest

from pursuit.web.serving.models import ServedModels
from served import begin, client_of, move, port_of, program, running

pytest.importorskip("tokenizers")
SAID = {"text": "I sneeze all the time, it is winter, and my temperature is 36.9 degrees."}


def test_proposals_are_confirmed_one_by_one(models: ServedModels, tmp_path: Path) -> None:
    from pursuit.web.serving.routes import of_words

    with running(models, f"sqlite:///{tmp_path / 's.db'}", routers=[of_words]) as client:
        session = begin(client)
        address = f"/api/sessions/{session['id']}"
        found = client.post(f"{address}/suggestions", json=SAID).json()["suggestions"]
        best = {one["name"]: one["answer"] for one in found if one["place"] == 1}
        assert best == {"sneezing": "yes", "season": "winter", "temperature": 36.9}
        assert client.get(address).json()["state"]["answers"] == []  # nothing is filled in silently
        for name, answer in best.items():
            session = move(client, session, "tell", query=name, answer=answer)
        assert {one["question"]["name"]: one["value"] for one in session["state"]["answers"]} == best
        assert client.post(f"{address}/suggestions", json={"text": "x" * 3000}).status_code == 422
        assert client.post("/api/sessions/none/suggestions", json=SAID).status_code == 404


@pytest.mark.programs
def test_the_program_serves_it(model_folders: dict[str, Path], tmp_path: Path) -> None:
    options = ("--words", "--port", "0", "--database", f"sqlite:///{tmp_path / 's.db'}")
    with program(model_folders["illness"], *options) as own, client_of(port_of(own)) as client:
        address = f"/api/sessions/{begin(client)['id']}/suggestions"
        assert client.post(address, json=SAID).json()["suggestions"]


@pytest.mark.programs
def test_a_person_confirms_and_denies_on_the_page(models: ServedModels, tmp_path: Path) -> None:
    from browsing import ARGUMENTS, CHROMIUM, Visit, needs_browser
    from pursuit.web.serving.routes import of_words

    needs_browser()
    from playwright.sync_api import sync_playwright

    with (
        running(models, f"sqlite:///{tmp_path / 's.db'}", routers=[of_words], words=True) as client,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        visit = Visit.of(browser.new_context(locale="en-GB")).open(f"{client.base_url}/m/illness")
        visit.page.set_default_timeout(20_000)
        visit.page.get_by_role("button", name="Begin", exact=True).click()
        visit.page.get_by_role("button", name="Add a fact").click()
        visit.page.get_by_label("Or say it in your own words").fill(SAID["text"])
        visit.page.get_by_role("button", name="See what that means").click()
        season = visit.page.locator("li", has_text="Which season is it? winter")
        season.get_by_role("button", name="Yes").click()
        sneezing = visit.page.locator("li", has_text="Do you sneeze? yes")
        sneezing.get_by_role("button", name="No").click()
        sneezing.wait_for(state="detached")
        address = f"/api/sessions/{visit.page.url.rpartition('/')[2]}"
        answers = client.get(address).json()["state"]["answers"]
        browser.close()
        assert visit.problems == []
        assert [(one["question"]["name"], one["value"]) for one in answers] == [("season", "winter")]
