"""The interview in a cell: its script in a real browser, and Python behind it."""

import json
from pathlib import Path
from typing import Any

import pytest

from browsing import ARGUMENTS, CHROMIUM, animals_model, fever_model, needs_browser

pytest.importorskip("anywidget")
from pursuit import PatchQueries, VIPClassifier
from pursuit.web.widget import Interview

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
def cell(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """A page with the widget in it, as a notebook has it, whose messages go to Python."""
    needs_browser()
    from playwright.sync_api import sync_playwright

    interview = Interview(fever_model(), title="Fever <b>", language=getattr(request, "param", "en"))
    (tmp_path / "widget.js").write_text(str(Interview._esm))
    (tmp_path / "cell.html").write_text(SHIM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*ARGUMENTS, "--allow-file-access-from-files"]
        )
        page = browser.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "request",
            lambda sent: None if sent.url.startswith(("file:", "about:", "data:")) else errors.append(sent.url),
        )
        page.expose_function("python", interview.answer)
        values = {"title": interview.title, "page": interview.page}
        page.add_init_script(f"globalThis.values = {json.dumps(values)}")
        page.goto((tmp_path / "cell.html").as_uri())
        yield interview, page.frame_locator("iframe")
        assert errors == []  # nothing failed, and nothing was fetched from anywhere
        browser.close()


@pytest.mark.programs
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


@pytest.mark.programs
@pytest.mark.parametrize("cell", ["de"], indirect=True)
def test_it_speaks_german(cell: Any) -> None:
    _, frame = cell
    frame.get_by_role("button", name="Weiß ich nicht").first.wait_for()


def test_python_answers_every_move() -> None:
    interview = Interview(animals_model())

    def said(what: str, **more: Any) -> Any:
        answer = interview.answer({"id": 7, "what": what, **more})
        assert answer["id"] == 7
        return answer["found"] if "found" in answer else answer["problem"]

    first = said("state")["question"]["name"]
    assert said("question", query=first)["name"] == first
    assert said("why")["candidates"][0]["name"] == first
    assert said("tell", answer="yes")["answers"][0]["question"]["name"] == first
    assert said("change", query=first, answer="no")["answers"][0]["value"] == "no"
    assert said("skip")["skipped"]
    assert not said("undo")["skipped"]
    assert said("tell", answer=None)["answers"][1]["shown"] is None
    assert "message" in said("tell", answer="perhaps")
    assert "message" in said("dance")
    while not interview.session.done:
        said("tell", answer="yes")
    assert said("accept")["result"]["accepted"]
    assert not said("undo")["result"]["accepted"]
    label = said("state")["result"]["label"]
    assert label in [one["label"] for one in said("reject")["answers"] if one["kind"] == "rejected"]
    said("take_back_rejection", label=label)
    assert said("restart")["answers"] == ()


def test_doubtful_numbers_are_asked_again() -> None:
    interview = Interview(fever_model())
    number = next(query for query in fever_model().model_.query_set.queries if not query.choices)
    doubted = interview.answer({"id": 1, "what": "tell", "query": number.name, "answer": 4000})
    assert doubted["problem"]["doubt"]
    taken = interview.answer({"id": 2, "what": "tell", "query": number.name, "answer": 4000, "confirmed": True})
    assert taken["found"]["answers"]


def test_pictures_are_for_servers() -> None:
    import numpy as np

    X, y = np.random.default_rng(0).random((40, 1, 4, 4)), np.arange(40) % 2
    model = VIPClassifier(PatchQueries((1, 4, 4), 2, 2), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="Patches of a picture are answered by the picture"):
        Interview(model)
