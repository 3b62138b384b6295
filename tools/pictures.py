"""Draws the pictures of docs/howto from a trained model of docs/examples/repairs.csv and one of the built-in digits.

    pursuit train docs/examples/repairs.csv --target fault --questions docs/examples/repairs.toml --out runs/repairs
    pursuit demo
    pursuit compare docs/examples/repairs.csv --target fault --methods vip,tree,naive-bayes --out compare
    python tools/pictures.py runs/repairs demo/digits compare

Pages are photographed by Chromium through Playwright, so it takes `pip install '.[dev]'` and a Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "examples" / "repairs.csv"
INTO = ROOT / "docs" / "images" / "howto"
ROW = 2
COLOURS = 128
"""Enough for drawn pictures, and a third of the bytes."""
CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTH, HEIGHT = 1100, 860


def pursuit(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "pursuit", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def browser_of(arguments: Sequence[str]) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(arguments))
        yield browser
        browser.close()


def photograph(pages: dict[str, Path]) -> None:
    """The first screen of each page."""
    with browser_of(CHROMIUM) as browser:
        for name, path in pages.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", locale="en-GB")
            page.goto(path.as_uri())
            page.wait_for_timeout(500)
            page.screenshot(path=INTO / f"{name}.png")


def main(model: Path, digits: Path, comparison: Path) -> None:
    INTO.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pages = {name: Path(folder) / f"{name}.html" for name in ("row", "report", "export")}
        rows = ("--data", TABLE, "--row", ROW)
        pursuit("explain", model, *rows, "--figure", INTO / "chain.png", "--html", pages["row"])
        pursuit("report", model, "--data", TABLE, "--out", pages["report"])
        pursuit("export", model, pages["export"])
        pursuit("explain", digits, "--data", "digits", "--row", 3, "--figure", INTO / "digit.png")
        shutil.copy(comparison / "curve.png", INTO / "compare.png")
        photograph(pages)
    for path in sorted(INTO.glob("*.png")):
        Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
        print(f"Drawn: {path.relative_to(ROOT)}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
