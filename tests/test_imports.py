"""How modules may depend on each other, and what importing the package costs."""

import ast
import subprocess
import sys
from pathlib import Path

from pursuit.version import __version__

SOURCE = Path(__file__).parent.parent / "src" / "pursuit"
# fmt: off
ORDER = [
    "version", "provenance", "queries", "history", "stopping", "networks", "pursuer", "following", "chains",
    "rows", "parquet", "augmentation", "histories", "exact", "stages", "learner", "vip", "processes", "devices",
    "steps", "checkpoints", "logs",
    "training", "evaluation", "concepts", "saving", "session",
    "estimators", "baselines", "tasks", "figures", "progress", "demo", "reproduce", "compare", "screen", "cli",
    "__main__",
]
# fmt: on


def module_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The modules of the package that a file imports, by their first name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pursuit":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found


def test_imports_go_one_way() -> None:
    for path in SOURCE.rglob("*.py"):
        module = module_of(path)
        if module == "__init__":
            continue
        later = {name for name in imports(path) if name in ORDER and ORDER.index(name) > ORDER.index(module)}
        assert not later, f"{path.relative_to(SOURCE)} imports {later}, which come after it"


def test_every_module_has_its_place_and_stays_short() -> None:
    for path in SOURCE.rglob("*.py"):
        assert module_of(path) in [*ORDER, "__init__"], f"{path} has no place in the order of modules"
        assert len(path.read_text().splitlines()) <= 400, f"{path} is too long to be about one thing"


def test_importing_the_package_brings_nothing_heavy_and_changes_nothing() -> None:
    code = """
import sys, torch
state, threads = torch.get_rng_state(), torch.get_num_threads()
import pursuit
heavy = [name for name in ("lightning_fabric", "matplotlib", "typer", "tensorboard") if name in sys.modules]
assert not heavy, heavy
assert torch.equal(state, torch.get_rng_state()) and threads == torch.get_num_threads()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_is_the_program() -> None:
    done = subprocess.run([sys.executable, "-m", "pursuit", "--version"], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == __version__


def test_every_source_file_has_its_tests() -> None:
    tests = {path.stem.removeprefix("test_") for path in Path(__file__).parent.rglob("test_*.py")}
    untested = (
        {path.stem for path in SOURCE.rglob("*.py")} - tests - {"__init__", "__main__", "version", "queryset", "demo"}
    )
    assert not untested
