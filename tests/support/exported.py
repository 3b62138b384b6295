"""What tests of exported pages share: models to export, people who answer, and node, which runs a page's JavaScript."""

import base64
import json
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from ordered import ORDER, clinic
from pursuit import (
    MLP,
    Budget,
    ColumnQueries,
    ConformalSet,
    History,
    RiskControlled,
    Stage,
    VIPClassifier,
    VIPRegressor,
)
from pursuit.inference.stopping import unkept
from pursuit.queries import Choice, Date, Number, QuerySet
from pursuit.queries.column import NOT_GIVEN_TEXT
from pursuit.queries.order import Group, Order
from pursuit.web.bundle import bundle
from pursuit.web.exporting.description import EXACT, Packed

NODE = shutil.which("node")
SCRIPTS = Path(__file__).parents[1] / "web" / "exporting"
BRIEFLY = (Stage(2, batch_size=64),)
Test = TypeVar("Test", bound=Callable[..., None])
HOSTILE = "</script><b>& {{MODEL}} \u2028"
"""A text that would end a script, or be taken for a place to fill."""


def needs_node(test: Test) -> Test:
    """Mark a test that runs the page's JavaScript."""
    skip = pytest.mark.skipif(NODE is None, reason="node is not installed, so the page's JavaScript cannot be run.")
    return pytest.mark.programs(skip(test))


def node(script: str, **data: Any) -> Any:
    """What one of the scripts beside the tests makes of these data."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, SCRIPTS / script], input=json.dumps(data), capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def part(page: Path, name: str) -> bytes:
    """What the element of the page with this id holds."""
    found = re.search(rf'<script [^>]*id="{name}">(.*?)</script>', page.read_text(encoding="utf-8"), flags=re.S)
    assert found is not None
    return decompressed(found[1])


def decompressed(text: str) -> bytes:
    """The bytes that `compressed` made a text of."""
    return zlib.decompress(base64.b64decode(text))


def split(data: bytes, shapes: Sequence[Mapping[str, int]]) -> list[Packed]:
    """The tensors in these bytes, by what `to_dict` says of each."""
    tensors = []
    for shape in shapes:
        n_rows, n_columns, bits = shape["rows"], shape["columns"], shape["bits"]
        n_bytes = n_rows * n_columns * -(-bits // 8) + (0 if bits == EXACT else 4 * n_rows)
        tensors.append(Packed((n_rows, n_columns), bits, data[:n_bytes]))
        data = data[n_bytes:]
    return tensors


def unpack(packed: Packed) -> np.ndarray:
    """The matrix that `pack` made bytes of, as near as its bits allow."""
    n_rows = packed.shape[0]
    if packed.bits == EXACT:
        return np.frombuffer(packed.data, "<f4").reshape(packed.shape)
    scale, data = packed.data[: 4 * n_rows], packed.data[4 * n_rows :]
    as_bytes = np.frombuffer(data, np.uint8).reshape(-(-packed.bits // 8), -1).astype(np.int64)
    whole = (as_bytes << (8 * np.arange(len(as_bytes)))[:, None]).sum(axis=0) - (2 ** (packed.bits - 1) - 1)
    return (whole.reshape(packed.shape) * np.frombuffer(scale, "<f4")[:, None]).astype(np.float32)


def described(page: Path) -> dict[str, Any]:
    return json.loads(part(page, "page"))["model"]


def computed(page: Path, **data: Any) -> Any:
    """What the scripts of the page compute of these data, as `histories.js` says."""
    names = "BrowserEngine, beliefAfter, bitsAt, expected, interval, withWeights, SessionLog"
    program = f"return {bundle('exporting/engine.js').removesuffix('})();')}return {{{names}}};}})();"
    weights = base64.b64encode(part(page, "weights")).decode()
    return node("histories.js", program=program, model=described(page), weights=weights, **data)


def stirred(estimator: Any, seed: int = 0) -> Any:
    """The estimator with noise on all weights and a temperature, so that every part of the model matters."""
    generator, model = torch.Generator().manual_seed(seed), estimator.model_
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=generator)
    model.set_temperature(1.3)
    return estimator


def ordered_model(**options: Any) -> VIPClassifier:
    """Numbers, choices, yes/no and an order, by information, with a direct path and standardised answers."""
    X, y = clinic()
    query_set = ColumnQueries.from_data(X)
    query_set.set_order(ORDER)
    options = {
        "network": MLP((24, 16), direct=True),
        "standardise": True,
        "teachers": None,
        "stop": "confidence=0.97,budget=6",
        **options,
    }
    return stirred(VIPClassifier(query_set, stages=BRIEFLY, random_state=0, **options).fit(X, y))


def promising_model() -> VIPClassifier:
    """The same with promises, as if they had been chosen on held-out rows: some answers end in a decision, others do
    not."""
    model = ordered_model()
    kept = RiskControlled(0.1, levels=(0.9, 0.9, 0.8)) | ConformalSet(0.1, least=(0.2,)) | Budget(6)
    model.stop, model.guaranteed_ = unkept(kept), kept
    return model


def straight_through_model(**options: Any) -> VIPClassifier:
    """The paper's querier on a shared trunk, whose table lacks answers; labels would break a careless page."""
    X, y = clinic(missing=0.2)
    y = np.where(y == "flu", HOSTILE, y)
    options = {
        "network": MLP((24,), dropout=0.1),
        "querier": "straight-through",
        "shared": True,
        "teachers": None,
        **options,
    }
    return stirred(VIPClassifier(stages=BRIEFLY, stop="stability=0.05x2", random_state=0, **options).fit(X, y))


