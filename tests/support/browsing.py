"""What tests in a browser share: Chromium, a server with small models, and players who answer."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from exported import number_model, stirred
from pursuit import MLP, ColumnQueries, PatchQueries, Stage, VIPClassifier
from pursuit.queries import Order
from pursuit.report.measured import Measured
from pursuit.research.tasks import animals
from pursuit.training.samplers import CarriedHistories

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EXPECTED_ERRORS = ("status of 401", "status of 404", "status of 409", "status of 422", "ERR_INTERNET_DISCONNECTED")
"""What the browser itself notes when the server refuses something, as tests make it do."""


@contextmanager
def files_of(folder: Path) -> Iterator[str]:
    """The origin of a site that has these files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def needs_browser() -> None:
    """Skip what needs a browser where there is none."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed, so the pages cannot be opened in a browser.", allow_module_level=True)
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed, so no browser can be driven.")
    pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed.")


@cache
def animals_model() -> VIPClassifier:
    """Trained for seconds, and good enough to guess every animal of a player who answers as the table does."""
    X, y = animals._players(12, np.random.SeedSequence(1))
    plan = (Stage(4, CarriedHistories(12), batch_size=256),)
    network = MLP((128,), direct=True)
    return VIPClassifier(
        animals.query_set(),
        network=network,
        stages=plan,
        stop="confidence=0.9,budget=25",
        teachers=None,
        random_state=0,
    ).fit(X, y)


@cache
def fever_model() -> VIPClassifier:
    """First a number with a unit, then a long list of choices, then a date."""
    randomness, n = np.random.default_rng(0), 400
    ill = randomness.random(n) < 0.5
    towns = [f"Town {letter}{digit}" for letter in "ABCDE" for digit in range(4)]
    X = pd.DataFrame(
        {
            "temperature": np.where(ill, randomness.normal(39, 0.5, n), randomness.normal(36.6, 0.3, n)).round(1),
            "town": randomness.choice(towns, n),
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(randomness.integers(90, size=n), unit="D"),
            "cough": np.where(ill, "yes", "no"),
        }
    )
    found = ColumnQueries.from_data(X, texts={"temperature": "How high is the fever?"}, column_types={"since": "date"})
    temperature, *others = found.queries
    query_set = ColumnQueries([replace(temperature, unit="°C"), *others])
    query_set.set_order(Order(beforehand=("temperature", "town", "since")))
    plan = (Stage(3, batch_size=64),)
    model = VIPClassifier(query_set, network=MLP((16,)), stages=plan, stop="never", random_state=0)
    return stirred(model.fit(X, np.where(ill, "flu", "well")))


@cache
def digits_model() -> VIPClassifier:
    X, y = digits()
    query_set = PatchQueries((1, 8, 8), size=4, stride=2, low=0, high=16)
    plan = (Stage(4, CarriedHistories(6), batch_size=128),)
    return VIPClassifier(query_set, network=MLP((64,)), stages=plan, stop="confidence=0.9", random_state=0).fit(X, y)


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    images, labels = load_digits(return_X_y=True)
    return images.reshape(-1, 1, 8, 8), labels


MODELS = {"animals": animals_model, "fever": fever_model, "pulse": number_model, "digits": digits_model}


def measure(estimator: Any, stop: Any) -> Measured | None:
    """The model of animals on some of them; the others were not measured."""
    if len(estimator.model_.query_set) != len(animals.query_set()):
        return None
    table = animals.table().iloc[::5]
    return Measured.of(estimator, table, table.index.to_numpy(dtype=str), stop, name="Animals")


def samples(estimator: Any) -> Any:
    from pursuit.web.serving.models import SamplePictures

    X, y = digits()
    return SamplePictures(X[:6].astype(np.float32), tuple(map(str, y[:6])))


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server with all models, as long as it is needed."""
    from pursuit.web.serving.models import load_models
    from served import running

    for name, make in MODELS.items():
        make().save(folder / name)
    models = load_models([folder / name for name in MODELS], None, measure, samples)
    with running(models, f"sqlite:///{folder / 'sessions.sqlite'}") as client:
        yield f"http://127.0.0.1:{client.base_url.port}"


@dataclass
class Visit:
    """A page in a fresh profile, with all that went wrong in it and every address it asked for."""

    page: Any
    problems: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, context: Any) -> "Visit":
        visit = cls(context.new_page())
        visit.page.set_default_timeout(60_000)
        visit.page.on("pageerror", lambda error: visit.problems.append(str(error)))
        visit.page.on("console", lambda message: visit._hear(message))
        visit.page.on("request", lambda request: visit.addresses.append(request.url))
        return visit

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(part in message.text for part in EXPECTED_ERRORS):
            self.problems.append(message.text)

    def open(self, address: str) -> "Visit":
        self.page.goto(address)
        self.page.wait_for_selector("main h1")
        return self

    @property
    def heading(self) -> str:
        return self.page.text_content("main h1") or ""  # without the capital letter that is for the eye alone

    @property
    def is_asking(self) -> bool:
        return self.page.locator("#question").count() > 0

    def step(self, act: Any) -> None:
        """Do something, and wait until something else is shown."""
        before = self.page.evaluate("document.querySelector('main').textContent")
        act()
        changed = "text => ![undefined, text].includes(document.querySelector('main')?.textContent)"
        self.page.wait_for_function(changed, arg=before)

    def press(self, key: str) -> None:
        self.step(lambda: self.page.keyboard.press(key))

    def click(self, name: str) -> None:
        self.step(lambda: self.page.get_by_role("button", name=name).first.click())

    def play(self, animal: str, most: int = 30) -> str:
        """Answer as the table says until there is a guess."""
        told = animals.table().loc[animal]
        for _ in range(most):
            question = self.page.evaluate("document.querySelector('#question')?.textContent")
            if question is None:
                break
            self.press({"yes": "1", "no": "2"}.get(told[question], "0"))
        return self.heading

    def assert_well(self, *hosts: str) -> None:
        """Nothing went wrong, and nobody else was asked for anything."""
        assert self.problems == []
        assert [one for one in self.addresses if not one.startswith((*hosts, "data:", "blob:"))] == []


def findings(page: Any, **options: Any) -> list[str]:
    """What axe finds wrong that matters much."""
    from axe_playwright_python.base import AXE_SCRIPT

    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate(
        "options => axe.run(options)", {"resultTypes": ["violations"], "elementRef": False, **options}
    )
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def assert_for_everybody(page: Any, screen: str) -> None:
    """A screen has no serious finding in light and dark, and fits on a phone."""
    root = "document.documentElement"
    assert findings(page) == [], screen
    theme = page.evaluate(f"{root}.dataset.theme")
    page.evaluate(f"{root}.dataset.theme = '{'light' if theme == 'dark' else 'dark'}'")
    assert findings(page, runOnly=["color-contrast"]) == [], f"{screen} in the other theme"
    page.evaluate(f"{root}.dataset.theme = '{theme}'")
    size = page.viewport_size
    page.set_viewport_size({"width": 360, "height": 740})
    width, room = page.evaluate(f"[{root}.scrollWidth, innerWidth]")
    assert width <= room, f"{screen} on a phone"
    page.set_viewport_size(size)
