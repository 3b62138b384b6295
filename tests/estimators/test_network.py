"""Estimators whose pursuer is trained by the one loop: plans, held-out rows, runs that are kept and resumed, and rows
that are drawn while training."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit import Budget, CarriedHistories, ColumnQueries, RandomHistories, Stage, TrainingRun, VIPClassifier, yes_no
from pursuit.estimators import CannotResume, default_stages
from pursuit.estimators.network import LearnerEstimator
from pursuit.estimators.saving import fingerprint
from pursuit.networks import MLP
from pursuit.research.tasks.symcat import Patients
from pursuit.training import SGD
from pursuit.training.loop import Diverged
from pursuit.training.rows import Rows
from pursuit.training.schedule import AdamW
from small_table import (
    DISEASES,
    PATIENTS,
    QUICK,
    QUICKEST,
    SYMPTOMS,
    drawn_patients,
    patients,
    reporting_patients,
    symptom_classifier,
)


@pytest.mark.full_training
def test_the_default_plan_grows_with_the_rows() -> None:
    (small,), (large,) = default_stages(150, 10), default_stages(1_000_000, 10)
    assert small.n_steps(150) == 1000
    assert large.epochs == 20
    assert large.batch_size > small.batch_size
    lengths = [default_stages(150, *size)[0].histories.max_queries for size in ((10, None), (10, 3), (500, None))]
    assert lengths == [10, 3, 20]


def test_the_plan_of_the_user_is_trained_as_it_is() -> None:
    X, y = patients()
    reports: list[Any] = []
    stages = [Stage(1, RandomHistories(), batch_size=30), Stage(2, CarriedHistories(2), batch_size=60)]
    VIPClassifier(network=MLP((4,)), stages=stages).fit(X, y, run=TrainingRun(on_report=reports.append))
    assert [(report.stage, report.n_steps) for report in reports] == [(1, 4)] * 4 + [(2, 4)] * 4
    with pytest.raises(ValueError, match="no stages to train"):
        VIPClassifier(stages=[]).fit(X, y)


def test_a_small_table_is_learnt_by_one_thread_and_threads_are_given_back() -> None:
    X, y = patients()
    found: list[int] = []
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        run = TrainingRun(on_report=lambda report: found.append(torch.get_num_threads()))
        model = VIPClassifier(**QUICKEST).fit(X, y, run=run)
        model.predict(X)
        assert set(found) == {1}
        assert torch.get_num_threads() == 3
        with pytest.raises(ValueError, match="no stages to train"):
            VIPClassifier(stages=[]).fit(X, y)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_held_out_rows_stop_training_early() -> None:
    X, y = patients()
    y = np.random.default_rng(1).permutation(y)  # which nothing tells, so that the loss soon rises
    reports: list[Any] = []
    plan = {"network": MLP((32,)), "stages": [Stage(200, optimizer=AdamW(4e-2), batch_size=32)]}
    run = TrainingRun(on_report=reports.append)
    VIPClassifier(held_out=0.25, teachers=None, random_state=0, **plan).fit(X, y, run=run)
    assert reports[-1].step < reports[-1].n_steps
    assert reports[0].n_steps == Stage(200, batch_size=32).n_steps(90)  # the others are not trained on
    assert all(report.held_out_loss is not None for report in reports)


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, float("nan")])
def test_impossible_shares_of_held_out_rows_are_refused(share: float) -> None:
    X, y = patients()
    with pytest.raises(ValueError, match="held_out is a share of the rows, at least 0 and below 1"):
        VIPClassifier(held_out=share, **QUICK).fit(X, y)


def test_answers_are_standardised_by_the_rows_that_are_trained_on() -> None:
    X, y = patients()
    model = VIPClassifier(standardise=True, random_state=0, **QUICKEST).fit(X, y).model_
    where = model.query_set.index_of["where"]
    feature = int((model.query_set.units.of_feature == where).int().argmax())
    x, available = model.query_set.answers(X)
    assert float(model.centre[feature]) == pytest.approx(float(x[available[:, where], feature].mean()), abs=1e-5)


# Runs that are kept


def test_a_failed_fit_writes_nothing(tmp_path: Path) -> None:
    X, y = patients()
    with pytest.raises(ValueError, match="Infinite"):
        VIPClassifier(**QUICK).fit(X.assign(age=np.inf), y, run=TrainingRun(tmp_path / "run"))
    with pytest.raises(ValueError, match="The log is csv or tensorboard"):
        VIPClassifier(**QUICK).fit(X, y, run=TrainingRun(tmp_path / "run", log="paper"))  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_a_run_says_what_is_trained_and_leaves_an_older_model_until_it_is_saved(tmp_path: Path) -> None:
    X, y = patients()
    model = VIPClassifier(random_state=0, **QUICKEST).fit(X, y, run=TrainingRun(tmp_path))
    model.save(tmp_path)
    assert {"run.json", "log.csv", "checkpoints", "model.json"} <= {path.name for path in tmp_path.iterdir()}
    assert set(json.loads((tmp_path / "run.json").read_text())) == {
        "model",
        "query_set",
        "stages",
        "seed",
        "rows",
        "teachers",
    }
    before = fingerprint(tmp_path)
    other = VIPClassifier(random_state=1, **QUICKEST).fit(X, y, run=TrainingRun(tmp_path))
    assert fingerprint(tmp_path) == before  # training may be interrupted, and the disk may be full
    other.save(tmp_path)
    assert fingerprint(tmp_path) != before


def test_resuming_refuses_other_data_and_settings(tmp_path: Path) -> None:
    X, y = patients()
    resumed = TrainingRun(tmp_path, resume=True)
    VIPClassifier(random_state=0, **QUICKEST).fit(X, y, run=TrainingRun(tmp_path))
    with pytest.raises(CannotResume, match="other questions and rows"):  # the spread of numbers differs too
        VIPClassifier(random_state=0, **QUICKEST).fit(X.iloc[:-1], y[:-1], run=resumed)
    with pytest.raises(CannotResume, match="other seed"):
        VIPClassifier(random_state=1, **QUICKEST).fit(X, y, run=resumed)
    with pytest.raises(CannotResume, match="other settings"):
        VIPClassifier(random_state=0, **{**QUICKEST, "network": MLP((5,))}).fit(X, y, run=resumed)
    for changed in ({"shared": True}, {"standardise": True}):  # which a description of the layers would not show
        with pytest.raises(CannotResume, match="other settings"):
            VIPClassifier(random_state=0, **QUICKEST, **changed).fit(X, y, run=resumed)
    with pytest.raises(CannotResume, match="other questions"):
        VIPClassifier(random_state=0, **QUICKEST).fit(X.rename(columns=str.upper), y, run=resumed)
    with pytest.raises(CannotResume, match="other passes over the rows"):
        VIPClassifier(random_state=0, **{**QUICKEST, "stages": [Stage(0.2)]}).fit(X, y, run=resumed)
    VIPClassifier(random_state=0, **QUICKEST).fit(X, y, run=resumed)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(CannotResume, match=r"run\.json is damaged"):
        VIPClassifier(random_state=0, **QUICKEST).fit(X, y, run=resumed)


def test_training_starts_from_what_is_initially_known(tmp_path: Path) -> None:
    """The label is in two columns. Where they are given, only the others are asked."""
    X, y, _ = reporting_patients()
    initially_known = np.zeros(X.shape, dtype=bool)
    initially_known[:, :2] = True
    plan = {**QUICK, "network": MLP((16,))}
    run = TrainingRun(tmp_path)
    model = VIPClassifier(random_state=0, **plan).fit(X, y, initially_known=initially_known, run=run)
    assert model.score(X, y, initially_known=initially_known) > 0.9
    chains = model.explain(X, Budget(2), initially_known=initially_known)
    asked = {step.query for chain in chains for step in chain.steps}
    assert asked <= {1, 2, 3}  # and where the second column is missing, it may be asked in vain
    again, resumed = VIPClassifier(random_state=0, **plan), TrainingRun(tmp_path, resume=True)
    with pytest.raises(CannotResume, match="rows, so it cannot"):
        again.fit(X, y, run=resumed)  # what is initially known is part of the rows
    again.fit(X, y, initially_known=initially_known, run=resumed)
    np.testing.assert_array_equal(
        again.predict_proba(X, initially_known=initially_known), model.predict_proba(X, initially_known=initially_known)
    )


# Rows that are drawn while training


def test_patients_drawn_while_training_are_learnt_from() -> None:
    X, y, initially_known = drawn_patients()
    model = symptom_classifier().fit(PATIENTS)
    assert model.classes_.tolist() == ["flu", "measles", "eczema"]
    assert model.n_features_in_ == 4
    assert model.score(X, y, initially_known=initially_known) > 0.75
    torch.testing.assert_close(model.model_.log_prior.exp(), PATIENTS.prior(3))


def test_drawn_patients_are_held_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.estimators.network.MOST_HELD_OUT", 300)
    reports: list[Any] = []
    run = TrainingRun(on_report=reports.append)
    held = symptom_classifier(held_out=0.1, stages=[Stage(6, optimizer=AdamW(1e-2), batch_size=32)]).fit(
        PATIENTS, run=run
    )
    assert all(report.held_out_loss is not None for report in reports)
    X, y, initially_known = drawn_patients()
    assert held.score(X, y, initially_known=initially_known) > 0.7


def test_training_on_drawn_patients_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(report: Any) -> None:
        if report.step == 10:
            raise KeyboardInterrupt

    monkeypatch.setattr("pursuit.training.run.CHECKPOINT_PAUSE", 0)  # a checkpoint with every report
    stages = [Stage(3, optimizer=AdamW(1e-2), batch_size=32)]
    whole = symptom_classifier(stages=stages).fit(PATIENTS)
    killed = TrainingRun(tmp_path, on_report=kill, checkpoint_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        symptom_classifier(stages=stages).fit(PATIENTS, run=killed)
    reports: list[Any] = []
    resumed = TrainingRun(tmp_path, resume=True, on_report=reports.append)
    again = symptom_classifier(stages=stages).fit(PATIENTS, run=resumed)
    assert reports[0].step == 10
    for name, tensor in whole.model_.state_dict().items():
        assert torch.equal(again.model_.state_dict()[name], tensor)
    others = Patients(PATIENTS.classes, DISEASES.flip(0), n_rows=200)
    with pytest.raises(CannotResume, match="cannot be resumed"):
        symptom_classifier(stages=stages).fit(others, run=resumed)


def test_drawn_rows_bring_everything_along() -> None:
    _, y, initially_known = drawn_patients(400)
    message = "come with labels and initially known answers of their own"
    with pytest.raises(ValueError, match=message):
        symptom_classifier().fit(PATIENTS, y)
    with pytest.raises(ValueError, match=message):
        symptom_classifier().fit(PATIENTS, initially_known=initially_known)
    with pytest.raises(ValueError, match=message):
        VIPClassifier(**QUICK).fit(PATIENTS)
    with pytest.raises(ValueError, match="The rows answer 4 queries, but the query_set has 1"):
        VIPClassifier(ColumnQueries([yes_no("fever")]), **QUICK).fit(PATIENTS)
    assert len(SYMPTOMS) == 4


# Groups of rows that are held out together


def visits(n_patients: int = 70, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Six visits of each patient, who is recognised by height and weight; only the test tells of the disease."""
    randomness = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), 6)
    ill = randomness.random(n_patients)[patient] < 0.5
    X = pd.DataFrame(randomness.normal(size=(n_patients, 2))[patient], columns=["height", "weight"])
    X["test"] = np.where(randomness.random(len(patient)) < 0.7, ill, ~ill)
    return X, np.where(ill, "ill", "well"), patient


