"""The partial VAE: its scores and posteriors follow from what is known alone, and it asks better than chance."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from pursuit import ModelSpec
from pursuit.evaluation.curves import evaluate
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.methods.partial_vae import PartialVAE, PartialVAEClassifier, PartialVAESettings
from pursuit.methods.random_order import RandomOrder
from pursuit.methods.shared import generative
from pursuit.methods.shared.generative import Gaussian, some_labels
from pursuit.networks import MLP, Conv, SetNetwork
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet, yes_no
from pursuit.training import AdamW, Batch, CarriedHistories, RandomHistories, RolledOutHistories, Stage, train
from pursuit.training.rows import Rows
from pursuit.training.samplers import random_histories
from trained import kept
from untrained import make_columns, make_rows

Reward = Literal["eddi", "label"]
REWARDS: list[Reward] = ["eddi", "label"]
SMALL = PartialVAESettings(latent=4, width=12, samples=4, candidates=None)


def untrained(query_set: QuerySet, settings: PartialVAESettings = SMALL, n_classes: int = 3) -> PartialVAE:
    torch.manual_seed(0)
    prior = torch.arange(1.0, n_classes + 1)
    prior /= prior.sum()
    model = PartialVAE.build(ModelSpec(query_set, range(n_classes), MLP((10,)), settings=settings, prior=prior)).eval()
    with torch.no_grad():
        for layer in (model.encoder[-1], model.decoder[-1], model.label_decoder[-1]):
            layer.weight.mul_(4)
    return model


def some_history(rows: Rows, seed: int = 0) -> History:
    k = torch.arange(len(rows)) % rows.n_queries
    rows = replace(rows, x=rows.x.float())
    return random_histories(rows, k, torch.Generator().manual_seed(seed))


@pytest.fixture(params=["table", "patches", "bright or dark", "no mask"])
def query_set(request: Any) -> QuerySet:
    kinds = {
        "table": lambda: make_columns(["yes_no", "choice", "number", "yes_no", "single"]),
        "patches": lambda: PatchQueries((2, 4, 4), size=2, stride=1, low=-1),
        "bright or dark": lambda: PatchQueries((1, 4, 4), size=2, stride=2, low=-1, threshold=0),
        "no mask": lambda: make_columns(["yes_no", "choice", "yes_no"], False),
    }
    return kinds[request.param]()


def test_divergence_is_that_of_normal_distributions() -> None:
    torch.manual_seed(0)
    one, other = (Gaussian(torch.randn(5, 3), torch.randn(5, 3)) for _ in range(2))

    def normal(of: Gaussian) -> Independent:
        return Independent(Normal(of.mean, (0.5 * of.log_variance).exp()), 1)

    torch.testing.assert_close(one.divergence(other), kl_divergence(normal(one), normal(other)))
    assert torch.equal(one.divergence(one), torch.zeros(5))


def test_few_labels_stand_for_many_by_their_shares() -> None:
    belief = torch.tensor([[0.5, 0.1, 0.1, 0.1, 0.2], [0.0, 0.0, 1.0, 0.0, 0.0]])
    chosen, share = some_labels(belief, 5)
    assert torch.equal(chosen, torch.arange(5).expand(2, 5))
    assert torch.equal(share, torch.ones(2, 5))
    chosen, share = some_labels(belief, 4)
    assert chosen.tolist() == [[0, 0, 2, 4], [2, 2, 2, 2]]
    torch.testing.assert_close((belief.gather(1, chosen) * share).sum(dim=1), torch.ones(2))


@pytest.mark.parametrize("reward", REWARDS)
def test_unknown_answers_never_matter(query_set: QuerySet, reward: Reward) -> None:
    model, rows = untrained(query_set, replace(SMALL, reward=reward)), make_rows(query_set, 6, missing=0.3)
    history = some_history(rows)
    other = make_rows(query_set, 6, seed=5).x.float()
    shown = query_set.units.known(history.known)[:, query_set.units.of_feature].view(other.shape)
    changed = History(torch.where(shown, history.x, other), history.known, history.asked)
    torch.testing.assert_close(model.scores(history), model.scores(changed))
    torch.testing.assert_close(model.log_posterior(history), model.log_posterior(changed))


@pytest.mark.parametrize("reward", REWARDS)
def test_rows_do_not_depend_on_each_other(query_set: QuerySet, reward: Reward, monkeypatch: pytest.MonkeyPatch) -> None:
    model = untrained(query_set, replace(SMALL, reward=reward, candidates=2))
    history = some_history(make_rows(query_set, 6))
    scores, log_posterior = model.scores(history), model.log_posterior(history)
    assert scores.shape == history.asked.shape
    assert scores.isfinite().all()
    torch.testing.assert_close(log_posterior.exp().sum(dim=1), torch.ones(6))
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    torch.testing.assert_close(model.scores(history.rows(order)), scores[order], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(model.log_posterior(history.rows(order)), log_posterior[order], atol=1e-5, rtol=1e-4)
    monkeypatch.setattr(generative, "AT_ONCE", 64)  # a few rows and answers at a time
    torch.testing.assert_close(model.scores(history), scores, atol=1e-4, rtol=1e-4)


def test_randomness_is_its_own(query_set: QuerySet) -> None:
    model, history = untrained(query_set), some_history(make_rows(query_set, 4))
    state = torch.get_rng_state()
    first = model.scores(history)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(model.scores(history), first)


def test_the_posterior_of_an_empty_history_is_the_label_frequencies(query_set: QuerySet) -> None:
    model = untrained(query_set)
    log_posterior = model.log_posterior(replace_x(make_rows(query_set, 2)).start())
    torch.testing.assert_close(log_posterior.exp(), torch.tensor([1, 2, 3]).div(6).expand(2, 3))


def replace_x(rows: Rows) -> Rows:
    return replace(rows, x=rows.x.float())


def test_information_about_the_label_is_never_negative(query_set: QuerySet) -> None:
    model, history = untrained(query_set, replace(SMALL, reward="label")), some_history(make_rows(query_set, 8))
    scores = model.scores(history)[~history.asked]
    assert scores.min() > -1e-5
    assert scores.max() > 1e-3


def test_scores_are_bits_where_all_of_them_are_information_about_the_label(query_set: QuerySet) -> None:
    for reward, candidates, unit in (("label", None, "bits"), ("label", 2, None), ("eddi", None, None)):
        settings = replace(SMALL, reward=cast(Reward, reward), candidates=candidates)
        assert untrained(query_set, settings).score_unit == unit
    assert untrained(query_set, replace(SMALL, reward="label", candidates=len(query_set))).score_unit == "bits"


@pytest.mark.parametrize("reward", REWARDS)
def test_what_is_not_a_candidate_comes_last(query_set: QuerySet, reward: Reward) -> None:
    settings, history = replace(SMALL, reward=reward), some_history(make_rows(query_set, 8))
    of_all = untrained(query_set, settings).scores(history)
    of_two = untrained(query_set, replace(settings, candidates=2)).scores(history)
    left = (~history.asked).sum(dim=1).clamp(max=2)
    close = (of_two - of_all).abs() < 1e-5
    for row, n in enumerate(left.tolist()):
        best = of_two[row].masked_fill(history.asked[row], -torch.inf).topk(n).indices
        assert close[row, best].all()


N_LABELS, N_QUERIES = 5, 12
YES = torch.rand(N_LABELS, N_QUERIES, generator=torch.Generator().manual_seed(0))
TABLE = ColumnQueries([yes_no(f"q{i}") for i in range(N_QUERIES)])
EXACT = IndependentIP.from_yes(TABLE, range(N_LABELS), torch.full((N_LABELS,), 1 / N_LABELS), YES)


def draw(n: int, seed: int) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(N_LABELS, (n,), generator=generator)
    x = 2 * (torch.rand(n, N_QUERIES, generator=generator) < YES[y]).float() - 1
    return Rows(x, torch.ones(n, N_QUERIES, dtype=torch.bool), y)


@pytest.fixture(scope="module")
def trained() -> PartialVAE:
    def learn() -> PartialVAE:
        torch.manual_seed(0)
        settings, prior = PartialVAESettings(latent=8, width=48), torch.full((N_LABELS,), 1 / N_LABELS)
        model = PartialVAE.build(ModelSpec(TABLE, range(N_LABELS), MLP((48,)), settings=settings, prior=prior))
        train(model, draw(2000, 1), [Stage(25, RandomHistories(), batch_size=128)])
        return model

    return kept("partial VAE", learn)


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
@pytest.mark.parametrize("reward", REWARDS)
def test_it_asks_nearly_what_exact_pursuit_asks(trained: PartialVAE, reward: Reward) -> None:
    trained.settings, test = replace(trained.settings, reward=reward), draw(400, 2)
    history = random_histories(test, torch.full((400,), 2), torch.Generator().manual_seed(0))
    scores, information = trained.scores(history), EXACT.scores(history).float()
    left = ~history.asked
    assert scores[left].mean() > 0
    correlations = torch.stack(
        [
            torch.corrcoef(torch.stack([a[here], b[here]]))[0, 1]
            for a, b, here in zip(scores, information, left, strict=True)
        ]
    )
    assert correlations.mean() > 0.6
    own, chance, best = (evaluate(p, test, max_queries=8).area for p in (trained, RandomOrder(trained), EXACT))
    assert own > chance + 0.5 * (best - chance)


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_its_posterior_is_nearly_the_exact_one(trained: PartialVAE) -> None:
    test = draw(400, 3)
    history = random_histories(test, torch.full((400,), 4), torch.Generator().manual_seed(0))
    exact, own = EXACT.log_posterior(history), trained.log_posterior(history)
    divergence = (exact.exp() * (exact - own)).sum(dim=1).mean()
    assert divergence < 0.1


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_it_asks_for_patches_better_than_chance() -> None:
    images, labels = load_digits(n_class=4, return_X_y=True)
    images = images.reshape(-1, 1, 8, 8)
    settings = PartialVAESettings(latent=8, width=48, samples=4, candidates=6)
    query_set = PatchQueries((1, 8, 8), size=2, stride=2, low=0, high=16)
    stages = [Stage(30, CarriedHistories(8))]
    classifier = PartialVAEClassifier(
        query_set, network=MLP((48,)), stages=stages, settings=settings, max_queries=6, random_state=0
    )
    model = classifier.fit(images[:600], labels[:600]).model_
    rows = classifier.rows(images[600:], labels[600:])
    chance = evaluate(RandomOrder(model), rows, max_queries=6).area
    for reward in REWARDS:
        model.settings = replace(settings, reward=reward)
        assert evaluate(model, rows, max_queries=6).area > chance + 0.05


def people() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows with missing answers, labels that are words, and ages that are known initially for half of them."""
    generator = np.random.default_rng(0)
    label = generator.integers(3, size=240)
    frame = pd.DataFrame(
        {
            "fever": (generator.random(240) < np.array([0.1, 0.5, 0.9])[label]).astype(float),
            "age": 20.0 * label + 10 * generator.standard_normal(240),
            "season": np.array(["spring", "summer", "winter"])[(label + (generator.random(240) < 0.3)) % 3],
        }
    )
    frame.loc[generator.random(240) < 0.2, "fever"] = np.nan
    frame.loc[generator.random(240) < 0.2, "season"] = None
    initially_known = np.zeros((240, 3), dtype=bool)
    initially_known[:, 1] = generator.random(240) < 0.5
    return frame, np.array(["allergy", "cold", "flu"])[label], initially_known


