"""Small tasks that are known by name while a test runs, and a watcher of experiments."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from pursuit import MLP, ColumnQueries, PatchQueries, Stage, registry, yes_no
from pursuit.research.tasks import Task, TaskInfo
from pursuit.research.tasks.recipe import Recipe
from pursuit.research.tasks.symcat import Patients
from pursuit.training import Report

QUERIES = ColumnQueries([yes_no(name) for name in "abcdef"])
RECIPE = Recipe(MLP((8,)), (Stage(3, batch_size=16), Stage(2, batch_size=16)), "budget=2", max_queries=6)


def columns_task(seed: int) -> Task:
    """60 + 20 rows whose label is the first answer; the last answer is initially known."""
    randomness = np.random.default_rng(seed)
    X, X_test = randomness.integers(0, 2, (60, 6)), randomness.integers(0, 2, (20, 6))
    known = np.zeros((60, 6), dtype=bool)
    known[:, 5] = True
    labels = [np.where(part[:, 0] == 1, "sick", "well") for part in (X, X_test)]
    return Task("columns", QUERIES, X, labels[0], X_test, labels[1], {"seed": seed}, known, known[:20])


def images_task(seed: int) -> Task:
    """30 + 20 images of 3x3 pixels."""
    images = np.random.default_rng(seed).random((50, 1, 3, 3))
    y = (images[:, 0, 1, 1] > 0.5).astype(int)
    return Task("images", PatchQueries((1, 3, 3), size=2), images[:30], y[:30], images[30:], y[30:], {"seed": seed})


def drawn_task(seed: int) -> Task:
    """60 patients a pass, drawn when their turn comes, and 25 test patients."""
    patients = Patients(["cold", "flu"], torch.tensor([[0.9, 0.2, 0.5] * 2, [0.1, 0.7, 0.5] * 2]), n_rows=60)
    test = patients.draw(25, torch.Generator().manual_seed(seed))
    assert test.initially_known is not None
    y = np.array(patients.classes)[test.y.numpy()]
    known = test.initially_known.numpy()
    return Task("drawn", QUERIES, patients, None, (test.x > 0).int().numpy(), y, {"seed": seed}, None, known)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """`columns`, `images` and `drawn` are tasks with the recipe `fast`."""
    for load, recipe in (
        (columns_task, RECIPE),
        (images_task, replace(RECIPE, max_queries=None)),
        (drawn_task, RECIPE),
    ):
        name = load.__name__.removesuffix("_task")
        info = TaskInfo(name, name, load, 6, 2, 60, 20, recipes={"fast": recipe, "demo": recipe})
        monkeypatch.setitem(registry._known["task"], name, info)


class Watcher:
    """The titles and reports of trainings, and the lines of an experiment."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.reports: list[Report] = []
        self.said: list[str] = []

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[Report], None]]:
        self.titles.append(title)
        yield self.reports.append
