"""The structure of the package in numbers: rooms, floors, imports between them, cycles, long files, type tests.

A room is a module or package at the first level of `src/pursuit`. A room's floor is one above the highest room it
imports. Imports are read file by file, those inside functions and under TYPE_CHECKING included.

    python benchmarks/structure.py [SOURCE]
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "pursuit"
LONG_FILE = 400
"""Lines above which a file is reported as long."""
TYPE_TEST = re.compile(r"isinstance\(\s*[\w.]*(query_set|patches|queries)\s*,")


def module_of(path: Path, source: Path) -> str:
    """The dotted name of a file below the package: `training.step`, or `training` for its `__init__`."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports(source: Path) -> dict[str, set[str]]:
    """For every module, the modules of the package that it imports."""
    paths = {module_of(path, source): path for path in source.rglob("*.py")}
    return {
        name: {found for found in _imported(path, source.name, paths) if found != name} for name, path in paths.items()
    }


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
        room = name.split(".")[0]
        found.setdefault(room, set()).update(other.split(".")[0] for other in others)
    return {room: others - {room} for room, others in found.items()}


def floors(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """The floor of every room, from 1; rooms in a cycle share the floor they get when the cycle is first entered."""
    found: dict[str, int] = {}

    def floor(room: str, path: tuple[str, ...]) -> int:
        if room not in found:
            below = [floor(other, (*path, room)) for other in graph[room] if other not in path and other in graph]
            found[room] = 1 + max(below, default=0)
        return found[room]

    for room in graph:
        floor(room, ())
    return found


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in graph:
                continue
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            group = stack[stack.index(node) :]
            del stack[-len(group) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for node in graph:
        if node not in number:
            visit(node)
    return groups


def long_files(source: Path) -> dict[str, int]:
    lines = {
        module_of(path, source): len(path.read_text(encoding="utf-8").splitlines()) for path in source.rglob("*.py")
    }
    return {name: n for name, n in lines.items() if n > LONG_FILE}


def type_tests(source: Path) -> list[str]:
    """Places outside `queries/` that ask for the type of a query set."""
    found = []
    for path in sorted(source.rglob("*.py")):
        if path.relative_to(source).parts[0] != "queries":
            lines = path.read_text(encoding="utf-8").splitlines()
            found += [f"{path.relative_to(source)}:{n}" for n, line in enumerate(lines, 1) if TYPE_TEST.search(line)]
    return found


def main() -> None:
    source = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SOURCE
    modules = imports(source)
    graph = rooms(modules)
    level = floors(graph)
    for floor in sorted(set(level.values()), reverse=True):
        print(f"floor {floor:>2}  {', '.join(sorted(room for room in level if level[room] == floor))}")
    ties = cycles(modules)
    print(
        f"\n{len(graph)} rooms, {max(level.values())} floors, {sum(map(len, graph.values()))} imports between rooms, "
        f"{len(modules)} files, {sum(map(len, modules.values()))} imports between files, {len(ties)} cycles, "
        f"{len(long_files(source))} files over {LONG_FILE} lines, {len(type_tests(source))} type tests on query sets "
        "outside queries/"
    )
    for group in ties:
        print("cycle:", " <-> ".join(group))
    for place in (*long_files(source), *type_tests(source)):
        print(place)


if __name__ == "__main__":
    main()
