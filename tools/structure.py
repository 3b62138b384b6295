"""The structure of the package in numbers: rooms, floors, imports between them, cycles, lines, type tests.

A room is a module or package at the first level of `src/pursuit`, whose own `__init__` has a floor but is not counted.
A room's floor is one above the highest room it imports. Imports are read file by file, those inside functions and under
TYPE_CHECKING included.

    python tools/structure.py [SOURCE]
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import connected_components

SOURCE = Path(__file__).parent.parent / "src" / "pursuit"
TYPE_TEST = re.compile(r"isinstance\(\s*[\w.]*(query_set|patches|queries)\s*,")


def module_of(path: Path, source: Path) -> str:
    """The dotted name of a file below the package: `training.step`, or `training` for its `__init__`."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports(source: Path) -> dict[str, set[str]]:
    """For every module, the modules of the package that it imports."""
    paths = {module_of(path, source): path for path in source.rglob("*.py")}
    return {name: set(_imported(path, source.name, paths)) - {name} for name, path in paths.items()}


def _imported(path: Path, package: str, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
            base = node.module.removeprefix(package).removeprefix(".")
            for alias in node.names:
                name = f"{base}.{alias.name}".removeprefix(".")
                yield name if name in known else base or "__init__"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == package:
                    yield alias.name.removeprefix(package).removeprefix(".") or "__init__"


def rooms(modules: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """For every room, the other rooms that it imports."""
    found: dict[str, set[str]] = {}
    for name, others in modules.items():
        found.setdefault(name.split(".")[0], set()).update(other.split(".")[0] for other in others)
    return {room: others - {room} for room, others in found.items()}


def floor(room: str, graph: Mapping[str, set[str]], path: tuple[str, ...] = ()) -> int:
    """The floor of a room, from 1; a cycle is entered once."""
    below = (floor(other, graph, (*path, room)) for other in graph[room] if other in graph and other not in path)
    return 1 + max(below, default=0)


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others."""
    names = sorted(graph)
    matrix = np.array([[other in graph[name] for other in names] for name in names])
    _, group = connected_components(matrix, connection="strong")
    found = [[name for name, own in zip(names, group, strict=True) if own == i] for i in range(group.max() + 1)]
    return sorted(members for members in found if len(members) > 1)


def n_lines(source: Path) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in source.rglob("*.py"))


def type_tests(source: Path) -> list[str]:
    """Places outside `queries/` that ask for the type of a query set."""
    return [
        f"{path.relative_to(source)}:{n}"
        for path in sorted(source.rglob("*.py"))
        if path.relative_to(source).parts[0] != "queries"
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if TYPE_TEST.search(line)
    ]


def main() -> None:
    source = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SOURCE
    modules = imports(source)
    graph, ties = rooms(modules), cycles(modules)
    level = {room: floor(room, graph) for room in graph}
    for height in sorted(set(level.values()), reverse=True):
        print(f"floor {height:>2}  {', '.join(sorted(room for room in level if level[room] == height))}")
    print(
        f"\n{len(graph.keys() - {'__init__'})} rooms, {max(level.values())} floors, "
        f"{sum(map(len, graph.values()))} imports between rooms, "
        f"{len(modules)} files, {sum(map(len, modules.values()))} imports between files, {len(ties)} cycles, "
        f"{n_lines(source):,} lines, {len(type_tests(source))} type tests on query sets outside queries/"
    )
    print("\n".join([*(f"cycle: {' <-> '.join(group)}" for group in ties), *type_tests(source)]))


if __name__ == "__main__":
    main()
