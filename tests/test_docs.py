"""Documentation runs: the code of README and docs does what they say, and their links lead somewhere."""

import contextlib
import importlib
import io
import json
import re
from pathlib import Path

import pytest
import torch

from pursuit.cli import app
from pursuit.exact import TableIP
from pursuit.inference.history import History
from pursuit.queries import ColumnQueries, yes_no

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def printed_by(code: str, folder: Path) -> str:
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(code, "docs", "exec"), {"__name__": "docs"})
    return printed.getvalue()


def test_readme_example(tmp_path: Path) -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    text = printed_by(code, tmp_path)
    assert float(text.splitlines()[0]) > 0.85
    assert "Prediction:" in text
    assert (tmp_path / "wine-model" / "model.json").exists()


def test_worked_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = ROOT / "docs" / "algorithm.md"
    assert printed_by(blocks(page, "python")[0], tmp_path).rstrip() == blocks(page, "text")[0].rstrip()


def test_greedy_example() -> None:
    """Section 8 of the page: the label says whether a and b agree, and a hint gives it rightly in 6 of 10 rows."""
    queries = ColumnQueries([yes_no("a"), yes_no("b"), yes_no("hint")])
    worlds = torch.cartesian_prod(*[torch.tensor([0, 1])] * 3)
    same = (worlds[:, 0] == worlds[:, 1]).long()
    weights = torch.where(worlds[:, 2] == same, 0.6, 0.4)[:, None] * torch.nn.functional.one_hot(same, 2)
    x, _ = queries.answers(worlds.numpy())
    exact = TableIP(queries, ["no", "yes"], x, weights)
    start = History.start(x[:1], 3)
    assert exact.scores(start)[0].tolist() == pytest.approx([0, 0, 0.0201], abs=5e-5)
    after_hint = start.ask(torch.tensor([2]))
    assert exact.scores(after_hint)[0, :2].tolist() == pytest.approx([0, 0], abs=1e-9)
    assert float(exact.scores(after_hint.ask(torch.tensor([0])))[0, 1]) == pytest.approx(0.6730, abs=5e-5)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert link.startswith("http") or (page.parent / link).exists(), f"{page.name} links to {link}"


def test_readme_shows_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    core = importlib.import_module("core")
    measured = json.loads((ROOT / "docs" / "results" / "core.json").read_text())
    assert core.readme_section(measured) in (ROOT / "README.md").read_text(encoding="utf-8")
    assert core.page(measured) == (ROOT / "docs" / "results" / "core.md").read_text(encoding="utf-8")


def test_examples_of_the_tasks_page_run(tmp_path: Path) -> None:
    for code in blocks(ROOT / "docs" / "tasks.md", "python"):
        printed_by(code, tmp_path)


def test_the_page_of_the_tasks_shows_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tasks = importlib.import_module("tasks")
    assert tasks.page() == (ROOT / "docs" / "results" / "tasks.md").read_text(encoding="utf-8")
    assert tasks.readme_section() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_commands_in_the_readme_exist() -> None:
    known = {command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {str(group.name) for group in app.registered_groups}
    text = "\n".join(blocks(ROOT / "README.md", "sh"))
    assert set(re.findall(r"^pursuit (\w+)", text, flags=re.M)) <= known
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert set(re.findall(r"^make (\w+)", text, flags=re.M)) <= targets
