"""Writes what the program prints into the pages that show it, in about two minutes.

    python tools/shown_output.py

Each ```text block named below is replaced by what its command prints now. Sentences beside it that repeat a figure are
not: read what changed (git diff docs README.md).
"""

import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COLUMNS = 105
TYPED = "1\n?\n2\n24\nq\n"
"""What somebody answers in the session that ask.md shows."""
BLOCK = re.compile(r"(?<=^```text\n).*?(?=^```$)", flags=re.M | re.S)


class Shown(NamedTuple):
    """A command, and where its output is shown: in the block of this number of a page, from the line that begins with
    `first` (at the end of the output, where several do) up to the one before `end`."""

    command: str
    page: str = ""
    block: int = 0
    first: str = ""
    end: str = ""
    typed: str = ""


TABLE = "docs/examples/repairs.csv"
TRAIN = f"pursuit train {TABLE} --target fault --questions docs/examples/repairs.toml --out runs/repairs"
EXPLAIN = f"pursuit explain runs/repairs --data {TABLE} --row 2"
COSTS = TRAIN.replace("--out runs/repairs", "--cost heats=20 --cost stops_after=30 --out runs/costs")
DIABETES = (
    "from sklearn.datasets import load_diabetes as load; "
    "load(as_frame=True, scaled=False).frame.to_csv('diabetes.csv', index=False)"
)
REGRESS = "pursuit train diabetes.csv --target target --regress --out runs/diabetes"
SHOWN = (
    Shown(TRAIN, "docs/quickstart.md", 1),
    Shown(TRAIN, "docs/howto/table.md", 0, "Stopping at", "Settings:"),
    Shown(EXPLAIN, "README.md"),
    Shown(EXPLAIN, "docs/quickstart.md", 2),
    Shown(EXPLAIN, "docs/howto/explain.md"),
    Shown("pursuit show runs/repairs", "docs/howto/table.md", 1),
    Shown(f"pursuit evaluate runs/repairs --data {TABLE}", "docs/howto/explain.md", 1, "           "),
    Shown("pursuit export runs/repairs repairs.html", "docs/export.md"),
    Shown("pursuit ask runs/repairs", "docs/howto/ask.md", 0, end="4. ", typed=TYPED),
    Shown(COSTS),
    Shown(EXPLAIN.replace("repairs ", "costs ", 1), "docs/howto/costs.md"),
    Shown(EXPLAIN.replace("repairs ", "costs ", 1) + " --stop cost=5", "docs/howto/costs.md", 1),
    Shown(f'python -c "{DIABETES}"'),
    Shown(REGRESS, "docs/regression.md", 0, end="Settings:"),
    Shown("pursuit explain runs/diabetes --data diabetes.csv --row 0", "docs/regression.md", 1),
)


@functools.cache
def output(command: str, typed: str, folder: Path) -> list[str]:
    """All lines that a command prints."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, input=typed, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.splitlines()


def printed(shown: Shown, folder: Path) -> str:
    """What of the output is shown."""
    lines = output(shown.command, shown.typed, folder)
    begin = max(i for i, line in enumerate(lines) if line.startswith(shown.first)) if shown.first else 0
    end = next((i for i in range(begin, len(lines)) if shown.end and lines[i].startswith(shown.end)), len(lines))
    return "\n".join(line.rstrip() for line in lines[begin:end]).rstrip() + "\n"


def replaced(text: str, number: int, block: str) -> str:
    """The page with another block of this number."""
    found = list(BLOCK.finditer(text))[number]
    return text[: found.start()] + block + text[found.end() :]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "docs").symlink_to(ROOT / "docs")
        for shown in SHOWN:
            block = printed(shown, folder)
            if shown.page:
                path = ROOT / shown.page
                path.write_text(replaced(path.read_text(encoding="utf-8"), shown.block, block), encoding="utf-8")
                print(f"Written: {shown.page}", file=sys.stderr)


if __name__ == "__main__":
    main()
