"""Documentation runs: the code of README and docs does what they say, its commands parse, its names exist."""

import contextlib
import functools
import importlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.main import get_command
from typer.testing import CliRunner

from pursuit import ColumnQueries, History, yes_no
from pursuit.cli import app
from pursuit.cli.app import load_command
from pursuit.exact import TableIP

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CHANGELOG = ROOT / "CHANGELOG.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", CHANGELOG, *sorted(DOCS.rglob("*.md"))]
TESTED_ELSEWHERE = (DOCS / "extending.md", ROOT / "README.md")
"""By test_extending.py, as whole files; and below, in one go."""
N_EXAMPLE_ROWS = 120
SLOWER = ("explain.md", "guarantees.md", "regression.md", "speed.md", "tasks.md", "tune.md")
"""Pages whose examples train for a second or more."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def inline_code(page: Path) -> list[str]:
    text = re.sub(r"^( *)```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


def sentences() -> Iterator[tuple[Path, str]]:
    """The code in the sentences of all pages, and where it stands."""
    for page in PAGES:
        for code in inline_code(page):
            yield page, code


# ---- code


def examples() -> Iterator[Any]:
    for page in PAGES:
        if page not in TESTED_ELSEWHERE:
            for number, code in enumerate(blocks(page, "python"), start=1):
                marks = [pytest.mark.full_training] if page.name == "algorithm.md" else []  # it says what comes out
                marks += [pytest.mark.slow] if page.name in SLOWER else []
                yield pytest.param(page, code, id=f"{page.name}-{number}", marks=marks)


@pytest.mark.parametrize(("page", "code"), list(examples()))
def test_examples_run(page: Path, code: str, tmp_path: Path) -> None:
    printed = io.StringIO()
    _bring_examples(tmp_path)
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(printed):
        exec(compile(code, page.name, "exec"), {"__name__": "docs"})
    text = printed.getvalue()
    if page.name == "algorithm.md":
        assert text.rstrip() == blocks(page, "text")[0].rstrip()


def _bring_examples(folder: Path) -> None:
    """The tables that pages read, short enough to be learnt in seconds."""
    (folder / "docs" / "examples").mkdir(parents=True)
    for path in sorted((DOCS / "examples").glob("*.csv")):
        rows = path.read_text(encoding="utf-8").splitlines()[:N_EXAMPLE_ROWS]
        for copy in (folder / path.name, folder / "docs" / "examples" / path.name):
            copy.write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


def test_the_readme_from_top_to_bottom(tmp_path: Path) -> None:
    """Its examples go on where the one before ended."""
    printed = io.StringIO()
    _bring_examples(tmp_path)
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(printed):
        for code in blocks(ROOT / "README.md", "python"):
            exec(compile(code, "README.md", "exec"), {"__name__": "docs"})
    text = printed.getvalue()
    assert "Prediction:" in text
    assert " is expected to tell " in text  # session.why()
    assert "For it:" in text  # session.reasons()


def test_the_example_table_is_what_its_script_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "examples"))
    made = importlib.import_module("repairs").repairs()
    assert made.to_csv(index=False) == (DOCS / "examples" / "repairs.csv").read_text(encoding="utf-8")


def test_greedy_example() -> None:
    """Section 9 of algorithm.md: the label says whether a and b agree, and a hint is right in 6 of 10 rows."""
    queries = ColumnQueries([yes_no("a"), yes_no("b"), yes_no("hint")])
    worlds = torch.cartesian_prod(*[torch.tensor([0, 1])] * 3)
    same = (worlds[:, 0] == worlds[:, 1]).long()
    weights = torch.where(worlds[:, 2] == same, 0.6, 0.4)[:, None] * torch.nn.functional.one_hot(same, 2)
    x, _ = queries.answers(worlds.numpy())
    exact = TableIP(queries, ["no", "yes"], x, weights)
    start = History.start(x[:1], 3)
    assert exact.scores(start)[0].tolist() == pytest.approx([0, 0, 0.0290], abs=5e-5)
    after_hint = start.ask(torch.tensor([2]))
    assert exact.scores(after_hint)[0, :2].tolist() == pytest.approx([0, 0], abs=1e-9)
    assert float(exact.scores(after_hint.ask(torch.tensor([0])))[0, 1]) == pytest.approx(0.9710, abs=5e-5)


# ---- commands


@functools.cache
def program() -> Any:
    """The program with all its commands loaded."""
    group: Any = get_command(app)
    group.commands = {name: load_command(name) for name in group.commands}
    return group


def shell_commands() -> Iterator[Any]:
    for page in PAGES:
        for line in "\n".join(blocks(page, "sh")).splitlines():
            if found := re.match(r"(?:torchrun .* -m )?pursuit (.*)", line):
                words = shlex.split(found[1], comments=True)
                yield pytest.param(words, id=f"{page.name}: {' '.join(words)}")


@pytest.mark.parametrize("words", list(shell_commands()))
def test_commands_parse(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("check_table", "check_model"):  # files of examples are not here
        monkeypatch.setattr(sys.modules["pursuit.cli.options"], check, lambda name: None)
    command: Any = program()
    name = "pursuit"
    while hasattr(command, "commands"):
        place = next((i for i, word in enumerate(words) if word in command.commands), None)
        assert place is not None, f"there is no such command: {name} {' '.join(words)}"
        command.make_context(name, words[: place + 1])  # raises for options that are not there
        name, command, words = words[place], command.commands[words[place]], words[place + 1 :]
    command.make_context(name, words)


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def all_options(command: Any) -> set[str]:
    further = getattr(command, "commands", {}).values()
    return options_of(command).union(*(all_options(other) for other in further))


def test_commands_and_options_named_in_a_sentence_exist() -> None:
    for page, code in sentences():
        if code.startswith("pursuit "):
            command = program()
            for word in code.split()[1:]:
                if word in getattr(command, "commands", {}):
                    command = command.commands[word]
                elif word.startswith("--"):
                    assert word in options_of(command), f"{page.name}: `{code}`"
            assert command is not program() or "--plugin" in code, f"{page.name}: `{code}` names no command"
        elif re.match(r"--\w", code):
            assert code.split()[0] in all_options(program()), f"{page.name}: `{code}`"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), flags=re.M))
    used = {(page.name, code.split()[1]) for page, code in sentences() if re.match(r"make \w", code)}
    for page in PAGES:
        lines = page.read_text(encoding="utf-8")
        used |= {(page.name, target) for target in re.findall(r"^ *make (\w[\w-]*)", lines, flags=re.M)}
    assert [(page, target) for page, target in used if target not in targets] == []


def test_pages_that_show_what_a_command_prints_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = importlib.import_module("shown_output")
    first_seen: dict[str, list[str]] = {}
    for shown in tool.SHOWN:
        if shown.page:
            lines = blocks(ROOT / shown.page, "text")[shown.block].splitlines()
            whole = first_seen.setdefault(shown.command, lines)
            assert set(lines) <= set(whole), f"{shown.page}: run python tools/shown_output.py"


def test_the_program_says_what_the_page_of_the_tasks_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PURSUIT_DATA", raising=False)
    monkeypatch.setenv("PURSUIT_CACHE", str(tmp_path))
    done = CliRunner().invoke(app, ["data", "get", "huffpost"])
    assert done.exit_code == 1
    (shown,) = [block for block in blocks(DOCS / "tasks.md", "text") if block.startswith("huffpost:")]
    assert done.output.replace(str(tmp_path), "/home/ada/.cache/pursuit").strip() == shown.strip()


# ---- names


@functools.cache
def named(dotted: str) -> Any:
    """The module, class or function of this name; raises ImportError or AttributeError if there is none."""
    module, rest = dotted, []
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            if "." not in module:
                raise
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
    return functools.reduce(getattr, rest, found)


def test_modules_and_files_named_in_a_sentence_exist() -> None:
    """Not in the changelog, which has names that are no more."""
    for page, code in sentences():
        if page == CHANGELOG:
            continue
        places = (ROOT, ROOT / "src" / "pursuit", page.parent)
        if re.fullmatch(r"pursuit(\.\w+)+(\(.*\))?", code):
            named(code.split("(")[0])
        if re.fullmatch(r"[\w./]+/([\w.]+\.(py|md|json))?", code) and not code.startswith((".", "/")):
            first = code.split("/")[0]
            if any((place / first).exists() for place in places):
                assert any((place / code).exists() for place in places), f"{page.name} names {code}"


@pytest.mark.parametrize("page", ["design.md", "methods.md"])
def test_names_in_the_pages_about_code_are_in_the_code(page: str) -> None:
    files = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".js", ".html")]
    words = set(re.findall(r"\w+", "\n".join(path.read_text(encoding="utf-8") for path in files)))
    names = {code for code in inline_code(DOCS / page) if re.fullmatch(r"\w*(_|[a-z][A-Z])\w*", code)}
    assert len(names) > 10
    assert names - words == set()


def test_figures_beside_methods_are_those_of_the_results() -> None:
    """Where results are measured again, what is said about methods must follow: its figures are on the linked pages."""
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    said = text.split("## What was measured")[1].split("## The methods")[0]
    pages = [DOCS / link for link in set(re.findall(r"\((results/[\w-]+\.md)\)", said))]
    measured = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    figures = re.findall(r"\d+\.\d+|\d+%", said)
    assert len(figures) > 40
    assert [figure for figure in figures if figure not in measured] == []


def test_every_name_beside_an_equation_exists() -> None:
    module, n_names = "", 0
    for code in re.findall(r"`([^`]+)`", (DOCS / "algorithm.md").read_text(encoding="utf-8").split("## 10.")[1]):
        if code.startswith("pursuit"):
            module = code
        else:
            named(f"{module}.{code}")
            n_names += 1
    assert n_names > 25
