"""`VIPClassifier`: scikit-learn's contract, bad input, and what it learns on small tables."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pursuit import Budget, Confidence, PatchQueries, VIPClassifier
from pursuit.estimators import default_stages
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, WordQueries, yes_no
from pursuit.tasks.symcat import Patients
from pursuit.training.loop import train
from pursuit.training.schedule import Stage

QUICK = {"network": MLP((32,)), "stages": [Stage(60, batch_size=32)]}


# No check is expected to fail. `check_array_api_input` skips itself where scipy's array API is not switched on.
@parametrize_with_checks([VIPClassifier(**QUICK)])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def patients(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A messy little table: yes/no, words, numbers, missing values; two columns tell the label."""
    randomness = np.random.default_rng(seed)
    fever = randomness.random(n) < 0.5
    where = randomness.choice(["head", "chest", "belly"], n)
    y = np.where(where == "belly", "gastritis", np.where(fever, "flu", "migraine"))
    X = pd.DataFrame(
        {
            "fever": np.where(fever, "yes", "no"),
            "where": pd.Categorical(where),
            "age": randomness.integers(1, 90, n).astype(float),
            "smokes": randomness.random(n) < 0.3,
        }
    )
    X.loc[::9, "age"] = np.nan
    X.loc[::13, "where"] = np.nan
    return X, y


@pytest.fixture(scope="module")
def fitted() -> VIPClassifier:
    X, y = patients()
    return VIPClassifier(random_state=0, **QUICK).fit(X, y)


def test_string_labels_and_mixed_columns(fitted: VIPClassifier) -> None:
    X, y = patients(seed=1)
    assert fitted.score(X, y) > 0.9
    assert set(fitted.predict(X)) <= set(y)
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1, rtol=1e-5)


def test_chains_lead_to_the_predictions(fitted: VIPClassifier) -> None:
    X, _ = patients(seed=1)
    chains = fitted.explain(X)
    assert [chain.prediction for chain in chains] == fitted.predict(X).tolist()
    np.testing.assert_allclose(np.stack([chain.posterior for chain in chains]), fitted.predict_proba(X), atol=1e-6)
    # Two columns of four tell the label, and one of them often does alone.
    assert np.mean([len(chain) for chain in fitted.explain(X, Confidence(0.9))]) < 2.5
    assert "Prediction:" in str(chains[:1])


def test_stop_and_max_queries_are_obeyed(fitted: VIPClassifier) -> None:
    X, y = patients(seed=1)
    assert all(len(chain) == 1 for chain in fitted.explain(X, Budget(1)))
    assert fitted.evaluate(X, y, "budget=2").stop.mean_asked == 2  # type: ignore[union-attr]
    limited = VIPClassifier(max_queries=1, random_state=0, **QUICK).fit(X, y)
    assert all(len(chain) == 1 for chain in limited.explain(X, Confidence(1.0)))
    assert len(limited.evaluate(X, y).accuracy_by_answered) == 2


def test_saved_and_loaded_predicts_the_same(fitted: VIPClassifier, tmp_path: Path) -> None:
    X, y = patients(seed=1)
    fitted.save(tmp_path / "model")
    loaded = VIPClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.explain(X).to_dict() == fitted.explain(X).to_dict()
    assert loaded.evaluate(X, y) == fitted.evaluate(X, y)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X.drop(columns="age"))


def test_session_with_a_person_ends_where_the_row_does(fitted: VIPClassifier) -> None:
    X, _ = patients(seed=1)
    row = X.iloc[[1]]
    session = fitted.session()
    while not session.done:
        answer = row[session.ask().name].iloc[0]
        if pd.isna(answer):
            session.skip()
        else:
            session.tell(answer)
    assert session.prediction == fitted.predict(row)[0]
    assert session.chain.to_dict() == fitted.explain(row)[0].to_dict()


def test_images_in_any_usual_shape() -> None:
    images = np.random.default_rng(0).random((60, 4, 4))
    y = (images[:, 0, 0] > 0.5).astype(int)
    model = VIPClassifier(PatchQueries((1, 4, 4), 2), random_state=0, **QUICK).fit(images, y)
    flat, full = model.predict_proba(images.reshape(60, 16)), model.predict_proba(images[:, None])
    np.testing.assert_array_equal(flat, full)


