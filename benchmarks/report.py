"""What pages of results are made of: tables, rounded figures, verdicts and where the figures come from."""

import platform
import statistics
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pursuit.files import write_whole

RESULTS = Path(__file__).parent.parent / "docs" / "results"
NOTHING = "–"
Record = dict[str, Any]
"""The settings of a run, what it found, and where."""
Column = str | Callable[[list[Record]], object]
"""How a cell follows from the records of a row: `path.of.keys|format`, with ± after the format for the deviation over
records and perhaps a factor (`seconds*1e6|figure`), or a function."""


def table(columns: str | Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A markdown table; the titles of its columns may be one text, with semicolons."""
    columns = columns.split("; ") if isinstance(columns, str) else columns
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def grid(rows: Mapping[Any, list[Record]], columns: Mapping[str, Column], *names: str) -> str:
    """A markdown table with a row for each group of records; `names` are the titles of the parts of its key."""
    lines = []
    for key, records in rows.items():
        labels = [f"{part:,}" if isinstance(part, int) else part for part in (key if isinstance(key, tuple) else [key])]
        lines.append([*(labels if names else []), *(cell(records, column) for column in columns.values())])
    return table([*names, *columns], lines)


def columns(text: str) -> dict[str, Column]:
    """`title = path|format; …` as the columns of a grid."""
    return {title.strip(): path.strip() for title, path in (part.split(" = ") for part in text.split(";"))}


def cell(records: list[Record], column: Column) -> str:
    if not isinstance(column, str):
        return str(column(records))
    source, _, form = column.partition("|")
    path, _, factor = source.partition("*")
    values = [value for record in records if (value := dig(record, path)) is not None]
    values = [float(factor) * value for value in values] if factor else values
    return spread(values, form) if form else ", ".join(dict.fromkeys(map(str, values))) or NOTHING


def dig(record: Any, path: str) -> Any:
    """What lies at the end of a path of keys, such as `at_stop.accuracy`; None if there is no such key."""
    for key in path.split("."):
        if isinstance(record, list):
            record = record[int(key)] if int(key) < len(record) else None
        else:
            record = record.get(key) if isinstance(record, dict) else None
    return record


def spread(values: Iterable[float], form: str = ".3f±") -> str:
    """The mean of values and, with ± in the format, their sample standard deviation."""
    values, plain = list(values), form.rstrip("±")

    def shown(value: float) -> str:
        return figure(value) if plain == "figure" else format(value, plain)

    if not values:
        return NOTHING
    mean = shown(values[0] if len(set(values)) == 1 else statistics.fmean(values))
    return f"{mean} ± {shown(statistics.stdev(values))}" if form != plain and len(values) > 1 else mean


def grouped(records: Iterable[Record], *keys: str) -> dict[Any, list[Record]]:
    """Records by what they have in common, in the order in which that first appears."""
    found: dict[Any, list[Record]] = {}
    for record in records:
        key = tuple(dig(record, key) for key in keys)
        found.setdefault(key if len(keys) > 1 else key[0], []).append(record)
    return found


def figure(value: float | None) -> str:
    """A measured number to three digits, as people write it."""
    if value is None:
        return NOTHING
    if value and abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def met(value: float | None, *, least: float | None = None, most: float | None = None) -> str:
    """Whether a figure is what was aimed at."""
    if value is None:
        return "not measured"
    is_met = (least is None or value >= least) and (most is None or value <= most)
    return "met" if is_met else "**missed**"


def wanted(value: float, *, least: float | None = None, most: float | None = None) -> str:
    """A limit, if there is one, and whether a figure keeps it."""
    goal = most if least is None else least
    return NOTHING if goal is None else f"{goal:g}, {met(value, least=least, most=most)}"


def origins(records: Iterable[Record], *keys: str) -> str:
    """All places that records come from, each with the records that do, by these keys."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        text = ", ".join(f"{key} {value}" for key, value in record["where"].items())
        found.setdefault(text, {})[", ".join(str(dig(record, key)) for key in keys)] = None
    return "".join(f"- {'; '.join(names)}: {text}\n" if keys else f"- {text}\n" for text, names in found.items())


def where(device: str = "cpu") -> Record:
    """What computed a figure: commit, versions, machine, device and processor."""
    from pursuit.research.experiments.results import provenance  # imports torch, which pages do without

    return {**provenance(device), "processor": _processor()}


def _processor() -> str:
    """The name of the processor, if the system gives it."""
    try:
        lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout.splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("Model name"))
    except (OSError, subprocess.CalledProcessError, StopIteration):
        return platform.processor() or platform.machine()


def significant(value: Any) -> Any:
    """Measured numbers of any size to five digits: the rest is noise."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: significant(item) for key, item in value.items()}
    return [significant(item) for item in value] if isinstance(value, list | tuple) else value


def fill(page: Path, sections: Mapping[str, str], about: str = "") -> None:
    """Put texts between the marks of their names; a page that is not there yet begins with what it is about."""
    if not page.exists():
        page.parent.mkdir(parents=True, exist_ok=True)
        parts = [about, *(f"## {mark}\n\n<!-- {mark} -->\n<!-- end of {mark} -->\n" for mark in sections)]
        write_whole(page, "\n".join(parts).encode())
    text = page.read_text(encoding="utf-8")
    for mark, section in sections.items():
        start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise ValueError(f"{page} must have the lines `{start.strip()}` and `{end}` once, to write between them.")
        before, rest = text.split(start)
        text = f"{before}{start}{section.rstrip()}\n{end}{rest.split(end)[1]}"
    write_whole(page, text.encode())