def deciding_model(order: Order | None = None) -> VIPClassifier:
    """Two answers that tell nothing but together tell all, beside a hint. The paper's querier asks for the two."""
    X, y = halves()
    query_set = ColumnQueries.from_data(X)
    query_set.set_order(order)
    options: dict[str, Any] = {"network": MLP((16,)), "stages": BRIEFLY, "teachers": None, "stop": "confidence=0.9"}
    fitted = VIPClassifier(query_set, querier="straight-through", random_state=0, **options).fit(X, y)
    model, rows = fitted.model_, fitted.rows(X, y)
    with torch.no_grad():
        model.querier[-1].weight.zero_()
        model.querier[-1].bias.copy_(torch.tensor([2.0, 1.0, 0.0]))
    known = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 1, 0]])[torch.arange(len(rows)) % 3].float()
    optimizer = torch.optim.Adam(model.classifier.parameters(), 0.05)
    with torch.enable_grad():
        for _ in range(200):
            optimizer.zero_grad()
            F.cross_entropy(model.classifier(model.network_input(rows.x, known)), rows.y).backward()
            optimizer.step()
    return fitted


def halves(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    randomness = np.random.default_rng(seed)
    one, other = randomness.integers(0, 2, (2, n))
    hint = one ^ other ^ (randomness.random(n) < 0.25)
    return pd.DataFrame({"one": one, "other": other, "hint": hint}), np.where(one == other, "same", "different")


def not_given_model() -> VIPClassifier:
    """Where it is an answer that a value is missing, with costs, a date, and no hidden layers."""
    X, y = clinic(missing=0.2)
    X["since"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(X)) % 90, unit="D")
    query_set = ColumnQueries.from_data(X, missing_informs=True, costs={"scan": 8.0, "fever": 0.0})
    model = VIPClassifier(query_set, network=MLP(()), stages=BRIEFLY, stop="cost=9,bits=0.001", random_state=0)
    return stirred(model.fit(X, y))


def number_model() -> VIPRegressor:
    """A number to predict."""
    X, _ = clinic()
    return stirred(
        VIPRegressor(network=MLP((16,)), stages=BRIEFLY, teachers=None, stop="width=9,budget=4", random_state=0).fit(
            X.drop(columns="pulse"), X["pulse"]
        )
    )


MODELS = {
    "ordered": ordered_model,
    "promising": promising_model,
    "straight-through": straight_through_model,
    "not given": not_given_model,
    "number": number_model,
    "deciding": deciding_model,
    "deciding group": lambda: deciding_model(Order(groups=(Group("both", ("one", "other")),))),
    "whole group": lambda: deciding_model(Order(groups=(Group("rest", ("other", "hint")),))),
}


@cache
def model_of(name: str) -> Any:
    """One of these models, which all tests share."""
    with torch.enable_grad():  # which a test may have switched off
        return MODELS[name]()


def random_answer(query: Any, randomness: np.random.Generator) -> tuple[Any, Any]:
    """An answer as Python is told it and as the page has it."""
    if isinstance(query, Number) and not query.choices:
        if query.may_be_missing and randomness.random() < 0.2:
            return NOT_GIVEN_TEXT, {"choice": 0}
        low, high = query.seen or (-1.0, 1.0)
        number = float(randomness.uniform(low - 0.2 * (high - low), high + 0.2 * (high - low)))
        if isinstance(query, Date):
            number = float(round(number))
            return query.written(number), {"number": number}
        return number, {"number": number}
    assert isinstance(query, Choice)
    place = int(randomness.integers(len(query.offered)))
    return query.offered[place], {"choice": place}


def random_history(query_set: QuerySet, randomness: np.random.Generator) -> tuple[History, list[dict[str, Any]]]:
    """A history of one row, and the same as entries of a page."""
    x = query_set.blank()
    known, asked = torch.zeros(2, 1, len(query_set), dtype=torch.bool)
    entries = []
    for query in randomness.permutation(len(query_set))[: randomness.integers(len(query_set) + 1)].tolist():
        told, entry = random_answer(query_set.queries[query], randomness)
        asked[0, query] = True
        if randomness.random() < 0.15:
            entry = None
        else:
            query_set.tell(x[0], query, told)
            known[0, query] = True
        entries.append({"query": query, "answer": entry})
    return History(x, known, asked), entries


def histories(query_set: QuerySet, n: int, seed: int = 0) -> tuple[History, list[list[dict[str, Any]]]]:
    randomness = np.random.default_rng(seed)
    single, entries = zip(*(random_history(query_set, randomness) for _ in range(n)), strict=True)
    stacked = [torch.cat([getattr(one, name) for one in single]) for name in ("x", "known", "asked")]
    return History(*stacked), list(entries)
