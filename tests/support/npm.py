"""Programs of others that tests speak with, by name from npm, each installed once into `.cache/npm`."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from browsing import ARGUMENTS, CHROMIUM, files_of

FOLDER = Path(__file__).parents[2] / ".cache" / "npm"
NODE, NPM = shutil.which("node"), shutil.which("npm")
SECONDS = 300


def package(name: str, version: str) -> Path:
    """The files of one package, without those that it depends on; skips the test where it cannot be had."""
    return _made(f"{name.replace('/', '-')}-{version}", ["pack", f"{name}@{version}"]) / "package"


def installed(*packages: str) -> Path:
    """A folder in whose node_modules these packages are, as in "survey-core@3.1.1"."""
    names = "-".join(name.replace("@", "-").replace("/", "-") for name in packages)
    return _made(names, ["install", "--no-audit", "--no-fund", "--ignore-scripts", *packages])


def _made(name: str, arguments: list[str]) -> Path:
    if NODE is None or NPM is None:
        pytest.skip("node and npm are not installed.")
    folder = FOLDER / name
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER.parent / ".gitignore").write_text("*\n")
    with FileLock(FOLDER / f"{name}.lock"):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / "package.json").write_text("{}")
            own = subprocess.run([NPM, *arguments], cwd=folder, capture_output=True, text=True, timeout=SECONDS)
            if own.returncode:
                pytest.skip(f"npm {' '.join(arguments)} did not work: {own.stderr.strip().splitlines()[-1:]}")
            for archive in folder.glob("*.tgz"):
                shutil.unpack_archive(archive, folder, "gztar", filter="data")
            (folder / "done").touch()
    return folder


@contextmanager
def opened(folder: Path, content: str = "") -> Iterator[Any]:
    """A page in Chromium beside the files of a folder, which a server of its own gives."""
    (folder / "client.html").write_text(f'<!doctype html><meta charset="utf-8">{content}', encoding="utf-8")
    from playwright.sync_api import sync_playwright

    with files_of(folder) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        page = browser.new_page()
        page.goto(f"{origin}/client.html")
        yield page
        browser.close()


def node(script: str, folder: Path, **data: Any) -> Any:
    """What a script, which finds the packages of a folder, makes of these data: JSON in, JSON out."""
    assert NODE is not None
    own = subprocess.run(
        [NODE, "-e", script], cwd=folder, input=json.dumps(data), capture_output=True, text=True, timeout=SECONDS
    )
    assert own.returncode == 0, own.stderr
    return json.loads(own.stdout)
