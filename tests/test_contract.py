"""One contract for every pursuer and estimator: whatever the method, these things hold.

A method is registered in `pursuit.methods.METHODS` and in `QUICK` below; a file in `baselines/` that is not fails
the tests.
"""

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import Tensor

from pursuit import baselines
from pursuit.data.rows import Rows
from pursuit.estimators import PursuitClassifier
from pursuit.exact import IndependentIP, TableIP
from pursuit.inference.chain import explain
from pursuit.inference.history import History
from pursuit.inference.incremental import history_state
from pursuit.inference.pursuer import Pursuer, choose, wants_more
from pursuit.inference.stopping import Budget
from pursuit.methods import METHODS, GIPSettings, PartialVAESettings, load
from pursuit.methods.shared.langevin import Langevin
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet
from pursuit.training.schedule import Stage

NETWORKS = {"network": MLP((24,)), "stages": [Stage(40, batch_size=32)]}
QUICK: dict[str, dict[str, Any]] = {
    "vip": NETWORKS,
    "random": NETWORKS,
    "fixed": NETWORKS,
    "tree": {},
    "naive-bayes": {},
    "all-answers": NETWORKS,
    "g-ip": {
        "stages": [Stage(120, batch_size=32)],
        "settings": GIPSettings(latent=2, hidden=(16,), langevin=Langevin(n_chains=16)),
    },
    "ram": NETWORKS,
    "ram+": NETWORKS,
    "partial-vae": {**NETWORKS, "settings": PartialVAESettings(latent=4, width=24)},
    "gdfs": NETWORKS,
    "dime": NETWORKS,
    "refuel": NETWORKS,
}
"""Settings with which a method is quick enough for tests."""
UNSUITED = {("refuel", "patches")}
"""Methods that say of a world that it is not for them."""
RANDOM = {"random"}
"""Methods whose scores are drawn anew each time."""
SAMPLED = {"g-ip"}
"""Methods whose beliefs are estimated from samples, and differ a little with the way to a history."""
QUICKEST = {"tree", "naive-bayes"}
"""Methods that go through all of scikit-learn's checks every time; the others do in the slow tests."""


@dataclass(frozen=True)
class World:
    query_set: QuerySet | None
    X: Any
    y: np.ndarray
    initially_known: np.ndarray | None = None


def table() -> World:
    """Yes/no, words and numbers, a tenth of the answers missing; labels are words."""
    randomness = np.random.default_rng(0)
    n = 160
    y = randomness.choice(["allergy", "cold", "flu"], n, p=[0.2, 0.5, 0.3])
    fever = randomness.random(n) < np.select([y == "allergy", y == "cold"], [0.05, 0.3], 0.95)
    season = np.where(y == "allergy", "spring", randomness.choice(["summer", "winter", "autumn"], n))
    age = randomness.normal(np.where(y == "flu", 60, 30), 12)
    X = pd.DataFrame({"fever": fever, "season": season, "age": age, "smokes": randomness.random(n) < 0.3})
    X = X.astype({"fever": object, "smokes": object}).mask(randomness.random(X.shape) < 0.1)
    return World(None, X, y)


def opened() -> World:
    """Yes/no queries, of which one yes is given unasked, as patients report a symptom."""
    randomness = np.random.default_rng(1)
    yes = randomness.random((4, 8))
    y = randomness.integers(4, size=240)
    X = (randomness.random((240, 8)) < yes[y]).astype(int)
    initially_known = np.zeros((240, 8), dtype=bool)
    reports = X.any(axis=1)
    initially_known[reports, X[reports].argmax(axis=1)] = True
    return World(None, X, y, initially_known)


def patches() -> World:
    """Three pictures of 6x6 pixels, black and white, each pixel wrong in a tenth of the rows."""
    randomness = np.random.default_rng(2)
    pictures = randomness.random((3, 6, 6)) < 0.5
    y = randomness.integers(3, size=150)
    X = pictures[y] ^ (randomness.random((150, 6, 6)) < 0.1)
    return World(PatchQueries((1, 6, 6), size=2, stride=2, threshold=0.5), X.astype(np.float32), y)


WORLDS: dict[str, Callable[[], World]] = {"table": table, "opened": opened, "patches": patches}
CASES = [(method, world) for method in QUICK for world in WORLDS if (method, world) not in UNSUITED]


