"""RAM and RAM+: their rewards, the clipped objective, and that they learn to ask what is informative."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.inference.incremental import history_state
from pursuit.methods.ram import RAM, RAMClassifier, RAMSettings
from pursuit.methods.shared.policies import (
    Decisions,
    PolicyHistories,
    RolloutPoint,
    advantages,
    chain_length,
    log_policy,
)
from pursuit.networks import MLP
from pursuit.queries import PatchQueries
from pursuit.training.samplers import CarriedHistories, RandomHistories
from pursuit.training.schedule import Adam, Stage
from untrained import make_columns


@pytest.fixture(scope="module")
def two_informative() -> tuple[np.ndarray, np.ndarray]:
    """Eight yes/no queries, of which the third and the sixth give the label and the rest nothing."""
    x = np.random.default_rng(0).integers(0, 2, size=(400, 8))
    return x, np.array(["neither", "sixth", "third", "both"])[2 * x[:, 2] + x[:, 5]]


@pytest.fixture(scope="module", params=["last", pytest.param("sum", marks=pytest.mark.slow)])
def trained(request: Any, two_informative: Any) -> RAMClassifier:
    settings = RAMSettings(request.param, lr=1e-2)
    stages = [Stage(20, CarriedHistories(3), batch_size=64)]
    classifier = RAMClassifier(network=MLP((32,)), stages=stages, max_queries=2, settings=settings, random_state=0)
    return classifier.fit(*two_informative)


def point(log_posterior: torch.Tensor, y: torch.Tensor, n_left: int, n_steps: int) -> RolloutPoint:
    nothing = torch.zeros(len(y), 2, dtype=torch.bool)
    return RolloutPoint(History(torch.zeros(len(y), 2), nothing, nothing), log_posterior, y, n_left, n_steps)


@pytest.mark.parametrize("reward", ["last", "sum"])
def test_rewards_are_log_probabilities_of_the_label(reward: Any) -> None:
    query_set = make_columns(["yes_no", "yes_no"])
    model = RAM.build(ModelSpec(query_set, ["a", "b", "c"], MLP((4,)), settings=RAMSettings(reward)))
    posteriors = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0)).log_softmax(dim=2)
    y = torch.tensor([0, 1, 2, 0, 1])
    places = [point(posterior, y, 3 - step, 3) for step, posterior in enumerate(posteriors)]
    rewards = torch.stack([model.reward(places[i], places[i + 1], torch.full((5,), i == 2)) for i in range(3)])
    right = posteriors.gather(2, y.expand(4, 5)[:, :, None])[:, :, 0]  # (steps + 1, 5)
    expected = right[-1] if reward == "last" else right[1:].mean(dim=0)
    torch.testing.assert_close(rewards.sum(dim=0), expected)
    # With the log probability itself for a baseline, an advantage is what the answers from here on add to it.
    values = torch.stack([model.value(place) for place in places[:3]])
    share = torch.tensor([1.0, 1.0, 1.0]) if reward == "last" else torch.tensor([3.0, 2.0, 1.0]) / 3
    gains = right[1:] - right[:-1]
    torch.testing.assert_close(advantages(rewards, values, 1.0, 0.0), share[:, None] * gains)


def test_nothing_more_is_learnt_from_a_query_once_its_probability_has_moved_enough() -> None:
    settings = RAMSettings(clip=0.2, entropy=0.0)
    model = RAM.build(ModelSpec(make_columns(["yes_no", "yes_no"]), ["a", "b"], MLP((4,)), settings=settings))
    scores = torch.zeros(5, 2, requires_grad=True)
    ratios = torch.tensor([1.1, 1.3, 1.3, 0.7, 1.0])
    advantage, was_asked = torch.tensor([1.0, 1.0, -1.0, -1.0, 1.0]), torch.tensor([True] * 4 + [False])
    old = (0.5 / ratios).log()
    policy = log_policy(scores, torch.zeros(5, 2, dtype=torch.bool))
    loss = model.asking_loss(policy, Decisions(torch.zeros(5, dtype=torch.long), old, advantage, was_asked))
    assert loss.item() == pytest.approx(-(1.1 + 1.2 - 1.3 - 0.8) / 4, abs=1e-6)
    loss.backward()
    assert scores.grad is not None
    assert (scores.grad[:, 0] != 0).tolist() == [True, False, True, False, False]
    assert scores.grad[0, 0] < 0 < scores.grad[2, 0]


def test_entropy_is_rewarded() -> None:
    model = RAM.build(ModelSpec(make_columns(["yes_no", "yes_no"]), ["a", "b"], MLP((4,))))
    one = torch.ones(1, dtype=torch.bool)
    losses = []
    for scores in (torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 0.0]])):
        policy = log_policy(scores, torch.zeros(1, 2, dtype=torch.bool))
        decisions = Decisions(torch.zeros(1, dtype=torch.long), policy[:, 0], torch.zeros(1), one)
        losses.append(model.asking_loss(policy, decisions))
    assert losses[0].item() == pytest.approx(-0.01 * np.log(2))
    assert losses[0] < losses[1]


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_it_learns_to_ask_what_is_informative(trained: RAMClassifier, two_informative: Any) -> None:
    x, y = two_informative
    for chain in trained.explain(x[:40], stop="budget=2"):
        assert {step.query for step in chain.steps} == {2, 5}
    assert trained.evaluate(x, y).accuracy_by_answered[2] == 1


def test_saved_and_loaded_it_is_the_same(trained: RAMClassifier, two_informative: Any, tmp_path: Path) -> None:
    trained.save(tmp_path)
    loaded = RAMClassifier.load(tmp_path)
    x, _ = two_informative
    rows = trained.rows(x[:20], trained.predict(x[:20]))
    history = rows.start().ask(torch.arange(20) % 8)
    assert torch.equal(loaded.model_.scores(history), trained.model_.scores(history))
    assert torch.equal(loaded.model_.log_posterior(history), trained.model_.log_posterior(history))
    state = history_state(loaded.model_, rows.start())
    state.ask(torch.arange(20) % 8, torch.ones(20, dtype=torch.bool))
    torch.testing.assert_close(state.scores(), loaded.model_.scores(history))
    assert loaded.get_params()["network"] == MLP((32,))
    assert loaded.settings == loaded.model_.settings == trained.settings


def test_the_budget_is_that_of_the_plan() -> None:
    stages = [Stage(3, RandomHistories(), batch_size=32), Stage(5, CarriedHistories(7), batch_size=16, average=0.5)]
    classifier = RAMClassifier(settings=RAMSettings("sum", passes=3))
    plan = classifier.plan(stages)
    assert [stage.n_steps(1000) for stage in plan] == [stage.n_steps(1000) for stage in stages]
    assert [stage.histories.max_queries for stage in plan] == [20, 7]
    assert [stage.optimizer for stage in plan] == [Adam(3e-5)] * 2
    assert plan[1].histories == PolicyHistories(7, passes=3, trace=RAMSettings().trace)
    assert plan[1].average == 0.5
    assert chain_length(5, stages[1]) == 5


def test_patches_and_one_seed() -> None:
    images = np.random.default_rng(0).random((60, 1, 4, 4))
    labels = (images[:, 0, :2, :2].mean(axis=(1, 2)) > 0.5).astype(int)
    query_set = PatchQueries((1, 4, 4), size=2, stride=2)

    def fitted() -> RAMClassifier:
        stages = [Stage(4, CarriedHistories(3), batch_size=16)]
        return RAMClassifier(query_set, network=MLP((8,)), stages=stages, random_state=3).fit(images, labels)

    one, same = fitted(), fitted()
    assert np.array_equal(one.predict_proba(images), same.predict_proba(images))


@pytest.mark.parametrize("wrong", [{"reward": "all"}, {"lr": 0.0}, {"clip": 1.0}, {"entropy": -1.0}])
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"RAMSettings|reward"):
        RAMSettings(**wrong)
