"""Every promise of docs/reliability.md names tests, and these exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
HEADINGS = ("promise", "---")


def rows() -> list[list[str]]:
    """The cells of all tables, without their headings."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells for cells in found if not cells[0].startswith(HEADINGS)]


@cache
def functions_of(file: str) -> set[str]:
    path = ROOT / file
    assert path.is_file(), f"{file} is named in {PAGE.name}, but does not exist"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_a_named_test_exists() -> None:
    named = set(NAMED.findall(PAGE.read_text(encoding="utf-8")))
    assert sorted((file, name) for file, name in named if name not in functions_of(file)) == []


def test_every_promise_has_an_assumption_and_a_test() -> None:
    assert len(rows()) > 25
    for cells in rows():
        assert len(cells) == 3, cells
        assert all(cells), cells
        assert NAMED.search(cells[2]), cells[0]
