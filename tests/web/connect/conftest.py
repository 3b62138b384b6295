"""Models that are trained in a moment, with wording, a unit, a range, choices, a date, and a number to predict."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from illness import QUESTIONS, table
from pursuit import MLP, ColumnQueries, PursuitEstimator, Stage, VIPRegressor
from pursuit.methods import METHODS
from pursuit.queries.questions import parse
from pursuit.web.serving.models import ServedModels, load_models


@pytest.fixture(scope="session")
def frame_and_labels() -> tuple[pd.DataFrame, np.ndarray]:
    return table()


@pytest.fixture(scope="session")
def illness(frame_and_labels: tuple[pd.DataFrame, np.ndarray]) -> PursuitEstimator:
    frame, y = frame_and_labels
    questions = parse(QUESTIONS)
    queries = questions.apply(ColumnQueries.from_data(frame, column_types={"since": "date"}))
    return METHODS["naive-bayes"].build(queries, random_state=0, stop="confidence=0.97,budget=4").fit(frame, y)


@pytest.fixture(scope="session")
def degrees(frame_and_labels: tuple[pd.DataFrame, np.ndarray]) -> PursuitEstimator:
    """Predicts a number."""
    frame, _ = frame_and_labels
    small = {"network": MLP((16,)), "stages": (Stage(3),), "teachers": None}
    model = VIPRegressor(random_state=0, column_types={"since": "date"}, stop="budget=2", **small)
    return model.fit(frame.drop(columns="temperature"), frame["temperature"].to_numpy())


@pytest.fixture(scope="session")
def model_folders(
    illness: PursuitEstimator, degrees: PursuitEstimator, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    illness.save(folder / "illness", {"task": {"name": "illness", "target": "illness", "questions": QUESTIONS}})
    degrees.save(folder / "degrees", {"task": {"name": "degrees"}})
    return {name: folder / name for name in ("illness", "degrees")}


@pytest.fixture(scope="session")
def models(model_folders: dict[str, Path]) -> ServedModels:
    return load_models(model_folders.values())
