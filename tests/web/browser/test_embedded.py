"""The interview in a page of another site, by one line."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from browsing import needs_browser
from pursuit.web.serving.models import ServedModels, load_models
from pursuit.web.serving.security import framed_headers
from served import letters_model, running

needs_browser()
pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.programs]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ServedModels:
    return load_models([letters_model(tmp_path_factory.mktemp("models") / "letters")])


class Site:
    """A site with one page, on a port of its own, which makes it another origin, and by a name that makes it another
    site than that of the server."""

    def __init__(self) -> None:
        self.page = b""
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(own.page)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def sites() -> Iterator[tuple[Site, Site]]:
    own = Site(), Site()
    yield own
    for site in own:
        site.server.shutdown()


@pytest.fixture
def address(models: ServedModels, tmp_path: Path, sites: tuple[Site, Site]) -> Iterator[str]:
    """That of a server which the first of the sites may embed."""
    with running(models, f"sqlite:///{tmp_path / 'sessions.sqlite'}", embed=[sites[0].origin]) as client:
        found = str(client.base_url).rstrip("/")
        line = f'<script src="{found}/embed.js" data-model="letters" data-title="Guess"></script>'
        for site in sites:
            shown = f'<meta name="viewport" content="width=device-width"><h1>Shop</h1>{line}<p>Imprint</p>'
            site.page = f"<!doctype html>{shown}".encode()
        yield found


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "color_scheme": "dark"}
FITS = "document.documentElement.scrollHeight === innerHeight && document.documentElement.scrollWidth === innerWidth"


def wait_until_it_fits(inside: Any) -> None:
    """Nothing is evaluated in the page itself, whose policy forbids it."""
    for _ in range(200):
        if inside.evaluate(FITS):
            return
        inside.page.wait_for_timeout(50)
    raise AssertionError("The frame scrolls.")


@pytest.mark.parametrize("device", [{}, PHONE], ids=["screen", "phone"])
def test_one_line_shows_the_interview(
    browser: Any, sites: tuple[Site, Site], address: str, device: dict[str, Any]
) -> None:
    with browser.new_context(**device) as context:
        page = context.new_page()
        page.goto(sites[0].origin)
        frame = page.frame_locator("iframe[title=Guess]")
        frame.get_by_role("button", name="Yes").click()
        frame.locator(".chain li").first.wait_for()
        inside = page.frames[1]
        assert frame.get_by_text("Past sessions").count() == 0  # without a cookie, there are none
        assert "Save or delete them here before you leave" in frame.locator("main").inner_text()
        for n in range(2, 30):
            wait_until_it_fits(inside)  # nothing is scrolled inside of the frame
            button = frame.get_by_role("button", name="I don't know")
            if not button.count():
                break
            button.click()
            frame.locator(".chain li").nth(n - 1).wait_for()
        frame.get_by_role("button", name="That's right").click()
        frame.get_by_role("heading", name="Thank you").wait_for()
        wait_until_it_fits(inside)
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
        assert context.cookies() == []


def test_other_sites_may_not(browser: Any, sites: tuple[Site, Site], address: str) -> None:
    page = browser.new_page()
    with page.expect_console_message(lambda line: "frame-ancestors" in line.text):
        page.goto(sites[1].origin)
    assert page.frame_locator("iframe").locator("main h1").count() == 0
    page.close()


def test_without_the_option_there_is_no_script(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'sessions.sqlite'}") as client:
        assert client.get("/embed.js").status_code == 404
        page = client.get("/")
        assert page.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    "site", ["shop.test", "https://shop.test/page", "https://*.test", "https://a.test; x", "ftp://a.b"]
)
def test_sites_are_checked(site: str) -> None:
    with pytest.raises(ValueError, match=r"--embed https://example\.org, not by"):
        framed_headers([site])