def test_held_out_rows_stop_training_early() -> None:
    X, y = patients()
    plan = {"network": MLP((32,)), "stages": [Stage(2000, batch_size=32)]}
    reports: list[Any] = []
    VIPClassifier(held_out=0.25, random_state=0, **plan).fit(X, y, on_report=reports.append)
    assert reports[-1].step < reports[-1].n_steps


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.assign(age=np.inf), r"Infinite values \(inf\) in age"),
        (lambda X: X.iloc[:0], "minimum of 1|empty"),
        (lambda X: X.assign(when=pd.Timestamp("2020-01-01")), "'when' holds dates"),
        (lambda X: X.assign(name=[f"person {i}" for i in range(len(X))]), r"'name' \(120 different texts"),
        (lambda X: X[[]], "no columns|minimum of 1"),
    ],
)
def test_bad_tables_get_a_sentence(change: Any, message: str) -> None:
    X, y = patients()
    X = change(X)
    with pytest.raises(ValueError, match=message):
        VIPClassifier(**QUICK).fit(X, y[: len(X)])


def test_bad_labels_get_a_sentence() -> None:
    X, y = patients()
    with pytest.raises(ValueError, match=r"only one class .*At least two"):
        VIPClassifier(**QUICK).fit(X, np.full(len(X), "flu"))
    with pytest.raises(ValueError, match="missing"):
        VIPClassifier(**QUICK).fit(X, np.where(y == "flu", None, y))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        VIPClassifier(**QUICK).fit(X, y[:-1])


def test_bad_rows_at_prediction_get_a_sentence(fitted: VIPClassifier) -> None:
    X, _ = patients()
    with pytest.raises(ValueError, match=r"'where' holds 'foot', but one of belly, chest, head .*leave it empty"):
        fitted.predict(X.assign(where="foot"))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="label 'cough' was not there in training"):
        fitted.evaluate(X, np.full(len(X), "cough"))


@pytest.mark.parametrize("stop", ["confidence=1.5", "budget=-1", "stability=-0.1", "sometimes", Confidence])
def test_bad_stopping_rules_are_told_before_training(stop: Any) -> None:
    X, y = patients()
    reports: list[Any] = []
    with pytest.raises((ValueError, TypeError)):
        VIPClassifier(stop=stop, **QUICK).fit(X, y, on_report=reports.append)
    assert not reports


def test_a_rule_that_never_asks_is_warned_of() -> None:
    X, _ = patients(400)
    y = np.where(np.arange(400) == 0, "rare", "common")
    with pytest.warns(UserWarning, match=r"content before anything is asked: 'common' makes up 99.5%"):
        model = VIPClassifier(random_state=0, network=MLP((4,)), stages=[Stage(1)]).fit(X, y)
    assert all(len(chain) == 0 for chain in model.explain(X[:5]))


def test_failed_fit_writes_nothing(tmp_path: Path) -> None:
    X, y = patients()
    with pytest.raises(ValueError, match="Infinite"):
        VIPClassifier(**QUICK).fit(X.assign(age=np.inf), y, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_resume_refuses_other_data_and_settings(tmp_path: Path) -> None:
    X, y = patients()
    VIPClassifier(random_state=0, **QUICK).fit(X, y, folder=tmp_path)
    with pytest.raises(ValueError, match="other rows"):
        VIPClassifier(random_state=0, **QUICK).fit(X.iloc[:-1], y[:-1], folder=tmp_path, resume=True)
    with pytest.raises(ValueError, match="other seed"):
        VIPClassifier(random_state=1, **QUICK).fit(X, y, folder=tmp_path, resume=True)
    VIPClassifier(random_state=0, **QUICK).fit(X, y, folder=tmp_path, resume=True)


def test_default_plan_grows_with_the_rows() -> None:
    (small,), (large,) = default_stages(150, 10), default_stages(1_000_000, 10)
    assert small.n_steps(150) == 1000
    assert large.epochs == 20


@pytest.mark.parametrize(("data", "most_queries"), [(load_wine, 4), (load_breast_cancer, 5)])
def test_defaults_are_fair_on_small_tables(data: Any, most_queries: int) -> None:
    """One split; the README has five. A margin of three rows more than its 2.5 points allows for the luck of one."""
    X, y = data(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=20)
    all_columns = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X_train, y_train)
    stop = VIPClassifier(random_state=20).fit(X_train, y_train).evaluate(X_test, y_test).stop
    assert stop is not None
    assert stop.accuracy >= all_columns.score(X_test, y_test) - 0.025 - 3 / len(y_test)
    assert stop.mean_answered <= most_queries


def test_training_leaves_torch_as_it_was(fitted: VIPClassifier) -> None:
    X, y = patients(30)
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    VIPClassifier(random_state=0, network=MLP((4,)), stages=[Stage(1)]).fit(X, y)
    assert torch.equal(torch.rand(1), expected)


# Openings


