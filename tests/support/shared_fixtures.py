"""What tests share: short trainings, one hypothesis profile, a tiny world of three diseases, and a registry that
forgets what a test adds."""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import torch
from filelock import FileLock
from hypothesis import settings

from pursuit import registry
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.queries import Choice, ColumnQueries, yes_no
from pursuit.research.tasks import TASKS, Task, cifar
from pursuit.research.tasks.files import cache_folder, locate
from pursuit.training.rows import Rows
from short_plans import short_plans

OWN_CACHE = Path(__file__).parents[2] / ".cache" / "data"

settings.register_profile("pursuit", deadline=None, derandomize=True, max_examples=5)
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=60)  # make test-slow
settings.load_profile("pursuit")

FULL_TRAINING = ("full_training", "programs", "scale", "slow")
"""Marks of tests that train as users do; programs and clusters do so in processes of their own."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Train short plans in a test and in its fixtures."""
    with nullcontext() if any(map(item.get_closest_marker, FULL_TRAINING)) else short_plans():
        return (yield)


@pytest.fixture(scope="session")
def cifar10_folder() -> Path:
    """CIFAR-10 as it is published. The compact copy is unpacked into the cache, which takes a minute, and stays."""
    if found := locate(cifar.CIFAR10.files[0]):
        return found.path.parent
    script = Path(os.environ.get("PURSUIT_DATA", "")) / "unpack.py"
    if not script.is_file() or not (script.parent / "cifar10" / "labels.npz").exists():
        pytest.skip("CIFAR-10 is not below $PURSUIT_DATA, in the official layout or the compact one")
    place = cache_folder() / "cifar10" / cifar.CIFAR10.folder
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_relative_to(OWN_CACHE):
        (OWN_CACHE.parent / ".gitignore").write_text("*\n")
    with FileLock(place.parent / ".unpacking.lock"):  # tests run in several processes
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
                _unpack_cifar10(script, Path(temporary))
                (Path(temporary) / "cifar10" / place.name).rename(place)
    return place


def _unpack_cifar10(script: Path, into: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)  # the data folder is only read
        spec = importlib.util.spec_from_file_location("unpack", script)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    module.unpack_cifar10(into)


@pytest.fixture(scope="session")
def real_task(request: pytest.FixtureRequest) -> Callable[[str], Task]:
    """Loads a task, once a session; skips the test where its data are not on the machine."""

    @cache
    def load(name: str) -> Task:
        if name == "cifar10":
            request.getfixturevalue("cifar10_folder")
        missing = [file.path for file in TASKS[name].files if locate(file) is None]
        if missing:
            pytest.skip(f"{missing[0]} is not below $PURSUIT_DATA or $PURSUIT_CACHE")
        return TASKS[name].load(0)

    return load


@dataclass(frozen=True)
class World:
    """Everything there is to know about a small world: every possible row, and the exact pursuer of it."""

    query_set: ColumnQueries
    frame: pd.DataFrame
    rows: Rows
    pursuer: IndependentIP


@pytest.fixture(scope="session")
def world() -> World:
    """Three diseases, three yes/no queries and one of three choices; 24 rows, a few with an unlikely label."""
    query_set = ColumnQueries(
        [
            yes_no("fever", "Do you have a fever?"),
            yes_no("sneezing", "Do you sneeze?"),
            yes_no("itching", "Do your eyes itch?"),
            Choice("season", "Which season is it?", ("spring", "summer", "winter")),
        ]
    )
    yes = torch.tensor([[0.05, 0.9, 0.8], [0.3, 0.7, 0.1], [0.95, 0.4, 0.06]])  # (C, yes/no queries)
    season = torch.tensor([[0.6, 0.35, 0.05], [0.3, 0.2, 0.5], [0.15, 0.1, 0.75]])  # (C, choices)
    likelihood = torch.cat([torch.stack([1 - yes, yes], dim=2).flatten(1), season], dim=1)
    pursuer = IndependentIP(query_set, ["allergy", "cold", "flu"], torch.tensor([0.2, 0.5, 0.3]), likelihood)
    answers = product((0, 1), (0, 1), (0, 1), ("spring", "summer", "winter"))
    frame = pd.DataFrame(list(answers), columns=["fever", "sneezing", "itching", "season"])
    x, available = query_set.answers(frame)
    likely = pursuer.log_posterior(History(x, available, available)).argmax(dim=1)
    y = (likely + (torch.arange(len(x)) % 5 == 0)) % 3
    return World(query_set, frame, Rows(x, available, y), pursuer)


@pytest.fixture
def forgetful_registry() -> Iterator[None]:
    """What is registered in a test is not known after it."""
    before = {kind: dict(values) for kind, values in registry._known.items()}
    yield
    for kind, values in registry._known.items():
        values.clear()
        values.update(before.get(kind, {}))
