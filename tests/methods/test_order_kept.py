"""Whatever the method, no chain breaks the order of queries: in training, in use, and from a saved model."""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pursuit
from contract_table import CHECKED, SAMPLED
from ordered import ORDER, check_chain, check_histories, clinic, clinic_queries
from pursuit import MLP, Stage, VIPClassifier
from pursuit.estimators import PursuitClassifier
from pursuit.exact import TableIP
from pursuit.inference.chain import explain
from pursuit.inference.pursuer import choose
from pursuit.inference.stopping import Budget, CostBudget, NothingWorthAsking
from pursuit.methods import METHODS
from pursuit.methods.shared.policies import Policy, PolicyHistories
from pursuit.queries import ColumnQueries, Group, OnlyAfter, Order, yes_no
from pursuit.training import AdamW, CarriedHistories, RolledOutHistories
from pursuit.training.rows import Rows, ShuffledRows
from pursuit.training.samplers import Sampler
from pursuit.training.step import TrainingStep

X, Y = clinic(missing=0.1)
QUERIES = clinic_queries()
EVERY_METHOD = pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.slow if name in SAMPLED else ()) for name in CHECKED]
)


def quick(method: str, epochs: float) -> dict[str, Any]:
    """Parameters of a method that hardly learns anything: the order does not depend on it."""
    return {**CHECKED[method], "stages": [Stage(epochs, CarriedHistories(6), batch_size=32)]}


@cache
def fitted(method: str) -> PursuitClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return METHODS[method].build(clinic_queries(), **quick(method, 1), stop=Budget(9), random_state=0).fit(X, Y)


@EVERY_METHOD
def test_no_chain_breaks_the_order(method: str, tmp_path: Path) -> None:
    model = fitted(method)
    model.save(tmp_path / "model")
    loaded = pursuit.load(tmp_path / "model")
    assert loaded.model_.query_set.order == ORDER
    for stop in ("budget=9", CostBudget(3)):
        chains = loaded.explain(X.iloc[:12], stop)
        for row, chain in enumerate(chains):
            check_chain(ORDER, QUERIES, chain)
            is_there = not isinstance(X["sex"].iloc[row], float)
            assert [step.name for step in chain.initially_known] == ["sex"] * is_there
    evaluation = loaded.evaluate(X.iloc[:20], Y[:20])
    assert evaluation.at_stop is not None
    assert evaluation.at_stop.mean_asked <= 6  # what is known beforehand does not count
    torch.testing.assert_close(loaded.predict_proba(X.iloc[:5]), model.predict_proba(X.iloc[:5]))
    session = loaded.session()
    while not session.done:
        session.tell({"sex": "f", "pregnant": "yes", "scan": "small"}.get(session.ask().name, "1"), confirmed=True)
    check_chain(ORDER, QUERIES, session.chain)