def estimator(method: str, world: str, **settings: Any) -> PursuitClassifier:
    chosen = METHODS[method]
    return chosen.estimator(
        WORLDS[world]().query_set, **{"random_state": 0, **QUICK[method], **chosen.settings, **settings}
    )


@cache
def fitted(method: str, world: str) -> PursuitClassifier:
    data = WORLDS[world]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return estimator(method, world).fit(data.X, data.y, initially_known=data.initially_known)


@cache
def rows_of(method: str, world: str) -> Rows:
    data = WORLDS[world]()
    return fitted(method, world).rows(data.X, data.y, initially_known=data.initially_known).take(slice(24))


def some_histories(rows: Rows, seed: int = 0) -> History:
    """Histories of all lengths; some queries were asked in vain, and the first row knows nothing but its initially_known."""
    generator = torch.Generator().manual_seed(seed)
    start = rows.start()
    share = torch.linspace(0, 0.9, len(rows))[:, None]
    asked = start.asked | (torch.rand(start.asked.shape, generator=generator) < share)
    return History(rows.x, asked & rows.available, asked)


def tolerance(method: str) -> float:
    return 0.25 if method in SAMPLED else 1e-4


def assert_close(method: str, one: Tensor, other: Tensor) -> None:
    """Probabilities and scores are compared where they are finite, and infinite in the same places."""
    assert torch.equal(one.isfinite(), other.isfinite())
    finite = one.isfinite()
    torch.testing.assert_close(
        one[finite].float(), other[finite].float(), atol=tolerance(method), rtol=tolerance(method)
    )


def test_every_file_of_baselines_is_registered() -> None:
    known = {method.estimator for method in METHODS.values()}
    for found in pkgutil.iter_modules(baselines.__path__):
        if found.ispkg:  # what several methods share
            continue
        module = importlib.import_module(f"pursuit.methods.{found.name}")
        own = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == module.__name__]
        estimators = {kind for kind in own if issubclass(kind, PursuitClassifier)}
        assert estimators, f"baselines/{found.name}.py has no estimator"
        assert estimators <= known, f"{estimators - known} of baselines/{found.name}.py are not in METHODS"
        assert {kind.kind for kind in estimators} <= set(own), f"baselines/{found.name}.py has no pursuer of its own"


def test_every_method_goes_through_the_contract() -> None:
    assert list(QUICK) == list(METHODS)
    assert all(method.name == name for name, method in METHODS.items())
    kinds = {method.estimator.kind: method.estimator for method in METHODS.values()}
    assert len({kind.__name__ for kind in kinds}) == len(kinds), "a saved model is known by the name of its class"


@pytest.mark.parametrize(("method", "world"), sorted(UNSUITED))
def test_what_does_not_suit_is_said(method: str, world: str) -> None:
    data = WORLDS[world]()
    with pytest.raises(ValueError, match=r"use|needs|only"):
        estimator(method, world).fit(data.X, data.y, initially_known=data.initially_known)


@pytest.mark.parametrize(("method", "world"), CASES)
def test_scores_and_beliefs_have_their_shapes(method: str, world: str) -> None:
    classifier, rows = fitted(method, world), rows_of(method, world)
    pursuer = classifier.model_
    assert isinstance(pursuer, Pursuer)
    assert isinstance(pursuer, METHODS[method].estimator.kind)
    history = some_histories(rows)
    with torch.no_grad():
        scores, log_posterior = pursuer.scores(history), pursuer.log_posterior(history)
    assert scores.shape == (len(rows), len(pursuer.query_set))
    assert log_posterior.shape == (len(rows), len(classifier.classes_))
    assert scores.is_floating_point()
    assert not scores.isnan().any()
    assert not (scores == torch.inf).any()
    torch.testing.assert_close(log_posterior.exp().sum(dim=1).float(), torch.ones(len(rows)))


@pytest.mark.parametrize(("method", "world"), CASES)
def test_what_nobody_asked_for_is_never_read(method: str, world: str) -> None:
    pursuer, rows = fitted(method, world).model_, rows_of(method, world)
    history = some_histories(rows)
    other = torch.where(read(pursuer.query_set, history.known), rows.x, 7.5 + torch.randn_like(rows.x))
    with torch.no_grad():
        for function in ("log_posterior", *([] if method in RANDOM else ["scores"])):
            first = getattr(pursuer, function)(history)
            assert torch.equal(first, getattr(pursuer, function)(replace(history, x=other))), function


