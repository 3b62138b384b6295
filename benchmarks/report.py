"""What pages of results share: where they lie, their origin, tables, and rounded figures."""

import json
import platform
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pursuit.experiments.provenance import provenance as where
from pursuit.experiments.results import CHECKSUM

RESULTS = Path(__file__).parent.parent / "docs" / "results"

README = RESULTS.parent.parent / "README.md"
OVERVIEW = RESULTS / "index.md"
"""The main figures of all pages of results."""

__all__ = ["OVERVIEW", "README", "RESULTS", "cpu", "figure", "into_page", "origin", "rounded", "save", "table", "where"]


def table(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def origin(measured: dict[str, Any]) -> str:
    """A list of what a page says about its origin."""
    return "\n".join(f"- {key}: {value}" for key, value in measured["where"].items()) + "\n"


def figure(value: float | None) -> str:
    """A measured number to three digits, as people write it."""
    if value is None:
        return "–"
    if value and abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cpu() -> str:
    """The name of the processor, if the system gives it."""
    try:
        lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout.splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("Model name"))
    except (OSError, subprocess.CalledProcessError, StopIteration):
        return platform.processor() or platform.machine()


def save(measured: dict[str, Any], page: Callable[[dict[str, Any]], str], name: str, into: Path) -> str:
    """Write what was measured, rounded, as NAME.json and its page as NAME.md; gives the page."""
    into.mkdir(parents=True, exist_ok=True)
    written = _significant(measured)
    text = page(written)  # of what the JSON says, so that the page can be written again from it
    for ending, content in (("json", json.dumps(written, indent=1) + "\n"), ("md", text)):
        unfinished = into / f".{name}.{ending}"
        unfinished.write_text(content, encoding="utf-8")
        unfinished.replace(into / f"{name}.{ending}")
    return text


def into_page(page: Path, mark: str, text: str) -> None:
    """Put lines between the marks of this name."""
    start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    _, after = rest.split(end)
    page.write_text(f"{before}{start}{text.rstrip()}\n{end}{after}", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Shares and seconds to four digits after the point: the rest is noise. The checksum of results does not fit them
    any more, and is left out."""
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if key != CHECKSUM}
    return _each_number(value, lambda number: round(number, 4))


def _significant(value: Any) -> Any:
    """Measured numbers of any size to five digits: the rest is noise."""
    return _each_number(value, lambda number: float(f"{number:.5g}"))


def _each_number(value: Any, change: Callable[[float], float]) -> Any:
    if isinstance(value, float):
        return change(value)
    if isinstance(value, dict):
        return {key: _each_number(item, change) for key, item in value.items()}
    return [_each_number(item, change) for item in value] if isinstance(value, list | tuple) else value
