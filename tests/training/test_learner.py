"""Learners made of networks: what all of them share, whatever their objective."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.inference.incremental import history_state
from pursuit.inference.pursuer import choose
from pursuit.networks import MLP, SetNetwork
from pursuit.queries import ColumnQueries
from pursuit.training.learner import LEAST_SPREAD, ClassifierModel, Learner, QuerierClassifier
from pursuit.training.samplers import Batch, TrainingOutcome
from pursuit.vip import VIP
from untrained import make_columns, make_rows

COLUMNS = ["yes_no", "choice", "number", "yes_no"]


def histories(query_set: ColumnQueries, n: int = 9) -> History:
    randomness = torch.Generator().manual_seed(1)
    asked = torch.rand(n, len(query_set), generator=randomness) < 0.6
    known = asked & (torch.rand(asked.shape, generator=randomness) < 0.8)
    known[0] = False
    return History(torch.randn(n, *query_set.answer_shape, generator=randomness), known, asked)


def test_a_learner_must_say_what_it_learns() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Learner(make_columns(COLUMNS), ["a", "b"])  # type: ignore[abstract]


def test_a_classifier_learns_from_histories_as_they_are_and_chooses_no_query() -> None:
    torch.manual_seed(0)
    query_set = make_columns(COLUMNS)
    model = ClassifierModel.build(ModelSpec(query_set, ["a", "b", "c"], MLP((8,)))).eval()
    history, y = histories(query_set), torch.tensor([0, 1, 2] * 3)
    available = torch.ones(9, len(query_set), dtype=torch.bool)
    batch = Batch(history.x, history.known, history.asked, available, y)
    logits = model.classifier(model.network_input(history.x, history.known))
    torch.testing.assert_close(model(batch).loss, F.cross_entropy(logits, y))
    smoothed = model(batch._replace(label_smoothing=0.3)).loss
    torch.testing.assert_close(smoothed, F.cross_entropy(logits, y, label_smoothing=0.3))
    assert model(batch).query is None
    assert torch.equal(choose(model.scores(history), torch.zeros_like(history.asked)), torch.zeros(9).long())


def test_where_nothing_is_known_the_prior_is_believed() -> None:
    query_set, prior = make_columns(COLUMNS), torch.tensor([0.2, 0.3, 0.5])
    model = ClassifierModel.build(ModelSpec(query_set, ["a", "b", "c"], MLP((8,)), prior=prior))
    torch.testing.assert_close(model.log_posterior(histories(query_set))[0].exp(), prior)


@pytest.mark.parametrize("learner", [ClassifierModel, VIP])
@pytest.mark.parametrize("network", [MLP((8, 4), 0.5, direct=True), SetNetwork(4, "max", 5, (6,))])
def test_a_config_builds_the_same_again(learner: type[ClassifierModel], network: Any) -> None:
    torch.manual_seed(0)
    query_set = make_columns(COLUMNS)
    model = learner.build(ModelSpec(query_set, ["a", "b"], network, standardised=True)).eval()
    model.standardise(torch.randn(20, *query_set.answer_shape), torch.ones(20, len(query_set), dtype=torch.bool))
    again = learner.from_config(query_set, ["a", "b"], json.loads(json.dumps(model.to_config())))
    again.load_state_dict(model.state_dict())
    again.eval()
    history = histories(query_set)
    assert torch.equal(again.log_posterior(history), model.log_posterior(history))
    assert torch.equal(again.scores(history), model.scores(history))
    assert again.spec.network == model.spec.network == network


def test_answers_are_standardised_by_the_mean_and_spread_of_those_that_exist() -> None:
    query_set = make_columns(COLUMNS)
    rows = make_rows(query_set, 60, missing=0.3)
    model = ClassifierModel.build(ModelSpec(query_set, ["a", "b", "c"], MLP((8,)), standardised=True)).double()
    model.standardise(rows.x, rows.available)
    query_of_feature = query_set.units.of_feature.tolist()
    for feature, query in enumerate(query_of_feature):
        if query_set.units.feature_types[feature] == "number":  # its code is on the scale it has
            assert (float(model.centre[feature]), float(model.scale[feature])) == (0.0, 1.0)
            continue
        there = rows.x[rows.available[:, query], feature]
        assert float(model.centre[feature]) == pytest.approx(float(there.mean()), abs=1e-6)
        spread = max(float(there.std(unbiased=False)), LEAST_SPREAD)
        assert float(model.scale[feature]) == pytest.approx(1 / spread, abs=1e-5)
    seen = model.network_input(rows.x, rows.available)[:, : len(query_of_feature)]
    wanted = model.standardise_features(rows.x, slice(None)) * rows.available[:, query_of_feature]
    torch.testing.assert_close(seen, wanted)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 3.0])
def test_a_temperature_changes_how_sure_it_is_but_not_what_is_most_probable(temperature: float) -> None:
    torch.manual_seed(0)
    query_set = make_columns(COLUMNS)
    model = VIP.build(ModelSpec(query_set, ["a", "b", "c"], MLP((8,)), prior=torch.tensor([0.2, 0.3, 0.5]))).eval()
    history = histories(query_set)
    before = model.log_posterior(history)
    model.set_temperature(temperature)
    after = model.log_posterior(history)
    torch.testing.assert_close(after.exp().sum(dim=1), torch.ones(9))
    assert torch.equal(after.argsort(dim=1), before.argsort(dim=1))
    assert torch.equal(after[0], before[0])  # nothing is known of it, and the prior stays
    known = history.known.any(dim=1)
    torch.testing.assert_close(after[known], (before[known] / temperature).log_softmax(dim=1))
    surer = after[known].max(dim=1).values - before[known].max(dim=1).values
    assert (surer * (1 - temperature) >= -1e-6).all()
    state = history_state(model, history)
    torch.testing.assert_close(state.log_posterior(), after)


def test_a_temperature_is_saved_with_the_weights() -> None:
    query_set = make_columns(COLUMNS)
    model = VIP.build(ModelSpec(query_set, ["a", "b"], MLP((8,))))
    model.set_temperature(1.4)
    again = VIP.from_config(query_set, ["a", "b"], model.to_config())
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.temperature, model.temperature)


def test_only_models_made_for_it_are_standardised() -> None:
    query_set = make_columns(COLUMNS)
    rows = make_rows(query_set, 5)
    with pytest.raises(ValueError, match="made with standardised=True"):
        ClassifierModel.build(ModelSpec(query_set, ["a", "b"], MLP((8,)))).standardise(rows.x, rows.available)


def test_networks_of_ones_own_have_no_config() -> None:
    query_set = make_columns(COLUMNS)
    _, classifier = MLP((4,)).build(query_set, 2, False)
    with pytest.raises(ValueError, match="made by `build`"):
        ClassifierModel(ModelSpec(query_set, ["a", "b"]), classifier).to_config()


@pytest.mark.parametrize("shared", [False, True])
def test_whether_a_trunk_is_shared_is_part_of_the_config(shared: bool) -> None:
    query_set = make_columns(COLUMNS)
    model = VIP.build(ModelSpec(query_set, ["a", "b"], MLP((8,)), shared=shared))
    again = VIP.from_config(query_set, ["a", "b"], model.to_config())
    assert again.spec.shared == shared
    assert (again.querier[0] is again.classifier[0]) == shared


class Contrary(QuerierClassifier):
    """Asks last what its querier would ask first."""

    def forward(self, batch: Batch) -> TrainingOutcome:
        raise NotImplementedError

    def scores_from(self, outputs: Tensor, log_posterior: Callable[[], Tensor]) -> Tensor:
        return -super().scores_from(outputs, log_posterior)


def test_a_querier_with_scores_of_its_own_is_rolled_out_by_them() -> None:
    torch.manual_seed(0)
    query_set = make_columns(COLUMNS)
    model = Contrary.build(ModelSpec(query_set, ["a", "b"], MLP((8,)))).eval()
    history = histories(query_set)
    state = history_state(model, history)
    assert torch.equal(state.scores(), model.scores(history))
    query = torch.zeros(9, dtype=torch.long)
    answered = torch.ones(9, dtype=torch.bool)
    state.ask(query, answered)
    assert torch.equal(state.scores(), model.scores(history.record(query, answered)))
