"""A task, and the same task to choose settings by."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pursuit.queries import ColumnQueries, yes_no
from pursuit.tasks import TASKS, Task, load_task
from pursuit.tasks.recipes import find_recipe
from pursuit.tasks.symcat import Patients

QUERIES = ColumnQueries([yes_no("a"), yes_no("b")])


def made(n: int = 20, as_frame: bool = False, opened: bool = False) -> Task:
    """Rows to learn from are numbered from 0 on by their label, those to measure on are negative."""
    X: Any = np.arange(2 * n).reshape(n, 2)
    X_test: Any = -1 - np.arange(10).reshape(5, 2)
    if as_frame:
        X, X_test = (pd.DataFrame(part, columns=["a", "b"], index=range(7, 7 + len(part))) for part in (X, X_test))
    opening = np.arange(2 * n).reshape(n, 2) % 3 == 0 if opened else None
    opening_test = np.ones((5, 2), dtype=bool) if opened else None
    return Task("made", QUERIES, X, np.arange(n), X_test, -1 - np.arange(5), {"seed": 3}, opening, opening_test)


@given(
    n=st.integers(2, 60),
    share=st.sampled_from([0.1, 0.25, 0.5]),
    seed=st.integers(0, 50),
    as_frame=st.booleans(),
    opened=st.booleans(),
)
def test_rows_to_choose_by_come_from_those_to_learn_from(
    n: int, share: float, seed: int, as_frame: bool, opened: bool
) -> None:
    task = replace(made(n, as_frame, opened), picture=lambda i: np.zeros((2, 2, 3)))
    chosen = task.to_choose_by(share, seed)
    assert len(chosen.y_test) == round(share * n)
    assert Counter([*chosen.y_train, *chosen.y_test]) == Counter(task.y_train)
    for X, y, opening in (
        (chosen.X_train, chosen.y_train, chosen.opening_train),
        (chosen.X_test, chosen.y_test, chosen.opening_test),
    ):
        assert isinstance(X, pd.DataFrame) == as_frame
        assert np.array_equal(np.asarray(X), np.asarray(task.X_train)[y])
        assert (opening is None) == (not opened)
        if opening is not None:
            assert task.opening_train is not None
            assert np.array_equal(opening, task.opening_train[y])
    assert chosen.picture is None  # which is of the test rows
    assert chosen.query_set is task.query_set
    assert chosen.notes["seed"] == 3
    assert "to learn from" in chosen.notes["measured_on"]
    assert np.array_equal(task.to_choose_by(share, seed).y_test, chosen.y_test)
    assert np.array_equal(task.y_test, -1 - np.arange(5))


def test_another_seed_chooses_by_other_rows() -> None:
    parts = [made(200).to_choose_by(seed=seed).y_test.tolist() for seed in (0, 1)]
    assert parts[0] != parts[1]


def test_drawn_rows_are_chosen_by_another_seed() -> None:
    patients = Patients(["x", "y"], torch.tensor([[0.5, 0.5], [0.1, 0.9]]))
    task = Task("drawn", QUERIES, patients, None, np.ones((3, 2)), np.array(["x", "y", "x"]))
    with pytest.raises(ValueError, match="drawn streams its rows: load it with another seed"):
        task.to_choose_by()


@pytest.mark.parametrize("name", ["animals", "digits"])
def test_what_is_known_of_a_task_before_it_is_loaded(name: str) -> None:
    info, task = TASKS[name], load_task(name)
    assert task.name == info.name == name
    assert len(task.query_set) == info.n_queries
    assert len(set(task.y_train)) == info.n_classes
    assert (len(task.y_train), len(task.y_test)) == (info.n_train, info.n_test)
    assert dict(task.settings) == find_recipe(name).settings()
    assert not info.files


def test_names_of_tasks_are_their_own() -> None:
    assert all(info.name == name for name, info in TASKS.items())
    assert len({info.title for info in TASKS.values()}) >= len(TASKS) - 1  # two sets of talks with doctors
    assert all("_" not in name and name == name.lower() for name in TASKS)
