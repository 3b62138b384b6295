"""Training rows and test rows do not meet, in every task whose data are here."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pursuit import VIPClassifier
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet, yes_no
from pursuit.research.experiments import reproduce as reproducing
from pursuit.research.experiments.reproduce import Reproduction, reproduce
from pursuit.research.experiments.run import VALIDATION_SEED, load_split
from pursuit.research.tasks import TASKS, Task, TaskInfo, dialogues, symcat
from pursuit.research.tasks.files import locate, read_json
from pursuit.research.tasks.recipe import Recipe
from pursuit.training import Stage, TrainingRun
from pursuit.training.rows import GeneratedRows

pytestmark = pytest.mark.xdist_group("real data")  # they share what is loaded or trained

COMMON_ROWS = {"huffpost": 37, "muzhi": 15, "dxy": 13, "mnist-pixels": 9}
"""How many test rows equal a training row in the published files: articles that were printed twice, and children with
the same few known symptoms. Images have none, but a few are equal in black and white."""
DRAWN = ["symcat-200", "symcat-300", "symcat-400"]
LARGE = {"huffpost": pytest.mark.slow}
"""Tasks whose data take many seconds to read."""
STORED = [pytest.param(name, marks=LARGE.get(name, ())) for name in TASKS if name not in DRAWN]


def keys(X: Any) -> list[bytes]:
    """A digest of each row."""
    rows = np.asarray(X)
    content = (repr(row.tolist()).encode() if rows.dtype == object else row.tobytes() for row in rows)
    return [hashlib.blake2b(text, digest_size=16).digest() for text in content]


@pytest.mark.parametrize("name", [name for name in STORED if name.values != ("animals",)])
def test_no_row_is_in_both_parts_but_those_published_twice(real_task: Callable[[str], Task], name: str) -> None:
    task = real_task(name)
    learnt = set(keys(task.X_train))
    assert sum(key in learnt for key in keys(task.X_test)) == COMMON_ROWS.get(name, 0)
    info = TASKS[name]
    assert (len(task.y_train), len(task.y_test)) == (info.n_train, info.n_test)
    assert set(task.y_test) <= set(task.y_train)
    assert len(set(task.y_train)) == info.n_classes
    assert len(task.query_set) == info.n_queries


@pytest.mark.parametrize("name", STORED)
def test_validation_rows_are_not_test_rows(real_task: Callable[[str], Task], name: str) -> None:
    task = real_task(name)
    chosen = task.validation_split()
    assert len(chosen.y_test) == round(0.1 * len(task.y_train))
    # As many of each as there are training rows leaves no room for others.
    assert Counter(keys(chosen.X_train)) + Counter(keys(chosen.X_test)) == Counter(keys(task.X_train))


@pytest.mark.parametrize(("name", "n_common"), [("muzhi", 0), ("dxy", 2)])
def test_conversations_are_numbered_and_hardly_any_is_in_both_parts(name: str, n_common: int) -> None:
    """Dxy as published has two conversations in both parts."""
    found = locate(dialogues.FILES[name])
    if found is None:
        pytest.skip(f"{name} is not below $PURSUIT_DATA")
    content = read_json(found.path)
    train, test = ({patient["id"] for patient in content[part]} for part in ("train", "test"))
    assert len(train & test) == n_common


def test_test_animals_are_drawn_separately(real_task: Callable[[str], Task]) -> None:
    task = real_task("animals")
    learnt = set(keys(task.X_train.astype(str)))
    assert np.mean([key in learnt for key in keys(task.X_test.astype(str))]) < 0.02  # by chance


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_test_patients_are_not_patients_of_training(real_task: Callable[[str], Task], name: str) -> None:
    """The generators start from other seeds; patients with few symptoms are alike by chance."""
    task = real_task(name)
    assert isinstance(task.X_train, GeneratedRows)
    for random_state in range(5):
        seed = int(np.random.RandomState(random_state).randint(2**31))  # as the estimator draws it
        drawn = task.X_train.draw(1000, torch.Generator().manual_seed(seed))
        same = (drawn.x.numpy() > 0) == (task.X_test[:1000] > 0)
        assert same.all(axis=1).mean() < 0.02
        assert symcat._test_seed(random_state) not in (seed, seed + 1)


def test_drawn_validation_patients_are_others(real_task: Callable[[str], Task]) -> None:
    task = real_task("symcat-200")
    chosen = load_split("symcat-200", None, 0, validation=True)
    assert ((chosen.X_test == task.X_test).all(axis=1)).mean() < 0.02
    assert symcat._test_seed(VALIDATION_SEED) != symcat._test_seed(0)


@pytest.mark.parametrize("name", ["digits", "muzhi", "dxy", pytest.param("mnist", marks=pytest.mark.slow)])
def test_a_validation_run_never_sees_test_rows(real_task: Callable[[str], Task], name: str) -> None:
    """Neither in training nor in measuring: all its rows are training rows of the run proper."""
    real_task(name)
    proper, chosen = (load_split(name, None, 1, validation) for validation in (False, True))
    assert Counter(keys(chosen.X_train)) + Counter(keys(chosen.X_test)) == Counter(keys(proper.X_train))


# Training reads nothing of what it is measured on


def columns_task(X_test: np.ndarray, y_test: np.ndarray) -> Task:
    X = np.random.default_rng(0).integers(0, 2, (60, 4))
    return Task("made", ColumnQueries([yes_no(name) for name in "abcd"]), X, X[:, 0] + 2 * X[:, 3], X_test, y_test)


def images_task(X_test: np.ndarray, y_test: np.ndarray) -> Task:
    images = np.random.default_rng(0).random((60, 1, 2, 2))
    query_set: QuerySet = PatchQueries((1, 2, 2), size=1)
    return Task("made", query_set, images, (images[:, 0, 0, 0] > 0.5).astype(int), X_test.reshape(-1, 1, 2, 2), y_test)


def drawn_task(X_test: np.ndarray, y_test: np.ndarray) -> Task:
    patients = symcat.Patients([0, 1], torch.tensor([[0.9, 0.1, 0.5, 0.2], [0.1, 0.8, 0.5, 0.3]]), n_rows=60)
    return Task("made", ColumnQueries([yes_no(name) for name in "abcd"]), patients, None, X_test, y_test)


@pytest.mark.parametrize(
    ("make", "validation"),
    [
        (columns_task, False),
        pytest.param(columns_task, True, marks=pytest.mark.slow),
        (drawn_task, False),
        pytest.param(images_task, True, marks=pytest.mark.slow),
    ],
)
def test_other_test_rows_leave_the_weights_as_they_are(
    make: Callable[[np.ndarray, np.ndarray], Task],
    validation: bool,
    tmp_path: Path,
    register_task: Callable[[TaskInfo], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reproducing, "N_CHAINS", 0)  # figures take longer than the little training here
    monkeypatch.setattr(reproducing, "_draw_curves", lambda results, path: None)
    randomness = np.random.default_rng(1)
    tests = {
        "real": make(randomness.integers(0, 2, (30, 4)), randomness.integers(0, 2, 30)),
        "garbage": make(np.ones((7, 4), dtype=int), np.zeros(7, dtype=int)),
    }
    recipe = Recipe(MLP((8,)), (Stage(4, batch_size=16),), "budget=2")
    weights, results = {}, {}
    for name, task in tests.items():
        register_task(replace(TASKS["animals"], name="made", load=lambda seed, task=task: task))
        results[name] = reproduce(Reproduction("made", "tiny", recipe, validation=validation), tmp_path / name)
        weights[name] = (tmp_path / name / "seed-0" / "model.safetensors").read_bytes()
    assert weights["real"] == weights["garbage"]
    measured = [results[name].worked["vip"][0].seeds[0].n_test for name in tests]
    assert measured == ([6, 6] if validation and make is not drawn_task else [30, 7])


def test_fitting_takes_no_test_rows() -> None:
    """Held-out rows for early stopping are a share of those given to `fit`."""
    task = columns_task(np.ones((3, 4)), np.zeros(3))
    reports: list[Any] = []
    plan: dict[str, Any] = {"held_out": 0.25, "network": MLP((8,)), "stages": [Stage(2)], "teachers": None}
    model = VIPClassifier(task.query_set, random_state=0, **plan)
    model.fit(task.X_train, task.y_train, run=TrainingRun(on_report=reports.append))
    assert reports[-1].held_out_loss is not None
