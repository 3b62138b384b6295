"""One contract for every pursuer and estimator: whatever the method, these things hold.

A method is trained once for each world of `contract_table.py`, and kept in the cache of `trained.py`.
"""

import copy
import importlib
import inspect
import json
import pkgutil
import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import Tensor

import pursuit
from contract_table import (
    CHECKED,
    EQUIVALENT_WEIGHTS,
    OF_WHAT_IS_LEARNT,
    OTHER_PARAMETERS,
    OTHER_SETTINGS,
    QUICK,
    RANDOM,
    SAMPLED,
    TINY,
    UNSUITED,
    WORLDS,
    make_estimator,
)
from pursuit import methods
from pursuit.estimators import PursuitClassifier, PursuitEstimator
from pursuit.estimators.network import LearnerEstimator
from pursuit.exact import IndependentIP, TableIP
from pursuit.inference.chain import explain
from pursuit.inference.history import History
from pursuit.inference.incremental import history_state
from pursuit.inference.pursuer import Pursuer, choose, wants_more
from pursuit.inference.stopping import Budget
from pursuit.methods import METHODS, TreeClassifier, VIPClassifier
from pursuit.queries import QuerySet
from pursuit.registry import find, to_config
from pursuit.training import Stage
from pursuit.training.rows import Rows
from trained import kept

EVERY_METHOD = pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.slow if name in SAMPLED else ()) for name in QUICK]
)
EVERYWHERE = ("vip", "vip-information", "vip-straight-through", "tree", "naive-bayes")
"""In every world each time. Rivals read rows by the same code, and meet the other worlds in the slow tests."""


def is_quick(method: str, world: str) -> bool:
    return method not in SAMPLED and (world == "reports" or method in EVERYWHERE)


EVERY_CASE = pytest.mark.parametrize(
    ("method", "world"),
    [
        pytest.param(name, world, marks=() if is_quick(name, world) else pytest.mark.slow)
        for name in QUICK
        for world in WORLDS
        if (name, world) not in UNSUITED
    ],
)


@cache
def fitted(method: str, world: str) -> PursuitClassifier:
    def train() -> PursuitClassifier:
        data = WORLDS[world]()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return make_estimator(method, world).fit(data.X, data.y, initially_known=data.initially_known)

    return kept(f"{method} of {world}", train)


@cache
def rows_of(method: str, world: str) -> Rows:
    data = WORLDS[world]()
    return fitted(method, world).rows(data.X, data.y, initially_known=data.initially_known).take(slice(24))


def some_histories(rows: Rows, seed: int = 0) -> History:
    """Histories of all lengths. Some queries were asked in vain; the first row knows only what it knew initially."""
    generator = torch.Generator().manual_seed(seed)
    start = rows.start()
    share = torch.linspace(0, 0.9, len(rows))[:, None]
    asked = start.asked | (torch.rand(start.asked.shape, generator=generator) < share)
    return History(rows.x, asked & rows.available, asked)


def assert_close(method: str, one: Tensor, other: Tensor) -> None:
    """Probabilities and scores are compared where they are finite, and infinite in the same places."""
    assert torch.equal(one.isfinite(), other.isfinite())
    finite, tolerance = one.isfinite(), 0.25 if method in SAMPLED else 1e-4
    torch.testing.assert_close(one[finite].float(), other[finite].float(), atol=tolerance, rtol=tolerance)


# The table is complete


def ours() -> dict[str, Any]:
    """The methods of this package; other tests may have registered some of their own."""
    return {name: method for name, method in METHODS.items() if method.estimator.__module__.startswith("pursuit.")}


def test_every_method_is_in_the_table_of_quick_parameters() -> None:
    """Those that predict a number keep the contract in `methods/test_vip_regressor.py`."""
    assert {*QUICK, "vip-regressor"} == set(ours())
    assert [name for name, method in ours().items() if method.predicts_numbers] == ["vip-regressor"]
    assert all(method.name == name for name, method in ours().items())
    assert len({method.title for method in ours().values()}) == len(ours())


def test_every_file_of_methods_is_a_method() -> None:
    estimators = {method.estimator for method in ours().values()}
    for found in pkgutil.iter_modules(methods.__path__):
        if found.ispkg:  # what several methods share
            continue
        module = importlib.import_module(f"pursuit.methods.{found.name}")
        classes = {cls for _, cls in inspect.getmembers(module, inspect.isclass) if cls.__module__ == module.__name__}
        there = {cls for cls in classes if issubclass(cls, PursuitEstimator) and not inspect.isabstract(cls)}
        assert there, f"methods/{found.name}.py has no estimator"
        assert there <= estimators, f"{there - estimators} of methods/{found.name}.py is not registered by @method"
        assert all(getattr(methods, cls.__name__) is cls for cls in there)