def read(query_set: QuerySet, known: Tensor) -> Tensor:
    """Which numbers of x may be read."""
    if isinstance(query_set, PatchQueries):
        return query_set.pixels(known.float()) > 0
    assert isinstance(query_set, ColumnQueries)
    return known[:, query_set.unit_of_feature]


@pytest.mark.parametrize(("method", "world"), CASES)
def test_rows_do_not_depend_on_each_other(method: str, world: str) -> None:
    pursuer, rows = fitted(method, world).model_, rows_of(method, world)
    history = some_histories(rows)
    some = torch.tensor([17, 3, 11])
    with torch.no_grad():
        assert_close(
            method, pursuer.log_posterior(history)[some].exp(), pursuer.log_posterior(history.rows(some)).exp()
        )
        if method not in RANDOM | SAMPLED:
            assert_close(method, pursuer.scores(history)[some], pursuer.scores(history.rows(some)))


@pytest.mark.parametrize(("method", "world"), CASES)
def test_before_anything_is_known_labels_are_as_frequent_as_in_training(method: str, world: str) -> None:
    classifier, rows = fitted(method, world), rows_of(method, world)
    start = History.start(rows.x[:1], rows.n_queries)
    with torch.no_grad():
        belief = classifier.model_.log_posterior(start)[0].exp()
    _, counts = np.unique(WORLDS[world]().y, return_counts=True)
    torch.testing.assert_close(belief.float(), torch.from_numpy(counts / counts.sum()).float(), atol=0.1, rtol=0)


@pytest.mark.parametrize(("method", "world"), CASES)
def test_chains_ask_nothing_twice_and_nothing_given(method: str, world: str) -> None:
    classifier, data = fitted(method, world), WORLDS[world]()
    given = None if data.initially_known is None else data.initially_known[:8]
    for row, chain in enumerate(classifier.explain(data.X[:8], Budget(5), initially_known=given)):
        asked = [step.query for step in chain.steps]
        assert len(set(asked)) == len(asked) <= 5
        assert given is None or not given[row, asked].any()
        assert set(chain.to_dict()["posterior"]) == set(map(str, classifier.classes_))


@pytest.mark.parametrize(("method", "world"), CASES)
def test_a_follower_says_what_the_two_functions_say(method: str, world: str) -> None:
    pursuer, rows = fitted(method, world).model_, rows_of(method, world)
    history = rows.start()
    with torch.no_grad():
        state = history_state(pursuer, history)
        for turn in range(3):
            assert torch.equal(state.asked, history.asked)
            scores = state.scores()
            if method not in RANDOM | SAMPLED:
                assert_close(method, scores, pursuer.scores(history))
            asks = wants_more(scores, history.asked)
            kept = asks.nonzero()[:, 0]
            state.keep(kept)
            history, scores = history.rows(kept), scores[kept]
            if not len(history):
                return
            query = choose(scores, history.asked)
            answered = torch.arange(len(history)) % 4 != turn
            state.ask(query, answered)
            history = history.record(query, answered)
            assert_close(method, state.log_posterior().exp(), pursuer.log_posterior(history).exp())
        again = state.restart(rows.start())
        assert_close(method, again.log_posterior().exp(), pursuer.log_posterior(rows.start()).exp())


@pytest.mark.parametrize(("method", "world"), CASES)
def test_saved_and_loaded_it_asks_and_believes_the_same(method: str, world: str, tmp_path: Path) -> None:
    classifier, data = fitted(method, world), WORLDS[world]()
    classifier.save(tmp_path / "model")
    loaded = [load(tmp_path / "model") for _ in range(2)]
    assert all(type(other) is type(classifier) for other in loaded)
    given = None if data.initially_known is None else data.initially_known[:6]
    one, other = (again.explain(data.X[:6], Budget(4), initially_known=given).to_json() for again in loaded)
    assert one == other
    history = some_histories(rows_of(method, world))
    with torch.no_grad():
        assert torch.equal(loaded[0].model_.log_posterior(history), classifier.model_.log_posterior(history))
    loaded[0].save(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        tmp_path / "model" / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("method", QUICK)
def test_the_seed_decides_and_the_callers_randomness_is_left_alone(method: str) -> None:
    data, short = WORLDS["opened"](), {"stages": [Stage(2, batch_size=32)]} if "stages" in QUICK[method] else {}
    before = torch.get_rng_state()
    one, other = (
        estimator(method, "opened", **short).fit(data.X, data.y, initially_known=data.initially_known) for _ in range(2)
    )
    states = [classifier.model_.state_dict() for classifier in (one, other)]
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
    one.predict(data.X[:5])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("method", "world"), CASES)
