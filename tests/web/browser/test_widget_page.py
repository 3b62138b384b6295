"""The interview in a notebook's cell: its script in a real browser, and Python behind it."""

import json
from typing import Any

import pytest

from browsing import fever_model, needs_browser

needs_browser()
pytest.importorskip("anywidget")
PLACE = "http://notebook.test/"
pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.programs]
SHIM = """<!doctype html><meta charset="utf-8"><div id="cell"></div><script type="module">
import widget from "./widget.js";
const heard = [];
const model = {
  get: name => globalThis.values[name],
  on: (_, listener) => heard.push(listener),
  off: () => {},
  send: async message => {
    const answer = await globalThis.python(message);
    heard.forEach(listener => listener(answer));
  },
};
widget.render({ model, el: document.getElementById("cell") });
</script>"""


@pytest.fixture
def cell(browser: Any, request: pytest.FixtureRequest) -> Any:
    """A page with the widget in it, as a notebook has it, whose messages go to Python."""
    from pursuit.web.widget import Interview

    interview = Interview(fever_model(), title="Fever <b>", language=getattr(request, "param", "en"))
    page = browser.new_page()
    page.route(f"{PLACE}widget.js", lambda one: one.fulfill(body=str(Interview._esm), content_type="text/javascript"))
    page.route(f"{PLACE}cell", lambda one: one.fulfill(body=SHIM, content_type="text/html"))
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda sent: sent.url.startswith((PLACE, "about:", "data:")) or errors.append(sent.url))
    page.expose_function("python", interview.answer)
    values = {"title": interview.title, "page": interview.page}
    page.add_init_script(f"globalThis.values = {json.dumps(values)}")
    page.goto(f"{PLACE}cell")
    yield interview, page.frame_locator("iframe")
    assert errors == []  # nothing failed, and nothing was fetched from anywhere
    page.close()


def test_a_person_is_asked_to_the_end(cell: Any) -> None:
    interview, frame = cell
    frame.locator("#head", has_text="Fever <b>").wait_for()
    frame.locator("main input[type=text], main input:not([type=range])").first.fill("39.5")
    frame.get_by_role("button", name="Answer", exact=True).click()
    for question in ("town", "since", "cough"):
        frame.get_by_role("heading", name=question).wait_for()
        if question == "cough":
            frame.get_by_role("button", name="yes").click()
        else:
            frame.get_by_role("button", name="I don't know").click()
    frame.get_by_text("flu", exact=True).first.wait_for()
    assert interview.session.answers["temperature"] in (39.5, "39.5")
    assert interview.session.prediction == "flu"


@pytest.mark.parametrize("cell", ["de"], indirect=True)
def test_it_speaks_german(cell: Any) -> None:
    _, frame = cell
    frame.get_by_role("button", name="Weiß ich nicht").first.wait_for()
