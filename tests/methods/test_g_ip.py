"""G-IP: its chains, posteriors and information are those of its model, and its model that of a known world."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pursuit.evaluation.curves import evaluate
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.methods import g_ip
from pursuit.methods.g_ip import GIP, GIPClassifier, GIPSettings, Langevin
from pursuit.methods.random_order import RandomOrder
from pursuit.methods.shared import generative
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet, yes_no
from pursuit.training import AdamW, Batch, RandomHistories, Stage, train
from pursuit.training.rows import Rows
from pursuit.training.samplers import random_histories
from trained import kept
from untrained import make_columns, make_rows

SMALL = GIPSettings(latent=2, hidden=(16,), langevin=Langevin(n_chains=8, burn_in=5))
IMAGES = PatchQueries((1, 3, 4), size=2, threshold=0.5)
N_LABELS, N_QUERIES = 4, 10
QUERIES = ColumnQueries([yes_no(f"q{i}") for i in range(N_QUERIES)])
YES = torch.rand(N_LABELS, N_QUERIES, generator=torch.Generator().manual_seed(3))
EXACT = IndependentIP.from_yes(QUERIES, range(N_LABELS), torch.full((N_LABELS,), 1 / N_LABELS), YES)


def draw(n: int, seed: int) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(N_LABELS, (n,), generator=generator)
    x = 2 * (torch.rand(n, N_QUERIES, generator=generator) < YES[y]).float() - 1
    return Rows(x, torch.ones(n, N_QUERIES, dtype=torch.bool), y)


def untrained(query_set: QuerySet, settings: GIPSettings = SMALL, n_classes: int = 3, size: float = 3.0) -> GIP:
    """A model in which z and the label matter more than they do at first."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GIP(query_set, [f"label {i}" for i in range(n_classes)], settings)
        for parameter in model.decoder.parameters():
            parameter.data *= size
        torch.nn.init.normal_(model.decoder.usual.weight)
    return model.eval()


def some_history(query_set: QuerySet, rows: Rows, share: float = 0.4) -> History:
    chosen = torch.rand(len(rows), len(query_set), generator=torch.Generator().manual_seed(1)) < share
    return History(rows.x, chosen & rows.available, chosen)


@pytest.fixture(scope="module")
def trained() -> GIP:
    def learn() -> GIP:
        torch.manual_seed(0)
        settings = GIPSettings(latent=2, hidden=(32,), langevin=Langevin(n_chains=8))
        model = GIP(QUERIES, range(N_LABELS), settings, torch.full((N_LABELS,), 1 / N_LABELS))
        train(model, draw(4000, seed=1), [Stage(25, RandomHistories(0))])
        return model

    return kept("G-IP", learn)


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_information_and_posteriors_are_those_of_a_known_world(trained: GIP) -> None:
    rows, generator = draw(150, seed=5), torch.Generator().manual_seed(0)
    history = random_histories(rows, torch.randint(7, (150,), generator=generator), generator)
    left, exact = ~history.asked, EXACT.scores(history)
    found = trained.scores(history).double()
    assert torch.corrcoef(torch.stack([found[left], exact[left]]))[0, 1] > 0.95
    assert (found[left] - exact[left]).abs().max() < 0.15
    assert 0.85 < found[left].mean() / exact[left].mean() < 1.15  # bits, as exact ones
    assert trained.score_unit == "bits"
    log_p, log_q = EXACT.log_posterior(history), trained.log_posterior(history).double()
    assert (log_p.exp() * (log_p - log_q)).sum(dim=1).mean() < 0.02


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_it_asks_better_than_chance(trained: GIP) -> None:
    rows = draw(60, seed=6)
    own, chance = (evaluate(pursuer, rows, max_queries=6).area for pursuer in (trained, RandomOrder(trained)))
    best = evaluate(EXACT, rows, max_queries=6).area
    assert own > chance + 0.05
    assert own > best - 0.03


@pytest.fixture(scope="module")
def grid() -> Tensor:
    return torch.linspace(-6, 6, 2001)[:, None]


