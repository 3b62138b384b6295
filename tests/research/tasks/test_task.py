"""A task, its validation split, and what is known of it before it is loaded."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.research.tasks import EMBEDDED, TASKS, Task, find_recipe, load_task
from pursuit.research.tasks.recipe import Recipe
from pursuit.research.tasks.symcat import Patients
from pursuit.training import Stage

QUERIES = ColumnQueries([yes_no("a"), yes_no("b")])


def made(n: int = 20, as_frame: bool = False, initially: bool = False) -> Task:
    """Training rows are numbered from 0 by their label, test rows are negative."""
    X: Any = np.arange(2 * n).reshape(n, 2)
    X_test: Any = -1 - np.arange(10).reshape(5, 2)
    if as_frame:
        X, X_test = (pd.DataFrame(part, columns=["a", "b"], index=range(7, 7 + len(part))) for part in (X, X_test))
    initially_known = np.arange(2 * n).reshape(n, 2) % 3 == 0 if initially else None
    initially_known_test = np.ones((5, 2), dtype=bool) if initially else None
    return Task(
        "made", QUERIES, X, np.arange(n), X_test, -1 - np.arange(5), {"seed": 3}, initially_known, initially_known_test
    )


@given(
    n=st.integers(2, 60),
    share=st.sampled_from([0.1, 0.25, 0.5]),
    seed=st.integers(0, 50),
    as_frame=st.booleans(),
    initially=st.booleans(),
)
def test_validation_rows_are_training_rows(n: int, share: float, seed: int, as_frame: bool, initially: bool) -> None:
    task = replace(made(n, as_frame, initially), picture=lambda i: np.zeros((2, 2, 3)))
    chosen = task.validation_split(share, seed)
    assert len(chosen.y_test) == round(share * n)
    assert Counter([*chosen.y_train, *chosen.y_test]) == Counter(task.y_train)
    for X, y, initially_known in (
        (chosen.X_train, chosen.y_train, chosen.initially_known_train),
        (chosen.X_test, chosen.y_test, chosen.initially_known_test),
    ):
        assert isinstance(X, pd.DataFrame) == as_frame
        assert np.array_equal(np.asarray(X), np.asarray(task.X_train)[y])
        assert (initially_known is None) == (not initially)
        if initially_known is not None:
            assert task.initially_known_train is not None
            assert np.array_equal(initially_known, task.initially_known_train[y])
    assert chosen.picture is None  # which is of the test rows
    assert chosen.query_set is task.query_set
    assert chosen.notes["seed"] == 3
    assert "of the training rows" in chosen.notes["measured_on"]
    assert np.array_equal(task.validation_split(share, seed).y_test, chosen.y_test)
    assert np.array_equal(task.y_test, -1 - np.arange(5))


def test_another_seed_gives_other_validation_rows() -> None:
    parts = [made(200).validation_split(seed=seed).y_test.tolist() for seed in (0, 1)]
    assert parts[0] != parts[1]


@given(share=st.sampled_from([0.1, 0.25]), seed=st.integers(0, 50), initially=st.booleans())
def test_held_out_rows_are_not_learnt_from(share: float, seed: int, initially: bool) -> None:
    task = replace(made(40, initially=initially), picture=lambda i: np.zeros((2, 2, 3)))
    chosen = task.hold_out(share, seed)
    held_out = chosen.held_out
    assert held_out is not None
    assert len(held_out.y_test) == round(share * 40)
    assert Counter([*chosen.y_train, *held_out.y_test]) == Counter(task.y_train)
    assert np.array_equal(chosen.X_train, np.asarray(task.X_train)[chosen.y_train])
    if initially:
        assert task.initially_known_train is not None
        assert chosen.initially_known_train is not None
        assert np.array_equal(chosen.initially_known_train, task.initially_known_train[chosen.y_train])
    assert np.array_equal(chosen.y_test, task.y_test)  # measured on the same rows as ever
    assert chosen.picture is task.picture
    assert (chosen.notes["seed"], chosen.notes["held_out"]) == (3, f"{share:.0%} of the training rows")


def test_streamed_rows_cannot_be_split() -> None:
    patients = Patients(["x", "y"], torch.tensor([[0.5, 0.5], [0.1, 0.9]]))
    task = Task("drawn", QUERIES, patients, None, np.ones((3, 2)), np.array(["x", "y", "x"]))
    with pytest.raises(ValueError, match="drawn streams its rows, so they cannot be split: load it with another seed"):
        task.validation_split()


def test_a_recipe_brings_its_settings_and_the_options_of_the_query_set() -> None:
    task, recipe = made(), Recipe(MLP((4,)), (Stage(1),), "budget=1")
    assert task.with_recipe(recipe).settings == recipe.settings()
    assert task.with_recipe(recipe).query_set is task.query_set
    unmasked = task.with_recipe(replace(recipe, query_options={"mask": False})).query_set
    assert (task.query_set.input_shape, unmasked.input_shape) == ((4,), (2,))


@pytest.mark.parametrize("name", EMBEDDED)
def test_what_is_known_of_a_task_before_it_is_loaded(name: str) -> None:
    info, task = TASKS[name], load_task(name)
    assert task.name == info.name == name
    assert len(task.query_set) == info.n_queries
    assert len(set(task.y_train)) == info.n_classes
    assert (len(task.y_train), len(task.y_test)) == (info.n_train, info.n_test)
    assert dict(task.settings) == find_recipe(name).settings()


def test_costs_are_those_of_exact_pursuit_too() -> None:
    task = load_task("animals", costs={TASKS["animals"].load(0).query_set.queries[3].name: 7})
    assert task.exact is not None
    exact = task.exact()
    assert exact.query_set.costs[3] == task.query_set.costs[3] == 7
    aware = task.with_costs({}, cost_aware=True)
    assert (exact.score_unit, aware.exact().score_unit) == ("bits", "bits per cost")  # type: ignore[attr-defined, misc]
    assert aware.exact().query_set.costs[3] == 7  # type: ignore[misc]
    assert aware.settings == {**task.settings, "cost_aware": True}
    assert task.with_costs({}) is task