def expected_accuracy(model: VIPClassifier) -> float:
    (found,) = [reason.value for reason in model.chosen_ if reason.setting == "expected"]
    low, _, high = found.removesuffix(" on new rows").split()[-3:]
    return (float(low.rstrip("%")) + float(high.rstrip("%"))) / 200


@pytest.mark.slow
def test_what_is_expected_is_that_of_new_groups() -> None:
    """All rows of a village have one label, which is learnt by the name of the village. A test tells the label of any
    row, and is wrong for two in five."""
    randomness = np.random.default_rng(0)
    village = np.repeat(np.arange(30), 8)
    ill = village % 2 == 0
    tested = np.where(randomness.random(240) < 0.6, ill, ~ill)
    X = pd.DataFrame({"village": [f"village {number}" for number in village], "test": tested})
    plan: Any = {"network": MLP((32,)), "stages": [Stage(15, optimizer=AdamW(1e-2), batch_size=32)]}
    plan |= {"held_out": 0.3, "teachers": None, "random_state": 0}
    by_rows = VIPClassifier(**plan).fit(X, ill)
    by_group = VIPClassifier(**plan).fit(X, ill, groups=X["village"])
    assert expected_accuracy(by_rows) > 0.9  # it has met them all
    assert 0.2 < expected_accuracy(by_group) < 0.85


