"""The scripts of a page as one text without imports, for a file that must be whole by itself.

Scripts are modules that import by name. Put one after the other they are a single module, so no two of them may give
the same name to something at their top."""

import posixpath
import re
from pathlib import Path

IMPORT = re.compile(r'^import [^;]*? from "([^"]+)";\n', flags=re.M)
EXPORT = re.compile(r"^export (?=(?:async |const |let |function |class ))", flags=re.M)
TOP = re.compile(r"^(?:async )?(?:function|const|let|class) (\w+)", flags=re.M)

FOLDER = Path(__file__).parent
LANGUAGES = ("en", *sorted({path.stem for path in (FOLDER / "interview").glob("*.json")} - {"en"}))
"""What pages speak: one file of words each, English first."""


def part(path: str) -> str:
    """The text of a file inside of this folder."""
    return (FOLDER / path).read_text(encoding="utf-8")


def bundle(entry: str) -> str:
    """The script `entry` after all that it imports."""
    texts = [EXPORT.sub("", IMPORT.sub("", part(path))) for path in _in_order(entry)]
    names = [name for text in texts for name in TOP.findall(text)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"Scripts of one page both have {', '.join(sorted(twice))} at their top: rename one of them.")
    return "(() => {\n" + "".join(texts) + "})();"


def _in_order(entry: str) -> list[str]:
    """The scripts that are needed, each after those it imports."""
    found: list[str] = []

    def visit(path: str) -> None:
        for other in IMPORT.findall(part(path)):
            visit(posixpath.normpath(posixpath.join(posixpath.dirname(path), other)))
        if path not in found:
            found.append(path)

    visit(entry)
    return found
