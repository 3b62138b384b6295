"""A study: its runs, what one of them measures, and what the pages say of the results.

A run is a dict of settings, such as a table, a method and a seed. What it finds is written down as soon as it ends,
with these settings and where it was measured; a run with the same settings is then done.
"""

import hashlib
import inspect
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pursuit
from benchmarks.report import RESULTS, Record, fill
from pursuit.files import write_whole

Run = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Study:
    name: str
    runs: Sequence[Run]
    measure: Callable[..., Record]
    """Given the settings of a run by their names."""
    page: Callable[[list[Record]], dict[str, str]]
    """What stands between the marks of NAME.md, or of another page if a name is `PAGE#MARK`."""
    draw: Callable[[list[Record], Path], None] | None = None
    """Draws figures of the results into a folder, when there are new ones."""
    quick: Run = field(default_factory=dict)
    """Settings that make a run as small as it can be."""
    file: str = ""
    """Where the result of a run is written, such as `tables/{table}/{method}-{seed}.json`; by default all are in
    NAME.json."""
    limit_seconds: float | None = None
    """Of computing: the most for a run."""
    limit_gb: float | None = None
    does_depend: Callable[[Run], bool] = lambda run: True
    """Whether what a run finds depends on the code of this project."""

    def path(self, run: Run, folder: Path = RESULTS) -> Path:
        return folder / (self.file.format(**run) if self.file else f"{self.name}.json")

    def read(self, folder: Path = RESULTS) -> list[Record]:
        """All results that there are, in the order of the runs; others come last."""
        if self.file:
            pattern = self.file.format_map(_Anything())
            found = [self._named(path, folder) for path in sorted(folder.glob(pattern))]
        else:
            path = self.path({}, folder)
            found = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
        places = {self.key(run): i for i, run in enumerate(self.runs)}
        return sorted(found, key=lambda record: places.get(self.key(record), len(places)))

    def _named(self, path: Path, folder: Path) -> Record:
        """The contents of a file, with the settings that are in its name."""
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.file))
        named = re.fullmatch(pattern, path.relative_to(folder).as_posix())
        return {**(named.groupdict() if named else {}), **json.loads(path.read_text(encoding="utf-8"))}

    def key(self, values: Record) -> str:
        """The same for a run and for its result."""
        return json.dumps(self.settings(values))

    def settings(self, values: Record) -> Run:
        """All settings of a run or of its result; what did not exist when it was measured had its default."""
        known = inspect.signature(self.measure).parameters.values()
        return {one.name: values.get(one.name, None if one.default is one.empty else one.default) for one in known}

    def write(self, run: Run, record: Record, folder: Path) -> None:
        """Put the result of a run in the place of an older one, if there is one."""
        path = self.path(run, folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.file:
            lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in record.items()]
            write_whole(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
            return
        with _alone(path):
            others = [one for one in self.read(folder) if self.key(one) != self.key(run)]
            lines = [json.dumps(one, ensure_ascii=False) for one in (*others, record)]
            write_whole(path, ('{"runs": [\n' + ",\n".join(lines) + "\n]}\n").encode())

    def write_pages(self, folder: Path = RESULTS) -> dict[Path, dict[str, str]]:
        """Write what the results say into the pages; outside of the documentation, only into a page of its own."""
        pages: dict[Path, dict[str, str]] = {}
        for name, text in self.page(self.read(folder)).items():
            page, _, mark = name.rpartition("#")
            if not page or folder == RESULTS:
                pages.setdefault(folder / (page or f"{self.name}.md"), {})[mark] = text
        for path, sections in pages.items():
            if folder != RESULTS:  # where nothing is written by hand
                path.unlink(missing_ok=True)
            fill(path, sections, inspect.getdoc(inspect.getmodule(self.measure)) or "")
        return pages


def every(**settings: Iterable[Any]) -> list[Run]:
    """A run for each combination of settings; the last of them changes first."""
    return [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]


@cache
def source_of_code() -> str:
    """Names the code of the package by its contents, so that a change of a page alone changes nothing."""
    folder, digest = Path(pursuit.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


class _Anything(dict):
    def __missing__(self, key: str) -> str:
        return "*"


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keeps others from writing the same file between reading it and writing it."""
    from filelock import FileLock

    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    with FileLock(Path(tempfile.gettempdir()) / f"pursuit-benchmarks-{name}.lock"):
        yield
