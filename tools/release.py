"""Make a release: `make release`. Checks what must hold, builds into dist/, and tags the commit.

1. Write the version into src/pursuit/version.py (PEP 440, such as 0.1.0b3), and a section of its number and date into
   CHANGELOG.md; commit.
2. `make release`. It runs `.ci/run`, builds wheel and source archive and tags the commit, but publishes nothing:
   push the tag and upload dist/ by hand.
"""

import datetime
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    version = re.findall(r'__version__ = "(.+)"', (ROOT / "src/pursuit/version.py").read_text(encoding="utf-8"))[0]
    tag = f"v{version}"
    if problems := whats_missing(version, tag):
        sys.exit("\n".join(problems))
    subprocess.run([ROOT / ".ci" / "run"], check=True)
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # files of an earlier build would go into the wheel
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "dist", ".")
    archive = f"dist/pursuit-{version}.tar.gz"
    run("git", "archive", f"--prefix=pursuit-{version}/", "--output", archive, "HEAD")
    run("git", "tag", "--annotate", tag, "--message", f"pursuit {version}")
    print(f"Tagged {tag}; wheel and archive are in dist/. Publish by: git push origin {tag}")


def whats_missing(version: str, tag: str) -> list[str]:
    found = []
    if run("git", "status", "--porcelain"):
        found.append("There are changes that are not committed.")
    if run("git", "tag", "--list", tag):
        found.append(f"{tag} exists: write the next version into src/pursuit/version.py.")
    heading = re.search(rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)$", changelog(), flags=re.M)
    if heading is None:
        found.append(f"CHANGELOG.md has no section '## {version} ({datetime.date.today()})'.")
    return found


def changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
