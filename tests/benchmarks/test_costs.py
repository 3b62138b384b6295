"""Methods that look at costs are compared at toy sizes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import costs
from report import save


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """A table with the columns of the real one; only the cheapest test says anything."""
    randomness = np.random.default_rng(0)
    frame = pd.DataFrame({name: randomness.normal(size=80).round(2) for name in costs.HEART_COSTS})
    frame["sex"] = randomness.choice(["male", "female"], 80)
    frame["num"] = np.where(frame["sex"] == "male", ">50_1", "<50")
    frame.loc[::9, "thal"] = None
    frame.to_csv(tmp_path / "heart.csv.gz", index=False)
    return tmp_path / "heart.csv.gz"


def test_both_worlds_are_measured_and_written_down(patients: Path, tmp_path: Path) -> None:
    said: list[str] = []
    worlds = [costs.known_world(costs.QUICK), costs.heart(patients, costs.QUICK)]
    measured = costs.measure(worlds, costs.QUICK, said.append)
    known, heart = (measured["worlds"][name] for name in ("known world", "heart"))
    assert heart["costs"] == costs.HEART_COSTS
    assert all(1 <= cost <= 100 for cost in known["costs"].values())
    titles = [contestant.title for contestant in costs.contestants()]
    assert list(known["contestants"]) == titles
    assert list(heart["contestants"]) == [title for title in titles if not title.startswith("exact")]
    assert len(said) == len(known["contestants"]) + len(heart["contestants"])
    exact = [known["contestants"][f"exact IP, {unit}"][0] for unit in ("bits per cost", "bits")]
    assert exact[0]["area_by_cost"] > exact[1]["area_by_cost"] + 0.02  # who looks at costs is right sooner
    assert exact[0]["accuracy_all_answers"] == exact[1]["accuracy_all_answers"]
    (aware,) = heart["contestants"]["naive-Bayes IP, bits per cost"]
    assert aware["area_by_cost"] > 0.9  # the sex costs 1 of 600 and says it all
    text = save(measured, costs.page, "costs", tmp_path)
    assert text == costs.page(json.loads((tmp_path / "costs.json").read_text()))
    assert f"| naive-Bayes IP, bits per cost | {aware['area_by_cost']:.3f} |" in text


def test_a_split_has_all_rows_once(patients: Path) -> None:
    splits = list(costs.heart(patients, costs.Size(n_folds=4)).splits(0))
    assert [(len(split.y_train), len(split.y_test)) for split in splits] == [(60, 20)] * 4
    assert sorted(row for split in splits for row in split.X_test.index) == list(range(80))
    assert all(split.query_set.costs.sum() == pytest.approx(600.57) for split in splits)