@EVERY_METHOD
def test_no_chain_breaks_the_order_in_training(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Carried and rolled-out chains; random histories are those of people who say what they like."""
    seen = 0
    draw = TrainingStep.draw

    def watched(step: TrainingStep) -> Any:
        nonlocal seen
        batch, sampler = draw(step), step.sampler
        n_chains = getattr(sampler, "n_carried", None) or getattr(sampler, "n_own", None)
        if n_chains:
            history = [part[:n_chains] for part in (batch.x, batch.known, batch.asked)]
            check_histories(ORDER, QUERIES, *history)
            seen += int((history[2].sum(dim=1) > 2).sum())
        return batch

    monkeypatch.setattr(TrainingStep, "draw", watched)
    METHODS[method].build(clinic_queries(), **quick(method, 2), random_state=0).fit(X.iloc[:120], Y[:120])
    if METHODS[method].accepts("shared"):  # those that choose queries while they learn
        assert seen > 20


@pytest.mark.parametrize("settings", [CarriedHistories(7, random_share=0), RolledOutHistories(7)])
def test_histories_to_train_on_keep_the_order(settings: Any) -> None:
    model = fitted("vip").model_
    rows = Rows(
        *clinic_queries().answers(X), torch.zeros(len(X), dtype=torch.long), clinic_queries().known_beforehand(len(X))
    )
    generator = torch.Generator().manual_seed(0)
    sampler: Sampler = settings.sampler(ShuffledRows(rows, generator), 40, generator)
    longest = 0
    for _ in range(20):
        sampler.prepare()
        batch = sampler.draw(model)
        check_histories(ORDER, QUERIES, batch.x, batch.known, batch.asked)
        longest = max(longest, int(batch.asked.sum(dim=1).max()))
        # Even a learner that does not know of the order cannot break it: what is closed is not recorded.
        sampler.advance(choose(torch.rand(40, 7, generator=generator), batch.asked))
    assert longest == 7


def test_a_policy_rolls_out_in_order() -> None:
    policy = fitted("ram").model_
    assert isinstance(policy, Policy)
    rows, generator = fitted("ram").rows(X, Y), torch.Generator().manual_seed(0)
    sampler = PolicyHistories(7, random_share=0).sampler(ShuffledRows(rows, generator), 30, generator)
    for _ in range(7):
        sampler.prepare()
        batch = sampler.draw(policy)
        check_histories(ORDER, QUERIES, batch.x, batch.known, batch.asked)
        opened = ~policy.closed(batch).gather(1, batch.extra.query[:, None])[:, 0]
        assert torch.equal(opened, batch.extra.was_asked)


def small_world() -> TableIP:
    """The label is the last of three tests; the first two say nothing about it."""
    query_set = ColumnQueries([yes_no("cheap"), yes_no("dull"), yes_no("answer")])
    worlds = torch.cartesian_prod(*[torch.tensor([0, 1])] * 3)
    x, _ = query_set.answers(worlds.numpy())
    return TableIP(query_set, ["no", "yes"], x, torch.nn.functional.one_hot(worlds[:, 2], 2).float())


def asked_in(world: TableIP, order: Order | None, row: int, stop: Any = None) -> list[str]:
    world.query_set.set_order(order)
    x, available = world.query_set.answers(np.array([[0, 0, 1], [1, 0, 1]]))
    return [step.name for step in explain(world, x, available, stop)[row].steps]


def test_a_small_world_in_which_it_matters() -> None:
    world = small_world()
    assert asked_in(world, None, 0)[0] == "answer"
    after = Order(only_after=(OnlyAfter("answer", "cheap"),))
    assert asked_in(world, after, 0, Budget(2)) == ["cheap", "answer"]
    if_yes = Order(only_after=(OnlyAfter("answer", "cheap", ("yes",)),))
    assert asked_in(world, if_yes, 0) == ["cheap", "dull"]
    assert asked_in(world, if_yes, 1) == ["cheap", "answer", "dull"]
    together = Order(groups=(Group("both", ("answer", "dull")),))
    assert asked_in(world, together, 0) == ["answer", "dull", "cheap"]
    assert asked_in(world, after, 0, NothingWorthAsking(0.01)) == []  # nothing that is open now tells anything


@pytest.mark.parametrize("querier", ["information", "straight-through"])
def test_an_order_that_closes_nothing_changes_no_bit(querier: Any) -> None:
    X, y = clinic(120)
    known = np.zeros(X.shape, dtype=bool)
    known[:, 0] = True  # so that what waits for it is open from the start
    settings: dict[str, Any] = {"network": MLP((8,)), "stages": [Stage(3, batch_size=32)], "random_state": 0}
    settings["teachers"] = None
    one, other = (
        VIPClassifier(clinic_queries(order), querier=querier, **settings).fit(X, y, initially_known=known).model_
        for order in (None, Order(only_after=(OnlyAfter("scan", "sex"),)))
    )
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("querier", ["information", "straight-through"])
def test_the_belief_by_what_is_known_beforehand_is_right(querier: Any) -> None:
    """It may end a chain before the first question."""
    X, y = clinic(400)
    plan: dict[str, Any] = {"stages": [Stage(10, optimizer=AdamW(1e-2), batch_size=64)], "teachers": None}
    model = VIPClassifier(clinic_queries(), querier=querier, network=MLP((32,)), random_state=0, **plan).fit(X, y)
    with torch.no_grad():
        believed = model.model_.log_posterior(model.rows(X, y).start()).exp().numpy()
    for sex in ("f", "m"):
        rows = (X["sex"] == sex).to_numpy()
        shares = np.array([(y[rows] == label).mean() for label in model.classes_])
        assert np.abs(believed[rows][0] - shares).max() < 0.1
