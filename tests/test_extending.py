"""What docs/extending.md shows works as it stands there: five files outside the package, each taken through train,
save, compare, and in a new process through load, evaluate, explain and ask."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from program import json_of, run
from pursuit import Budget, Stage, VIPClassifier, load
from short_plans import short_plans

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parent.parent
FILES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", (ROOT / "docs/extending.md").read_text(), re.M | re.S))
QUICK = ["--epochs", "3"]
SHORT = ["--effort", "0.02", "--rows", "30"]
TABLE = ["visits.csv", "--target", "diagnosis"]
EXTENSIONS = {
    "margin.py": ([*TABLE, "--stop", "margin=0.8", *QUICK], [*TABLE, "--stop", "margin=0.8", "--methods", "vip,tree"]),
    "highway.py": ([*TABLE, "--network", "Highway", *QUICK], [*TABLE, "--network", "Highway", "--methods", "vip,tree"]),
    "thresholds.py": (
        [*TABLE, "--queries", "ThresholdQueries", *QUICK],
        [*TABLE, "--queries", "ThresholdQueries", "--methods", "vip,naive-bayes,tree"],
    ),
    "neighbours.py": ([*TABLE, "--method", "neighbours"], [*TABLE, "--methods", "neighbours,tree"]),
    "tumours.py": (["tumours", "--epochs", "8"], ["tumours", "--methods", "vip,naive-bayes"]),
}
PROGRAM = """
import io, json, sys
from pursuit.cli import main
for arguments, typed in json.loads(sys.argv[1]):
    sys.argv, sys.stdin = ["pursuit", *arguments], io.StringIO(typed)
    try:
        main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"pursuit {' '.join(arguments)} ended with {end.code}")
"""


def in_a_new_process(folder: Path, *commands: tuple[list[str], str]) -> list[dict]:
    """Run commands one after the other in one fresh process; each prints one JSON object."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def visits(folder: Path) -> None:
    randomness = np.random.default_rng(0)
    age, pulse, sleep = randomness.normal(50, 15, 400), randomness.normal(75, 10, 400), randomness.normal(7, 1, 400)
    ill = (age > 55) ^ (pulse > 80)
    frame = pd.DataFrame({"age": age.round(), "pulse": pulse.round(), "sleep": sleep.round(1)})
    frame.loc[::17, "sleep"] = None
    frame.assign(diagnosis=np.where(ill, "ill", "well")).to_csv(folder / "visits.csv", index=False)


def test_the_page_has_the_five_files() -> None:
    assert set(FILES) == set(EXTENSIONS)


@pytest.mark.usefixtures("forgetful_registry")
@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_goes_all_the_way(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    visits(tmp_path)
    training, comparing = EXTENSIONS[name]
    plugin = ["--plugin", name]
    trained = json_of(run(tmp_path, *plugin, "train", *training, "--out", "model", "--json"))
    data = ["--data", training[0], *(["--target", "diagnosis"] if "--target" in training else [])]
    evaluated, explained, asked = in_a_new_process(
        tmp_path,
        ([*plugin, "evaluate", "model", *data, "--json"], ""),
        ([*plugin, "explain", "model", *data, "--json"], ""),
        ([*plugin, "ask", "model", "--json"], "d\nd\nquit\n"),
    )
    compare = ("compare", *comparing, *SHORT, "--device", "cpu", "--out", "compared", "--json")
    with short_plans():
        compared = json_of(run(tmp_path, *plugin, *compare))
    assert evaluated["accuracy_by_asked"] == trained["accuracy_by_asked"]
    assert evaluated["at_stop"] == trained["at_stop"]
    assert all(chain["steps"] for chain in explained["chains"])
    assert asked["chains"][0]["steps"]
    assert all(not method["failed"] for method in compared["methods"].values())


@pytest.mark.usefixtures("forgetful_registry")
def test_a_folder_of_an_unknown_class_says_which_and_how_to_make_it_known(tmp_path: Path) -> None:
    """And the file that would define it, though it lies there, is not imported."""
    (tmp_path / "margin.py").write_text(FILES["margin.py"])
    (tmp_path / "highway.py").write_text(FILES["highway.py"] + "\nprint('imported')\n")
    visits(tmp_path)
    done = run(tmp_path, "--plugin", "highway.py", "train", *TABLE, "--network", "Highway", *QUICK, "--out", "model")
    assert done.returncode == 0, done.stderr
    assert "imported" in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "pursuit", "evaluate", "model", "--data", "visits.csv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "imported" not in done.stdout
    assert "'Highway'" in done.stderr
    assert "--plugin" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("forgetful_registry")
def test_a_saved_own_rule_is_the_same_rule_after_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "margin.py").write_text(FILES["margin.py"])
    visits(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "margin", raising=False)
    margin = importlib.import_module("margin")
    rows = pd.read_csv(tmp_path / "visits.csv")
    model = VIPClassifier(stop=margin.Margin(0.8) | Budget(2), stages=[Stage(1)], random_state=0)
    model.fit(rows.drop(columns="diagnosis"), rows["diagnosis"]).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert str(loaded.stop) == "margin=0.8,budget=2"
