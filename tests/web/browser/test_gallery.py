"""The gallery of the docs: its interviews are asked as their files say, and run inside its page."""

import shutil
from collections.abc import Callable
from pathlib import Path

import gallery
import markdown
import pytest
from gallery import GALLERY, PLACE, ROOT

from browsing import Visit, files_of, findings, needs_browser
from program import run
from pursuit.research.tasks import TASKS, load_task

TEXT = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.programs]


def test_the_page_has_each_interview_once_with_a_picture() -> None:
    assert PLACE.findall(TEXT) == list(GALLERY)
    for name in GALLERY:
        assert f"(images/gallery/{name}.png)" in TEXT


@pytest.mark.parametrize("name", GALLERY)
def test_questions_files_fit_their_tables(name: str, tmp_path: Path) -> None:
    one = GALLERY[name]
    if not callable(one.table):
        assert one.table in TASKS
        return
    one.table().to_csv(tmp_path / f"{name}.csv", index=False)
    is_number = "--regress" in one.training
    task = load_task(tmp_path / f"{name}.csv", target=one.target, questions=one.questions, regress=is_number)
    assert task.notes["remarks"] == []  # nothing is left out, missing or given away
    assert all(query.text.endswith("?") for query in task.query_set.queries)


def test_an_interview_that_was_not_made_leaves_its_picture(tmp_path: Path) -> None:
    assert "<iframe" not in gallery.frames(TEXT, tmp_path)
    (tmp_path / "wein.html").touch()
    assert gallery.frames(TEXT, tmp_path).count('<iframe class="interview" src="gallery/wein.html"') == 1


def test_an_interview_is_trained_once_and_clicked_through_inside_the_page(
    visit: Callable[..., Visit], tmp_path: Path
) -> None:
    needs_browser()
    commands = []

    def program(*words: str) -> None:
        commands.append(words[0])
        done = run(tmp_path, *words, *(("--epochs", "5") if words[0] == "train" else ()))
        assert done.returncode == 0, done.stderr

    for _ in range(2):
        made = gallery.make("wein", program, tmp_path / "gallery")
    assert commands == ["train", "export", "export"]
    shutil.copy(ROOT / "docs" / "style.css", tmp_path)
    body = markdown.markdown(gallery.frames(TEXT, made.parent), extensions=["md_in_html"])
    shutil.copytree(ROOT / "docs" / "images" / "gallery", tmp_path / "images" / "gallery")
    head = '<title>Gallery</title><meta name="viewport" content="width=device-width"><link rel="stylesheet" '
    (tmp_path / "gallery.html").write_text(
        f'<!doctype html><html lang="en">{head}href="style.css"><main class="md-typeset">{body}</main>',
        encoding="utf-8",
    )
    with files_of(tmp_path) as address:
        click_through(visit, address)


def click_through(visit: Callable[..., Visit], address: str) -> None:
    for is_other in (False, True):
        own = visit(phone=is_other, dark=is_other, locale="de-DE")
        own.page.goto(f"{address}/gallery.html")
        frame = own.page.locator("iframe.interview")
        frame.scroll_into_view_if_needed()
        inside = frame.element_handle().content_frame()
        gallery.begin(inside)
        alcohol = {"Wie viel Alkohol hat der Wein?": "13,2"}
        gallery.answer(inside, alcohol, most=1)
        assert findings(own.page) + findings(inside) == []
        gallery.answer(inside, alcohol, most=20)
        assert inside.locator("h1.answer").inner_text() in ("Barolo", "Grignolino", "Barbera")
        assert findings(own.page) + findings(inside) == []
        width, room = inside.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= room
        reasons = inside.locator(".reasons").inner_text()
        assert "13,2 % vol" in reasons
        assert "13.2" not in reasons
        own.assert_well(address)