def test_chains_and_posteriors_are_those_of_an_integral_over_z(grid: Tensor) -> None:
    """A single z can be integrated over: p(z | y, S) and p(S | y) are then known."""
    settings = GIPSettings(latent=1, hidden=(8,), langevin=Langevin(n_chains=500, burn_in=40, step=0.1))
    model = untrained(QUERIES, settings)
    history = some_history(QUERIES, draw(4, seed=2))
    state: Any = model.history_state(history)
    with torch.no_grad():
        z = grid.expand(4, 3, -1, -1)
        log_joint = model.log_prob(z, model.known_answers(history.x, history.known), history.known)
        log_joint += -(z**2).sum(dim=3) / 2  # (B, C, grid)
        density = log_joint.softmax(dim=2)
    mean = density @ grid[:, 0]
    deviation = (density @ grid[:, 0] ** 2 - mean**2).sqrt()
    torch.testing.assert_close(state._z.mean(dim=(2, 3)), mean, atol=0.15, rtol=0)
    torch.testing.assert_close(state._z.std(dim=(2, 3)), deviation, atol=0.15, rtol=0)
    posterior = log_joint.logsumexp(dim=2).softmax(dim=1)  # all labels are alike beforehand
    torch.testing.assert_close(state.log_posterior().exp(), posterior, atol=0.05, rtol=0)
    assert (posterior.max(dim=1).values - 1 / 3).min() > 0.05  # the answers did tell something


@pytest.mark.parametrize("kinds", [["yes_no"] * 5, ["yes_no", "number", "choice", "number"]])
def test_labels_that_decode_alike_leave_nothing_to_ask(kinds: list[str]) -> None:
    query_set = make_columns(kinds)
    model, rows = untrained(query_set), make_rows(query_set, 6)
    history = some_history(query_set, rows)
    assert model.scores(history)[~history.known].min() > 0
    for table in (model.decoder.label, model.decoder.usual):
        table.weight.data[:] = table.weight.data[0]
    assert model.scores(history).abs().max() < 1e-5
    torch.testing.assert_close(model.log_posterior(history).exp(), torch.full((6, 3), 1 / 3))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "side"), [(1, 3), (2, 3), (3, 4)])
