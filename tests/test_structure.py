"""How modules may depend on each other, what importing the package costs, and that docs/design.md says so."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import structure

from pursuit.version import __version__

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "pursuit"


def order() -> list[str]:
    """The rooms in the order of the table in docs/design.md: the only place that says it."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = page.split("## The house", 1)[1].split("\n## ", 1)[0]
    return [name.removesuffix("/").removesuffix(".py") for name in re.findall(r"^\| `([\w./]+)` \|", table, re.M)]


@cache
def imports() -> dict[str, set[str]]:
    return structure.imports(SOURCE)


def test_the_design_page_has_every_room_once() -> None:
    rooms = set(structure.rooms(imports())) - {"__main__"}
    assert sorted(order()) == sorted(rooms)
    assert len(rooms) <= 20


def test_imports_go_up_the_table_only() -> None:
    rooms = order()
    assert len(imports()) > 200
    for module, names in imports().items():
        room = module.split(".")[0]
        if room != "__main__":
            below = {name.split(".")[0] for name in names} - {room} - set(rooms[: rooms.index(room)])
            assert not below, f"{module} imports {below}, which come below it in docs/design.md"


def test_no_modules_import_each_other() -> None:
    assert structure.cycles(imports()) == []


def test_cycles_and_type_tests_are_seen_where_there_are_any(tmp_path: Path) -> None:
    package = tmp_path / "pursuit"
    package.mkdir()
    (package / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pursuit.b import B\n")
    (package / "b.py").write_text("def f():\n    from pursuit import a\n    return isinstance(a.query_set, int)\n")
    assert structure.cycles(structure.imports(package)) == [["a", "b"]]
    assert structure.type_tests(package) == ["b.py:3"]


def test_nothing_outside_queries_asks_for_the_type_of_a_query_set() -> None:
    assert structure.type_tests(SOURCE) == []


@pytest.mark.programs
def test_importing_the_package_alone_takes_no_time_and_any_name_brings_the_rest() -> None:
    code = """
import sys, pursuit
assert pursuit.__version__
heavy = [name for name in ("torch", "pandas", "sklearn", "numpy") if name in sys.modules]
assert not heavy, heavy
assert "VIPClassifier" in dir(pursuit)
import torch
state, threads = torch.get_rng_state(), torch.get_num_threads()
from pursuit import *
heavy = [name for name in ("lightning_fabric", "matplotlib", "typer", "tensorboard") if name in sys.modules]
assert not heavy, heavy
assert torch.equal(state, torch.get_rng_state()) and threads == torch.get_num_threads()
assert VIPClassifier is pursuit.VIPClassifier and pursuit.methods.METHODS is METHODS
assert RAMClassifier is pursuit.methods.RAMClassifier and "GDFSSettings" in dir(pursuit)
assert not hasattr(pursuit, "nothing")
from pursuit.research import tasks
assert tasks.TASKS
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_the_package_promises_can_be_imported() -> None:
    import pursuit

    assert [name for name in pursuit.__all__ if not hasattr(pursuit, name)] == []
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))  # what those see who check types
    checked = {(part.module, alias.name) for part in block.body for alias in part.names}
    listed = {(f"pursuit.{module}", name) for module, names in pursuit._PUBLIC.items() for name in names.split()}
    assert checked == {*listed, ("pursuit.methods", "*")}
    assert {"evaluate", "Chain", "History", "Pursuer", "WordQueries", "load", "CarriedHistories"} <= set(
        pursuit.__all__
    )


@pytest.mark.programs
def test_the_package_is_the_program() -> None:
    done = subprocess.run([sys.executable, "-m", "pursuit", "--version"], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == __version__