@pytest.mark.parametrize(
    "network",
    [MLP((16,)), pytest.param(SetNetwork(embedding=4, width=8, hidden=(16,)), marks=pytest.mark.slow)],
    ids=["mlp", "set"],
)
def test_a_table_with_missing_and_initially_known_answers(tmp_path: Path, network: Any) -> None:
    frame, y, initially_known = people()
    settings = PartialVAESettings(latent=4, width=16, samples=4, labels=2)
    classifier = PartialVAEClassifier(
        network=network,
        stages=[Stage(40, RandomHistories(), AdamW(1e-2))],
        settings=settings,
        standardise=True,
        random_state=3,
    )
    classifier.fit(frame, y, initially_known=initially_known)
    proba = classifier.predict_proba(frame, initially_known=initially_known)
    assert (classifier.classes_[proba.argmax(axis=1)] == y).mean() > 0.6
    classifier.save(tmp_path)
    loaded = PartialVAEClassifier.load(tmp_path)
    assert loaded.settings == loaded.model_.settings == settings
    assert loaded.network == network
    assert "shared" not in loaded.get_params()
    assert np.array_equal(proba, loaded.predict_proba(frame, initially_known=initially_known))
    history = classifier.rows(frame, y, initially_known=initially_known).start()
    assert torch.equal(loaded.model_.scores(history), classifier.model_.scores(history))


