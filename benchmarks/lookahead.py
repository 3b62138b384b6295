"""CUBE-NM, a made set on which whoever asks for the most information fails: pursuers that know its distribution, and
V-IP with and without looking ahead; then the same on a gate of yes/no questions and on tables."""

import itertools
import math
import statistics
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.common import Stopwatch, ask_everything, fit, means, read_table, score, split
from benchmarks.report import NOTHING, Record, cell, columns, grid, grouped, met, origins
from benchmarks.report import table as table_of
from benchmarks.study import Study, every
from pursuit import MLP, CarriedHistories, ColumnQueries, Stage, VIPClassifier
from pursuit.inference.history import History
from pursuit.inference.pursuer import by_groups, choose
from pursuit.information import AnswerSettings
from pursuit.queries import Number
from pursuit.queries.order import Group, Order
from pursuit.training.schedule import AdamW

CONTEXTS, LABELS, BLOCK = 5, 8, 10
N_FEATURES = CONTEXTS * BLOCK
CONTEXT = N_FEATURES
"""The number of the action that asks for the context, after those that ask for a feature."""
MEANS = torch.tensor([0.5, 0.0, 1.0])
"""Of a feature that is noise, and of one that has a bit of the label: no, and yes."""
SPREAD, CONTEXT_SPREAD = 0.3, 0.1
NAMES = [f"context {c}" for c in range(CONTEXTS)]
NAMES += [f"block {block}, {i}" for block in range(CONTEXTS) for i in range(BLOCK)]
BUDGETS, GAIN_BUDGETS = (3, 5, 7, 10, 14), (3, 5, 7)
GOAL = 0.9
N_BINS = 6
"""Intervals that numbers are put into where all that may be answered is listed."""


def kinds() -> Tensor:
    """Which of the means each feature has under each pair of context and label: (40, 50)."""
    found = torch.zeros(CONTEXTS, LABELS, CONTEXTS, BLOCK, dtype=torch.long)
    for context, label, bit in itertools.product(range(CONTEXTS), range(LABELS), range(3)):
        found[context, label, context, label + bit] = 1 + (label >> bit & 1)
    return found.view(CONTEXTS * LABELS, N_FEATURES)


KINDS = kinds()
OF_KIND = F.one_hot(KINDS, len(MEANS)).float()  # (40, 50, 3)