def opened_patients(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The messy little table, with about a third of the answers given unasked."""
    X, y = patients(seed=seed)
    return X, y, np.random.default_rng(seed).random(X.shape) < 0.35


def test_given_answers_are_never_asked(fitted: VIPClassifier) -> None:
    X, y, initially_known = opened_patients(seed=1)
    chains = fitted.explain(X, Budget(4), initially_known=initially_known)
    exists = initially_known & X.notna().to_numpy()
    for chain, given in zip(chains, exists, strict=True):
        opened = {step.query for step in chain.initially_known}
        assert opened == set(np.flatnonzero(given))
        assert not opened & {step.query for step in chain.steps}
        assert len(chain) == 4 - len(opened)  # all that is left
    np.testing.assert_allclose(
        np.stack([chain.posterior for chain in fitted.explain(X, initially_known=initially_known)]),
        fitted.predict_proba(X, initially_known=initially_known),
        atol=1e-6,
    )
    assert [chain.prediction for chain in fitted.explain(X, initially_known=initially_known)] == fitted.predict(
        X, initially_known=initially_known
    ).tolist()
    evaluation = fitted.evaluate(X, y, "budget=1", initially_known=initially_known)
    assert evaluation.stop is not None
    assert evaluation.stop.mean_asked == np.mean([not given.all() for given in exists])


def test_no_opening_is_one_that_gives_nothing(fitted: VIPClassifier) -> None:
    X, y, initially_known = opened_patients(seed=1)
    nothing = np.zeros_like(initially_known)
    np.testing.assert_array_equal(fitted.predict_proba(X, initially_known=nothing), fitted.predict_proba(X))
    assert fitted.evaluate(X, y, initially_known=nothing) == fitted.evaluate(X, y)
    np.testing.assert_array_equal(
        fitted.predict_proba(X, initially_known=initially_known),
        fitted.predict_proba(X, initially_known=initially_known.tolist()),
    )


def test_everything_given_leaves_nothing_to_ask(fitted: VIPClassifier) -> None:
    X, _, _ = opened_patients()
    X = X[X.notna().all(axis=1)]
    chains = fitted.explain(X, initially_known=np.ones(X.shape, dtype=bool))
    assert all(len(chain) == 0 and len(chain.initially_known) == 4 for chain in chains)


def test_training_starts_from_the_opening(tmp_path: Path) -> None:
    """The label is in one column. Where it is given, the others are all that is asked."""
    X, y, _ = opened_patients()
    initially_known = np.zeros(X.shape, dtype=bool)
    initially_known[:, :2] = True
    plan = {"network": MLP((16,)), "stages": [Stage(20, batch_size=32)]}
    model = VIPClassifier(random_state=0, **plan).fit(X, y, initially_known=initially_known, folder=tmp_path)
    assert model.score(X, y) <= 1
    asked = {
        step.query for chain in model.explain(X, Budget(2), initially_known=initially_known) for step in chain.steps
    }
    assert asked <= {1, 2, 3}  # and where the second column is missing, it may be asked in vain
    again = VIPClassifier(random_state=0, **plan)
    with pytest.raises(ValueError, match="other rows"):
        again.fit(X, y, folder=tmp_path, resume=True)  # what is initially known is part of the rows
    again.fit(X, y, initially_known=initially_known, folder=tmp_path, resume=True)
    np.testing.assert_array_equal(
        again.predict_proba(X, initially_known=initially_known), model.predict_proba(X, initially_known=initially_known)
    )


@pytest.mark.parametrize("shape", [(120,), (120, 3), (119, 4), (4, 120), (1, 4), (120, 4, 1)])
def test_openings_of_another_shape_are_refused(fitted: VIPClassifier, shape: tuple[int, ...]) -> None:
    X, y = patients()
    wrong = np.zeros(shape, dtype=bool)
    message = r"initially_known says for every row and query .* shape \(120, 4\) is expected"
    for refused in (
        lambda: fitted.predict(X, initially_known=wrong),
        lambda: fitted.predict_proba(X, initially_known=wrong),
        lambda: fitted.explain(X, initially_known=wrong),
        lambda: fitted.evaluate(X, y, initially_known=wrong),
        lambda: VIPClassifier(**QUICK).fit(X, y, initially_known=wrong),
    ):
        with pytest.raises(ValueError, match=message):
            refused()


# Generated rows

DISEASES = torch.tensor([[0.9, 0.1, 0.6, 0.0], [0.1, 0.8, 0.6, 0.1], [0.05, 0.05, 0.5, 0.9]])
SYMPTOMS = ColumnQueries([yes_no(name) for name in ("fever", "rash", "cough", "itch")])
PATIENTS = Patients(["flu", "measles", "eczema"], DISEASES, n_rows=400)


def drawing(**changes: Any) -> VIPClassifier:
    plan = {"network": MLP((16,)), "stages": [Stage(8, batch_size=32)], "random_state": 0}
    return VIPClassifier(SYMPTOMS, **{**plan, **changes})


def drawn(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = PATIENTS.draw(n, torch.Generator().manual_seed(99))
    assert rows.initially_known is not None
    return (rows.x > 0).int().numpy(), np.array(PATIENTS.classes)[rows.y.numpy()], rows.initially_known.numpy()


def test_patients_drawn_while_training_are_learnt_from() -> None:
    X, y, initially_known = drawn()
    model = drawing().fit(PATIENTS)
    assert model.classes_.tolist() == ["flu", "measles", "eczema"]
    assert np.mean(model.predict(X, initially_known=initially_known) == y) > 0.75
    torch.testing.assert_close(model.model_.log_prior.exp(), PATIENTS.prior(3))
    again = drawing().fit(PATIENTS)
    np.testing.assert_array_equal(
        again.predict_proba(X, initially_known=initially_known), model.predict_proba(X, initially_known=initially_known)
    )


def test_drawn_patients_are_held_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.estimators.network.HELD_OUT_MOST", 300)
    reports: list[Any] = []
    held = drawing(held_out=0.1, stages=[Stage(2, batch_size=32)]).fit(PATIENTS, on_report=reports.append)
    assert all(report.held_out_loss is not None for report in reports)
    X, y, initially_known = drawn()
    assert np.mean(held.predict(X, initially_known=initially_known) == y) > 0.5


def test_training_on_drawn_patients_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killing(report: Any) -> None:
        if report.step == 60:
            raise KeyboardInterrupt

    monkeypatch.setattr("pursuit.estimators.network.train", partial(train, checkpoint_seconds=0.0))
    monkeypatch.setattr("pursuit.training.loop.CHECKPOINT_PAUSE", 0)
    whole = drawing().fit(PATIENTS, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        drawing().fit(PATIENTS, folder=tmp_path / "killed", on_report=killing)
    reports: list[Any] = []
    resumed = drawing().fit(PATIENTS, folder=tmp_path / "killed", resume=True, on_report=reports.append)
    assert reports[0].step == 60
    for name, tensor in whole.model_.state_dict().items():
        assert torch.equal(resumed.model_.state_dict()[name], tensor)
    others = Patients(PATIENTS.classes, DISEASES.flip(0), n_rows=400)
    with pytest.raises(ValueError, match="cannot be resumed"):
        drawing().fit(others, folder=tmp_path / "killed", resume=True)


def test_drawn_rows_bring_everything_along() -> None:
    _, y, initially_known = drawn(400)
    message = "bring labels and openings along, and need the query_set"
    with pytest.raises(ValueError, match=message):
        drawing().fit(PATIENTS, y)
    with pytest.raises(ValueError, match=message):
        drawing().fit(PATIENTS, initially_known=initially_known)
    with pytest.raises(ValueError, match=message):
        VIPClassifier(**QUICK).fit(PATIENTS)
    with pytest.raises(ValueError, match="The rows answer 4 queries, but the query_set has 1"):
        VIPClassifier(ColumnQueries([yes_no("fever")]), **QUICK).fit(PATIENTS)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, lambda texts: np.array(texts, dtype=object)[:, None]])
def test_texts_come_as_a_list_an_array_or_a_series(kind: Any, tmp_path: Path) -> None:
    texts = ["the senate voted", "a new recipe for soup", "senators and taxes", "soup of the day"] * 5
    y = ["politics", "food"] * 10
    queries = WordQueries.from_texts(texts, min_documents=1)
    model = VIPClassifier(queries, random_state=0, **QUICK).fit(kind(texts), y)
    assert model.n_features_in_ == 1
    assert model.predict(kind(texts)).tolist() == y
    model.save(tmp_path)
    assert VIPClassifier.load(tmp_path).predict(kind(texts[:2])).tolist() == y[:2]
    assert len(model.explain(kind(texts[:2]))) == 2


def test_whether_rows_open_with_answers_is_kept(tmp_path: Path) -> None:
    X, y = np.eye(4)[np.arange(40) % 4], np.arange(40) % 2
    queries = ColumnQueries([yes_no(name) for name in "abcd"])
    for initially_known in (None, X > 0):
        model = VIPClassifier(queries, random_state=0, **QUICK).fit(X, y, initially_known=initially_known)
        model.save(tmp_path)
        assert (
            model.has_initially_known_
            == VIPClassifier.load(tmp_path).has_initially_known_
            == (initially_known is not None)
        )
    yes = torch.tensor([[0.9, 0.1, 0.5, 0.5], [0.1, 0.9, 0.5, 0.5]])
    drawn = Patients(["a", "b"], yes, n_rows=40)
    assert VIPClassifier(queries, random_state=0, **QUICK).fit(drawn).has_initially_known_
