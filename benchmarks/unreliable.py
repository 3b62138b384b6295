"""People who do not know, and people who err. Tables, and tasks by their recipes, are learnt twice, from answers as
they are and with some of them withheld and wrong, and measured on test rows whose answers are withheld and wrong at
several rates. Then: how often honest rows are found unusual, and how often rows are that nobody would give."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks.calibration import stopped, summary, trained
from benchmarks.report import Record, cell, columns, grid, grouped, origins, table
from benchmarks.study import Study
from pursuit import Rows, Unreliable, VIPClassifier
from pursuit.estimators.selection import _oddness
from pursuit.inference.predictions import predict_rows
from pursuit.inference.stopping import Never
from pursuit.inference.unusual import alarm_limits
from pursuit.training.calibration import group_of
from pursuit.training.rows import answer_features

MET = Unreliable()
"""What wary training meets: the default, set before anything was measured."""
RATES = [
    (0.0, 0.0),
    *((0.0, wrong) for wrong in (0.02, 0.05, 0.1)),
    *((w, 0.0) for w in (0.05, 0.1, 0.2)),
    (0.05, 0.02),
]
"""How many answers are withheld, and how many are wrong."""
LEAST_ROWS, PIXELS = 2000, "digits, 64 pixels"
"""Test rows that are fewer are asked several times. The answers to patches cannot be foreseen, but those to pixels."""
WHEN = ("at the stop", "all asked")


def as_people_answer(rows: Rows, model: VIPClassifier, rate: Unreliable, seed: int) -> tuple[Rows, float]:
    """Test rows in random order, each several times if they are few, with answers of that rate; and the share of the
    answers given that differ from the row's own. The same seed makes a higher rate spoil more of the same answers."""
    generator, times = torch.Generator().manual_seed(seed), -(-LEAST_ROWS // len(rows))
    # In random order: the wrong answer to what is not yes or no is that of the row before.
    rows = rows.take(torch.randperm(len(rows) * times, generator=generator) % len(rows))
    features = answer_features(model.model_.query_set, rows.x.device)
    changed = rate(rows, features, generator)
    n_differing = torch.zeros(rows.available.shape).index_add(1, features[0], (changed.x != rows.x).float())  # (N, Q)
    return changed, float(((n_differing > 0) & changed.available).sum() / changed.available.sum())


def at_rate(of_seeds: Sequence[tuple[np.ndarray, float]]) -> Record:
    """Where the rows of all seeds stop, and how many of their answers differ."""
    return {
        "answers_that_differ": float(np.mean([wrong for _, wrong in of_seeds])),
        **summary(np.concatenate([stops for stops, _ in of_seeds])),
        "accuracy_of_seeds": [float(stops[:, 2].mean()) for stops, _ in of_seeds],
    }


def alarms(model: VIPClassifier, rows: Rows) -> Record:
    """How many rows raise the alarm, where the model stops and once everything was asked, and the queries asked of all
    of them together."""
    found: Record = {"rows": len(rows)}
    for when, rule in zip(WHEN, (model.stopping_rule(), Never()), strict=True):
        predicted = predict_rows(model.model_, rows.x, rows.available, rule, rows.initially_known)
        n = 0 if predicted.unusual is None else int(predicted.unusual.sum())
        found[when] = [n, int((predicted.query >= 0).sum())]
    return found


N_SPLITS, N_LIMITS = 200, 256
"""How often limits are drawn from other rows, and from how many."""


def alarms_by_other_limits(model: VIPClassifier, rows: Rows, seed: int) -> list[float]:
    """The share of test rows with an alarm once everything was asked, where limits come from some of them and others
    are judged: in so many splits, to tell chance in the held-out rows of one training from a wrong method."""
    odd, n_known = (part.cpu() for part in _oddness(model.model_, rows, None))
    groups, generator = group_of(rows.n_queries), torch.Generator().manual_seed(seed)
    shares = []
    for _ in range(N_SPLITS):
        order = torch.randperm(len(rows), generator=generator)
        some, others = order[:N_LIMITS], order[N_LIMITS:]
        limits = alarm_limits(odd[some], n_known[some], groups)
        is_beyond = (odd[others] > limits[n_known[others]]) & (n_known[others] > 0)
        shares.append(float(is_beyond.any(dim=1).float().mean()))
    return shares


def odd_rows(model: VIPClassifier, rows: Rows, seed: int) -> dict[str, Rows]:
    """Honest rows; with every column in an order of its own, so that each answer is usual, but not beside the others;
    and with answers that a column has, all of them as likely."""
    units, generator = model.model_.query_set.units.of_feature, torch.Generator().manual_seed(seed)
    x, available, random = rows.x.clone(), rows.available.clone(), rows.x.clone()
    for query in range(rows.n_queries):
        order, own, has = torch.randperm(len(rows), generator=generator), units == query, rows.available[:, query]
        x[:, own], available[:, query] = rows.x[order][:, own], rows.available[order, query]
        if has.any():
            answers = rows.x[has][:, own].unique(dim=0)
            random[:, own] = answers[torch.randint(len(answers), (len(rows),), generator=generator)]
    shuffled = replace(rows, x=x, available=available)
    return {"honest": rows, "columns shuffled": shuffled, "answers at random": replace(rows, x=random)}


def pixels(seed: int) -> tuple[VIPClassifier, Rows, Rows]:
    """A model of the pixels of digits, test rows, and the same images with black for white."""
    X, y = load_digits(return_X_y=True, as_frame=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    model = VIPClassifier(random_state=seed).fit(X, y)
    return model, model.rows(X_test, y_test), model.rows(16 - X_test, y_test)


def measure(kind: str, part: str, seeds: Sequence[int] = (0, 1)) -> Record:
    """Rates of a kind of training, over the test rows of all seeds; or alarms."""
    return all_alarms(part, seeds) if kind == "alarms" else all_rates(part, seeds, is_wary=kind == "wary")


def all_rates(part: str, seeds: Sequence[int], is_wary: bool) -> Record:
    of_seeds, n_rows = [], 0
    for seed in seeds:
        model, _, rows = trained(part, seed, **({"unreliable": MET} if is_wary else {}))
        changed = (as_people_answer(rows, model, Unreliable(*rate), seed) for rate in RATES)
        of_seeds.append([(stopped(model, one), wrong) for one, wrong in changed])
        n_rows += len(rows)
    by_rate = zip(RATES, zip(*of_seeds, strict=True), strict=True)
    return {"rows": n_rows, "rates": [{"withheld": w, "wrong": r, **at_rate(each)} for (w, r), each in by_rate]}


def all_alarms(part: str, seeds: Sequence[int]) -> Record:
    of_seeds, splits = [], []
    for seed in seeds:
        model, rows, other = pixels(seed) if part == PIXELS else (*trained(part, seed)[::2], None)
        kinds = odd_rows(model, rows, seed) | ({} if other is None else {"inverted": other})
        of_seeds.append({name: alarms(model, one) for name, one in kinds.items()})
        if len(rows) >= 2 * N_LIMITS and model.model_.answer_model is not None:
            splits += alarms_by_other_limits(model, rows, seed)
    above = [share > 0.01 for share in splits]
    resampled = {"mean": float(np.mean(splits)), "above": float(np.mean(above))} if splits else None
    return {"resampled": resampled} | {
        name: {key: np.sum([one[name][key] for one in of_seeds], axis=0).tolist() for key in ("rows", *WHEN)}
        for name in of_seeds[0]
    }


# ---- what the page says

ODD = ("honest", "columns shuffled", "answers at random", "inverted")
SHOWN = {"accuracy": ".3f", "asked": ".2f", "calibration_error": ".3f"}


def rates_table(by_kind: dict[str, list[Record]]) -> str:
    """Means over parts, by rate and kind."""
    rows = [
        [
            f"{w:.0%}",
            f"{r:.0%}",
            *(cell(by_kind[kind], f"rates.{i}.{key}|{form}") for key, form in SHOWN.items() for kind in by_kind),
        ]
        for i, (w, r) in enumerate(RATES)
    ]
    titles = [f"{key.replace('calibration_error', 'ECE')}, {kind}" for key in SHOWN for kind in by_kind]
    return table(["withheld", "wrong", *titles], rows)


def page(records: list[Record]) -> dict[str, str]:
    learnt, odd = ([one for one in records if (one["kind"] == "alarms") == is_odd] for is_odd in (False, True))
    single = []
    for name, each in grouped(learnt, "part").items():
        said = f"{each[0]['rows']:,} test rows, seeds {', '.join(map(str, each[0]['seeds']))}; where 10% are wrong, "
        said += f"{cell(each[:1], 'rates.3.answers_that_differ|.1%')} differ."
        single.append(f"### {name}\n\n{said}\n\n{rates_table(grouped(each, 'kind'))}")
    alarmed = [
        {**one, "asked": one["honest"][WHEN[0]][1] / one["honest"]["rows"]}
        | {f"{kind}, {when}": one[kind][when][0] / one[kind]["rows"] for kind in ODD if kind in one for when in WHEN}
        for one in odd
    ]
    shares = {title: f"{title}|.2%" for title in (f"{kind}, {when}" for kind in ODD for when in WHEN)}
    drawn = columns(
        "honest, all asked, other limits = resampled.mean|.2%; of these splits above 1% = resampled.above|.1%"
    )
    shown = {**columns("test rows = honest.rows|,; asked = asked|.1f"), **shares, **drawn, "commit": "where.commit"}
    return {
        "rates": rates_table(grouped(learnt, "kind")),
        "parts": "\n".join(single),
        "alarms": grid(grouped(alarmed, "part"), shown, ""),
        "origins": origins(records, "kind", "part"),
    }


PARTS = {"nursery": [0], "credit": [0, 1], "kr-vs-kp": [0], "heart": [0, 1]}
STUDY = Study(
    name="unreliable",
    runs=[
        *(
            {"kind": kind, "part": part, "seeds": seeds}
            for part, seeds in PARTS.items()
            for kind in ("plain", "wary", "alarms")
        ),
        {"kind": "alarms", "part": PIXELS, "seeds": [0]},
    ],
    measure=measure,
    page=page,
    quick={"seeds": [0]},
)