def test_a_row_is_asked_the_same_whatever_rows_are_beside_it(
    size: int, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(g_ip, "LISTED_UNITS", 4)  # those of nine pixels are drawn
    query_set = PatchQueries((1, side, side), size=size)
    x = torch.rand(4, 1, side, side, generator=torch.Generator().manual_seed(0)) * 2 - 1
    rows = Rows(x, torch.ones(4, len(query_set), dtype=torch.bool), torch.zeros(4, dtype=torch.long))
    model, history = untrained(query_set), some_history(query_set, rows)
    scores, log_posterior = model.scores(history), model.log_posterior(history)
    order = torch.tensor([3, 1])
    torch.testing.assert_close(model.scores(history.rows(order)), scores[order])
    one, all_ = model.history_state(history.rows(order)), model.history_state(history)
    for state, n_rows in ((one, 2), (all_, 4)):
        state.ask(torch.zeros(n_rows, dtype=torch.long), torch.ones(n_rows, dtype=torch.bool))
    torch.testing.assert_close(one.scores(), all_.scores()[order])
    monkeypatch.setattr(generative, "AT_ONCE", 1)  # one row after the other, patch by patch
    torch.testing.assert_close(model.scores(history), scores)
    torch.testing.assert_close(model.log_posterior(history), log_posterior)


def test_what_is_not_known_is_not_read() -> None:
    query_set = make_columns(["yes_no", "number", "choice"])
    model, rows = untrained(query_set), make_rows(query_set, 6)
    history = some_history(query_set, rows)
    unknown = ~history.known[:, query_set.units.of_feature]
    other = History(history.x.masked_fill(unknown, torch.nan), history.known, history.asked)
    assert torch.equal(model.scores(history), model.scores(other))
    assert torch.equal(model.log_posterior(history), model.log_posterior(other))
    nothing = Rows(rows.x, rows.available, rows.y).start()
    torch.testing.assert_close(model.log_posterior(nothing), model.log_prior.expand(6, -1))


def test_missing_answers_are_not_learnt_from() -> None:
    query_set = make_columns(["yes_no", "number", "choice"])
    model, rows = untrained(query_set), make_rows(query_set, 6)
    available = torch.rand(6, 3, generator=torch.Generator().manual_seed(1)) < 0.5
    losses = []
    for x in (rows.x, rows.x.masked_fill(~available[:, query_set.units.of_feature], 7.0)):
        torch.manual_seed(0)
        loss, query = model(Batch(x, available, available, available, rows.y))
        assert query is None
        losses.append(loss)
    assert losses[0] == losses[1]
    losses[0].backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_answer_by_answer_the_posterior_is_about_that_of_the_history() -> None:
    settings = GIPSettings(latent=2, hidden=(16,), langevin=Langevin(n_chains=100, burn_in=10))
    model, rows = untrained(QUERIES, settings, size=1.5), draw(5, seed=3)
    state, history = model.history_state(rows.start()), rows.start()
    for number, query in enumerate((7, 2, 4, 9)):
        answered = torch.arange(len(history)) != number
        state.ask(torch.full((len(history),), query), answered)
        history = history.record(torch.full((len(history),), query), answered)
        if number == 2:
            state.keep(torch.tensor([0, 2, 4]))
            history = history.rows(torch.tensor([0, 2, 4]))
        assert torch.equal(state.asked, history.asked)
        torch.testing.assert_close(state.log_posterior().exp(), model.log_posterior(history).exp(), atol=0.06, rtol=0)
        left = ~history.asked
        torch.testing.assert_close(state.scores()[left], model.scores(history)[left], atol=0.06, rtol=0)


def test_long_histories_are_taken_in_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = GIPSettings(latent=2, hidden=(16,), langevin=Langevin(n_chains=200, burn_in=10))
    model, rows = untrained(QUERIES, settings, size=1.5), draw(5, seed=3)
    history = History(rows.x, rows.available, rows.available)
    one_by_one = model.log_posterior(history)
    monkeypatch.setattr(g_ip, "MOST_PARTS", 4)
    torch.testing.assert_close(model.log_posterior(history).exp(), one_by_one.exp(), atol=0.1, rtol=0)


def table() -> tuple[np.ndarray, np.ndarray]:
    rows = draw(60, seed=4)
    X = (rows.x.numpy() > 0).astype(float)
    X[::7, 3] = np.nan
    return X, np.array(["a", "b", "c", "d"])[rows.y]


def fitted(**more: Any) -> GIPClassifier:
    settings = {"settings": SMALL, "stages": [Stage(4, batch_size=32)], "random_state": 0, "max_queries": 4, **more}
    return GIPClassifier(QUERIES, **settings).fit(*table(), initially_known=np.eye(60, N_QUERIES, dtype=bool))


@pytest.mark.slow
def test_the_estimator_learns_the_same_by_the_same_seed_and_is_saved_whole(tmp_path: Path) -> None:
    one, other = fitted(), fitted()
    X, y = table()
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    assert not np.array_equal(one.predict_proba(X), fitted(random_state=1).predict_proba(X))
    one.save(tmp_path)
    loaded = GIPClassifier.load(tmp_path)
    assert loaded.settings == SMALL
    assert np.array_equal(loaded.predict_proba(X), one.predict_proba(X))
    assert set(loaded.predict(X[:1])) <= set(y)
    assert loaded.explain(X[:5])[4].to_json() == one.explain(X[:5])[4].to_json()


def test_as_many_rows_are_learnt_from_as_v_ip_has_histories() -> None:
    stages = [Stage(4, batch_size=32), Stage(2, batch_size=8)]
    plan = GIPClassifier().plan(stages)
    assert [(stage.epochs, stage.batch_size) for stage in plan] == [(4, 32), (2, 8)]
    assert {stage.histories for stage in plan} == {RandomHistories(0)}


@pytest.mark.slow
def test_queries_of_ones_own_are_asked_better_than_by_chance(
    pairs: Any, pair_data: tuple[np.ndarray, np.ndarray], pair_rows: Rows, tmp_path: Path
) -> None:
    settings = GIPSettings(latent=2, hidden=(16,), langevin=Langevin(n_chains=8))
    stages = [Stage(12, optimizer=AdamW(1e-2), batch_size=32)]
    classifier = GIPClassifier(pairs, settings=settings, stages=stages, random_state=0)
    model = classifier.fit(*pair_data).model_
    X, y = pair_data
    assert classifier.score(X[:40], y[:40]) > 0.8
    history = pair_rows.start()
    assert model.scores(history).isfinite().all()
    some = pair_rows.take(slice(60))
    area, by_chance = (evaluate(one, some, max_queries=2).area for one in (model, RandomOrder(model)))
    assert area > by_chance + 0.05
    classifier.save(tmp_path)
    assert torch.equal(GIPClassifier.load(tmp_path).model_.scores(history), model.scores(history))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="GIPSettings"):
        GIPClassifier(settings=Langevin()).fit(*table())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hidden layer"):
        GIPSettings(hidden=())
    assert not {"network", "standardise", "shared"} & set(GIPClassifier().get_params())


def test_settings_suit_the_query_set() -> None:
    assert GIP(QUERIES, range(2)).settings == GIPSettings()
    large = PatchQueries((1, 16, 16), size=8)
    prior = torch.ones(2) / 2
    for settings, hidden in ((None, (512, 512)), (SMALL, SMALL.hidden)):
        assert GIP(large, range(2), settings).settings.hidden == hidden
        estimator = GIPClassifier(settings=settings)
        estimator.classes_ = np.arange(2)
        assert (
            estimator.make_learner(
                large, Rows(large.blank(0), torch.ones(0, len(large)).bool(), torch.zeros(0).long()), prior
            ).settings.hidden
            == hidden
        )
    assert GIP(IMAGES, range(2)).settings.hidden == GIPSettings().hidden
