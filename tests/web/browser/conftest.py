"""One browser for each file of tests, and one server for all of them; every test has fresh profiles."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browsing import ARGUMENTS, CHROMIUM, Visit, animals_model, fever_model, serving
from pursuit import export

WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Closed after each file of tests: as long as it is open, an event loop runs, and tests elsewhere that need one of
    their own fail in the same process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield own
        own.close()


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server is."""
    with serving(tmp_path_factory.mktemp("served")) as own:
        yield own


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of exported pages by the name of the model."""
    folder: Path = tmp_path_factory.mktemp("exported")
    for name, model in (("animals", animals_model()), ("fever", fever_model())):
        export(model, folder / f"{name}.html", title=name.title())
    return {name: (folder / f"{name}.html").as_uri() for name in ("animals", "fever")}


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Makes a visit in a profile of its own: wide or on a phone, light or dark, in a language."""
    contexts = []

    def begin(*, phone: bool = False, dark: bool = False, locale: str = "en-GB") -> Visit:
        contexts.append(
            browser.new_context(
                viewport=PHONE if phone else WIDE,
                color_scheme="dark" if dark else "light",
                locale=locale,
                has_touch=phone,
                reduced_motion="reduce",
            )
        )
        return Visit.of(contexts[-1])

    yield begin
    for context in contexts:
        context.close()
