"""Photographs the web page for docs/images/web: `pursuit serve` with animals, answered as a player would.

    pursuit demo
    python tools/page_pictures.py demo/animals

It takes `pip install '.[dev]'` and a Chromium.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pictures import CHROMIUM, COLOURS, ROOT, browser_of
from PIL import Image

from pursuit.tasks import animals

INTO = ROOT / "docs" / "images" / "web"
THOUGHT_OF = "african elephant"
SHOWN_AFTER = 4
"""Answers that are given before a question is photographed."""
MOST_QUESTIONS = 40
WIDE, PHONE = {"width": 1100, "height": 880}, {"width": 390, "height": 844}


@contextmanager
def served(model: Path) -> Iterator[str]:
    """The address of a server that asks by this model."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pursuit", "serve", str(model), "--port", "0", "--no-open"]
        command += ["--database", f"sqlite:///{folder}/sessions.sqlite"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                found = next(found for line in server.stdout if (found := re.search(r"http://\S+", line)))
                yield found[0].rstrip("/.")
            finally:
                server.terminate()


def answer(page: Any) -> None:
    """Answer the question on the page truthfully."""
    before = page.inner_text("main")
    key = answers_of(THOUGHT_OF)[page.inner_text("main h1")]
    page.keyboard.press(key)
    page.wait_for_function("before => document.querySelector('main').innerText !== before", arg=before)
    page.wait_for_timeout(300)  # bars move


def answers_of(animal: str) -> dict[str, str]:
    """The key to press, by the wording of the question."""
    keys = {"yes": "1", "no": "2"}
    return {question: keys.get(said, "0") for question, said in animals.table().loc[animal].items()}


def main(model: Path) -> None:
    INTO.mkdir(parents=True, exist_ok=True)
    with served(model) as address, browser_of(CHROMIUM) as browser:
        page = browser.new_page(viewport=WIDE, color_scheme="light", locale="en-GB")
        page.goto(f"{address}/m/{model.name}")
        page.wait_for_selector("main h1")
        for _ in range(SHOWN_AFTER):
            answer(page)
        page.screenshot(path=INTO / "question.png")
        phone = browser.new_page(viewport=PHONE, color_scheme="dark", locale="en-GB")
        phone.goto(page.url)
        phone.wait_for_selector("main h1")
        phone.wait_for_timeout(500)
        phone.screenshot(path=INTO / "phone.png")
        page.keyboard.press("?")
        page.wait_for_selector("#why")
        page.screenshot(path=INTO / "why.png", full_page=True)
        for _ in range(MOST_QUESTIONS):
            if page.inner_text("main h1") not in answers_of(THOUGHT_OF):
                break
            answer(page)
        page.screenshot(path=INTO / "result.png", full_page=True)
    for path in sorted(INTO.glob("*.png")):
        Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
        print(f"Drawn: {path.relative_to(ROOT)}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