def test_no_group_is_both_learnt_and_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, patient = visits(20)
    parts: list[tuple[Rows, Rows]] = []

    def watched(self: Any, rows: Rows, seed: int, share: float) -> Any:
        parts.append(divide(self, rows, seed, share))
        return parts[-1]

    divide = LearnerEstimator._divide
    monkeypatch.setattr(LearnerEstimator, "_divide", watched)
    groups = patient.astype(float)
    groups[::50] = np.nan
    for seed in range(3):
        VIPClassifier(random_state=seed, network=MLP((4,)), teachers=None).fit(X, y, groups=groups)
    assert len(parts) == 3
    for kept, judged in parts:
        assert set(kept.group.tolist()).isdisjoint(judged.group.tolist())
        assert len(kept) + len(judged) == 120
        assert len(judged) == pytest.approx(24, abs=6)
        assert (judged.group.diff() != 0).float().mean() > 0.5  # in no order, because the first are looked at
    assert len({tuple(judged.group.unique().tolist()) for _, judged in parts}) > 1


def test_where_no_group_can_be_held_out_single_rows_are_and_that_is_said() -> None:
    X, y = patients(60)
    with pytest.warns(UserWarning, match="Holding out a whole group would remove every row of some label"):
        model = VIPClassifier(random_state=0, held_out=0.2, **QUICKEST).fit(X, y, groups=y)
    assert [reason.why for reason in model.chosen_ if reason.setting == "expected"] == ["judged by 12 held-out rows"]


