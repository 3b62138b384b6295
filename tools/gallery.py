"""The interviews of docs/gallery.md: their tables, their training, their pages and their pictures.

    python tools/gallery.py              # the pages, into .cache/gallery; trains what was not trained before
    python tools/gallery.py --pictures   # and the pictures in docs/images/gallery, by Chromium

Pages have a few hundred kilobytes each and are not in the repository: `make docs` makes them, and tools/site.py puts
them into the site. Tables are scikit-learn's and our own, so nothing is fetched.
"""

import argparse
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pictures import CHROMIUM, COLOURS, browser_of, pursuit

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"
PAGES = ROOT / ".cache" / "gallery"
PICTURES = ROOT / "docs" / "images" / "gallery"
PLACE = re.compile(r"<!-- interview: (\w+) -->")
"""Where an interview stands in docs/gallery.md; a code host shows nothing there."""
OWN = EXAMPLES / "gallery"
"""Questions files that are only in the gallery."""
WIDTH, HEIGHT = 960, 620
"""Of a picture."""


@dataclass(frozen=True)
class Interview:
    """One interview of the gallery."""

    title: str
    table: Callable[[], pd.DataFrame] | str
    """What makes the table, or the name of a task."""
    target: str = ""
    questions: Path | None = None
    training: tuple[str, ...] = ()
    """Options of `pursuit train`."""
    exporting: tuple[str, ...] = ("--language", "en")
    """Options of `pursuit export`."""
    row: int = 0
    """The row of the table that the picture is of."""
    answers: int = 50
    """The most answers before it is taken."""

    def commands(self, name: str, folder: Path) -> Iterator[tuple[str, ...]]:
        """The words of the commands that make the page NAME.html in a folder, after writing its table there."""
        source, model = str(self.table), str(folder / name)
        if callable(self.table):
            source = str(folder / f"{name}.csv")
            self.table().to_csv(source, index=False)
        asked = ("--target", self.target, "--questions", str(self.questions)) if self.questions else ()
        yield "train", source, *asked, *self.training, "--out", model, "--overwrite"
        yield "export", model, str(folder / f"{name}.html"), *self.exporting

    def key(self) -> str:
        """What tells a page from those of other tables, words or options."""
        table = self.table().to_csv() if callable(self.table) else self.table
        words = self.questions.read_text(encoding="utf-8") if self.questions else ""
        return hashlib.sha256(repr((table, words, self.training, self.exporting)).encode()).hexdigest()

    @property
    def language(self) -> str:
        return self.exporting[self.exporting.index("--language") + 1]


def repairs() -> pd.DataFrame:
    return pd.read_csv(EXAMPLES / "repairs.csv")


def diabetes() -> pd.DataFrame:
    from sklearn.datasets import load_diabetes

    names = {"s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s4": "cholesterol_by_hdl", "s6": "sugar"}
    table = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={**names, "target": "progression"})
    triglycerides = np.exp(table.pop("s5")).round()  # the table has their logarithm
    return table.assign(triglycerides=triglycerides)


def digits() -> pd.DataFrame:
    """What a person sees in the pictures: the ink in twelve fields, and the holes."""
    from scipy.ndimage import label
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) / 16
    fields = {
        f"{row}_{column}": images[:, 2 * i : 2 * i + 2, left : left + 2].mean(axis=(1, 2))
        for i, row in enumerate(("top", "upper", "lower", "bottom"))
        for column, left in (("left", 1), ("middle", 3), ("right", 5))  # what is further out is nearly always empty
    }
    table = {name: np.select([ink < 0.25, ink < 0.6], ["none", "some"], "much") for name, ink in fields.items()}
    background = np.pad(images, ((0, 0), (1, 1), (1, 1))) < 0.25
    holes = [min(label(one)[1] - 1, 2) for one in background]  # the outside is one part
    return pd.DataFrame({"holes": holes, **table, "digit": labels})


def wein() -> pd.DataFrame:
    from sklearn.datasets import load_wine

    wine = load_wine(as_frame=True)
    acids = ("saeure", "asche", "alkalitaet", "magnesium", "phenole", "flavonoide", "andere_phenole", "proanthocyane")
    names = ["alkohol", *acids, "farbe", "farbton", "verduennt", "prolin"]
    reben = np.array(["Barolo", "Grignolino", "Barbera"])[wine.target]
    return wine.data.set_axis(names, axis=1).assign(rebe=reben)


