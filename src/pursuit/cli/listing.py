"""The lists of `pursuit methods` and `pursuit tasks`, from a file, because importing all methods and tasks takes
seconds. `python -m pursuit.cli.listing` writes the file, and a test holds it equal to the registry."""

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pursuit import registry

FILE = Path(__file__).with_suffix(".json")


def listing() -> dict[str, Any]:
    """The modules, methods and tasks there are: as the file says unless others may be known, from plugins or files
    dropped into the packages."""
    has_others = registry.is_in_use() or entry_points(group=registry.ENTRY_POINTS)
    if not has_others:
        written: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
        if written["modules"] == _modules():
            return written
    return registered()


def registered() -> dict[str, Any]:
    """The same from the registry, as JSON values."""
    from pursuit.public import METHODS
    from pursuit.research.experiments.compare import vip_first
    from pursuit.research.tasks import TASKS
    from pursuit.research.tasks.files import is_published

    methods = [{"method": name, "title": METHODS[name].title} for name in vip_first(METHODS)]
    tasks = [
        {
            "task": name,
            "n_queries": info.n_queries,
            "n_classes": info.n_classes,
            "n_train": info.n_train,
            "n_test": info.n_test,
            "recipes": list(info.recipes),
            "files": [[choice.path for choice in (file, *file.alternatives)] for file in info.files],
            "by_hand": list(dict.fromkeys(file.origin for file in info.files if not is_published(file))),
            "title": info.title,
        }
        for name, info in TASKS.items()
    ]
    return {"modules": _modules(), "methods": methods, "tasks": tasks}


def _modules() -> list[str]:
    """The files that methods and tasks are found in."""
    packages = (FILE.parents[1] / name for name in ("methods", "research/tasks"))
    return sorted(f"{package.name}/{path.name}" for package in packages for path in package.glob("*.py"))


if __name__ == "__main__":
    FILE.write_text(json.dumps(registered(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
