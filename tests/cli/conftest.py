"""A folder with a CSV file and a model trained on it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from program import run

TRAIN = ("train", "patients.csv", "--target", "label", "--drop", "note")
"""What trains on the file of the workspace."""


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    randomness = np.random.default_rng(0)
    fever, where = randomness.random(300) < 0.5, randomness.choice(["head", "belly"], 300)
    label = np.where(where == "belly", "gastritis", np.where(fever, "flu", "migraine"))
    columns = {
        "fever": np.where(fever, "yes", "no"),
        "where": where,
        "age": randomness.integers(1, 90, 300),
        "label": label,
    }
    frame = pd.DataFrame(columns)
    frame["note"] = [f"patient {i}" for i in range(300)]
    frame.loc[::20, "where"] = None
    frame.to_csv(folder / "patients.csv", index=False)
    done = run(folder, *TRAIN, "--out", "model", "--epochs", "40", "--json")
    assert done.returncode == 0, done.stderr
    return folder
