"""REFUEL: the reward for what is found, the rebuilding of answers, and that it learns on patients who mostly say no."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.methods.refuel import REFUEL, REFUELClassifier, REFUELSettings
from pursuit.methods.shared.policies import RolloutPoint
from pursuit.networks import MLP
from pursuit.queries import Choice, ColumnQueries, ConceptQueries, Number, PatchQueries, Query, yes_no
from pursuit.training import Batch
from pursuit.training.samplers import CarriedHistories, rolled_out_histories
from pursuit.training.schedule import Stage

MIXED = ColumnQueries(
    [
        yes_no("fever"),
        Choice("rash", "rash?", ("no", "yes", "can't say")),
        Number("age", "age?"),
        Choice("season", "season?", ("spring", "autumn", "winter")),
        yes_no("cough"),
    ]
)
SETTINGS = REFUELSettings(lr=5e-3, positive=1.0)


def built(query_set: Any = MIXED, **settings: Any) -> REFUEL:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = REFUEL.build(ModelSpec(query_set, ["a", "b", "c"], MLP((8,)), settings=REFUELSettings(**settings)))
    return model.eval()


def answers(n_rows: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    x = torch.zeros(n_rows, 9)
    x[:, [0, 8]] = 2.0 * torch.randint(2, (n_rows, 2), generator=generator) - 1
    x[torch.arange(n_rows), 1 + torch.randint(3, (n_rows,), generator=generator)] = 1
    x[:, 4] = torch.randn(n_rows, generator=generator)
    x[torch.arange(n_rows), 5 + torch.randint(3, (n_rows,), generator=generator)] = 1
    return x


def batch_of(x: torch.Tensor, known: torch.Tensor, available: torch.Tensor) -> Batch:
    return Batch(x, known, known, available, torch.zeros(len(x), dtype=torch.long))


@pytest.fixture(scope="module")
def patients() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four diseases with three symptoms each, which its patients have and others hardly ever; one is reported."""
    generator = np.random.default_rng(0)
    y = generator.integers(4, size=600)
    has = generator.random((600, 12)) < np.where(np.arange(12) // 3 == y[:, None], 0.8, 0.03)
    initially_known = (np.arange(12) == generator.integers(12, size=600)[:, None]) & has
    return has.astype(int), np.array(["mumps", "flu", "cold", "colic"])[y], initially_known


@pytest.fixture(scope="module")
def trained(patients: Any) -> REFUELClassifier:
    x, y, initially_known = patients
    stages = [Stage(15, CarriedHistories(4), batch_size=64)]
    classifier = REFUELClassifier(
        network=MLP((32,)), stages=stages, max_queries=4, stop="budget=4", settings=SETTINGS, random_state=0
    )
    return classifier.fit(x, y, initially_known=initially_known)


def test_the_potential_counts_what_is_known_to_be_yes() -> None:
    model, x = built(positive=0.25), answers()
    known = torch.rand(6, 5, generator=torch.Generator().manual_seed(3)) < 0.6
    says_yes = torch.stack([x[:, 0] > 0, x[:, 2] == 1, x[:, 8] > 0], dim=1)  # fever, rash and cough
    expected = 0.25 * (says_yes & known[:, [0, 1, 4]]).sum(dim=1)
    torch.testing.assert_close(model.potential(History(x, known, known)), expected)


def test_probabilities_of_concepts_are_yes_above_one_half() -> None:
    model = built(ConceptQueries([Query("striped", "striped?"), Query("winged", "winged?")]), positive=1.0)
    known = torch.ones(1, 2, dtype=torch.bool)
    assert model.potential(History(torch.tensor([[0.2, -0.4]]), known, known)).tolist() == [1.0]
    assert not model.is_number.any()


def test_the_reward_is_the_gain_in_potential_and_the_diagnosis_at_the_end() -> None:
    model, x = built(positive=0.5, discount=0.9), answers(3)
    x[:, 0] = torch.tensor([1.0, -1.0, 1.0])
    y, log_posterior = torch.tensor([0, 1, 2]), torch.tensor([[0.8, 0.1, 0.1]]).log().expand(3, 3)
    nothing = torch.zeros(3, 5, dtype=torch.bool)
    start = History(x, nothing, nothing)
    before, after = (
        RolloutPoint(history, log_posterior, y, 1, 2)
        for history in (start, start.record(torch.zeros(3, dtype=torch.long)))
    )
    reward = model.reward(before, after, torch.tensor([True, True, False]))
    torch.testing.assert_close(reward, torch.tensor([0.45 + 1, -1.0, 0.45]))
    torch.testing.assert_close(model.value(before), 2 * torch.tensor([0.8, 0.1, 0.1]) - 1)


def test_what_is_rebuilt() -> None:
    model, x = built(), answers()
    known = torch.rand(6, 5, generator=torch.Generator().manual_seed(3)) < 0.5
    available = torch.rand(6, 5, generator=torch.Generator().manual_seed(4)) < 0.7
    rebuilt = model.rebuilder(model.querier[0](model.network_input(x, known)))  # type: ignore[index]
    shares = torch.stack([(x[:, 0] + 1) / 2, *x[:, 1:4].T, x[:, 4], *x[:, 5:8].T, (x[:, 8] + 1) / 2], dim=1)
    loss = F.binary_cross_entropy_with_logits(rebuilt, shares.clamp(0, 1), reduction="none")
    loss[:, 4] = (rebuilt[:, 4] - x[:, 4]) ** 2 / 2
    there = available[:, MIXED.units.of_feature]
    torch.testing.assert_close(model.rebuilding_loss(batch_of(x, known, available)), loss[there].mean())
    garbage = torch.where(there | known[:, MIXED.units.of_feature], x, 1e6)
    torch.testing.assert_close(
        model.rebuilding_loss(batch_of(garbage, known, available)),
        model.rebuilding_loss(batch_of(x, known, available)),
    )


@pytest.mark.slow  # how well a rival learns; test_contract.py holds that it does
def test_it_learns_to_rebuild_what_goes_together(trained: REFUELClassifier, patients: Any) -> None:
    x, y, initially_known = patients
    rows, model = trained.rows(x, y, initially_known=initially_known), trained.model_
    known = torch.zeros_like(rows.available)
    known[:, [0, 3, 6, 9]] = True  # one symptom of each disease
    with torch.no_grad():
        rebuilt = model.rebuilder(model.querier[0](model.network_input(rows.x, known))) > 0
    others = ~known[0]
    right = (rebuilt == (rows.x > 0))[:, others].float().mean()
    by_frequency = torch.maximum((rows.x > 0).float().mean(dim=0), (rows.x < 0).float().mean(dim=0))[others].mean()
    assert right > by_frequency + 0.05


@pytest.mark.slow
def test_it_asks_for_what_patients_have(trained: REFUELClassifier, patients: Any) -> None:
    x, y, initially_known = patients
    history = rolled_out_histories(
        trained.rows(x, y, initially_known=initially_known), torch.full((len(x),), 4), trained.model_
    )
    n_found = (history.known & (history.x > 0)).sum() - initially_known.sum()
    n_left = (x.astype(bool) & ~initially_known).sum()
    assert n_found > 1.3 * 4 / 12 * n_left  # by chance it would be four of twelve


@pytest.mark.slow
def test_saved_and_loaded_it_is_the_same(trained: REFUELClassifier, patients: Any, tmp_path: Path) -> None:
    x, _, initially_known = patients
    trained.save(tmp_path)
    loaded = REFUELClassifier.load(tmp_path)
    assert np.array_equal(
        loaded.predict_proba(x[:30], initially_known=initially_known[:30]),
        trained.predict_proba(x[:30], initially_known=initially_known[:30]),
    )
    assert "shared" not in loaded.get_params()
    known = torch.zeros(30, 12, dtype=torch.bool)
    rows = trained.rows(x[:30], trained.predict(x[:30]))
    batch = batch_of(rows.x, known, rows.available)
    assert loaded.model_.rebuilding_loss(batch) == trained.model_.rebuilding_loss(batch)
    assert loaded.settings == loaded.model_.settings == SETTINGS


def test_missing_answers_and_mixed_columns() -> None:
    frame = np.random.default_rng(0).integers(0, 3, size=(60, 4)).astype(float)
    frame[::7, 1] = np.nan
    frame[:, 3] = frame[:, 3] > 1
    stages = [Stage(4, CarriedHistories(4), batch_size=16)]
    classifier = REFUELClassifier(network=MLP((8,)), stages=stages, random_state=0).fit(frame, frame[:, 0] > 0)
    assert classifier.predict_proba(frame).shape == (60, 2)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="use RAM"):
        REFUEL.build(ModelSpec(PatchQueries((1, 4, 4), size=2), ["a", "b"], MLP((4,))))
    with pytest.raises(ValueError, match="negative"):
        REFUELSettings(positive=-1)
    with pytest.raises(TypeError, match="REFUELSettings"):
        REFUELClassifier(settings=3).fit(np.zeros((4, 2)), [0, 1, 0, 1])
    with pytest.raises(TypeError):
        REFUELClassifier(shared=False)  # type: ignore[call-arg]
