"""Answers of people, made and counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import unreliable
import unusual
from pursuit import MLP, Stage, Unreliable, VIPClassifier
from pursuit.data.rows import Rows


@pytest.fixture(scope="module")
def model() -> VIPClassifier:
    numbers = np.random.default_rng(0).normal(size=80)
    frame = pd.DataFrame({"a": ["yes", "no"] * 40, "b": ["x", "y", "z", "x"] * 20, "c": numbers})
    with torch.enable_grad():
        fitted = VIPClassifier(network=MLP((4,)), stages=[Stage(1)], calibration=0.3, random_state=0)
        fitted.fit(frame, ["one", "two"] * 40)
    fitted.rows_ = fitted.rows(frame, ["one", "two"] * 40)
    return fitted


def test_as_many_answers_are_spoilt_as_the_rate_says(model: VIPClassifier) -> None:
    rows: Rows = model.rows_  # type: ignore[attr-defined]
    same, none = unreliable.as_people_answer(rows, model, Unreliable(0.0, 0.0), 1)
    some, few = unreliable.as_people_answer(rows, model, Unreliable(0.0, 0.1), 1)
    more, many = unreliable.as_people_answer(rows, model, Unreliable(0.2, 0.3), 1)
    assert len(same) == len(some) == len(more) >= unreliable.LEAST_ROWS
    assert none == 0
    assert 0.05 < few < 0.1 < many < 0.3
    assert 0.78 < float(more.available.float().mean()) < 0.82
    yes_no = rows.x[:, 0]
    assert set(yes_no.tolist()) == {-1.0, 1.0}
    # What a low rate spoils, a higher one spoils too.
    assert ((some.x[:, 0] != same.x[:, 0]) <= (more.x[:, 0] != same.x[:, 0])).all()
    stopped = unreliable.measure_rates(model, rows.take(slice(10)), 0)
    assert len(stopped) == len(unreliable.RATES)
    found = unreliable.summary(unreliable.RATES[3], [stopped[3], stopped[3]])
    assert (found["wrong"], len(found["accuracy_of_seeds"])) == (0.1, 2)


def test_other_rows_have_answers_of_their_columns(model: VIPClassifier) -> None:
    rows: Rows = model.rows_  # type: ignore[attr-defined]
    units = model.model_.query_set.units.of_feature
    assert units is not None
    generator = torch.Generator().manual_seed(0)
    mixed, random = unusual.shuffled(rows, units, generator), unusual.at_random(rows, units, generator)
    for query in range(3):
        own = units == query
        answers = {tuple(row) for row in rows.x[:, own].tolist()}
        assert sorted(map(tuple, mixed.x[:, own].tolist())) == sorted(map(tuple, rows.x[:, own].tolist()))
        assert {tuple(row) for row in random.x[:, own].tolist()} <= answers
        assert not torch.equal(mixed.x[:, own], rows.x[:, own])


def test_alarms_of_models_add_up_and_are_shown() -> None:
    one = {
        kind: {"rows": 100, "at the stop": [n, 300], "all asked": [2 * n, 900]}
        for n, kind in ((1, "honest"), (20, "columns shuffled"), (30, "answers at random"))
    }
    both = unusual.together([one, one])
    assert both["honest"] == {"rows": 200, "at the stop": [2, 600], "all asked": [4, 1800]}
    text = unusual.section({"made": both | {"commit": "abc"}})
    assert "| made | 200 | 3.0 | 1.00% | 2.00% | 20.00% | 40.00% | 30.00% | 60.00% | – | – | abc |" in text
    assert "Of all 200 honest rows: 1.00% at the stop (2 rows" in text


def test_the_page_has_means_and_single_parts(tmp_path: Path) -> None:
    def manner(accuracy: float) -> list[dict[str, Any]]:
        one = {"accuracy": accuracy, "asked": 3.0, "calibration_error": 0.02, "answers_that_differ": 0.08}
        return [one] * len(unreliable.RATES)

    manners = {"plain": manner(0.8), "wary": manner(0.7)}
    part = {"seeds": [0, 1], "rows": 50, "manners": manners, "commit": "abc"}
    other = {**part, "manners": {"plain": manner(0.6), "wary": manner(0.9)}}
    odd = {"rows": 50, "at the stop": [0, 100], "all asked": [0, 100]}
    kinds = dict.fromkeys(("honest", "columns shuffled", "answers at random"), odd)
    unreliable.keep({"one": part}, {"one": kinds | {"commit": "abc"}}, tmp_path)
    text = unreliable.keep({"two": other}, {}, tmp_path)
    assert "| 0% | 10% | 0.700 | 0.800 | 3.00 | 3.00 | 0.020 | 0.020 |" in text
    assert "its accuracy 0.800 instead of 0.700." in text.replace("\n", " ")
    assert "### two" in text
    assert "50 test rows, seeds 0, 1, commit abc; where 10% are wrong, 8.0% differ." in text
    assert "| one | 50 | 2.0 |" in text
