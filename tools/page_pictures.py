"""Pictures of the pages for the docs: `python tools/page_pictures.py [MODEL…]` writes docs/images/web/.

Players go through interviews with the models of `pursuit demo` (animals and digits) on a server of their own, which
begins with an empty store. Playwright drives Debian's chromium.
"""

import datetime
import io
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn
from pictures import CHROMIUM, browser_of
from PIL import Image
from playwright.sync_api import Browser, Page

from pursuit.cli.served_models import find_samples, measure
from pursuit.research.tasks import animals
from pursuit.web.serving.app import make_app
from pursuit.web.serving.models import load_models
from pursuit.web.serving.store import Store

FOLDER = Path(__file__).parent.parent / "docs" / "images" / "web"
MODELS = (Path("demo/animals"), Path("demo/digits"))
OPERATOR = "the-token-of-the-operator"
WIDE, PHONE = (1200, 900), (390, 800)
THOUGHT_OF, UNSURE = "emperor penguin", 3
"""What is thought of, and the place of a question that is left open."""
PLAYED = ("giraffe", "honey bee", "emu", "lobster", "hedgehog", "orca", "goat", "barn owl", "cheetah", "gecko", "cow")
FIRST_DAY = datetime.datetime(2026, 3, 2, 14, 5)
SLIP = 0.12
"""How often a player answers wrongly, so that some guesses are wrong, too."""
MOST_BYTES = 150_000


@contextmanager
def serving(models: tuple[Path, ...], database: Path) -> Iterator[str]:
    """The address of a server with these models."""
    served = load_models(models, None, measure, find_samples)
    app = make_app(served, Store(f"sqlite:///{database}"), operator_token=OPERATOR)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def hold_sessions(address: str, database: Path) -> None:
    """Past sessions of players, some on each of a few days."""
    table, randomness = animals.table(), np.random.default_rng(3)
    with httpx.Client(base_url=address, timeout=60) as client:
        for n, animal in enumerate(PLAYED):
            session = client.post("/api/sessions", json={"model": "animals"}).json()
            while session["state"]["question"]:
                answer = table.loc[animal, session["state"]["question"]["name"]]
                answer = answer if isinstance(answer, str) else None
                if answer is not None and randomness.random() < SLIP:
                    answer = "no" if answer == "yes" else "yes"
                session = _move(client, session, "dont_know" if answer is None else "tell", answer=answer)
            if session["outcome"] == animal:
                _move(client, session, "accept")
            elif n != len(PLAYED) - 1:  # the last one was not noted yet
                client.put(f"/api/sessions/{session['id']}/truth", json={"label": animal})
            with sqlite3.connect(database) as store:
                when = str(FIRST_DAY + n * datetime.timedelta(hours=17, minutes=13))
                store.execute(
                    "UPDATE pursuit_sessions SET created = ?, updated = ? WHERE id = ?", (when, when, session["id"])
                )


def _move(client: httpx.Client, session: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    move = {"move": name, "revision": session["revision"], **more}
    return client.post(f"/api/sessions/{session['id']}/moves", json=move).raise_for_status().json()


def open_page(browser: Browser, address: str, size: tuple[int, int] = WIDE, dark: bool = False) -> Page:
    page = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
    ).new_page()
    page.goto(address)
    page.wait_for_selector("main h1")
    return page


def answer(page: Page, most: int) -> None:
    """Answer as somebody who thinks of THOUGHT_OF, so many questions at most."""
    told = animals.table().loc[THOUGHT_OF]
    for n in range(most):
        if not page.locator("#question").count():
            return
        key = {"yes": "1", "no": "2"}.get(told[page.inner_text("#question")], "0") if n != UNSURE else "0"
        before = page.inner_text("main")
        page.keyboard.press(key)
        page.wait_for_function("text => document.querySelector('main').innerText !== text", arg=before)


def save(page: Page, name: str, whole: bool = False) -> None:
    """Write what is seen, in few bytes: with the 256 colours that leave rare ones what they are."""
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(200)
    path = FOLDER / f"{name}.png"
    with Image.open(io.BytesIO(page.screenshot(full_page=whole))) as picture:
        picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            path, optimize=True
        )
    n_bytes = path.stat().st_size
    print(f"{path}: {n_bytes / 1000:.0f} kB")
    if n_bytes > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES:,} bytes.")


def interview_pictures(browser: Browser, address: str) -> None:
    page = open_page(browser, f"{address}/m/animals")
    answer(page, 5)
    save(page, "question")
    page.keyboard.press("?")
    page.wait_for_selector(".why")
    save(page, "why", whole=True)
    page.keyboard.press("?")
    answer(page, 30)
    save(page, "result")
    for name, dark in (("question-phone", False), ("phone", True)):
        page = open_page(browser, f"{address}/m/animals", PHONE, dark)
        answer(page, 5)
        save(page, name)
    page = open_page(browser, f"{address}/m/animals", dark=True)
    answer(page, 30)
    save(page, "result-dark")


def picture_of_a_picture(browser: Browser, address: str) -> None:
    page = open_page(browser, f"{address}/m/digits")
    page.locator(".samples button").nth(4).click()
    page.wait_for_selector("#question")
    for n in range(1, 4):
        page.keyboard.press("1")
        page.wait_for_function("n => document.querySelectorAll('.look').length === n", arg=n)
        if not page.locator("#question").count():
            break
    page.wait_for_function("() => document.querySelector('.layers img').complete")
    save(page, "picture")


def main(models: tuple[Path, ...]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser_of(CHROMIUM) as browser:
        database = Path(folder) / "sessions.sqlite"
        with serving(models, database) as address:
            hold_sessions(address, database)
            page = open_page(browser, f"{address}/operator")
            page.fill("#token", OPERATOR)
            page.keyboard.press("Enter")
            page.wait_for_selector(".sessions")
            save(page, "sessions")
            page = open_page(browser, address)
            page.wait_for_function(
                "() => !document.querySelector('main').innerText.includes('measured…')", timeout=300_000
            )
            save(page, "models")
            save(open_page(browser, f"{address}/about/animals"), "model")
            interview_pictures(browser, address)
            picture_of_a_picture(browser, address)


if __name__ == "__main__":
    main(tuple(map(Path, sys.argv[1:])) or MODELS)
