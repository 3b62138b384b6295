"""Beliefs fitted to rows that a model did not learn from, and training with unreliable answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit import MLP, Stage, TrainingRun, Unreliable, VIPClassifier
from pursuit.methods import METHODS, GIPSettings
from pursuit.methods.g_ip import Langevin
from pursuit.training.schedule import AdamW
from small_table import PATIENTS, QUICKEST, drawn_patients, patients, symptom_classifier


def noisy(n: int, seed: int) -> tuple[Any, np.ndarray]:
    X, y = patients(n, seed)
    wrong = np.random.default_rng(seed + 1).random(n) < 0.25
    return X, np.where(wrong, np.random.default_rng(seed).permutation(y), y)


def test_calibrating_mends_beliefs_and_is_saved(tmp_path: Path) -> None:
    """Drawn patients, and a model that was hardly trained: it is less sure than it could be."""
    model = symptom_classifier(calibration=0.0, stages=[Stage(8, batch_size=16)]).fit(PATIENTS)
    assert (model.model_.temperature == 1).all()
    assert {"temperature", "expected"}.isdisjoint(reason.setting for reason in model.chosen_)
    X, y, known = drawn_patients()
    before = model.evaluate(X, y, initially_known=known).calibration_error_by_asked[-1]
    other = PATIENTS.draw(1000, torch.Generator().manual_seed(5))
    symptoms, diseases = (other.x > 0).int().numpy(), np.array(PATIENTS.classes)[other.y.numpy()]
    assert other.initially_known is not None
    reported = other.initially_known.numpy()
    assert model.calibrate(symptoms, diseases, initially_known=reported) is model
    assert model.evaluate(X, y, initially_known=known).calibration_error_by_asked[-1] < before / 2
    found = {reason.setting: reason for reason in model.chosen_}
    assert found["expected"].why == "judged by 500 held-out rows"
    assert str(model.stop_) in found["stop"].value
    # Twice is the same as once, and it is saved.
    temperature = model.model_.temperature.clone()
    model.calibrate(symptoms, diseases, initially_known=reported)
    assert model.model_.temperature.tolist() == pytest.approx(temperature.tolist(), rel=0.1)
    assert len({reason.setting for reason in model.chosen_}) == len(model.chosen_)
    model.save(tmp_path / "model")
    assert torch.equal(VIPClassifier.load(tmp_path / "model").model_.temperature, model.model_.temperature)


def test_what_cannot_be_calibrated_says_so() -> None:
    model = VIPClassifier(random_state=0, **QUICKEST).fit(*patients())
    X, y = patients()
    with pytest.raises(ValueError, match="at least one is needed"):
        model.calibrate(X[:0], y[:0])
    without = (
        METHODS["g-ip"]
        .build(
            stages=[Stage(0.1, batch_size=32)],
            settings=GIPSettings(latent=2, hidden=(4,), langevin=Langevin(n_chains=4, burn_in=5)),
        )
        .fit(X, y)
    )
    with pytest.raises(ValueError, match="cannot be changed"):
        without.calibrate(X, y)


def test_rows_may_be_held_out_for_beliefs_alone() -> None:
    model = VIPClassifier(random_state=0, calibration=0.5, **QUICKEST).fit(*noisy(200, 0))
    found = {reason.setting: reason for reason in model.chosen_}
    assert found["calibrated on"].value == "100 rows"
    assert found["expected"].why == "judged by 100 held-out rows"
    with pytest.raises(ValueError, match="calibration is a share"):
        VIPClassifier(calibration=1.5).fit(*patients())


def test_drawn_rows_have_fresh_ones_to_fit_beliefs_to() -> None:
    model = symptom_classifier().fit(PATIENTS)
    assert {reason.setting for reason in model.chosen_} >= {"calibrated on", "temperature", "expected"}
    X, y, known = drawn_patients()
    assert model.evaluate(X, y, initially_known=known).calibration_error_by_asked[-1] < 0.2
    as_learnt = symptom_classifier(calibration=0.0, stages=[Stage(0.5, batch_size=32)]).fit(PATIENTS)
    assert (as_learnt.model_.temperature == 1).all()


@pytest.mark.parametrize("streamed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_training_with_unreliable_answers_resumes_to_the_same_bits(tmp_path: Path, streamed: bool) -> None:
    def fit(run: TrainingRun | None = None) -> VIPClassifier:
        own: dict[str, Any] = {"stages": [Stage(1, batch_size=32)] * 2, "unreliable": Unreliable(0.2, 0.1)}
        if streamed:
            return symptom_classifier(calibration=0.0, **own).fit(PATIENTS, run=run)
        return VIPClassifier(random_state=0, network=MLP((8,)), **own).fit(*patients(), run=run)

    def stop(report: Any) -> None:
        if report.stage == 2:
            raise KeyboardInterrupt

    whole = fit()
    with pytest.raises(KeyboardInterrupt):
        fit(TrainingRun(tmp_path / "run", checkpoint_seconds=0, on_report=stop))
    again = fit(TrainingRun(tmp_path / "run", resume=True))
    for name, tensor in whole.model_.state_dict().items():
        assert torch.equal(tensor, again.model_.state_dict()[name]), name


@pytest.mark.slow
def test_a_model_that_met_unreliable_answers_is_less_sure_of_a_single_one() -> None:
    stage = Stage(14, optimizer=AdamW(1e-2), batch_size=32)
    plan: dict[str, Any] = {"network": MLP((32,)), "stages": [stage], "teachers": None, "random_state": 0}
    X, y = patients(120, 1)
    trusting = VIPClassifier(**plan).fit(X, y)
    wary = VIPClassifier(unreliable=Unreliable(0.1, 0.2), **plan).fit(X, y)
    sure = [model.predict_proba(X).max(axis=1).mean() for model in (trusting, wary)]
    assert sure[1] < sure[0] - 0.08
    with pytest.raises(TypeError, match="Unreliable"):
        VIPClassifier(unreliable=0.1, **plan).fit(X, y)


def test_rows_held_out_are_answered_as_reliably_as_those_that_are_learnt() -> None:
    """Each question at its own rates: beliefs are fitted, and the stopping rule is chosen, on answers as unreliable."""
    X = pd.DataFrame({name: ["no", "yes"] * 500 for name in "ab"})
    model = VIPClassifier(unreliable=Unreliable(0.0, 0.0, {"b": (0.5, 0.0)}), random_state=0)
    model.fit(X.iloc[:40], ["no", "yes"] * 20)
    _, judging = model._set_aside(model.model_.query_set, model.rows(X, ["no", "yes"] * 500), 0, 0.5)
    assert judging is not None
    assert judging.available.float().mean(dim=0).tolist() == pytest.approx([1.0, 0.5], abs=0.1)
    with pytest.raises(ValueError, match="Nothing is asked about 'c'"):
        VIPClassifier(unreliable=Unreliable(by_question={"c": (0.1, 0.1)})).fit(X.iloc[:40], ["no", "yes"] * 20)
