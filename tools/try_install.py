"""Build a wheel, install it into an empty environment and try it there: `make test-wheel`, `make test-lowest`.

    python tools/try_install.py                        # the versions of constraints.txt, no extra
    python tools/try_install.py --lowest               # the lowest versions that pyproject.toml allows
    python tools/try_install.py --lowest --extras serve,parquet --tests tests/queries tests/tables

The environment, the wheel and all that is tried lie in a temporary folder, outside the repository.
"""

import argparse
import csv
import os
import random
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
NOT_LOWERED = ("torch",)
"""Dependencies that `--lowest` takes from constraints.txt. Old releases of torch come with several gigabytes of CUDA
libraries, unless an index with builds for CPUs is configured."""
TEST_TOOLS = ("pytest", "pytest-xdist", "hypothesis")

LIBRARY = """
import importlib.util, pathlib, sys
import numpy as np
import pursuit

assert pathlib.Path(pursuit.__file__).is_relative_to(sys.prefix), pursuit.__file__
randomness = np.random.default_rng(0)
y = randomness.choice(["cold", "flu"], 200)
X = np.where(randomness.random((200, 4)) < 0.1, y[:, None] != "flu", y[:, None] == "flu").astype(int)
model = pursuit.VIPClassifier(random_state=0).fit(X, y)
assert model.score(X, y) > 0.8
assert model.predict_proba(X[:3]).shape == (3, 2)
print(model.explain(X[:1])[0])
model.save("from-python")
assert (pursuit.load("from-python").predict(X) == model.predict(X)).all()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lowest", action="store_true", help="install the lowest versions that are allowed")
    parser.add_argument("--extras", default="", help="extras to install, separated by commas")
    parser.add_argument("--tests", nargs="*", default=[], help="tests of the repository to run in the environment")
    options = parser.parse_args()
    extras = [extra for extra in options.extras.split(",") if extra]
    with tempfile.TemporaryDirectory(prefix="pursuit-install-") as temporary:
        folder = Path(temporary)
        constraints = CONSTRAINTS
        if options.lowest:
            constraints = folder / "lowest.txt"
            constraints.write_text("\n".join(lowest(extras)) + "\n")
            print(constraints.read_text())
        python = install(folder, constraints, extras, with_tests=bool(options.tests))
        try_program(python, folder, extras)
        run(python, "-c", LIBRARY, cwd=folder)
        if options.tests:
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTHONSAFEPATH": "1"}
            selected = "not programs and not scale and not slow"
            arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", selected, *options.tests)
            run(python, *arguments, cwd=ROOT, env=environment)
    print("Installed and tried: all well.")


def lowest(extras: list[str]) -> list[str]:
    """Constraints that hold every dependency at its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in requirements(project, extra))]
    bounds: dict[str, str] = {}
    for line in wanted:
        found = re.match(r"([\w.-]+)(?:\[[\w,.-]+\])?>=([\w.]+)", line)
        if found is None:
            raise SystemExit(f"pyproject.toml states no lowest version: {line}")
        bounds[found[1]] = found[2]
    tested = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    kept = [line for line in tested if line.split("==")[0].lower() in NOT_LOWERED]
    return [f"{name}=={version}" for name, version in bounds.items() if name not in NOT_LOWERED] + kept


def requirements(project: dict, extra: str) -> list[str]:
    """The requirements of an extra, and those of the extras that it includes."""
    found = []
    for line in project["optional-dependencies"][extra]:
        included = re.match(r"pursuit\[([\w,-]+)\]", line)
        if included is None:
            found.append(line)
        else:
            found += [each for name in included[1].split(",") for each in requirements(project, name)]
    return found


def install(folder: Path, constraints: Path, extras: list[str], with_tests: bool) -> Path:
    """Build the wheel from a copy of the tracked files and install it; the Python of the new environment."""
    source = folder / "source"
    source.mkdir()
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in tracked.decode().split("\0"):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    quiet = ("--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "--wheel-dir", str(folder / "dist"), str(source))
    (wheel,) = (folder / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", str(folder / "environment"))
    python = folder / "environment" / "bin" / "python"
    named = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    tools = TEST_TOOLS if with_tests else ()
    run(python, "-m", "pip", "install", *quiet, "--no-compile", "-c", str(constraints), named, *tools)
    run(python, "-m", "pip", "check", *quiet[1:])
    return python


def try_program(python: Path, folder: Path, extras: list[str]) -> None:
    """Train, ask, predict and evaluate by the installed program, on a table that is made here."""
    chance = random.Random(0)
    with (folder / "visits.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["fever", "season", "age", "diagnosis"])
        for _ in range(200):
            flu = chance.random() < 0.5
            fever = "yes" if flu != (chance.random() < 0.1) else "no"
            season = "winter" if flu else chance.choice(["spring", "summer", "winter"])
            table.writerow([fever, season, round(chance.gauss(40, 15)), "flu" if flu else "allergy"])
    program = python.parent / "pursuit"
    run(program, "--help", cwd=folder)
    run(program, "train", "visits.csv", "--target", "diagnosis", "--out", "model", cwd=folder)
    run(program, "ask", "model", cwd=folder, typed="yes\nwinter\n40\n")
    run(program, "predict", "model", "--data", "visits.csv", "--out", "predictions.csv", cwd=folder)
    with (folder / "predictions.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 200
    run(program, "evaluate", "model", "--data", "visits.csv", cwd=folder)
    run(program, "report", "model", "--data", "visits.csv", cwd=folder)
    if "serve" not in extras:
        done = subprocess.run([program, "serve", "model"], cwd=folder, capture_output=True, text=True)
        assert done.returncode != 0, "the server started without its extra"
        assert "pursuit[serve]" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr, done.stderr


def run(
    program: str | Path, *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None, typed: str = ""
) -> None:
    print("$", Path(program).name, *("..." if "\n" in argument else argument for argument in arguments), flush=True)
    subprocess.run([program, *arguments], cwd=cwd, env=env, input=typed, text=True, check=True)


if __name__ == "__main__":
    main()