def test_groups_are_of_the_rows_that_count() -> None:
    X, y, patient = visits(20)
    weight = np.where(patient % 2, 1.0, 0.0)
    model = VIPClassifier(random_state=0, held_out=0.3, **QUICKEST).fit(X, y, weight, groups=patient)
    assert [reason.why for reason in model.chosen_ if reason.setting == "expected"] == ["judged by 18 held-out rows"]


def test_groups_that_do_not_fit_are_refused() -> None:
    X, y, patient = visits(20)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        VIPClassifier(**QUICKEST).fit(X, y, groups=patient[1:])
    with pytest.raises(ValueError, match="groups is for rows in memory"):
        symptom_classifier().fit(PATIENTS, groups=patient)


def test_another_seeds_checkpoint_is_not_gone_on_from(tmp_path: Path) -> None:
    """As it was when two trainings shared a folder: the newest checkpoint may be the other's."""
    X, y = patients()
    VIPClassifier(random_state=0, **QUICKEST).fit(X, y, run=TrainingRun(tmp_path / "other"))
    VIPClassifier(random_state=1, **QUICKEST).fit(X, y, run=TrainingRun(tmp_path / "run"))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    shutil.copytree(tmp_path / "other" / "checkpoints", tmp_path / "run" / "checkpoints")
    with pytest.raises(CannotResume, match="belongs to another run, with another seed"):
        VIPClassifier(random_state=1, **QUICKEST).fit(X, y, run=TrainingRun(tmp_path / "run", resume=True))


@pytest.mark.parametrize("content", ["[]", "1", "null", '"x"', "[" * 100_000])
def test_a_run_of_another_shape_cannot_be_resumed(tmp_path: Path, content: str) -> None:
    X, y = patients()
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(CannotResume, match=r"run\.json is damaged"):
        VIPClassifier(random_state=0, **QUICKEST).fit(X, y, run=TrainingRun(tmp_path, resume=True))


def test_training_that_diverges_ends_with_a_sentence_and_without_a_model(tmp_path: Path) -> None:
    X, y = patients()
    stages = [Stage(3, optimizer=SGD(lr=1e25), batch_size=16)]
    model = VIPClassifier(network=MLP((8,)), stages=stages, random_state=0)
    with pytest.raises(Diverged, match=r"Training diverged in stage 1.*Nothing is saved. Train with a lower learning"):
        model.fit(X, y, run=TrainingRun(tmp_path))
    assert not (tmp_path / "model.json").exists()
    assert not hasattr(model, "model_")


def test_a_network_beyond_all_memory_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = np.random.default_rng(0).integers(0, 2, (40, 3)), np.arange(40) % 2
    monkeypatch.setattr(MLP, "trunk", lambda network, query_set: torch.nn.Linear(len(query_set), 2**40))
    with pytest.raises(ValueError, match="not the memory to train VIPClassifier"):
        VIPClassifier(random_state=0, network=MLP((4,)), stages=(Stage(1),), teachers=None).fit(X, y)


def test_holding_out_all_rows_is_refused_in_a_sentence() -> None:
    X, y = np.random.default_rng(0).integers(0, 2, (40, 3)), np.arange(40) % 2
    with pytest.raises(ValueError, match="none is left to learn from"):
        VIPClassifier(random_state=0, network=MLP((4,)), stages=(Stage(1),), teachers=None, held_out=0.999).fit(X, y)
