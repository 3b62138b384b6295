"""Looking ahead: a question that tells nothing by itself is asked first where it decides what to ask next."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from pursuit import MLP, CarriedHistories, ColumnQueries, ModelSpec, Stage, VIPClassifier
from pursuit.queries.order import Group, Order
from pursuit.training.lookahead import Lookahead
from pursuit.training.rows import Rows
from pursuit.training.samplers import random_histories
from pursuit.training.schedule import AdamW
from pursuit.vip import VIP, InformationVIP, TwoQueriers

N_WAYS = 4
SETTINGS: dict[str, Any] = {
    "network": MLP((64,)),
    "teachers": None,
    "stages": [Stage(30, CarriedHistories(N_WAYS), AdamW(1e-2), batch_size=256)],
    "stop": "budget=3",
    "random_state": 0,
}


def gated(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Two columns say which of four has the label. They tell nothing by themselves; the others are noise, but for a
    hint that is right in three quarters of the rows."""
    randomness = np.random.default_rng(seed)
    way, y = randomness.integers(0, N_WAYS, n), randomness.integers(0, 2, n)
    answers = randomness.integers(0, 2, (n, N_WAYS))
    answers[np.arange(n), way] = y
    hint = np.where(randomness.random(n) < 3 / 4, y, 1 - y)
    columns = {"way 1": way % 2, "way 2": way // 2, **{f"answer {i}": answers[:, i] for i in range(N_WAYS)}}
    return pd.DataFrame({**columns, "hint": hint}), y


def queries(X: pd.DataFrame) -> ColumnQueries:
    query_set = ColumnQueries.from_data(X)
    query_set.set_order(Order(groups=(Group("way", ("way 1", "way 2")),)))
    return query_set


def fit(lookahead: int, **options: Any) -> VIPClassifier:
    X, y = gated(3000, 0)
    settings = {"querier": "straight-through", "lookahead": lookahead, **SETTINGS, **options}
    return VIPClassifier(queries(X), **settings).fit(X, y)


def asked(model: VIPClassifier, n: int) -> list[list[str]]:
    X, _ = gated(100, 1)
    return [[step.name for step in chain.steps] for chain in model.explain(X, f"budget={n}")]


@pytest.fixture(scope="module")
def ahead() -> VIPClassifier:
    return fit(4)


def test_what_decides_is_asked_first(ahead: VIPClassifier) -> None:
    X, y = gated(300, 1)
    chains = asked(ahead, 3)
    assert all(set(names[:2]) == {"way 1", "way 2"} for names in chains)
    way = X["way 1"][:100] + 2 * X["way 2"][:100]
    assert [names[2] for names in chains] == [f"answer {i}" for i in way]
    assert (ahead.predict(X) == y).mean() > 0.95


@pytest.mark.slow
def test_one_who_does_not_look_ahead_takes_the_hint() -> None:
    """At the empty history, the loss after one answer is least after the hint."""
    histories = CarriedHistories(1, random_share=0.0)
    model = fit(1, stages=[Stage(15, histories, AdamW(1e-2), batch_size=256)])
    assert all(names == ["hint"] for names in asked(model, 1))


def test_the_reason_is_that_it_decides(ahead: VIPClassifier) -> None:
    session = ahead.session()
    why = session.why()
    assert (why.reason.kind, why.question.name[:3]) == ("decides", "way")
    assert "It tells little by itself; it decides what to ask next." in str(why)
    session.tell("yes")
    assert session.why().reason.kind == "group"


def test_a_trained_model_has_no_trace_of_it(ahead: VIPClassifier, tmp_path: Path) -> None:
    X, _ = gated(50, 2)
    assert ahead.model_.lookahead is None
    assert {str(reason) for reason in ahead.chosen_} >= {"lookahead: 4 (given)"}
    ahead.save(tmp_path)
    np.testing.assert_array_equal(VIPClassifier.load(tmp_path).predict_proba(X), ahead.predict_proba(X))


def test_the_value_is_fitted_backwards_and_leads_the_choice_alone() -> None:
    """Its gradient reaches its own weights by the error, and what was chosen by what lies ahead."""
    value = nn.Linear(2, 1)
    before, loss = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0.5, 0.25])
    after = torch.ones(2, 2, requires_grad=True)
    goes_on = torch.tensor([True, False])
    found = Lookahead(value, 4)(before, after, loss, goes_on)
    rest = torch.stack([value(after)[0, 0], loss[1]]).detach()
    error = value(before)[:, 0] - (loss / 4 + rest * 3 / 4)
    torch.testing.assert_close(found, 3 * rest + error**2)
    found.sum().backward()
    torch.testing.assert_close(after.grad, torch.stack([3 * value.weight[0], torch.zeros(2)]).detach())
    assert value.weight.grad is not None
    torch.testing.assert_close(value.weight.grad[0], (2 * error[:, None] * before).sum(dim=0).detach())