@pytest.mark.parametrize(("method", "world"), sorted(UNSUITED))
def test_what_does_not_suit_a_method_is_refused(method: str, world: str) -> None:
    data = WORLDS[world]()
    with pytest.raises(ValueError, match=r"use|needs|only"):
        make_estimator(method, world).fit(data.X, data.y, initially_known=data.initially_known)


# Pursuers


@EVERY_CASE
def test_scores_and_posteriors_have_their_shapes(method: str, world: str) -> None:
    classifier, rows = fitted(method, world), rows_of(method, world)
    pursuer = classifier.model_
    assert isinstance(pursuer, Pursuer)
    assert find("pursuer", type(pursuer).__name__) is type(pursuer)
    history = some_histories(rows)
    with torch.no_grad():
        scores, log_posterior = pursuer.scores(history), pursuer.log_posterior(history)
    assert scores.shape == (len(rows), len(pursuer.query_set))
    assert log_posterior.shape == (len(rows), len(classifier.classes_))
    assert scores.is_floating_point()
    assert not scores.isnan().any()
    assert not (scores == torch.inf).any()
    torch.testing.assert_close(log_posterior.exp().sum(dim=1).float(), torch.ones(len(rows)))


@EVERY_CASE
def test_answers_that_were_not_asked_for_are_never_read(method: str, world: str) -> None:
    pursuer, rows = fitted(method, world).model_, rows_of(method, world)
    history = some_histories(rows)
    other = torch.where(readable(pursuer.query_set, history.known), rows.x, 7.5 + torch.randn_like(rows.x))
    with torch.no_grad():
        for function in ("log_posterior", *([] if method in RANDOM else ["scores"])):
            first = getattr(pursuer, function)(history)
            assert torch.equal(first, getattr(pursuer, function)(replace(history, x=other))), function


def readable(query_set: QuerySet, known: Tensor) -> Tensor:
    """Which numbers of x may be read: (B, *answer_shape) bool."""
    return query_set.units.known(known)[:, query_set.units.of_feature].view(len(known), *query_set.answer_shape)


@EVERY_CASE
def test_rows_do_not_depend_on_each_other(method: str, world: str) -> None:
    pursuer, rows = fitted(method, world).model_, rows_of(method, world)
    history = some_histories(rows)
    some = torch.tensor([17, 3, 11])
    with torch.no_grad():
        together, alone = pursuer.log_posterior(history)[some], pursuer.log_posterior(history.rows(some))
        assert_close(method, together.exp(), alone.exp())
        if method not in RANDOM | SAMPLED:
            assert_close(method, pursuer.scores(history)[some], pursuer.scores(history.rows(some)))


@EVERY_CASE
def test_before_anything_is_known_labels_are_as_frequent_as_in_training(method: str, world: str) -> None:
    classifier, rows = fitted(method, world), rows_of(method, world)
    start = History.start(rows.x[:1], rows.n_queries)
    with torch.no_grad():
        posterior = classifier.model_.log_posterior(start)[0].exp()
    _, counts = np.unique(WORLDS[world]().y, return_counts=True)
    torch.testing.assert_close(posterior.float(), torch.from_numpy(counts / counts.sum()).float(), atol=0.1, rtol=0)


@EVERY_CASE
def test_chains_ask_nothing_twice_and_nothing_that_is_known(method: str, world: str) -> None:
    classifier, data = fitted(method, world), WORLDS[world]()
    known = None if data.initially_known is None else data.initially_known[:8]
    for row, chain in enumerate(classifier.explain(data.X[:8], Budget(5), initially_known=known)):
        asked = [step.query for step in chain.steps]
        assert len(set(asked)) == len(asked) <= 5
        assert known is None or not known[row, asked].any()
        assert set(chain.to_dict()["posterior"]) == set(map(str, classifier.classes_))


@EVERY_CASE
def test_a_state_gives_what_the_two_functions_give(method: str, world: str) -> None:
    pursuer, rows = fitted(method, world).model_, rows_of(method, world)
    history = rows.start()
    with torch.no_grad():
        state = history_state(pursuer, history)
        for step in range(3):
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
            answered = torch.arange(len(history)) % 4 != step
            state.ask(query, answered)
            history = history.record(query, answered)
            assert_close(method, state.log_posterior().exp(), pursuer.log_posterior(history).exp())
        again = state.restart(rows.start())
        assert_close(method, again.log_posterior().exp(), pursuer.log_posterior(rows.start()).exp())


# Estimators


@EVERY_CASE
def test_it_learns(method: str, world: str) -> None:
    """With every answer it is right far more often than the most frequent label."""
    classifier, data = fitted(method, world), WORLDS[world]()
    found = classifier.evaluate(data.X, data.y, initially_known=data.initially_known)
    _, counts = np.unique(data.y, return_counts=True)
    assert found.accuracy_all_answers > counts.max() / counts.sum() + 0.15
    assert found.at_stop is not None
    assert found.n_rows == len(data.y)


