"""What tests share: short trainings, one hypothesis profile, a tiny world of three diseases, and pursuers that need no
training; and a registry that forgets what a test adds."""

import importlib.util
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import torch
from filelock import FileLock
from hypothesis import settings
from torch import Tensor

from pursuit import ModelSpec, registry
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.networks import MLP
from pursuit.queries import Choice, ColumnQueries, Number, QuerySet, yes_no
from pursuit.research.tasks import TASKS, Task, cifar
from pursuit.research.tasks.files import cache_folder, locate
from pursuit.training.rows import Rows
from pursuit.vip import VIP
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
    place = cache_folder() / "cifar10" / cifar.CIFAR10.folders[0]
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


@pytest.fixture(scope="session")
def make_columns() -> Callable[[Sequence[str], bool], ColumnQueries]:
    """Column queries from a list of types: yes_no, choice (of three), single (of one) and number."""

    def make(types: Sequence[str], mask: bool = True) -> ColumnQueries:
        columns: list[Choice | Number] = []
        for i, column_type in enumerate(types):
            if column_type == "number":
                columns.append(Number(f"q{i}", f"What is q{i}?", centre=5.0 * i, spread=1.0 + i))
            elif column_type == "yes_no":
                columns.append(yes_no(f"q{i}"))
            else:
                choices = ("red", "green", "blue") if column_type == "choice" else ("only",)
                columns.append(Choice(f"q{i}", f"Which q{i}?", choices))
        return ColumnQueries(columns, mask)

    return make


def _random_answers(query_set: QuerySet, n_rows: int, generator: torch.Generator) -> Tensor:
    """Answers (n_rows, *answer_shape) such as the features of the query set may have."""
    unit_of_feature, types = query_set.units.of_feature, query_set.units.feature_types
    x = torch.zeros(n_rows, len(types), dtype=torch.double)
    shares = torch.tensor([feature_type == "share" for feature_type in types])
    x[:, shares] = torch.rand(n_rows, int(shares.sum()), generator=generator, dtype=torch.double) * 2 - 1
    for unit in range(len(query_set.units)):
        first, width = int((unit_of_feature == unit).int().argmax()), int((unit_of_feature == unit).sum())
        if types[first] == "number":
            x[:, first] = torch.randn(n_rows, generator=generator, dtype=torch.double)
        elif types[first] == "yes_no":
            x[:, first] = 2.0 * torch.randint(2, (n_rows,), generator=generator) - 1
        elif types[first] == "choice":
            x[torch.arange(n_rows), first + torch.randint(width, (n_rows,), generator=generator)] = 1
    return x.view(n_rows, *query_set.answer_shape)


@pytest.fixture(scope="session")
def make_rows() -> Callable[..., Rows]:
    """Random rows in double precision, of which a share `missing` of the answers is missing, and a share `reported` is
    initially known. Missing answers stay in `x`, so that reading them shows."""

    def make(
        query_set: QuerySet, n_rows: int, seed: int = 0, missing: float = 0.0, reported: float = 0.0, n_classes: int = 3
    ) -> Rows:
        generator = torch.Generator().manual_seed(seed)
        x = _random_answers(query_set, n_rows, generator)
        available = torch.rand(n_rows, len(query_set), generator=generator) >= missing
        y = torch.randint(n_classes, (n_rows,), generator=generator)
        initially_known = available & (torch.rand(n_rows, len(query_set), generator=generator) < reported)
        return Rows(x, available, y, initially_known if reported else None)

    return make


@pytest.fixture(scope="session")
def make_vip() -> Callable[..., VIP]:
    """An untrained V-IP with strong opinions; in double precision the size of a batch does not show in its results."""

    def make(query_set: QuerySet, n_classes: int = 3, seed: int = 0, dtype: torch.dtype = torch.double) -> VIP:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            prior = torch.rand(n_classes) + 0.2
            classes = [f"class {i}" for i in range(n_classes)]
            model = VIP.build(ModelSpec(query_set, classes, MLP(hidden=(12,)), prior=prior / prior.sum()))
        with torch.no_grad():
            model.classifier[-1].weight.mul_(4)
        return model.to(dtype).eval()

    return make


class Counting:
    """Another pursuer, with a count of the calls and of the rows it was shown."""

    def __init__(self, pursuer: Pursuer):
        self.pursuer, self.query_set, self.classes = pursuer, pursuer.query_set, pursuer.classes
        self.calls: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()

    def scores(self, history: History) -> Tensor:
        self.calls["scores"] += 1
        self.rows["scores"] += len(history)
        return self.pursuer.scores(history)

    def log_posterior(self, history: History) -> Tensor:
        self.calls["log_posterior"] += 1
        self.rows["log_posterior"] += len(history)
        return self.pursuer.log_posterior(history)


@pytest.fixture(scope="session")
def counting() -> type[Counting]:
    return Counting


class InOrder:
    """Asks the queries from first to last and always believes the same, whatever is answered."""

    def __init__(self, query_set: QuerySet, classes: Sequence[str] = ("a", "b")):
        self.query_set, self.classes = query_set, classes

    def scores(self, history: History) -> Tensor:
        return -torch.arange(history.asked.shape[1], dtype=torch.float).expand(history.asked.shape)

    def log_posterior(self, history: History) -> Tensor:
        return torch.full((len(history), len(self.classes)), 1 / len(self.classes)).log()


@pytest.fixture(scope="session")
def in_order() -> type[InOrder]:
    return InOrder


class KnownWorth(InOrder):
    """A pursuer whose scores have a unit, and whose queries have costs. Every query it asks is worth half as much as
    the one before; its belief changes with every answer."""

    def __init__(self, costs: Sequence[float], unit: str | None = "bits", seed: int = 0):
        super().__init__(ColumnQueries([yes_no(f"q{i}") for i in range(len(costs))]))
        queries = zip(self.query_set.queries, costs, strict=True)
        self.query_set.queries = tuple(replace(query, cost=cost) for query, cost in queries)
        self.score_unit = unit
        generator = torch.Generator().manual_seed(seed)
        self.preferences = torch.rand(len(costs), generator=generator, dtype=torch.double)
        self.weights = torch.randn(len(costs), generator=generator, dtype=torch.double)

    def scores(self, history: History) -> Tensor:
        return self.preferences * 0.5 ** history.known.sum(dim=1, keepdim=True)

    def log_posterior(self, history: History) -> Tensor:
        logit = (history.x.double() * history.known) @ self.weights
        return torch.stack([logit, -logit], dim=1).log_softmax(dim=1)


@pytest.fixture(scope="session")
def known_worth() -> type[KnownWorth]:
    return KnownWorth


@pytest.fixture
def forgetful_registry() -> Iterator[None]:
    """What is registered in a test is not known after it."""
    before = {kind: dict(values) for kind, values in registry._known.items()}
    yield
    for kind, values in registry._known.items():
        values.clear()
        values.update(before.get(kind, {}))
