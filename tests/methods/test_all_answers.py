"""All answers: the posterior of the black box is the prior until everything was asked."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from pursuit import ModelSpec
from pursuit.inference.chain import explain
from pursuit.inference.history import History
from pursuit.methods.all_answers import AllAnswers, AllAnswersClassifier, FullHistories
from pursuit.networks import MLP
from pursuit.training.learner import ClassifierModel
from pursuit.training.schedule import Stage
from untrained import make_columns, make_rows

QUICK: dict[str, Any] = {"network": MLP((16,)), "stages": [Stage(150, batch_size=24)], "random_state": 0}


def make() -> AllAnswers:
    torch.manual_seed(0)
    prior = torch.tensor([0.5, 0.3, 0.2])
    query_set = make_columns(["yes_no", "number", "choice"])
    return AllAnswers.build(ModelSpec(query_set, ["a", "b", "c"], MLP((8,)), prior=prior)).eval()


def test_the_posterior_is_the_prior_until_everything_was_asked() -> None:
    model = make()
    rows = make_rows(model.query_set, 4)
    asked = torch.tensor([[False] * 3, [True, True, False], [True] * 3, [True] * 3])
    known = asked & torch.tensor([[True] * 3] * 3 + [[True, False, True]])
    history = History(rows.x.float(), known, asked)
    posterior, network = model.log_posterior(history), ClassifierModel.log_posterior(model, history)
    assert torch.equal(posterior[:2], model.log_prior.expand(2, -1))
    assert torch.equal(posterior[2:], network[2:])
    assert not torch.allclose(network[1], model.log_prior)


def test_it_asks_in_the_order_of_the_query_set() -> None:
    model = make()
    rows = make_rows(model.query_set, 3, missing=0.3)
    chains = explain(model, rows.x.float(), rows.available)
    assert all([step.query for step in chain.steps] == [0, 1, 2] for chain in chains)


def test_training_shows_all_available_answers() -> None:
    rows = make_rows(make_columns(["yes_no", "number"]), 20, missing=0.4)
    generator = torch.Generator().manual_seed(0)
    sampler = FullHistories().sampler(rows.stream(generator), 8, generator)
    sampler.prepare()
    batch = sampler.draw(make())
    assert batch.asked.all()
    assert torch.equal(batch.known, batch.available)


def test_its_accuracy_with_all_answers_is_that_of_its_network(world: Any, tmp_path: Path) -> None:
    y = np.array(world.pursuer.classes)[world.rows.y.numpy()]
    frame = world.frame.astype(object)
    frame.iloc[::4, 0] = np.nan
    model = AllAnswersClassifier(world.query_set, **QUICK).fit(frame, y)
    found = model.evaluate(frame, y)
    rows = model.rows(frame, y)
    history = History(rows.x, rows.available, torch.ones_like(rows.available))
    right = (ClassifierModel.log_posterior(model.model_, history).argmax(dim=1) == rows.y).float().mean().item()
    assert right > 0.7
    assert abs((model.predict(frame) == y).mean() - right) < 1e-6
    assert abs(found.accuracy_by_answered[-1] - right) < 1e-6
    assert found.accuracy_by_answered[0] == found.accuracy_by_answered[2]  # still the prior
    without_gaps = model.evaluate(world.frame, y)
    assert without_gaps.accuracy_all_answers == without_gaps.accuracy_by_answered[-1]
    model.save(tmp_path / "model")
    again = AllAnswersClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.network == MLP((16,))