def draw(n_rows: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Answers (N, 55) with the context first, labels and contexts (N,)."""
    generator = torch.Generator().manual_seed(seed)
    context = torch.randint(CONTEXTS, (n_rows,), generator=generator)
    label = torch.randint(LABELS, (n_rows,), generator=generator)
    shown = F.one_hot(context, CONTEXTS) + CONTEXT_SPREAD * torch.randn(n_rows, CONTEXTS, generator=generator)
    features = MEANS[KINDS[context * LABELS + label]] + SPREAD * torch.randn(n_rows, N_FEATURES, generator=generator)
    return torch.cat([shown, features], dim=1), label, context


# ---- what can be computed


def densities(values: Tensor) -> Tensor:
    """Of an answer with each of the means, up to a factor (..., 3)."""
    return torch.exp(-((values[..., None] - MEANS) ** 2) / (2 * SPREAD**2))


def on_grid(n_points: int) -> Tensor:
    """The probability of each of so many answers, under each of the means: (3, G)."""
    density = densities(torch.linspace(-1.0, 2.0, n_points)).T
    return density / density.sum(dim=1, keepdim=True)


def posterior(x: Tensor, known: Tensor, is_told: Tensor, context: Tensor) -> Tensor:
    """The exact belief about context and label (B, 5, 8), where some features are known (B, 50) and of some rows the
    context, which its answers leave no doubt about: contexts lie 14 deviations apart."""
    evidence = torch.einsum("bfk,hfk->bfh", densities(x[:, CONTEXTS:]).log(), OF_KIND)
    log_belief = (evidence * known[:, :, None]).sum(dim=1).view(-1, CONTEXTS, LABELS)
    other = is_told[:, None] & ~F.one_hot(context, CONTEXTS).bool()
    return log_belief.masked_fill(other[:, :, None], -torch.inf).flatten(1).softmax(dim=1).view_as(log_belief)


def entropy(p: Tensor, *dims: int) -> Tensor:
    return torch.special.entr(p).sum(dim=dims) / math.log(2)


def information(belief: Tensor, grid: Tensor) -> Tensor:
    """The exact information of each action (B, 51) about the label, in bits; the context comes last."""
    of_kind = torch.einsum("bcl,clfk->blfk", belief, OF_KIND.view(CONTEXTS, LABELS, N_FEATURES, -1))
    joint = of_kind @ grid  # (B, 8, 50, G)
    doubt = entropy(belief.sum(dim=1), 1)[:, None]
    features = entropy(joint.sum(dim=1), 2) + doubt - entropy(joint, 1, 3)
    context = doubt[:, 0] + entropy(belief.sum(dim=2), 1) - entropy(belief, 1, 2)
    return torch.cat([features, context[:, None]], dim=1)


def two_steps(belief: Tensor, asked: Tensor, outer: Tensor, inner: Tensor) -> Tensor:
    """The information of each action (B, 51) and of the best one after it."""
    found = information(belief, inner)
    for action in range(N_FEATURES + 1):
        if action == CONTEXT:
            joint = belief[:, None] * torch.eye(CONTEXTS)[:, :, None]  # (B, answers, 5, 8)
        else:
            likelihood = OF_KIND[:, action] @ outer  # (40, G)
            joint = belief[:, None] * likelihood.T.view(-1, CONTEXTS, LABELS)
        share = joint.sum(dim=(2, 3))  # (B, answers)
        after = joint / share[:, :, None, None].clamp(min=1e-12)
        closed = asked.index_fill(1, torch.tensor(action), True).repeat_interleave(share.shape[1], dim=0)
        then = information(after.flatten(0, 1), inner).masked_fill(closed, 0).max(dim=1).values
        found[:, action] += (then.view_as(share) * share).sum(dim=1)
    return found


def exact(plan: str, n_rows: int) -> list[float]:
    """The accuracy after 0 to 14 questions of an exact pursuer."""
    x, y, context = draw(n_rows, seed=1)
    asked, right, grid = torch.zeros(n_rows, N_FEATURES + 1, dtype=torch.bool), [], on_grid(31)
    for step in range(BUDGETS[-1] + 1):
        beliefs = []
        for part in torch.arange(n_rows).split(100):
            belief = posterior(x[part], asked[part, :CONTEXT], asked[part, CONTEXT], context[part])
            beliefs.append(belief.sum(dim=1))
            if plan == "two steps" and step < GAIN_BUDGETS[-1]:
                scores = two_steps(belief, asked[part], on_grid(7), on_grid(13))
            else:
                scores = information(belief, grid)
            if plan == "context first" and step == 0:
                scores[:, CONTEXT] = torch.inf
            asked[part] |= F.one_hot(choose(scores, asked[part]), N_FEATURES + 1).bool()
        right.append(float((torch.cat(beliefs).argmax(dim=1) == y).float().mean()))
    return right


def best(n_features: int) -> float:
    """The best accuracy once the context is known and so many features of its block may be asked one by one."""
    edges = torch.linspace(-0.05, 1.05, N_BINS - 1)
    below = F.pad(torch.special.ndtr((edges - MEANS[:, None]) / SPREAD), (1, 1))
    below[:, -1] = 1
    likelihood = below.diff(dim=1)[KINDS[:LABELS, :BLOCK]]  # (8, 10, bins)

    @cache
    def value(known: tuple[int, ...]) -> Tensor:
        """The probability of answers to `known`, an axis each, together with being right in the end."""
        if len(known) == n_features:
            joint = torch.full((LABELS,), 1 / LABELS)
            for feature in known:
                joint = joint[..., None] * likelihood[:, feature].view(LABELS, *[1] * (joint.dim() - 1), N_BINS)
            return joint.max(dim=0).values
        options = []
        for feature in set(range(BLOCK)) - set(known):
            after = tuple(sorted((*known, feature)))
            options.append(value(after).sum(dim=after.index(feature)))
        return torch.stack(options).max(dim=0).values

    return float(value(()))


# ---- what is learnt


METHODS: dict[str, dict[str, Any]] = {
    "greedy V-IP": {"querier": "information", "answers": AnswerSettings(rank=4)},
    "lookahead=1": {"querier": "straight-through", "lookahead": 1, "answers": AnswerSettings(rank=0)},
    "lookahead=5": {"lookahead": 5, "answers": AnswerSettings(rank=0)},  # which choose nothing, and take time
    "V-IP by default": {},
}
BATCH = 512
ON_TABLES: dict[str, dict[str, Any]] = {"V-IP by default": {}, "without look-ahead": {"lookahead": 1}}
TABLES = ("vowel", "credit", "kr-vs-kp", "sick")
LONGEST = 20
GATE = "gate"


def plan(rows: int, n_steps: int) -> dict[str, Any]:
    """Training of a stated length, the same for all: by default it is cut short for time."""
    histories = CarriedHistories(12, random_share=0.5, complete_share=0.2)
    stage = Stage(n_steps * BATCH / rows, histories, AdamW(4e-3, weight_decay=0.05), batch_size=BATCH)
    return {"teachers": None, "network": MLP((256, 256)), "stages": [stage]}


def frame(x: Tensor) -> pd.DataFrame:
    return pd.DataFrame(x.numpy(), columns=NAMES)


def queries(x: Tensor, is_coded: bool) -> ColumnQueries:
    """Every column as a question, the context as one group; networks see numbers as they are unless `is_coded`."""
    coded = ColumnQueries.from_data(frame(x), costs=dict.fromkeys(NAMES[:CONTEXTS], 1 / CONTEXTS)).queries
    plain = [replace(query, edges=()) for query in coded if isinstance(query, Number)]
    order = Order(groups=(Group("context", tuple(NAMES[:CONTEXTS])),))
    return ColumnQueries(coded if is_coded else plain, order=order)


def learnt(method: str, rows: int, seed: int, n_test: int, n_steps: int) -> Record:
    x, y, _ = draw(rows, seed=100 + seed)
    settings, by_default = METHODS[method], method == "V-IP by default"
    settings = settings if by_default else {**settings, **plan(rows, n_steps)}
    model = VIPClassifier(query_set=queries(x, by_default), random_state=seed, **settings)
    fit_time = fit(model, frame(x), y.numpy())
    x, y, _ = draw(n_test, seed=1)
    is_right, asks_context = asked_within(model, frame(x), y)
    session, steps = model.session(stop="budget=15"), []
    for _ in range(10):
        watch = Stopwatch()
        session.ask()
        session.tell(0.5)
        steps.append(1000 * watch.read("step")["step_cpu_seconds"])
    return {
        "accuracy": is_right.mean(dim=0).tolist(),
        "context_first": asks_context,
        "chosen": [str(reason) for reason in model.chosen_],
        "session_step_ms": statistics.median(steps),
        **fit_time,
    }


@torch.no_grad()
def asked_within(model: VIPClassifier, X: pd.DataFrame, y: Tensor) -> tuple[Tensor, float]:
    """Which rows are right (N, 15) once 0 to 14 questions are asked, the context counting as one; and how many are
    asked for it first."""
    pursuer, rows = model.model_, model.rows(X, y.numpy())
    is_context = torch.tensor([query.name in NAMES[:CONTEXTS] for query in pursuer.query_set.queries])
    history, n_asked, first = rows.start(), torch.zeros(len(rows)), 0.0
    is_right = torch.zeros(len(rows), BUDGETS[-1] + 1)
    for step in range(BUDGETS[-1] + CONTEXTS):
        now = (pursuer.log_posterior(history).argmax(dim=1) == rows.y).float()
        within = torch.arange(BUDGETS[-1] + 1) >= n_asked.round(decimals=3)[:, None]
        is_right = torch.where(within, now[:, None], is_right)
        closed = pursuer.query_set.closed(history.x, history.known, history.asked)
        query = choose(by_groups(pursuer, pursuer.scores(history), closed), closed)
        first = float(is_context[query].float().mean()) if step == 0 else first
        n_asked += torch.where(is_context, 1 / CONTEXTS, 1.0)[query]
        history = History(history.x, history.known, history.asked).ask(query)
    return is_right, first


def on_table(name: str, method: str, seed: int, n_test: int) -> Record:
    """Accuracy and log loss on held-out training rows of a table, the mean after 1 to 20 questions."""
    part = split(*read_table(name), seed, validation=True)
    model = VIPClassifier(random_state=seed, **ON_TABLES[method])
    fit_time, rows = fit(model, part.X_train, part.y_train), model.rows(part.X_test[:n_test], part.y_test[:n_test])
    after = ask_everything(model.model_, rows, LONGEST)[0][1:]
    (querier,) = [reason.value for reason in model.chosen_ if reason.setting == "querier"]
    return {**means([score(posterior, rows.y.numpy()) for posterior in after]), "querier": querier, **fit_time}


def gate(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Two columns say which of four has the label. They tell nothing by themselves; the others are noise, but for a
    hint that is right in three quarters of the rows."""
    randomness = np.random.default_rng(seed)
    way, y = randomness.integers(0, 4, n_rows), randomness.integers(0, 2, n_rows)
    answers = randomness.integers(0, 2, (n_rows, 4))
    answers[np.arange(n_rows), way] = y
    hint = np.where(randomness.random(n_rows) < 3 / 4, y, 1 - y)
    names = ["way 1", "way 2", *(f"answer {i}" for i in range(4)), "hint"]
    return pd.DataFrame(np.column_stack([way % 2, way // 2, answers, hint]), columns=names), y


def at_gate(method: str, seed: int, n_test: int) -> Record:
    """The accuracy after three questions, of which two are needed to know where to look."""
    X, y = gate(3_000, 0)
    query_set = ColumnQueries.from_data(X)
    query_set.set_order(Order(groups=(Group("way", ("way 1", "way 2")),)))
    stages = [Stage(40, CarriedHistories(4), AdamW(1e-2), batch_size=256)]
    options: dict[str, Any] = {"network": MLP((64,)), "teachers": None, "stages": stages, "stop": "budget=3"}
    model = VIPClassifier(query_set, random_state=seed, **METHODS[method], **options)
    fit_time, (X, y) = fit(model, X, y), gate(n_test, 1)
    return {"accuracy": float((model.predict(X) == y).mean()), **fit_time}


def measure(
    pursuer: str, rows: int = 0, seed: int = 0, n_test: int = 2_000, n_steps: int = 3_000, table: str = ""
) -> Record:
    if table == GATE:
        return at_gate(pursuer, seed, n_test)
    if table:
        return on_table(table, pursuer, seed, n_test)
    if pursuer in METHODS:
        return learnt(pursuer, rows, seed, n_test, n_steps)
    if pursuer == "best":
        return {"accuracy": [best(n - 1) if n in GAIN_BUDGETS else None for n in range(BUDGETS[-1] + 1)]}
    return {"accuracy": exact(pursuer, min(n_test, 500) if pursuer == "two steps" else n_test)}


def gain(record: Record, greedy: Record, planner: Record) -> float:
    """What is ahead of `greedy`, as a share of what the `planner` is ahead of it."""
    ahead = [one["accuracy"] for one in (record, greedy, planner)]
    return statistics.fmean((own[n] - base[n]) / (top[n] - base[n]) for n in GAIN_BUDGETS for own, base, top in [ahead])


def page(records: list[Record]) -> dict[str, str]:
    done = [one for one in records if "not_run" not in one]
    by = grouped((one for one in done if not one.get("table")), "pursuer", "rows")
    on_tables = grouped((one for one in done if one.get("table") not in (None, "", GATE)), "table", "pursuer")
    at_gate = grouped((one for one in done if one.get("table") == GATE), "pursuer")
    exactly = {name: each[0] for (name, rows), each in by.items() if not rows}
    lines, goals = [], []
    for (name, rows), each in by.items():
        beside, greedy = NOTHING, by.get(("greedy V-IP", rows))
        if rows and name != "greedy V-IP":
            bases = [exactly["greedy"], *(greedy or [])[:1]]
            gains = [statistics.fmean(gain(one, base, exactly["context first"]) for one in each) for base in bases]
            beside = " ".join([f"{gains[0]:.0%}", *(f"({other:.0%})" for other in gains[1:])])
            goals.append([f"{name}, {rows:,} rows: gain of {GOAL:.0%}", beside, met(gains[0], least=GOAL)])
        after = (cell(each, f"accuracy.{n}|.3f±") for n in BUDGETS)
        learning = cell(each, "context_first|.0%"), cell(each, "fit_cpu_seconds|.0f"), cell(each, "session_step_ms|.1f")
        lines.append([f"{name}, {rows:,} rows" if rows else f"exact: {name}", *after, beside, *learning])
    titles = ["", *(f"after {n}" for n in BUDGETS)]
    titles += ["gain", "context first", "CPU seconds to learn", "ms a session's step"]
    shown = columns(
        "accuracy = accuracy|.3f±; log loss = log_loss|.3f±; querier = querier; CPU seconds = fit_cpu_seconds|.0f"
    )
    return {
        "goals": table_of(["goal", "found", ""], goals),
        "figures": table_of(titles, lines),
        "gate": grid(at_gate, columns("seeds = seed; after 3 questions = accuracy|.3f±"), "method"),
        "tables": grid(on_tables, shown, "table", "method"),
        "origins": origins(done, "pursuer", "rows", "table"),
    }


STUDY = Study(
    name="lookahead",
    runs=[
        *every(seed=[0], rows=[0], pursuer=("greedy", "two steps", "context first", "best")),
        *every(seed=(0, 1, 2), rows=(50_000, 10_000, 600), pursuer=METHODS),
        *every(seed=(0, 1, 2, 3, 4), rows=[0], table=[GATE], pursuer=("lookahead=1", "lookahead=5")),
        *every(seed=(0, 1, 2), rows=[0], table=TABLES, pursuer=ON_TABLES),
    ],
    measure=measure,
    page=page,
    quick={"n_test": 20, "n_steps": 3},
)
