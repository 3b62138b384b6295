"""A small model, files full of rows for it, and a Ray cluster of two nodes on this machine."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit import MLP, Stage, VIPClassifier
from pursuit.estimators import PursuitClassifier
from pursuit.tables.source import TableSource, open_table

COLUMNS = [f"q{i}" for i in range(6)]
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
"""Without importing it, which takes a second even where its tests are not selected."""


def make_rows(n: int, seed: int) -> pd.DataFrame:
    """Answers to six yes/no questions, two of which tell something about a label of three."""
    chance = np.random.default_rng(seed)
    y = chance.integers(0, 3, n)
    yes = np.array([[0.9, 0.2], [0.1, 0.7], [0.5, 0.9]])[y]
    answers = chance.random((n, 6)) < np.concatenate([yes, np.full((n, 4), 0.5)], axis=1)
    frame = pd.DataFrame(np.where(answers, "yes", "no"), columns=COLUMNS)
    return frame.assign(key=[f"{seed}-{i}" for i in range(n)], label=np.array(["a", "b", "c"])[y])


@pytest.fixture(scope="session")
def model() -> PursuitClassifier:
    rows = make_rows(300, 0)
    plan = {"network": MLP((16,)), "stages": [Stage(4, batch_size=32)], "stop": "confidence=0.9"}
    return VIPClassifier(**plan, random_state=0).fit(rows[COLUMNS], rows["label"])


@pytest.fixture(scope="session")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of two row groups each: six shares of 400 rows."""
    folder = tmp_path_factory.mktemp("rows")
    for i in range(3):
        make_rows(800, i + 1).to_parquet(folder / f"{i}.parquet", row_group_size=400)
    return folder


def of(source: Path, **options: Any) -> TableSource:
    return open_table(source, COLUMNS, {"target": "label"}, **options)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two nodes with a core each, as processes of this machine; a test may take the second away and add another."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    nodes.connect()
    yield nodes
    import ray

    ray.shutdown()
    nodes.shutdown()
