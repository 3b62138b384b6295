"""`--plugin`: what a user's own file registers is known to every command, and a bad file is named with its line."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import TRAIN
from program import assert_refused, json_of, run
from pursuit.cli.app import PLUGINS_VARIABLE, load_plugin, load_plugins
from pursuit.registry import known

RULE = '''
"""A stopping rule: stop once the most probable label is far ahead of the second."""

from dataclasses import dataclass

import pursuit


@pursuit.register
@dataclass(frozen=True)
class Lead(pursuit.StoppingRule):
    by: float

    def step(self, memory, standing):
        first, second = standing.log_posterior.exp().topk(2, dim=1).values.T
        return first - second >= self.by, memory
'''
METHOD = '''
from dataclasses import dataclass

import pursuit
from pursuit.methods.random_order import RandomOrderClassifier


@pursuit.method("slow", "random order, my own")
@dataclass(kw_only=True, eq=False, repr=False)
class SlowClassifier(RandomOrderClassifier):
    """Another name for a method there is."""
'''
TASK = """
import numpy as np

from pursuit import ColumnQueries, register, yes_no
from pursuit.research.tasks import Task, TaskInfo


def load(seed):
    X = np.random.default_rng(seed).integers(0, 2, (60, 3))
    queries = ColumnQueries([yes_no(name) for name in "abc"])
    return Task("coins", queries, X[:40], X[:40, 0], X[40:], X[40:, 0], {"seed": seed})


register(TaskInfo("coins", "three coins", load, n_queries=3, n_classes=2, n_train=40, n_test=20))
"""


@pytest.fixture(autouse=True)
def forgotten(forgetful_registry: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither the registry nor Python remembers a plugin after its test."""
    monkeypatch.delenv(PLUGINS_VARIABLE, raising=False)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.endswith(".py"):
            del sys.modules[name]


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_stopping_rule_of_ones_own_is_written_on_the_command_line(workspace: Path, tmp_path: Path) -> None:
    evaluate = ("evaluate", "model", "--data", "patients.csv", "--stop", "lead=0.9", "--json")
    unknown = run(workspace, *evaluate)
    assert_refused(unknown, "'lead=0.9' is not a stopping rule")
    plugin = write(tmp_path, "rules.py", RULE)
    result = json_of(run(workspace, "--plugin", plugin, *evaluate))
    assert result["at_stop"]["rule"] == "lead=0.9"
    assert result["at_stop"]["mean_asked"] < 3
    asked = run(workspace, "--plugin", plugin, "ask", "model", "--stop", "lead=0.99,budget=1", typed="belly\n")
    assert "Prediction:" in asked.stdout


def test_a_model_trained_with_it_is_saved_with_it(workspace: Path, tmp_path: Path) -> None:
    plugin = write(tmp_path, "rules.py", RULE)
    train = (*TRAIN, "--method", "tree", "--stop", "lead=0.8", "--out", str(tmp_path / "model"), "--json")
    trained = json_of(run(workspace, "--plugin", plugin, *train))
    assert trained["at_stop"]["rule"] == "lead=0.8"
    evaluate = ("evaluate", str(tmp_path / "model"), "--data", "patients.csv", "--json")
    assert json_of(run(workspace, "--plugin", plugin, *evaluate))["at_stop"] == trained["at_stop"]


def test_a_method_and_a_task_of_ones_own(tmp_path: Path) -> None:
    plugins = ("--plugin", write(tmp_path, "own_method.py", METHOD), "--plugin", write(tmp_path, "own_task.py", TASK))
    listed = json_of(run(tmp_path, *plugins, "methods", "--json"))["methods"]
    assert listed[-1] == {"method": "slow", "title": "random order, my own"}
    assert json_of(run(tmp_path, *plugins, "tasks", "--json"))["tasks"][-1]["task"] == "coins"
    compared = run(tmp_path, *plugins, "compare", "coins", "--methods", "slow,tree", "--effort", "0.01", "--json")
    methods = json_of(compared)["methods"]
    assert {name: method["summary"]["n_seeds"] for name, method in methods.items()} == {"slow": 1, "tree": 1}
    trained = json_of(run(tmp_path, *plugins, "train", "coins", "--method", "slow", "--epochs", "1", "--json"))
    assert trained["model"] == "runs/coins-slow"


def test_plugins_of_the_environment_come_first_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = "import builtins\nbuiltins.loaded = [*getattr(builtins, 'loaded', []), __name__]\n"
    first, second = write(tmp_path, "first.py", count), write(tmp_path, "second.py", count)
    monkeypatch.setattr("builtins.loaded", [], raising=False)
    monkeypatch.setenv(PLUGINS_VARIABLE, os.pathsep.join([first, second, ""]))
    load_plugins([second])
    import builtins

    assert builtins.loaded == [first, second]  # type: ignore[attr-defined]
    assert run(tmp_path, "methods").returncode == 0


def test_a_module_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "lead_rule_of_a_package.py", RULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    load_plugin("lead_rule_of_a_package")
    assert "Lead" in known("stopping rule")
    del sys.modules["lead_rule_of_a_package"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = 1 / 0\n", "ZeroDivisionError: division by zero (line 2 of {path})"),
        ("def f():\n    raise OSError('no')\n\nf()\n", "OSError: no (line 2 of {path})"),
        ("x = (\n", "SyntaxError: '(' was never closed (line 1 of {path})"),
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name' (line 1 of"),
        (RULE.replace("Lead", "Budget"), "There is a stopping rule named 'Budget' already, from pursuit.inference"),
    ],
)
def test_a_file_that_cannot_be_imported_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, "bad.py", text)
    for _ in range(2):  # it is not taken for imported the second time
        done = run(tmp_path, "--plugin", "bad.py", "methods")
        assert_refused(done, "The plugin bad.py cannot be imported: ")
        assert message.format(path=path) in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.py", "There is no plugin file nowhere.py"),
        ("some/folder", "There is no plugin file some/folder"),
        ("nowhere_at_all", "There is no module 'nowhere_at_all' to import as a plugin"),
        ("json.nowhere", "There is no module 'json.nowhere' to import as a plugin"),
    ],
)
def test_a_plugin_that_does_not_exist(name: str, message: str, tmp_path: Path) -> None:
    done = run(tmp_path, "--plugin", name, "methods")
    assert_refused(done, message)