@EVERY_METHOD
def test_a_score_counts_what_is_initially_known_as_predictions_do(method: str) -> None:
    """Where all answers are given, it is the accuracy with all answers, whatever is asked."""
    classifier, data = fitted(method, "reports"), WORLDS["reports"]()
    X, y, everything = data.X[:60], data.y[:60], np.ones((60, 8), dtype=bool)
    rows = classifier.rows(X, y, initially_known=everything)
    with torch.no_grad():
        best = classifier.model_.log_posterior(History(rows.x, rows.available, rows.available)).argmax(dim=1)
    wanted = float((best == rows.y).float().mean())
    score = classifier.score(X, y, initially_known=everything)
    assert score == pytest.approx(wanted, abs=0.1 if method in SAMPLED else 1e-6)


@EVERY_CASE
def test_a_session_goes_to_its_end(method: str, world: str) -> None:
    classifier, data = fitted(method, world), WORLDS[world]()
    session = classifier.session(Budget(3))
    query_set = classifier.model_.query_set
    x = query_set.answers(data.X[:1]).x[0]
    while not session.done:
        query, why = session.ask().query, session.why()
        assert query_set.queries[query].name == why.question.name
        assert why.question.text in str(why)
        json.dumps(why.to_dict(), allow_nan=False)
        session.tell(query_set.describe(query, x) if query_set.patches is None else pixels(query_set, query, x))
        assert session.prediction in classifier.classes_
    assert len(session.chain) <= 3
    session.undo()
    assert not session.done


def pixels(query_set: QuerySet, query: int, x: Tensor) -> list[float]:
    """The pixels of a patch, from 0 to 1."""
    grid = query_set.patches
    assert grid is not None
    (row, column), size = grid.corner(query), grid.size
    return ((x[:, row : row + size, column : column + size] + 1) / 2).flatten().tolist()


