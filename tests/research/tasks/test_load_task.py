"""Finding tasks: those of the package by their files being there, and a user's own by being registered."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pursuit
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.research.tasks import EMBEDDED, TASKS, Task, TaskInfo, find_recipe, load_task
from pursuit.research.tasks.recipe import Recipe
from pursuit.training import Stage

PACKAGE = Path(pursuit.__file__).parent
COINS = """
import numpy as np
from pursuit.queries import ColumnQueries, yes_no
from pursuit.registry import register
from pursuit.research.tasks import Task, TaskInfo


def load(seed):
    X = np.random.default_rng(seed).integers(0, 2, (60, 3))
    y = np.where(X.sum(axis=1) > 1, "heads", "tails")
    queries = ColumnQueries([yes_no(f"coin {i}") for i in range(3)])
    return Task("coins", queries, X[:40], y[:40], X[40:], y[40:], {"seed": seed})


register(TaskInfo("coins", "which side most coins show", load, n_queries=3, n_classes=2, n_train=40, n_test=20))
"""
USE_COINS = """
from pursuit.research.tasks import EMBEDDED, TASKS, find_recipe, load_task

assert "coins" in TASKS and "animals" in TASKS, list(TASKS)
task = load_task("coins", seed=3)
assert task.notes == {"seed": 3} and len(task.y_test) == TASKS["coins"].n_test
assert task.settings == {}, task.settings
assert len(load_task("coins").validation_split(0.25).y_test) == 10
try:
    find_recipe("coins")
except ValueError as error:
    assert "coins has no recipes" in str(error), error
else:
    raise AssertionError("a recipe from nowhere")
print(*EMBEDDED)
"""


def run(code: str, folder: Path) -> str:
    """Run code in a new process, so that nothing it registers stays; the folder comes first on its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(PACKAGE.parent)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.programs
def test_a_task_of_ones_own_is_loaded_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "my_coins.py").write_text(COINS)
    unknown_before = 'from pursuit.research.tasks import TASKS\nassert "coins" not in TASKS\nimport my_coins\n'
    assert run(unknown_before + USE_COINS, tmp_path) == "animals digits"


@pytest.mark.programs
def test_a_file_dropped_into_the_package_is_all_it_takes(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "pursuit", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pursuit" / "research" / "tasks" / "coins.py").write_text(COINS)
    assert run(USE_COINS, tmp_path) == "animals digits"


def test_every_data_set_of_the_package_is_known() -> None:
    assert EMBEDDED == ("animals", "digits")
    assert {"mnist", "kmnist", "cifar100", "cub", "huffpost", "symcat-300", "muzhi", "dxy"} <= set(TASKS)
    assert all(info.name == name for name, info in TASKS.items())
    assert all("_" not in name and name == name.lower() for name in TASKS)


def task_info(recipes: dict[str, Recipe]) -> TaskInfo:
    def load(seed: int) -> Task:
        X = np.arange(8).reshape(4, 2) % 2
        return Task("made", ColumnQueries([yes_no("a"), yes_no("b")]), X, X[:, 0], X, X[:, 0], settings={"stop": "own"})

    return TaskInfo("made", "made", load, 2, 2, 4, 4, recipes=recipes)


RECIPE = Recipe(MLP((4,)), (Stage(1),), "budget=1", query_options={"mask": False})


def test_a_task_has_the_settings_of_its_fast_recipe_or_its_own(register_task: Callable[[TaskInfo], None]) -> None:
    register_task(task_info({"fast": RECIPE}))
    task = load_task("made")
    assert task.settings == RECIPE.settings()
    assert task.query_set.input_shape == (2,)
    assert find_recipe("made") is RECIPE
    register_task(task_info({"slow": RECIPE}))
    assert load_task("made").settings == {"stop": "own"}
    with pytest.raises(ValueError, match="made has no recipe 'fast', only slow"):
        find_recipe("made")


def test_unknown_recipes_name_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'mnistt' is not a known task.*mnist"):
        find_recipe("mnistt")
    with pytest.raises(ValueError, match=r"digits has no recipe 'paper', only fast"):
        find_recipe("digits", "paper")
