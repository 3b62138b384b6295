"""SEFA: encodings of single answers, beliefs over samples, and attributions weighted by how likely a label is."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.methods.sefa import SEFA, SEFAClassifier, SEFASettings
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, PatchQueries, yes_no
from pursuit.training import Batch
from pursuit.training.rows import Rows
from pursuit.training.samplers import CarriedHistories, RandomHistories, RolledOutHistories
from pursuit.training.schedule import AdamW, Stage
from untrained import make_columns, make_rows, some_history

KINDS = ["yes_no", "choice", "number", "yes_no"]
SMALL = SEFASettings(latent=2, width=5, samples=6, training_samples=3)


def build(query_set: Any, settings: SEFASettings = SMALL, n_classes: int = 3) -> SEFA:
    torch.manual_seed(0)
    return SEFA.build(ModelSpec(query_set, range(n_classes), MLP((8,)), settings=settings)).eval()


def in_single(rows: Rows) -> Rows:
    return Rows(rows.x.float(), rows.available, rows.y)


@pytest.mark.parametrize("wrong", [{"latent": 0}, {"samples": 0}, {"beta": -1.0}, {"beta": float("inf")}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"of 1 to 16,384|beta is a weight"):
        SEFASettings(**wrong)


def test_histories_are_those_of_vip_by_random_queries() -> None:
    stages = [Stage(3, CarriedHistories(5)), Stage(2, RolledOutHistories(4))]
    plan = SEFAClassifier().plan(stages)
    assert [stage.histories for stage in plan] == [CarriedHistories(5), RandomHistories(4)]
    assert [stage.epochs for stage in plan] == [3, 2]


def test_scores_are_shares_of_gradients_weighted_by_likelihood() -> None:
    """The definition, sample by sample and label by label."""
    query_set = make_columns(KINDS)
    rows = in_single(make_rows(query_set, 4))
    model, history = build(query_set), some_history(rows)
    scores, closed = model.scores(history), history.asked
    latent = model.latent(history.x, history.known)
    for row in range(4):
        expected, share = torch.zeros(len(query_set)), torch.zeros(3)
        for noise in model.noise:
            z = (latent.mean[row] + (latent.log_variance[row] / 2).exp() * noise).detach()

            def probabilities(z: Tensor) -> Tensor:
                return model.classifier(z.flatten()[None])[0].softmax(dim=0)

            slopes = torch.autograd.functional.jacobian(probabilities, z).norm(dim=2)  # (C, Q)
            slopes = slopes * ~closed[row]
            likely = probabilities(z)
            expected += (likely[:, None] * slopes / slopes.sum(dim=1, keepdim=True).clamp(min=1e-12)).sum(dim=0)
            share += likely
        open_ones = ~closed[row]
        torch.testing.assert_close(
            scores[row][open_ones], (expected / len(model.noise))[open_ones], atol=1e-5, rtol=1e-4
        )
        belief = model.log_posterior(history)[row].exp()
        if history.n_known[row]:
            torch.testing.assert_close(belief, share / len(model.noise), atol=1e-5, rtol=1e-4)


def test_answers_that_are_not_known_do_not_show() -> None:
    query_set = make_columns(KINDS)
    rows = in_single(make_rows(query_set, 8))
    model, history = build(query_set), some_history(rows)
    hidden = ~history.known[:, query_set.units.of_feature]
    other = History(torch.where(hidden, -rows.x + 0.3, rows.x), history.known, history.asked)
    assert torch.equal(model.scores(history), model.scores(other))
    assert torch.equal(model.log_posterior(history), model.log_posterior(other))


def test_the_loss_is_that_of_the_mean_belief_and_the_divergence() -> None:
    query_set = make_columns(KINDS)
    rows = in_single(make_rows(query_set, 6))
    batch = Batch.of(rows, some_history(rows))
    losses = {}
    for beta in (0.0, 0.5):
        model = build(query_set, SEFASettings(latent=2, width=5, samples=6, training_samples=3, beta=beta))
        torch.manual_seed(3)
        losses[beta] = model(batch).loss
    latent = model.latent(batch.x, batch.known)
    variance = latent.log_variance.exp()
    divergence = 0.5 * (variance + latent.mean**2 - 1 - latent.log_variance).sum(dim=(1, 2)).mean()
    torch.testing.assert_close(losses[0.5] - losses[0.0], 0.5 * divergence)


def test_patches_have_encodings_too() -> None:
    model = build(PatchQueries((1, 6, 6), size=2, stride=2))
    x = torch.rand(3, 1, 6, 6) * 2 - 1
    asked = torch.zeros(3, 9, dtype=torch.bool)
    asked[:, :4] = True
    scores = model.scores(History(x, asked, asked))
    assert scores.shape == (3, 9)
    assert (scores[:, :4] == 0).all()
    assert torch.allclose(scores.sum(dim=1), torch.ones(3), atol=1e-5)


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_it_learns_what_decides(tmp_path: Any) -> None:
    """The first of six answers says which of two others is the label."""
    randomness = np.random.default_rng(0)
    X = randomness.integers(0, 2, (1500, 6))
    y = np.where(X[:, 0] == 1, X[:, 1], X[:, 2])
    settings: dict[str, Any] = {"network": MLP((32, 32)), "teachers": None, "random_state": 0}
    stages = [Stage(60, CarriedHistories(6, random_share=0.5), AdamW(1e-2), batch_size=128)]
    queries = ColumnQueries([yes_no(name) for name in "abcdef"])
    model = SEFAClassifier(queries, stages=stages, held_out=0.0, settings=SEFASettings(samples=32), **settings).fit(
        X, y
    )
    chains = model.explain(X[:60], stop="budget=3")
    assert np.mean([{step.name for step in chain.steps} <= {"a", "b", "c"} for chain in chains]) > 0.9
    assert np.mean(model.predict(X[:300]) == y[:300]) > 0.95
    model.save(tmp_path / "model")
    again = SEFAClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(X[:50]), model.predict_proba(X[:50]), atol=1e-6)
