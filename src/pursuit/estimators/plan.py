"""Defaults that depend on the data: network, training and its length, each with the reason for it."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from pursuit.information import AnswerSettings
from pursuit.networks import MLP, NetworkSettings, default_network
from pursuit.queries import QuerySet
from pursuit.training import CarriedHistories, Stage
from pursuit.training.devices import find_device
from pursuit.training.rows import RowSource, StreamedRows, rows_in_memory
from pursuit.training.schedule import AdamW

T = TypeVar("T")

VERY_FEW_ROWS, FEW_ROWS, MANY_ROWS, VERY_MANY_ROWS = 30, 500, 2000, 20_000
DEFAULT_STEPS, DEFAULT_PASSES = 1000, 20
PASSES = 100
"""How often training may see each row, if held-out rows do not end it before."""
LEAST_TAUGHT_STEPS, LEAST_STEPS = 100, 200
COMPLETE = 0.3
"""Share of random histories that know all answers."""
TAUGHT_RANK = 4
"""Of the answer model beside teachers, from `MANY_ROWS` on. With fewer rows, what it learns of how answers depend on
one another makes questions look worth more than they are."""
OFTEN, RARELY = 4, 16
"""Held-out rows are looked at every N reports; less often where steps are slow."""
CHAIN_QUERIES = 20
"""How far chains are carried in training; random histories cover what lies beyond."""
SPARSE = 0.1
"""Answers of which fewer are yes are nearly all no."""
MOST_DIRECT = 1_000_000
"""The most weights of a path from answers to labels."""
HELD_OUT, HELD_OUT_OF_FEW, MOST_HELD_OUT = 0.1, 0.2, 2000
LOOKED_AT_ROWS = 20_000
DEFAULT_ANSWERS = AnswerSettings()


GIVEN = "given"
"""The reason of what the user chose."""


@dataclass(frozen=True)
class Reason:
    """A setting, what was chosen for it, and why."""

    setting: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.value} ({self.why})"


def given(setting: str, value: Any) -> Reason:
    return Reason(setting, str(value), GIVEN)


class Size(NamedTuple):
    """How large a network is, and how it is trained."""

    width: int
    batch_size: int
    lr: float
    histories: int = 0
    """Of each row, which a taught network learns from: more, and small tables are learnt by heart."""


TAUGHT = (
    (FEW_ROWS, Size(64, 512, 8e-3, 250)),
    (MANY_ROWS, Size(128, 512, 6e-3, 400)),
    (5000, Size(128, 512, 1e-2, 300)),
    (10_000, Size(256, 512, 8e-3, 200)),
)
"""Below so many rows."""
TAUGHT_OTHERWISE = Size(256, 512, 8e-3, 100)
UNTAUGHT = ((MANY_ROWS, Size(128, 128, 2e-3)), (VERY_MANY_ROWS, Size(256, 256, 4e-3)))
UNTAUGHT_OTHERWISE = Size(256, 512, 4e-3)


class Effort(NamedTuple):
    """The most steps and multiplications that training may take."""

    steps: int
    products: float
    """About how many multiplications."""


USUAL_EFFORT = Effort(4000, 2e12)
"""About two minutes on two cores."""
EFFORT_FOR_MANY = Effort(8000, 6e12)
"""From `VERY_MANY_ROWS` on, where more steps still help: three times as long."""
EFFORT_ON_GPU = Effort(10_000, 1e14)
"""About a minute."""


def _size(n_rows: int, is_taught: bool) -> Size:
    sizes, otherwise = (TAUGHT, TAUGHT_OTHERWISE) if is_taught else (UNTAUGHT, UNTAUGHT_OTHERWISE)
    return next((size for below, size in sizes if n_rows < below), otherwise)


@dataclass(frozen=True)
class Plan:
    """How to train on rows like these."""

    network: NetworkSettings
    standardise: bool
    stages: tuple[Stage, ...]
    held_out: float
    """Share of the rows that are set aside."""
    reasons: tuple[Reason, ...]
    answers: AnswerSettings = DEFAULT_ANSWERS
    """How a method that foresees answers does so."""
    look_every: int = OFTEN
    """Held-out rows are looked at every N reports."""


def suitable_plan(
    query_set: QuerySet,
    rows: RowSource,
    n_classes: int,
    max_queries: int | None = None,
    device: str = "cpu",
    counts_answers: bool = False,
    is_taught: bool = False,
) -> Plan:
    """The plan for these rows; a method that `counts_answers` can begin as naive Bayes, and one that `is_taught` does
    not learn rows by heart.

    The limits were chosen on held-out training rows (docs/tables.md).
    """
    n_rows, n_queries = len(rows), len(query_set)
    reasons: list[Reason] = []

    def choose(setting: str, value: T, why: str) -> T:
        reasons.append(Reason(setting, str(value), why))
        return value

    is_image, is_sparse = query_set.patches is not None, _is_sparse(query_set, rows)
    on_gpu = find_device(device).type != "cpu"
    network: NetworkSettings
    answers, size = DEFAULT_ANSWERS, _size(n_rows, is_taught)
    if is_image:
        network = choose("network", default_network(query_set), "queries are patches of an image")
    else:
        width = 1024 if on_gpu and n_rows >= VERY_MANY_ROWS else size.width
        dropout = 0.0 if is_taught else 0.3 if n_rows < MANY_ROWS else 0.1
        # Where rows are few for what there is to learn, counts are a better start than none. Where they are many, what
        # naive Bayes gets wrong would have to be unlearnt.
        begins_counted = (n_rows < MANY_ROWS or is_sparse) and n_queries * n_classes <= MOST_DIRECT
        is_direct = counts_answers and query_set.has_own_units and begins_counted and not is_taught
        why = f"wide enough for {n_rows:,} rows" + (", beginning as naive Bayes" if is_direct else "")
        network = choose("network", MLP((width, width), dropout, is_direct), why)
        if counts_answers and query_set.has_own_units and n_rows < n_queries:
            # What answers say of each other takes more rows to learn, and of so many questions, most of the time.
            answers = replace(answers, rank=0)
            choose("answers", "foreseen by the label", f"fewer rows than the {n_queries:,} questions")
        elif is_taught:
            answers = replace(answers, rank=0 if n_rows < MANY_ROWS else TAUGHT_RANK)
    if is_image or isinstance(rows, StreamedRows):
        stages = default_stages(n_rows, n_queries, max_queries)
        choose("passes", f"{stages[0].epochs:.3g}", "no rows are held out to end training before")
        return Plan(network, False, tuple(stages), 0.0, tuple(reasons))
    why = "nearly all answers are no" if is_sparse else "answers vary enough as they are"
    standardise = choose("standardise", is_sparse, why)
    batch_size = choose("batch size", size.batch_size, f"with steps of {size.lr:g}, suits {n_rows:,} rows")
    longest = _chain_length(n_queries, max_queries)
    histories = CarriedHistories(longest, 0.5, complete_share=COMPLETE) if is_taught else CarriedHistories(longest)
    # A batch has fresh rows only for its random histories, and where chains end.
    fresh = batch_size * (histories.random_share + (1 - histories.random_share) / longest)
    wanted = size.histories * n_rows / batch_size if is_taught else PASSES * n_rows / fresh
    effort = EFFORT_ON_GPU if on_gpu else EFFORT_FOR_MANY if n_rows >= VERY_MANY_ROWS else USUAL_EFFORT
    products = batch_size * _products(network, query_set, n_classes, answers.rank)
    affordable = effort.products / products if products else effort.steps
    least = LEAST_TAUGHT_STEPS if is_taught else LEAST_STEPS
    n_steps, is_slow = round(max(min(wanted, affordable, effort.steps), least)), affordable < least
    times = n_steps * (batch_size if is_taught else fresh) / n_rows
    why = f"{float(f'{times:.3g}'):,g} {'histories of each row' if is_taught else 'times each row'}"
    if n_steps != round(wanted):
        why += ", because rows are few" if n_steps > wanted else ", for time"
    choose("steps", f"{n_steps:,}" if is_taught else f"at most {n_steps:,}", why)
    if n_rows < VERY_FEW_ROWS:
        held_out, why = 0.0, "too few rows to do without any"
    elif n_rows < MANY_ROWS and is_taught:
        held_out, why = 0.0, "teachers judge what was learnt of rows that they did not see"
    elif n_rows < MANY_ROWS:
        held_out, why = HELD_OUT_OF_FEW, "to end training before rows are learnt by heart"
    else:
        held_out, why = min(HELD_OUT, MOST_HELD_OUT / n_rows), "there are rows enough to do without some"
    choose("held out", f"{held_out:.0%}", why)
    stage = Stage(n_steps * batch_size / n_rows, histories, AdamW(size.lr), batch_size=batch_size)
    return Plan(network, standardise, (stage,), held_out, tuple(reasons), answers, RARELY if is_slow else OFTEN)


def default_stages(n_rows: int, n_queries: int, max_queries: int | None = None) -> list[Stage]:
    """One stage of carried histories for those who state its length, and for rows that none are held out of: small data
    are seen often, large ones a few times in larger batches."""
    batch_size = 128 if n_rows < VERY_MANY_ROWS else 512
    epochs = max(DEFAULT_STEPS * batch_size / n_rows, DEFAULT_PASSES)
    return [Stage(epochs, CarriedHistories(_chain_length(n_queries, max_queries)), batch_size=batch_size)]


def _chain_length(n_queries: int, max_queries: int | None) -> int:
    return max(1, min(n_queries, n_queries if max_queries is None else max_queries, CHAIN_QUERIES))


def _products(network: NetworkSettings, query_set: QuerySet, n_classes: int, rank: int) -> float:
    """About how many multiplications a history takes in training: three for each weight of a classifier and of a
    network that foresees answers."""
    if not isinstance(network, MLP):
        return 0.0
    n_inputs = math.prod(query_set.input_shape)
    width = network.hidden[0]
    numbers = sum(feature == "number" for feature in query_set.units.feature_types) if query_set.has_units else 0
    n_outputs = (1 + rank) * (6 * numbers + len(query_set)) + n_classes  # seven log odds a number
    return 3.0 * (2 * n_inputs * width + 2 * width * width + width * n_outputs + n_inputs * n_classes)


def _is_sparse(query_set: QuerySet, rows: RowSource) -> bool:
    """Whether answers are yes or no, and nearly all of them no."""
    if not query_set.has_own_units or set(query_set.units.feature_types) != {"yes_no"}:
        return False
    sample = rows_in_memory(rows, LOOKED_AT_ROWS).take(slice(LOOKED_AT_ROWS))
    return float(((sample.x > 0) & sample.available).float().mean()) < SPARSE
