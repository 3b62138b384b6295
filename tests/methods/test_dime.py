"""DIME: scores are information in bits, at most the entropy, divided by cost, and they end chains."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from four_labels import N_QUERIES, QUERIES, YES, draw
from pursuit import ModelSpec
from pursuit.exact import IndependentIP
from pursuit.inference.chain import explain
from pursuit.inference.history import History
from pursuit.inference.incremental import FirstLayerState, SharedInputState, history_state
from pursuit.inference.pursuer import choose
from pursuit.inference.stopping import entropy
from pursuit.methods.dime import DIME, DIMEClassifier, DIMESettings
from pursuit.methods.random_order import RandomOrderClassifier
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, PatchQueries, yes_no
from pursuit.training import Batch
from pursuit.training.rows import Rows
from pursuit.training.samplers import CarriedHistories, RandomHistories, random_histories
from pursuit.training.schedule import AdamW, Stage
from untrained import make_rows, some_history

EXACT = IndependentIP.from_yes(QUERIES, range(4), torch.full((4,), 0.25), YES)
ARGUMENTS: dict[str, Any] = {
    "network": MLP((32,)),
    "stages": [Stage(18, CarriedHistories(6), AdamW(8e-3), batch_size=64)],
    "random_state": 0,
}


def build(query_set: Any, settings: DIMESettings | None = None, n_classes: int = 3) -> DIME:
    torch.manual_seed(0)
    return DIME.build(ModelSpec(query_set, range(n_classes), MLP((16,)), settings=settings)).eval().double()


def with_settings(model: DIME, settings: DIMESettings) -> DIME:
    """The same networks with other settings."""
    other = DIME.build(ModelSpec(model.query_set, model.classes, model.spec.network, settings=settings))
    other.load_state_dict(model.state_dict())
    return other.eval()


def batch_of(rows: Rows, history: History, phase: str = "joint") -> Batch:
    return Batch.of(rows, history)._replace(exploration=0.5, phase=phase)


@pytest.fixture(scope="module")
def trained() -> DIMEClassifier:
    return DIMEClassifier(QUERIES, settings=DIMESettings(candidates=8), **ARGUMENTS).fit(*draw(1000, 0))


def test_the_plan_has_as_many_histories_as_that_of_vip_and_epsilon_falls() -> None:
    stages = [Stage(6, CarriedHistories(5)), Stage(4, RandomHistories(3))]
    plan = DIMEClassifier(settings=DIMESettings(pretraining=0.2, epsilon=(0.9, 0.1))).plan(stages)
    assert [stage.epochs for stage in plan] == pytest.approx([2, 4, 4])
    assert [stage.histories for stage in plan] == [RandomHistories(), CarriedHistories(5), CarriedHistories(3)]
    assert [stage.phase for stage in plan] == ["pretraining", "joint", "joint"]
    assert [stage.exploration for stage in plan[1:]] == [pytest.approx((0.9, 0.5)), pytest.approx((0.5, 0.1))]
    assert {stage.tau for stage in plan} == {Stage(1).tau}


@pytest.mark.parametrize("wrong", [{"epsilon": (0.5, 0.0)}, {"candidates": 0}, {"pretraining": -0.1}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DIMESettings(**wrong)


def test_what_is_free_is_asked_first() -> None:
    free = ColumnQueries([yes_no("a"), yes_no("b", cost=0.0), yes_no("c", cost=100.0)])
    model, history = build(free), make_rows(free, 9).start()
    assert choose(model.scores(history), history.asked).tolist() == [1] * 9
    assert model.scores(history).isfinite().all()


def test_a_single_query_is_enough() -> None:
    query_set = ColumnQueries([yes_no("a")])
    rows, model = make_rows(query_set, 5), build(query_set)
    loss, query = model(batch_of(rows, rows.start()))
    assert loss.isfinite()
    assert query.tolist() == [0] * 5


def test_scores_are_a_share_of_the_entropy_for_a_unit_of_cost() -> None:
    priced = ColumnQueries([yes_no(f"q{i}", cost=1.0 + i) for i in range(5)])
    history = some_history(make_rows(priced, 30))
    by_cost, even = build(priced), build(priced.with_costs({query.name: 1.0 for query in priced.queries}))
    values, unsure = even.scores(history), entropy(even.log_posterior(history)) / math.log(2)  # bits
    assert (values > 0).all()
    assert (values < unsure[:, None]).all()
    assert by_cost.score_unit == "bits per cost"
    torch.testing.assert_close(by_cost.scores(history) * torch.arange(1.0, 6), values)


def test_in_pretraining_the_classifier_learns_alone() -> None:
    model, rows = build(QUERIES), make_rows(QUERIES, 20)
    history = some_history(rows)
    for phase, querier_learns in (("pretraining", False), ("joint", True)):
        loss, query = model(batch_of(rows, history, phase))
        assert (query is not None) == querier_learns
        model.zero_grad()
        loss.backward()
        assert all((p.grad is not None) == querier_learns for p in model.querier.parameters())
        assert all(p.grad is not None for p in model.classifier.parameters())


def test_candidates_are_others_and_the_first_is_best_or_by_chance() -> None:
    model = build(QUERIES.with_costs({QUERIES.queries[11].name: 0.01}))
    values = torch.rand(400, 12, generator=torch.Generator().manual_seed(0))
    asked = torch.rand(400, 12, generator=torch.Generator().manual_seed(1)) < 0.4
    torch.manual_seed(0)
    (greedy, greedy_counts), (by_chance, chance_counts) = (model._candidates(values, asked, e) for e in (0.0, 1.0))
    assert greedy.shape == (400, DIMESettings().candidates)
    assert torch.equal(greedy[:, 0], choose(values / model.query_set.costs, asked))
    assert (by_chance[:, 0] == greedy[:, 0]).float().mean() < 0.3
    for queries, counts in ((greedy, greedy_counts), (by_chance, chance_counts)):
        assert torch.equal(counts.sum(dim=1), (~asked).sum(dim=1).clamp(max=queries.shape[1]))
        assert not asked.gather(1, queries)[counts].any()
        assert all(len(set(row[count].tolist())) == count.sum() for row, count in zip(queries, counts, strict=True))


def test_the_loss_removed_is_that_of_the_classifier() -> None:
    model, rows = build(QUERIES), make_rows(QUERIES, 40, missing=0.3)
    history = some_history(rows)
    queries = choose(torch.rand(40, 12), history.asked)[:, None]
    before = model.log_posterior(history)
    removed = model._loss_removed(Batch.of(rows, history), before, queries)
    answered = rows.available.gather(1, queries)[:, 0]
    after = model.log_posterior(history.record(queries[:, 0], answered))
    expected = (after - before).gather(1, rows.y[:, None])
    torch.testing.assert_close(removed, expected)
    assert (removed[~answered] == 0).all()


def test_it_reads_only_what_it_may_even_where_nothing_is_left() -> None:
    rows, model = make_rows(QUERIES, 30, missing=0.3), build(QUERIES)
    history = some_history(rows, 0.8)
    history.asked[0], history.known[0] = True, rows.available[0]
    found = []
    for x in (rows.x, torch.where(rows.available, rows.x, 100.0)):
        torch.manual_seed(0)
        found.append(model(batch_of(rows, replace(history, x=x))))
    assert torch.equal(found[0].loss, found[1].loss)
    assert found[0].loss.isfinite()
    asks_again = history.asked.gather(1, found[0].query[:, None])[:, 0]
    assert torch.equal(asks_again, history.asked.all(dim=1))


@pytest.mark.parametrize(
    ("query_set", "state_class"), [(QUERIES, FirstLayerState), (PatchQueries((1, 5, 5), 2), SharedInputState)]
)
def test_the_state_has_the_same_scores_and_posteriors(query_set: Any, state_class: type[Any]) -> None:
    rows = make_rows(query_set, 9, missing=0.2)
    model, history = build(query_set, DIMESettings(penalty=0.4)), some_history(rows, 0.2)
    state = history_state(model, history)
    for _ in range(3):
        torch.testing.assert_close(state.log_posterior(), model.log_posterior(history))
        torch.testing.assert_close(state.scores(), model.scores(history))
        query, answered = choose(state.scores(), history.asked), torch.arange(len(history)) % 3 > 0
        state.ask(query, answered)
        state.log_posterior()
        kept = torch.arange(len(history) - 2)
        state.keep(kept)
        history = history.record(query, answered).rows(kept)
        assert torch.equal(state.asked, history.asked)
    one = state.restart(history.rows(torch.tensor([1])))
    query = int(choose(one.scores(), one.asked))
    one.ask_one(query, True)
    alone = history.rows(torch.tensor([1])).record(torch.tensor([query]), torch.tensor([True]))
    torch.testing.assert_close(one.scores(), model.scores(alone))
    assert type(one) is state_class


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_scores_estimate_information(trained: DIMEClassifier) -> None:
    rows = trained.rows(*draw(2000, 1))
    for k, least in ((0, 0.9), (2, 0.75)):
        history = random_histories(rows, torch.full((2000,), k), torch.Generator().manual_seed(0))
        with torch.no_grad():
            own, exact = trained.model_.scores(history)[~history.asked], EXACT.scores(history)[~history.asked]
        assert torch.corrcoef(torch.stack([own, exact.float()]))[0, 1] > least
        assert 0.5 < own.mean() / exact.mean() < 1.5


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_it_asks_better_than_chance(trained: DIMEClassifier) -> None:
    chance = RandomOrderClassifier(QUERIES, **ARGUMENTS).fit(*draw(1000, 0))
    assert trained.evaluate(*draw(2000, 1)).area > chance.evaluate(*draw(2000, 1)).area + 0.02


@pytest.mark.slow
def test_a_penalty_ends_chains_where_little_is_left_to_learn(trained: DIMEClassifier) -> None:
    settings = DIMESettings(penalty=0.05)
    x, available = QUERIES.answers(draw(200, 1)[0])
    chains = explain(with_settings(trained.model_, settings), x, available)
    lengths = [len(chain.steps) for chain in chains]
    assert 0 < min(lengths) < max(lengths)
    for row, chain in enumerate(chains):
        known = torch.zeros(1, N_QUERIES, dtype=torch.bool)
        known[0, [step.query for step in chain.steps]] = True
        values = trained.model_.scores(History(x[[row]], known, known)).masked_fill(known, 0)
        assert values.max() < 0.05 + 1e-4


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_cheap_queries_come_first_and_save_costs() -> None:
    yes = torch.cat([YES[:, :6], YES[:, :6]], dim=1)  # each query has an expensive twin that is as informative
    costs = (1.0,) * 6 + (8.0,) * 6
    priced = QUERIES.with_costs({query.name: cost for query, cost in zip(QUERIES.queries, costs, strict=True)})
    x, available = QUERIES.answers(draw(200, 1, yes)[0])
    y = torch.from_numpy(draw(200, 1, yes)[1])
    needed = []
    for query_set in (priced, QUERIES):
        model = DIMEClassifier(query_set, **ARGUMENTS).fit(*draw(600, 0, yes))
        chains = explain(model.model_, x, available)
        queries = torch.tensor([[step.query for step in chain.steps] for chain in chains])  # (B, Q) in their order
        posteriors = torch.stack([torch.stack([step.posterior for step in chain.steps]) for chain in chains])
        right = (posteriors.argmax(dim=2) == y[:, None]).double().mean(dim=0)  # (Q,) by the number of answers
        spent = torch.tensor(costs)[queries].cumsum(dim=1).mean(dim=0)
        needed.append(spent[right > 0.75].min())
        if query_set is priced:
            assert (queries[:, :3] < 6).double().mean() > 0.95
    assert needed[0] < 0.75 * needed[1]


@pytest.mark.slow
def test_it_is_saved_with_its_settings(trained: DIMEClassifier, tmp_path: Path) -> None:
    settings = DIMESettings(penalty=0.3, candidates=2, epsilon=(0.3, 0.2))
    x, available = QUERIES.answers(draw(20, 1)[0])
    trained.save(tmp_path / "plain")
    model = DIMEClassifier.load(tmp_path / "plain")
    model.settings, model.model_ = settings, with_settings(model.model_, settings)
    model.save(tmp_path / "priced")
    loaded = DIMEClassifier.load(tmp_path / "priced")
    assert loaded.settings == loaded.model_.settings == settings
    history = History(x, ~available, ~available)
    assert torch.equal(loaded.model_.scores(history), model.model_.scores(history))
    assert not torch.equal(loaded.model_.scores(history), trained.model_.scores(history))
