"""Clients that others' programs generate from the description of the API, in Python and in TypeScript, play an
interview."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from illness import ILL
from npm import NODE, installed
from pip_tools import tool
from pursuit import PursuitEstimator
from pursuit.web.serving.models import ServedModels
from served import running

CLIENTS = Path(__file__).parent / "clients"
GENERATOR = "openapi-python-client==0.29.1"
PACKAGES = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@22.10.2")
SECONDS = 240

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def client(models: ServedModels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with running(models, f"sqlite:///{tmp_path_factory.mktemp('clients') / 's.db'}") as own:
        yield own


@pytest.fixture
def description(client: httpx.Client, tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_bytes(client.get("/api/openapi.json").content)
    return path


def run(*command: Any, folder: Path, environment: dict[str, str] | None = None) -> str:
    own = [str(part) for part in command]
    done = subprocess.run(own, cwd=folder, capture_output=True, text=True, timeout=SECONDS, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_is_right(result: Any, illness: PursuitEstimator) -> None:
    session = illness.session()
    while not session.done:
        session.tell(ILL[session.ask().name])
    assert result["label"] == session.prediction == "flu"
    assert result["probability"] == pytest.approx(session.posterior["flu"], abs=1e-6)


def test_a_client_in_python(client: httpx.Client, description: Path, illness: PursuitEstimator) -> None:
    folder, environment = description.parent, tool(GENERATOR)
    python = environment.pop("PYTHON")
    run("openapi-python-client", "generate", "--path", description, "--meta", "none", "--output-path", "client",
        folder=folder, environment=environment)  # fmt: skip
    shutil.copy(CLIENTS / "play.py", folder)
    result = run(python, "play.py", str(client.base_url), json.dumps(ILL), folder=folder, environment=environment)
    assert_is_right(json.loads(result), illness)


def test_a_client_in_typescript(client: httpx.Client, description: Path, illness: PursuitEstimator) -> None:
    packages = installed(*PACKAGES)
    folder, programs = description.parent, packages / "node_modules" / ".bin"
    (folder / "node_modules").symlink_to(packages / "node_modules")
    given = ("--default-non-nullable", "false")  # what has a default need not be sent
    run(programs / "openapi-typescript", description, "-o", "api.d.ts", *given, folder=folder)
    shutil.copy(CLIENTS / "play.ts", folder)
    (folder / "package.json").write_text('{"type": "module"}')
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext")
    run(
        programs / "tsc",
        *options,
        "--skipLibCheck",
        "--types",
        "node",
        "--noUncheckedIndexedAccess",
        "play.ts",
        folder=folder,
    )
    result = run(NODE, "play.js", str(client.base_url).rstrip("/"), json.dumps(ILL), folder=folder)
    assert_is_right(json.loads(result), illness)


def test_functions_have_names_that_people_would_give_them(description: Path) -> None:
    described = json.loads(description.read_text(encoding="utf-8"))
    names = [one["operationId"] for path in described["paths"].values() for one in path.values()]
    assert len(set(names)) == len(names)
    assert {"list_models", "begin_session", "make_move", "show_why", "ask_next"} <= set(names)
