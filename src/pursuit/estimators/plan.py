"""What suits the data where the user does not say: network, training and how long it goes on, each with its reason."""

from dataclasses import dataclass
from typing import TypeVar

import torch

from pursuit.data.rows import Rows, RowSource, StreamedRows, rows_in_memory
from pursuit.networks import MLP, NetworkSettings, default_network
from pursuit.queries import QuerySet
from pursuit.training import CarriedHistories, Stage

T = TypeVar("T")

FEW_ROWS, SOME_ROWS, MANY_ROWS = 500, 2000, 5000
PASSES = 100
"""How often training may see each row, if held-out rows do not end it before."""
LEAST_STEPS, MOST_STEPS = 200, 6000
PRODUCTS = {"cpu": 1e12}
"""About how many multiplications training may take, by device: half a minute on two cores; more on a GPU."""
MORE_PRODUCTS = 1e14
CHAIN_QUERIES = 20
SPARSE = 0.1
MOST_DIRECT = 1_000_000
JUDGED_ROWS = 2000
LOOKED_AT_ROWS = 20_000


@dataclass(frozen=True)
class Reason:
    """A setting, what was chosen for it, and why."""

    setting: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.value} ({self.why})"


@dataclass(frozen=True)
class Plan:
    """How to train on rows like these."""

    network: NetworkSettings
    standardise: bool
    stages: tuple[Stage, ...]
    n_trials: int
    """On how many splits of the rows training is tried before, to see after how many steps held-out rows are predicted
    best; it is then repeated on all rows. 0: it is not repeated."""
    held_out: float
    """Share of the rows that are held out in a trial, or in training if there is none; 0: training goes on to the end
    of its stages."""
    reasons: tuple[Reason, ...]


def suitable_plan(
    query_set: QuerySet, rows: RowSource, n_classes: int, max_queries: int | None = None, device: str = "cpu"
) -> Plan:
    """The plan for these rows. The limits were chosen on held-out training rows of fourteen tables: docs/tables.md."""
    n_rows, n_queries = len(rows), len(query_set)
    reasons: list[Reason] = []

    def choose(setting: str, value: T, why: str) -> T:
        reasons.append(Reason(setting, str(value), why))
        return value

    is_direct = query_set.has_own_units and n_queries * n_classes <= MOST_DIRECT
    is_image, is_sparse = query_set.patches is not None, _is_sparse(query_set, rows)
    network: NetworkSettings
    if is_image:
        network = choose("network", default_network(query_set), "queries are patches of an image")
    else:
        width = 128 if n_rows < SOME_ROWS else 256 if device == "cpu" or n_rows < LOOKED_AT_ROWS else 1024
        dropout = 0.3 if n_rows < SOME_ROWS else 0.1
        network = choose(
            "network",
            MLP((width, width), dropout, direct=is_direct),
            f"{n_rows:,} rows, {n_queries:,} queries and {n_classes} labels",
        )
    standardise = choose(
        "standardise", is_sparse and not is_image, "nearly all answers are no" if is_sparse else "answers vary enough"
    )
    batch_size = choose("batch size", 128 if n_rows < LOOKED_AT_ROWS else 512, "large tables in larger batches")
    longest = max(1, min(n_queries, n_queries if max_queries is None else max_queries, CHAIN_QUERIES))
    histories = CarriedHistories(longest)
    # A batch has fresh rows only for its random histories, and where chains end.
    fresh = batch_size * (histories.random_share + (1 - histories.random_share) / longest)
    affordable = (PRODUCTS["cpu"] if device == "cpu" else MORE_PRODUCTS) / _products(network, query_set, n_classes)
    steps = min(max(PASSES * n_rows / fresh, LEAST_STEPS), affordable / batch_size, MOST_STEPS)
    steps = choose("steps", round(max(steps, LEAST_STEPS)), f"at most {PASSES} times each row")
    if is_image or isinstance(rows, StreamedRows):
        n_trials, held_out, why = 0, 0.0, "training goes on to its end"
    elif n_rows < MANY_ROWS:
        n_trials = 3 if n_rows < FEW_ROWS else 1
        held_out, why = 0.2, f"tried on {n_trials} split(s), then repeated on all rows"
    else:
        n_trials, held_out, why = 0, min(0.1, JUDGED_ROWS / n_rows), "there are rows enough to do without some"
    choose("held out", f"{held_out:.0%}", why)
    stage = Stage(steps * batch_size / n_rows, histories, batch_size=batch_size)
    return Plan(network, standardise, (stage,), n_trials, held_out, tuple(reasons))


def _products(network: NetworkSettings, query_set: QuerySet, n_classes: int) -> float:
    """About how many multiplications a history takes in training: three for each weight of a classifier and of a
    network that foresees answers."""
    if not isinstance(network, MLP):
        return 1.0
    n_inputs = int(torch.Size(query_set.input_shape).numel())
    width = network.hidden[0]
    numbers = sum(feature == "number" for feature in query_set.feature_types or ())
    n_outputs = 9 * (6 * numbers + len(query_set)) + n_classes  # seven log odds a number, and eight ways they change
    return 3.0 * (2 * n_inputs * width + 2 * width * width + width * n_outputs + n_inputs * n_classes)


def _is_sparse(query_set: QuerySet, rows: RowSource) -> bool:
    """Whether answers are yes or no, and nearly all of them no."""
    if query_set.feature_types is None or set(query_set.feature_types) != {"yes_no"}:
        return False
    sample: Rows = rows_in_memory(rows, LOOKED_AT_ROWS)
    sample = sample.take(slice(LOOKED_AT_ROWS))
    return float(((sample.x > 0) & sample.available).float().mean()) < SPARSE
