"""The example clients do what they say."""

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from httpx import Client

from browsing import ARGUMENTS, CHROMIUM, files_of
from pursuit.web.serving.models import ServedModels
from served import running

TOKEN = "a-token-of-the-tests"
EXAMPLES = Path(__file__).parents[3] / "examples"


def run(client: Client, *arguments: str, typed: str = "", token: str = "") -> str:
    address = str(client.base_url).rstrip("/")
    command = [sys.executable, str(EXAMPLES / "client.py"), "--address", address, *arguments]
    environment = {**os.environ, "PURSUIT_TOKEN": token}
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60, env=environment)
    return done.stdout + done.stderr


def test_the_client_in_python_holds_an_interview(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", operator_token=TOKEN) as client:
        said = run(client, typed="monsoon\nwinter\nu\nwinter\nno\n39,2\n\n\n\n")
        asked = {"params": {"all": True}, "headers": {"authorization": f"Bearer {TOKEN}"}}
        sessions = client.get("/api/sessions", **asked).json()["sessions"]
    assert "is one of spring, summer, autumn, winter, not 'monsoon'" in said
    assert "It is flu. What speaks for it:\n" in said
    assert "   temperature? 39.2\n" in said
    assert [(one["model"], one["outcome"]) for one in sessions] == [("illness", "flu")]
    assert f"/api/sessions/{sessions[0]['id']}/report" in said


def test_the_client_in_python_takes_a_doubtful_number_that_is_said_twice(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}") as client:
        said = run(client, typed="winter\nno\n392\n392\n\n\n\n")
    assert said.count("Did you mean 39.2? If it is right, say it again.") == 1
    assert "It is " in said


def test_the_client_in_python_asks_without_a_session(client: Client) -> None:
    said = run(client, "--model", "ordered", "--next", "winter")
    assert "0. season? [spring/summer/autumn/winter]" in said
    assert "\n1. " in said
    assert client.get("/api/sessions").json()["total"] == 0


def test_the_client_in_python_says_what_is_wrong(client: Client) -> None:
    assert "There is no model “none” here" in run(client, "--model", "none", "--next")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "client.py"), "--address", "http://127.0.0.1:1"], capture_output=True, text=True
    )
    assert "does not answer" in done.stderr
    assert "Start it with: pursuit serve" in done.stderr


def test_the_client_in_python_knows_the_token(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", token=TOKEN) as client:
        assert "This server asks for a token" in run(client, "--next")
        assert "not the token" in run(client, "--next", token="wrong")
        assert "1. season?" in run(client, "--model", "illness", "--next", token=TOKEN)


def test_the_client_in_python_needs_the_standard_library_alone() -> None:
    spec = importlib.util.spec_from_file_location("client", EXAMPLES / "client.py")
    assert spec is not None
    source = (EXAMPLES / "client.py").read_text(encoding="utf-8")
    imported = {line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert imported <= sys.stdlib_module_names


@pytest.mark.programs
def test_the_client_in_the_browser_asks_until_it_knows(models: ServedModels, tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here (Debian: apt-get install chromium)")
    database = f"sqlite:///{tmp_path / 'a.sqlite'}"
    with files_of(EXAMPLES) as origin, running(models, database, origins=[origin], token=TOKEN) as client:
        address = f"{origin}/client.html?server={str(client.base_url).rstrip('/')}&model=illness"
        with ThreadPoolExecutor(1) as pool:  # a browser that other tests hold open has an event loop in this thread
            heading, status = pool.submit(play, address).result()
        assert heading == "It is flu."
        assert "flu" in status
        authorized = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/api/sessions", headers=authorized).json()["total"] == 0


def play(address: str) -> tuple[str, str]:
    """Answer as somebody with a fever in winter, and give the heading and the belief in the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as program:
        browser = program.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        page = browser.new_page()
        page.goto(address)
        page.get_by_role("textbox").fill(TOKEN)
        page.get_by_role("button", name="OK").click()
        page.get_by_role("button", name="winter").click()
        page.get_by_role("button", name="Back").click()
        page.get_by_role("button", name="winter").wait_for()
        first = page.get_by_role("heading").inner_text()
        page.get_by_role("button", name="winter").click()
        page.wait_for_function("old => document.querySelector('h1').textContent !== old", arg=first)
        for _ in range(5):
            heading = page.get_by_role("heading").inner_text()
            if heading.startswith("It is"):
                break
            field = page.get_by_role("textbox")
            if field.count():
                field.fill("392")  # far outside the usual range
                page.get_by_role("button", name="OK").click()
                page.get_by_text("If it is right, press OK again.").wait_for()
                page.get_by_role("button", name="OK").click()
            else:
                page.get_by_role("button", name="no", exact=True).click()
            page.wait_for_function("old => document.querySelector('h1').textContent !== old", arg=heading)
        shown = page.get_by_role("heading").inner_text(), page.get_by_role("status").inner_text()
        browser.close()
    return shown