GERMAN = ("--language", "de")
GALLERY = {
    "repairs": Interview("A triage with a next step", repairs, "fault", EXAMPLES / "repairs.toml", row=12),
    "animals": Interview(
        "A guessing game",
        "animals",
        training=("--epochs", "10"),
        exporting=("--language", "en", "--title", "Think of an animal"),
        answers=7,
    ),
    "diabetes": Interview("A number", diabetes, "progression", OWN / "diabetes.toml", ("--regress",), row=2),
    "digits": Interview("Pictures, by what is seen in them", digits, "digit", OWN / "digits.toml", row=8, answers=4),
    "wein": Interview("Auf Deutsch", wein, "rebe", OWN / "wein.toml", GERMAN, GERMAN, row=150),
}


def frames(markdown: str, pages: Path = PAGES) -> str:
    """docs/gallery.md with each interview that was made where it belongs."""

    def framed(found: re.Match[str]) -> str:
        name = found[1]
        if not (pages / f"{name}.html").exists():
            return f"*`make docs` puts the interview `{name}` here.*"
        one = GALLERY[name]
        return (
            f'<iframe class="interview" src="gallery/{name}.html" title="{one.title}" lang="{one.language}" '
            f'loading="lazy"></iframe>\n<a href="gallery/{name}.html">The page alone</a>'
        )

    return PLACE.sub(framed, markdown)


def make(name: str, run: Callable[..., Any] = pursuit, folder: Path = PAGES) -> Path:
    """The page of an interview, exported; before that trained, unless it was with the same table, words and options."""
    one, known = GALLERY[name], folder / f"{name}.key"
    folder.mkdir(parents=True, exist_ok=True)
    train, export = one.commands(name, folder)
    if not (known.exists() and known.read_text() == one.key()):
        run(*train)
        known.write_text(one.key())
    run(*export)
    return folder / f"{name}.html"


def begin(page: Any) -> None:
    """Pass what is read before the first question of an interview, in a page or a frame."""
    page.wait_for_selector("main h1")
    if page.locator("#consent").count():
        page.locator("#consent").check()
    if page.locator(".welcome").count():
        page.locator(".welcome button").click()
        page.wait_for_selector("#question")


def answer(page: Any, told: Mapping[str, str], most: int) -> None:
    """Answer by the texts of questions until there is a result; what is not told is not known."""
    for _ in range(most):
        if not page.locator("#question").count():
            return
        before = page.evaluate("document.querySelector('main').textContent")
        said = told.get(page.locator("#question").inner_text())
        if said is None:
            page.locator("[data-unsure]").click()
        elif page.locator("[data-number]").count():
            page.locator("[data-number]").fill(said)
            page.locator("[data-number]").press("Enter")
        else:
            page.locator(".choices button").filter(has_text=re.compile(rf"(^|\d|\s){re.escape(said)}$", re.I)).click()
        page.wait_for_function("text => document.querySelector('main').textContent !== text", arg=before)


def told_by(model: Path, row: Mapping[str, Any]) -> dict[str, str]:
    """What a row of the table answers, by the texts of questions."""
    from pursuit import load
    from pursuit.queries import Choice

    told = {}
    for query in load(model).model_.query_set.queries:
        value = row[query.name]
        if isinstance(query, Choice):
            places = {str(own): place for place, own in enumerate(query.values)}
            told |= {query.text: query.choices[places[str(value)]]} if str(value) in places else {}
        elif not pd.isna(value):
            told[query.text] = f"{value:g}"
    return told


def draw(name: str, page: Path) -> Path:
    """A picture of an interview, answered as a row of its table says."""
    from PIL import Image

    from pursuit.research.tasks import load_task

    one, picture = GALLERY[name], PICTURES / f"{name}.png"
    row = (one.table() if callable(one.table) else load_task(one.table).X_test).iloc[one.row]
    told = told_by(page.with_suffix(""), row)
    PICTURES.mkdir(parents=True, exist_ok=True)
    with browser_of(CHROMIUM) as browser:
        size = {"width": WIDTH, "height": HEIGHT}
        tab = browser.new_page(viewport=size, color_scheme="light", reduced_motion="reduce")
        tab.goto(page.as_uri())
        begin(tab)
        answer(tab, told, one.answers)
        tab.evaluate("document.activeElement.blur()")
        tab.screenshot(path=picture)
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", action="store_true", help="photograph them, too")
    wanted = parser.parse_args()
    for name in GALLERY:
        page = make(name)
        print(f"{page.relative_to(ROOT)}: {page.stat().st_size / 1000:.0f} kB")
        if wanted.pictures:
            picture = draw(name, page)
            print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())