def test_the_value_of_a_chain_is_the_mean_of_its_losses() -> None:
    """With later ones counting less: fitted to a chain that never ends and has one loss, it is that loss."""
    ahead, history, loss = Lookahead(nn.Linear(1, 1), 5), torch.ones(8, 1), torch.full((8,), 0.3)
    optimizer = torch.optim.Adam(ahead.parameters(), 0.05)
    for _ in range(400):
        optimizer.zero_grad()
        ahead(history, history, loss, torch.ones(8, dtype=torch.bool)).mean().backward()
        optimizer.step()
    assert float(ahead.value(history)[0].detach()) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("options", [{"lookahead": 0}, {"lookahead": "far"}, {"lookahead": 2.5}, {"lookahead": -1}])
def test_other_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="number of answers, at least 1"):
        VIPClassifier(**options).fit(*gated(30, 0))


@pytest.mark.parametrize("options", [{"querier": "information"}, {"cost_aware": True}])
def test_only_a_straight_through_querier_looks_ahead(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="straight-through querier looks ahead"):
        VIPClassifier(lookahead=3, **options).fit(*gated(30, 0))


@pytest.mark.parametrize(
    ("options", "kind", "n_answers"),
    [
        ({}, TwoQueriers, 5),
        ({"lookahead": 1}, TwoQueriers, None),
        ({"lookahead": 3}, VIP, 3),
        ({"querier": "information"}, InformationVIP, None),
        ({"querier": "straight-through"}, VIP, None),
    ],
)
def test_what_is_trained(
    options: dict[str, Any], kind: type[VIP], n_answers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Any] = []

    def note(self: VIPClassifier, learner: Any, *_: Any) -> Any:
        trained.append((type(learner), None if learner.lookahead is None else learner.lookahead.n_answers))
        raise InterruptedError

    monkeypatch.setattr(VIPClassifier, "_train", note)
    X, y = gated(600, 0)
    with pytest.raises(InterruptedError):
        VIPClassifier(network=MLP((8,)), **options).fit(X, y)
    assert trained == [(kind, n_answers)]


# Groups, which are learnt whole


def rows_of(query_set: ColumnQueries, n: int) -> Rows:
    X, y = gated(n, 0)
    return Rows(*query_set.answers(X), torch.from_numpy(y))


def test_a_choice_stands_for_its_group() -> None:
    query_set = queries(gated(50, 0)[0])
    chosen = torch.zeros(2, len(query_set), requires_grad=True)
    picked = chosen + torch.nn.functional.one_hot(torch.tensor([1, 3]), len(query_set))
    whole = query_set.whole_groups(picked)
    assert whole.detach().nonzero().tolist() == [[0, 0], [0, 1], [1, 3]]
    whole[0, 0].backward()
    assert chosen.grad is not None
    assert chosen.grad.nonzero().tolist() == [[0, 0], [0, 1]]


def test_chains_and_random_histories_have_whole_groups() -> None:
    query_set = queries(gated(50, 0)[0])
    rows = rows_of(query_set, 400)
    sampler = CarriedHistories(4, random_share=0.0).sampler(
        rows.stream(torch.Generator().manual_seed(0)), 64, torch.Generator()
    )
    model = VIP.build(ModelSpec(query_set, [0, 1], MLP((8,))))
    batch = sampler.draw(model)
    sampler.advance(torch.zeros(64, dtype=torch.long))
    assert torch.equal(batch.asked[:, 0], batch.asked[:, 1])
    assert batch.asked[:, 0].float().mean() > 0.5  # some began again
    assert not batch.asked[:, 2:].any()
    k = torch.randint(len(query_set) + 1, (400,), generator=torch.Generator().manual_seed(0))
    history = random_histories(rows, k, torch.Generator().manual_seed(0), query_set.first_of_group)
    assert history.asked.sum(dim=1).tolist() == k.tolist()
    split = history.asked[:, 0] != history.asked[:, 1]
    assert split[::2].float().mean() < 0.25 < split[1::2].float().mean() < 0.45
    assert math.isclose(float(history.asked[::2, 0].float().mean()), 0.5, abs_tol=0.1)


def test_costs_of_groups_are_those_of_the_whole() -> None:
    query_set = queries(gated(40, 0)[0]).with_costs({"way 1": 0.5, "way 2": 0.5})
    model = VIPClassifier(query_set)
    assert not model._weighs_costs(query_set)
    assert model._weighs_costs(query_set.with_costs({"hint": 2.0}))


def test_a_look_ahead_that_shortens_is_over_in_the_middle_of_the_stage() -> None:
    lookahead = Lookahead(nn.Linear(2, 1), 5)
    lookahead.schedule(0.9)
    assert lookahead.horizon == 5
    lookahead.shorten(2)
    found = []
    for share in (0.0, 0.25, 0.5, 0.9):
        lookahead.schedule(share)
        found.append(float(lookahead.horizon))
    assert found == [2.0, 1.5, 1.0, 1.0]
    before, after = torch.randn(3, 2), torch.randn(3, 2, requires_grad=True)
    added = lookahead(before, after, torch.rand(3), torch.ones(3, dtype=torch.bool))
    assert torch.autograd.grad(added.sum(), after)[0].abs().max() == 0  # the next answer alone leads the choice