@EVERY_CASE
def test_saved_and_loaded_it_asks_and_believes_the_same(method: str, world: str, tmp_path: Path) -> None:
    classifier, data = fitted(method, world), WORLDS[world]()
    classifier.save(tmp_path / "model")
    loaded = [pursuit.load(tmp_path / "model") for _ in range(2)]
    assert all(type(other) is type(classifier) for other in loaded)
    known = None if data.initially_known is None else data.initially_known[:6]
    one, other = (again.explain(data.X[:6], Budget(4), initially_known=known).to_json() for again in loaded)
    assert one == other
    history = some_histories(rows_of(method, world))
    with torch.no_grad():
        assert torch.equal(loaded[0].model_.log_posterior(history), classifier.model_.log_posterior(history))
    assert_parameters_equal(loaded[0], classifier)
    assert_learned_attributes_equal(loaded[0], classifier)
    loaded[0].save(tmp_path / "again")
    for name in ("model.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


def assert_learned_attributes_equal(one: PursuitClassifier, other: PursuitClassifier) -> None:
    """All of them exist after `fit` as after `load`."""
    learned = {name for name in vars(other) if name.endswith("_")} - {"plan_"}  # of which `chosen_` is kept
    assert {"classes_", "model_", "n_features_in_", "has_initially_known_", "notes_"} <= learned
    assert {name for name in vars(one) if name.endswith("_")} - {"plan_"} == learned
    for name in learned - {"model_"}:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def assert_parameters_equal(one: PursuitClassifier, other: PursuitClassifier) -> None:
    """Query sets are compared by their config, all else as it is."""
    a, b = ({**each.get_params(), "query_set": to_config(each.query_set)} for each in (one, other))
    assert a == b


@EVERY_METHOD
def test_a_loaded_estimator_has_the_parameters_of_the_saved_one(method: str, tmp_path: Path) -> None:
    """Each of them is another than the default, and each of the settings of the method too."""
    classifier = copy.copy(fitted(method, "reports"))
    defaults = METHODS[method].estimator().get_params()
    others = {**OTHER_PARAMETERS, "settings": OTHER_SETTINGS.get(method)}
    classifier.set_params(**{name: others[name] for name in defaults})
    assert all(value != defaults[name] for name, value in classifier.get_params().items())
    if "settings" in defaults:
        standard = METHODS[method].estimator.Settings()  # type: ignore[attr-defined]
        same = [f.name for f in fields(standard) if getattr(standard, f.name) == getattr(others["settings"], f.name)]
        assert not same
    classifier.save(tmp_path)
    loaded = pursuit.load(tmp_path)
    assert_parameters_equal(loaded, classifier)
    assert repr(clone(loaded)) == repr(clone(classifier))


@EVERY_METHOD
def test_the_seed_decides_and_the_callers_randomness_is_left_alone(method: str) -> None:
    data, short = WORLDS["reports"](), {"stages": [Stage(2, batch_size=32)]} if "stages" in QUICK[method] else {}
    before = torch.get_rng_state()
    one, other = (
        make_estimator(method, "reports", max_queries=2, **short).fit(
            data.X, data.y, initially_known=data.initially_known
        )
        for _ in range(2)
    )
    states = [classifier.model_.state_dict() for classifier in (one, other)]
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
    # No more than max_queries are asked.
    assert max(len(chain) for chain in one.explain(data.X[:20])) <= 2
    assert one.predict_proba(data.X[:3]).shape == (3, 4)
    assert torch.equal(torch.get_rng_state(), before)


@EVERY_METHOD
def test_an_estimator_keeps_scikit_learns_manners(method: str) -> None:
    data = WORLDS["reports"]()
    fresh = make_estimator(method, "reports", max_queries=4)
    with pytest.raises(NotFittedError):
        fresh.predict(data.X)
    copied = clone(fresh)
    assert repr(copied.get_params()) == repr(fresh.get_params())
    with pytest.raises(ValueError, match="only one class"):
        fresh.fit(data.X, np.zeros(len(data.X)))
    with pytest.raises(ValueError, match="at least 1"):
        make_estimator(method, "reports", max_queries=0).fit(data.X, data.y)
    with pytest.raises(ValueError, match="stop"):
        make_estimator(method, "reports", stop="whenever").fit(data.X, data.y)


def checked() -> dict[str, type[PursuitClassifier]]:
    """One method of every class of estimators."""
    classes = {METHODS[name].estimator: name for name in reversed(QUICK)}
    return {name: estimator for estimator, name in reversed(classes.items())}


def expected_to_fail(estimator: PursuitClassifier) -> dict[str, str]:
    """Rows of weight 2 and rows that come twice are shuffled and put into intervals differently, but for a tree whose
    pruning is given; `estimators/test_weights.py` holds what is counted equal, and what is learnt nearly so."""
    if isinstance(estimator, TreeClassifier):
        return {}
    reasons = {"NaiveBayesIPClassifier": "intervals of numbers hold equally many rows, whatever these weigh"}
    reason = reasons.get(type(estimator).__name__, "repeated rows come in another order")
    return dict.fromkeys(EQUIVALENT_WEIGHTS, reason)


def checks() -> Iterator[Any]:
    """Every check of every estimator. Rivals that are trained by the loop read rows and keep what they learnt by the
    very code of V-IP: they are checked with the slow tests, as is what is learnt from rows in another memory."""
    for method, estimator in checked().items():
        is_rival = issubclass(estimator, LearnerEstimator) and estimator is not VIPClassifier
        learning = estimator(**CHECKED[method])
        hardly = clone(learning).set_params(**{name: TINY[name] for name in TINY.keys() & learning.get_params().keys()})
        options = {"mark": "xfail", "expected_failed_checks": expected_to_fail(learning)}
        seen = set()
        for found in estimator_checks_generator(hardly, **options):
            (_, check), marks = getattr(found, "values", found), list(getattr(found, "marks", ()))
            name = check.func.__name__
            checks_this = learning if name in OF_WHAT_IS_LEARNT else hardly
            marks += [pytest.mark.slow] if is_rival or (name in seen & OF_WHAT_IS_LEARNT) else []
            seen.add(name)
            yield pytest.param(checks_this, check, marks=marks, id=f"{estimator.__name__}-{name}")


# No other check is expected to fail. `check_array_api_input` skips itself where scipy's array API is not switched on.
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# Exact pursuers, which have no estimator


@pytest.mark.parametrize("exact", ["independent", "table"])
def test_exact_pursuers_keep_the_contract_too(world: Any, exact: str) -> None:
    pursuer: IndependentIP | TableIP = world.pursuer
    if exact == "table":
        history = History(world.rows.x, world.rows.available, world.rows.available)
        weights = pursuer.evidence(history).exp()
        pursuer = TableIP(world.query_set, pursuer.classes, world.rows.x, weights)
    history = some_histories(world.rows)
    other = torch.where(readable(world.query_set, history.known), world.rows.x, torch.tensor(0.5))
    for function in (pursuer.scores, pursuer.log_posterior):
        assert torch.equal(function(history), function(replace(history, x=other)))
        torch.testing.assert_close(function(history)[3:5], function(history.rows(torch.tensor([3, 4]))))
    chains = explain(pursuer, world.rows.x, world.rows.available)
    assert all(sorted(step.query for step in chain.steps) == [0, 1, 2, 3] for chain in chains)
