"""Models that are trained in a moment, and databases of both kinds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from httpx import Client

from illness import table
from postgres import Cluster, cluster
from pursuit import MLP, ColumnQueries, Stage, VIPClassifier, VIPRegressor
from pursuit.methods import METHODS
from pursuit.queries import Order
from pursuit.research.tasks import load_task
from pursuit.web.serving.models import SamplePictures, ServedModels, load_models
from pursuit.web.serving.store import Store
from served import running


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of models by their names: illness, degrees (a number), ordered (some known beforehand),
    digits and cautious (which promises something)."""
    folder = tmp_path_factory.mktemp("models")
    frame, y = table()
    kinds: dict[str, Any] = {"since": "date"}
    illness = METHODS["naive-bayes"].build(None, random_state=0, column_types=kinds, stop="confidence=0.97,budget=4")
    illness.fit(frame, y).save(folder / "illness", {"task": {"name": "illness", "target": "illness"}})
    cautious = METHODS["naive-bayes"].build(None, random_state=0, column_types=kinds, stop="risk=0.15,conformal=0.2")
    cautious.fit(frame, y).save(folder / "cautious")
    network, stages = MLP((16,)), (Stage(3),)
    degrees = VIPRegressor(
        random_state=0, column_types=kinds, network=network, stages=stages, teachers=None, stop="budget=2"
    )
    degrees.fit(frame.drop(columns="temperature"), frame["temperature"].to_numpy()).save(folder / "degrees")
    queries = ColumnQueries.from_data(frame.drop(columns="since"))
    queries.set_order(Order(beforehand=("season",)))
    ordered = METHODS["naive-bayes"].build(queries, random_state=0, stop="confidence=0.97")
    ordered.fit(frame.drop(columns="since"), y).save(folder / "ordered")
    task = load_task("digits")
    digits = VIPClassifier(task.query_set, random_state=0, stages=stages, network=network, stop="budget=6")
    digits.fit(task.X_train[:500], task.y_train[:500]).save(folder / "digits", {"task": {"name": "digits"}})
    return {name: folder / name for name in ("illness", "degrees", "ordered", "digits", "cautious")}


@pytest.fixture(scope="session")
def models(model_folders: dict[str, Path]) -> ServedModels:
    rows = load_task("digits")

    def samples(estimator: Any) -> SamplePictures:
        return SamplePictures(rows.X_test[:3].astype(np.float32), tuple(str(label) for label in rows.y_test[:3]))

    return load_models(model_folders.values(), find_samples=samples)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    with cluster() as found:
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.programs)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, of either kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres").new_database()
    return f"sqlite:///{tmp_path / 'sessions.sqlite'}"


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """An empty database of either kind, opened."""
    found = Store(database)
    yield found
    found.close()


@pytest.fixture(scope="session")
def shared_client(models: ServedModels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of one server for all tests of requests that are refused, and so leave it as it was."""
    with running(models, f"sqlite:///{tmp_path_factory.mktemp('refused') / 'sessions.sqlite'}") as found:
        yield found


@pytest.fixture
def client(models: ServedModels, tmp_path: Path) -> Iterator[Client]:
    """A client of a server with SQLite, for tests that do not depend on the database."""
    with running(models, f"sqlite:///{tmp_path / 'sessions.sqlite'}") as found:
        yield found
