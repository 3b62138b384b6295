"""The Dockerfile, as far as it can be checked where no image can be built."""

import json
import re
import shlex
import tomllib
from pathlib import Path

from pursuit.cli.app import load_command
from pursuit.web.serving.pages import ASSETS, FOLDER
from pursuit.web.serving.store import DATABASE_VARIABLE

ROOT = Path(__file__).parent.parent


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def of(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    kept = (ROOT / ".dockerignore").read_text().split()
    for line in of("COPY"):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists()
            assert f"!{source}" in kept


def test_what_is_installed_is_there_to_install() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"\.\[([\w,]+)\]", " ".join(of("RUN")))
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (base,) = of("FROM")
    version = tuple(map(int, re.findall(r"python:(\d+)\.(\d+)-", base)[0]))
    assert version >= tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
    for file in (project["readme"], *project["license-files"]):
        assert any(file in line.split() for line in of("COPY"))


def test_the_versions_that_are_tested_are_installed() -> None:
    installs = re.findall(r"pip install ([^&]+)", " ".join(of("RUN")))
    assert len(installs) == 2
    assert all("-c constraints.txt" in words for words in installs)  # or torch is installed again, with CUDA


def test_it_serves_as_nobody_in_particular() -> None:
    order = [name for name, _ in instructions()]
    assert of("USER") == ["pursuit"]
    assert order.index("USER") < order.index("CMD")
    assert "pip" not in " ".join(rest for name, rest in instructions()[order.index("USER") :])
    assert json.loads(of("ENTRYPOINT")[0]) == ["pursuit"]
    name, *options = json.loads(of("CMD")[0])
    command = load_command(name)
    command.make_context(name, list(options), resilient_parsing=False)  # or an option is not known
    assert options[0] in json.loads(of("VOLUME")[0])  # where models are put
    assert any(line.startswith(f"{DATABASE_VARIABLE}=sqlite:////data/") for line in of("ENV"))


def test_health_is_asked_at_an_address_that_is_there() -> None:
    (check,) = of("HEALTHCHECK")
    code = json.loads(check.partition("CMD ")[2])[2]
    compile(code, "healthcheck", "exec")
    path = re.findall(r"127\.0\.0\.1:8000(/[\w./]+)", code)[0]
    assert (FOLDER / path.removeprefix(f"{ASSETS}/")).exists()
    assert of("EXPOSE") == ["8000"]
    assert shlex.split(code)