def test_convolutions_read_images(tmp_path: Path) -> None:
    images, labels = load_digits(n_class=3, return_X_y=True)
    images = images.reshape(-1, 1, 8, 8)
    query_set = PatchQueries((1, 8, 8), size=4, stride=4, low=0, high=16, threshold=8)
    network, settings = Conv(channels=(4, 4), hidden=8), PartialVAESettings(latent=4, width=8, samples=2)

    def fitted() -> PartialVAEClassifier:
        stages = [Stage(1, CarriedHistories(3))]
        classifier = PartialVAEClassifier(query_set, network=network, stages=stages, settings=settings, random_state=0)
        return classifier.fit(images[:256], labels[:256])

    classifier = fitted()
    proba = classifier.predict_proba(images[256:300])
    assert np.array_equal(fitted().predict_proba(images[256:300]), proba)
    classifier.save(tmp_path)
    assert np.array_equal(PartialVAEClassifier.load(tmp_path).predict_proba(images[256:300]), proba)


def test_histories_are_as_long_as_those_of_the_plan() -> None:
    plan = [Stage(3, CarriedHistories(7)), Stage(2, RolledOutHistories(5), batch_size=32)]
    carried, random = PartialVAEClassifier().plan(plan)
    assert carried == plan[0]
    assert random == replace(plan[1], histories=RandomHistories(5))


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
@pytest.mark.parametrize("reward", REWARDS)
def test_queries_of_ones_own_are_asked_better_than_by_chance(
    reward: Reward, pairs: Any, pair_data: tuple[np.ndarray, np.ndarray], pair_rows: Rows, tmp_path: Path
) -> None:
    settings = PartialVAESettings(latent=4, width=24, samples=4, reward=reward, candidates=3)
    stages = [Stage(20, CarriedHistories(3), AdamW(1e-2), batch_size=32)]
    classifier = PartialVAEClassifier(pairs, network=MLP((24,)), settings=settings, stages=stages, random_state=0)
    model = classifier.fit(*pair_data).model_
    area, by_chance = (evaluate(one, pair_rows, max_queries=2).area for one in (model, RandomOrder(model)))
    assert area > by_chance + 0.05
    classifier.save(tmp_path)
    history = pair_rows.start()
    assert torch.equal(PartialVAEClassifier.load(tmp_path).model_.scores(history), model.scores(history))


def test_queries_in_training_are_random_and_new() -> None:
    model, rows = untrained(TABLE), replace_x(make_rows(TABLE, 200))
    asked: Tensor = torch.zeros(200, N_QUERIES, dtype=torch.bool)
    asked[:, :8] = True
    query = model(Batch(rows.x, asked, asked, rows.available, rows.y)).query
    assert query is not None
    assert set(query.tolist()) == {8, 9, 10, 11}


@pytest.mark.parametrize(
    "wrong",
    [{"reward": "entropy"}, {"samples": 3}, {"samples": 0}, {"candidates": 0}, {"latent": 0}, {"label_weight": 0}],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PartialVAESettings(**wrong)