def test_it_learns(method: str, world: str) -> None:
    """With every answer it is right far more often than the most frequent label."""
    classifier, data = fitted(method, world), WORLDS[world]()
    found = classifier.evaluate(data.X, data.y, initially_known=data.initially_known)
    _, counts = np.unique(data.y, return_counts=True)
    assert found.accuracy_all_answers > counts.max() / counts.sum() + 0.15
    assert found.stop is not None
    assert found.n_rows == len(data.y)


@pytest.mark.parametrize(("method", "world"), CASES)
def test_a_session_goes_to_its_end(method: str, world: str) -> None:
    classifier, data = fitted(method, world), WORLDS[world]()
    session = classifier.session(Budget(3))
    query_set = classifier.model_.query_set
    x = query_set.answers(data.X[:1]).x[0]
    while not session.done:
        question = session.ask()
        if isinstance(query_set, PatchQueries):
            session.tell(query_set._patch(question.query, (x + 1) / 2).flatten().tolist())
        else:
            session.tell(query_set.describe(question.query, x))
        assert session.prediction in classifier.classes_
    assert len(session.chain) <= 3
    session.undo()
    assert not session.done


@pytest.mark.parametrize("method", QUICK)
def test_the_estimator_keeps_scikit_learns_manners(method: str) -> None:
    data = WORLDS["opened"]()
    fresh = estimator(method, "opened", max_queries=4)
    with pytest.raises(NotFittedError):
        fresh.predict(data.X)
    copied = clone(fresh)
    assert repr(copied.get_params()) == repr(fresh.get_params())
    with pytest.raises(ValueError, match="only one class"):
        fresh.fit(data.X, np.zeros(len(data.X)))
    with pytest.raises(ValueError, match="at least 1"):
        estimator(method, "opened", max_queries=0).fit(data.X, data.y)
    with pytest.raises(ValueError, match="stop"):
        estimator(method, "opened", stop="whenever").fit(data.X, data.y)


@pytest.mark.parametrize("method", QUICK)
def test_no_more_than_max_queries_are_asked(method: str) -> None:
    data = WORLDS["opened"]()
    short = {"stages": [Stage(2, batch_size=32)]} if "stages" in QUICK[method] else {}
    classifier = estimator(method, "opened", max_queries=2, **short).fit(data.X, data.y)
    assert max(len(chain) for chain in classifier.explain(data.X[:20])) <= 2
    assert classifier.predict_proba(data.X[:3]).shape == (3, 4)


def _checked(names: set[str]) -> list[PursuitClassifier]:
    return [METHODS[name].estimator(**{**QUICK[name], **METHODS[name].settings}) for name in sorted(names)]


@parametrize_with_checks(_checked(QUICKEST & set(QUICK)))
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(_checked(set(QUICK) - QUICKEST - {"vip"}))
def test_scikit_learns_checks_of_the_others(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("kind", ["independent", "table"])
def test_exact_pursuers_keep_it_too(world: Any, kind: str) -> None:
    pursuer: IndependentIP | TableIP = world.pursuer
    if kind == "table":
        history = History(world.rows.x, world.rows.available, world.rows.available)
        weights = pursuer.evidence(history).exp()
        pursuer = TableIP(world.query_set, pursuer.classes, world.rows.x, weights)
    history = some_histories(world.rows)
    other = torch.where(history.known[:, world.query_set.unit_of_feature], world.rows.x, torch.tensor(0.5))
    for function in (pursuer.scores, pursuer.log_posterior):
        assert torch.equal(function(history), function(replace(history, x=other)))
        torch.testing.assert_close(function(history)[3:5], function(history.rows(torch.tensor([3, 4]))))
    chains = explain(pursuer, world.rows.x, world.rows.available)
    assert all(sorted(step.query for step in chain.steps) == [0, 1, 2, 3] for chain in chains)
