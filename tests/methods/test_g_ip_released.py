"""G-IP by the settings of the authors' code, with fewer chains: in a known world, for images, and in parts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.methods import g_ip
from pursuit.methods.g_ip import GIP, ConvLayers, GIPClassifier, GIPSettings, Langevin
from pursuit.methods.shared import generative
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet, yes_no
from pursuit.training import Batch, Stage

FEW = Langevin.released(n_chains=16, n_samples=100)
YES = torch.tensor([[0.95, 0.5, 0.9, 0.2], [0.05, 0.5, 0.9, 0.2], [0.05, 0.5, 0.1, 0.8], [0.05, 0.5, 0.1, 0.2]])
COLUMNS = ColumnQueries([yes_no(f"q{i}") for i in range(4)])
DIGITS = PatchQueries((1, 28, 28), size=3, threshold=0.5)
SMALL_IMAGES = PatchQueries((1, 16, 17), size=3, stride=3, threshold=0.5)


def untrained(query_set: QuerySet, n_classes: int = 3, settings: GIPSettings | None = None) -> GIP:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GIP(query_set, range(n_classes), settings or GIPSettings.released(query_set, FEW))
        for parameter in model.decoder.parameters():
            parameter.data *= 1.5
    return model.eval()


def known_world() -> GIP:
    """A model whose answers are independent given the label, as z does not matter: exact pursuit is known."""
    model = untrained(COLUMNS, n_classes=4)
    for parameter in model.decoder.parameters():
        torch.nn.init.zeros_(parameter)
    model.decoder.usual.weight.data = torch.logit(YES)  # type: ignore[union-attr]
    return model


def answers(query_set: QuerySet, n_rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return (torch.rand(n_rows, *query_set.answer_shape, generator=generator) < 0.5) * 2.0 - 1.0


def chain(model: GIP, x: Tensor, n_queries: int) -> list[Tensor]:
    """Scores and posteriors of rows, answer by answer."""
    history = History.start(x, len(model.query_set))
    state, found = model.history_state(history), list[Tensor]()
    for _ in range(n_queries):
        scores = state.scores()
        found += [scores, state.log_posterior()]
        query = scores.masked_fill(state.asked, -torch.inf).argmax(dim=1)
        state.ask(query, torch.ones(len(x), dtype=torch.bool, device=x.device))
    return [*found, state.log_posterior()]


def test_the_numbers_are_those_of_the_released_code() -> None:
    langevin = Langevin.released()
    assert (langevin.n_chains, langevin.n_samples, langevin.burn_in) == (256, 12_000, 20)
    assert (langevin.step / 2, langevin.step, langevin.cut, langevin.clip) == (0.1, 0.2, 100, None)
    digits, columns = GIPSettings.released(DIGITS), GIPSettings.released(COLUMNS)
    assert digits.latent == columns.latent == 100
    assert digits.hidden == ConvLayers((32, 64, 128, 256))
    assert columns.hidden == (128, 512)
    assert digits.langevin == columns.langevin == langevin


def test_steps_are_shorter_where_all_gradients_together_are_long() -> None:
    z = torch.zeros(2, 16, 4)
    slope = torch.stack([torch.ones(16, 4), torch.full((16, 4), 100.0)])  # of lengths 8 and 800
    (still,) = FEW.path(lambda z: slope.clone(), z, torch.zeros(1, 2, 16, 4))
    torch.testing.assert_close(still, torch.stack([torch.full((16, 4), 0.1), torch.full((16, 4), 100 * 0.1 / 8)]))
    (noisy,) = FEW.path(lambda z: slope.clone(), z, torch.ones(1, 2, 16, 4))
    torch.testing.assert_close((noisy - still)[:, 0, 0], torch.tensor([0.2, 0.2 / 8]).sqrt())


def test_it_asks_what_exact_pursuit_asks_of_a_known_world() -> None:
    model = known_world()
    exact = IndependentIP.from_yes(COLUMNS, range(4), torch.full((4,), 0.25), YES)
    x = torch.tensor([[1.0, 1, 1, -1], [-1, 1, 1, -1], [-1, -1, -1, 1]])
    history = History.start(x, 4)
    own, true = model.history_state(history), exact.history_state(history)
    for _ in range(3):
        torch.testing.assert_close(own.scores(), true.scores().float() * ~own.asked, atol=1e-4, rtol=0)
        torch.testing.assert_close(own.log_posterior(), true.log_posterior().float(), atol=1e-4, rtol=0)
        query = true.scores().masked_fill(true.asked, -torch.inf).argmax(dim=1)
        for state in (own, true):
            state.ask(query, torch.ones(3, dtype=torch.bool))


@pytest.mark.slow
def test_samples_are_those_of_an_integral_over_z() -> None:
    """A single z can be integrated over."""
    one = GIP(COLUMNS, range(3), GIPSettings(1, (8,), Langevin.released(n_chains=50, n_samples=5000))).eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for parameter in one.decoder.parameters():
            torch.nn.init.normal_(parameter)
    x = answers(COLUMNS, 2)
    state: Any = one.history_state(History.start(x, 4))
    for query in (0, 1, 2):
        state.ask(torch.full((2,), query), torch.ones(2, dtype=torch.bool))
    grid = torch.linspace(-6, 6, 2001)[:, None]
    with torch.no_grad():
        z, seen = grid.expand(2, 3, -1, -1), state._seen
        log_joint = one.log_prob(z, one.known_answers(x, seen), seen) - (z**2).sum(dim=3) / 2
    mean = log_joint.softmax(dim=2) @ grid[:, 0]
    samples = torch.cat([state._sample(row).z for row in range(2)])
    assert samples.shape == (2, 3, 5000, 1)
    torch.testing.assert_close(samples.mean(dim=(2, 3)), mean, atol=0.15, rtol=0)
    posterior = log_joint.logsumexp(dim=2).softmax(dim=1)
    torch.testing.assert_close(state.log_posterior().exp(), posterior, atol=0.06, rtol=0)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 16, 19), (2, 17, 30)])
def test_convolutions_lead_to_z_and_back_to_the_image(shape: tuple[int, int, int]) -> None:
    query_set = PatchQueries(shape, size=3, threshold=0.5)
    model = GIP(query_set, range(5), GIPSettings.released(query_set, FEW))
    x, y = answers(query_set, 4), torch.tensor([0, 1, 2, 4])
    there = torch.ones(4, len(query_set), dtype=torch.bool)
    loss, _ = model(Batch(x, there, there, there, y))
    loss.backward()
    assert all(
        p.grad is not None and p.grad.isfinite().all()
        for part in (model.encoder, model.decoder)
        for p in part.parameters()
    )
    assert model.decoder(torch.zeros(4, 100), y).shape == (4, x[0].numel())
    assert model.eval().decoded(torch.zeros(2, 5, 3, 100)).shape == (2, 5, 3, x[0].numel())


def test_norms_within_convolutions_change_nothing_that_is_decoded() -> None:
    model = untrained(SMALL_IMAGES, settings=GIPSettings(4, ConvLayers((2, 3, 4, 5), dense=8)))
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_var, 0.5, 2.0)
            for numbers in (layer.running_mean, layer.weight, layer.bias):
                nn.init.normal_(numbers, 1.0, 0.5)
    z, y = torch.randn(6, 4), torch.arange(6) % 2
    hidden = model.decoder.latent(z) + model.decoder.label(y)
    expected = model.decoder.rest(hidden[..., None, None]).flatten(1)
    torch.testing.assert_close(model.decoder(z, y), expected)


def test_convolutions_are_refused_where_there_are_no_large_images() -> None:
    for query_set in (COLUMNS, PatchQueries((1, 8, 8), size=3)):
        assert GIPSettings.released(query_set).hidden == (128, 512)
        with pytest.raises(ValueError, match="at least 16 pixels"):
            GIP(query_set, range(2), GIPSettings(hidden=ConvLayers()))


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        Langevin(clip=1.0, cut=1.0)
    with pytest.raises(ValueError, match="at least n_chains"):
        Langevin(n_chains=10, n_samples=9)
    with pytest.raises(ValueError, match="channels of 1 to"):
        ConvLayers((1, 2, 3, 0))


@pytest.mark.parametrize(
    "query_set", [COLUMNS, pytest.param(SMALL_IMAGES, marks=pytest.mark.slow), PatchQueries((1, 6, 6), size=4)]
)
def test_parts_give_the_same_as_all_at_once(query_set: QuerySet, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = ConvLayers((2, 3, 4, 5), dense=8) if query_set is SMALL_IMAGES else (8,)
    settings = GIPSettings(4, layers, Langevin.released(n_chains=2, n_samples=5))
    model, x = untrained(query_set, settings=settings), answers(query_set, 3)
    whole = chain(model, x, 2)
    alone = [found[1:2] for found in whole]
    for one, other in zip(chain(model, x[1:2], 2), alone, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    monkeypatch.setattr(generative, "AT_ONCE", 2500)  # chain by chain, a few patches at a time
    monkeypatch.setattr(g_ip, "KEPT_NUMBERS", 0)  # samples are drawn again for the answer
    for one, other in zip(chain(model, x, 2), whole, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("query_set", [COLUMNS, DIGITS])
def test_what_is_compiled_for_a_gpu_gives_the_same(query_set: QuerySet, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = untrained(query_set).cuda(), answers(query_set, 3).cuda()
    with monkeypatch.context() as patched:
        patched.setattr(g_ip, "_compiled", lambda function: function)
        plain = chain(model, x, 3)
    for compiled, one in zip(chain(model, x, 3), plain, strict=True):
        torch.testing.assert_close(compiled, one, atol=0.02, rtol=0.02)
    on_cpu = chain(model.cpu(), x.cpu(), 1)
    for on_gpu, one in zip(plain[:2], on_cpu, strict=False):
        torch.testing.assert_close(on_gpu.cpu(), one, atol=0.05, rtol=0.05)


@pytest.mark.parametrize(("kept", "n_times"), [(2, 2), (3, 1)])
def test_rows_are_sampled_together_as_far_as_there_is_room(
    kept: int, n_times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = untrained(COLUMNS, settings=GIPSettings(4, (8,), Langevin.released(n_chains=2, n_samples=5)))
    state = model.history_state(History.start(answers(COLUMNS, 3), len(COLUMNS)))
    state.ask(torch.zeros(3, dtype=torch.long), torch.ones(3, dtype=torch.bool))
    monkeypatch.setattr(g_ip, "KEPT_NUMBERS", kept * len(model.classes) * 5 * (4 + 4))
    path, n_rows = GIP.path, list[int]()

    def counted(model: GIP, z: Tensor, *rest: Any) -> Iterator[Tensor]:
        n_rows.append(len(z))
        return path(model, z, *rest)

    monkeypatch.setattr(GIP, "path", counted)
    state.scores()
    assert (len(n_rows), sum(n_rows)) == (n_times, 3)


@pytest.mark.slow
def test_the_estimator_is_trained_and_saved(tmp_path: Path) -> None:
    settings = GIPSettings(4, ConvLayers((2, 3, 4, 5), dense=8), Langevin.released(4, 10))
    X, y = np.random.default_rng(0).random((24, 1, 16, 17)), np.arange(24) % 2
    classifier = GIPClassifier(SMALL_IMAGES, settings=settings, stages=[Stage(2, batch_size=8)], max_queries=2)
    classifier.fit(X, y).save(tmp_path)
    loaded = GIPClassifier.load(tmp_path)
    assert loaded.settings == settings
    assert np.array_equal(loaded.predict_proba(X[:2]), classifier.predict_proba(X[:2]))
