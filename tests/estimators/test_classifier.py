"""What all estimators share: reading rows, asking, explaining, measuring; and what V-IP learns on small tables."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pursuit import (
    METHODS,
    Budget,
    ColumnQueries,
    Confidence,
    PatchQueries,
    Stability,
    Stage,
    TrainingRun,
    VIPClassifier,
    WordQueries,
    yes_no,
)
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.networks import MLP
from pursuit.queries import Date
from small_table import (
    PATIENTS,
    QUICK,
    QUICKEST,
    SYMPTOMS,
    drawn_patients,
    patients,
    reporting_patients,
    symptom_classifier,
)


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
    # Two columns of four give the label away, and one of them often does alone.
    assert np.mean([len(chain) for chain in fitted.explain(X, Confidence(0.9))]) < 2.5
    assert "Prediction:" in str(chains[:1])


def test_stop_and_max_queries_are_obeyed(fitted: VIPClassifier) -> None:
    X, y = patients(seed=1)
    assert all(len(chain) == 1 for chain in fitted.explain(X, Budget(1)))
    assert fitted.evaluate(X, y, "budget=2").at_stop.mean_asked == 2  # type: ignore[union-attr]
    limited = VIPClassifier(max_queries=1, random_state=0, **QUICKEST).fit(X, y)
    assert all(len(chain) == 1 for chain in limited.explain(X, Confidence(1.0)))
    assert len(limited.evaluate(X, y).accuracy_by_asked) == 2


def test_the_rule_is_that_of_the_call_or_of_the_estimator_and_max_queries_always_holds() -> None:
    assert VIPClassifier().stopping_rule() == Confidence(0.99)
    assert VIPClassifier(stop="confidence=0.9,budget=3").stopping_rule() == Confidence(0.9) | Budget(3)
    assert VIPClassifier(stop=Budget(3)).stopping_rule(Stability(0.1)) == Stability(0.1)
    assert VIPClassifier(max_queries=5).stopping_rule("budget=3") == Budget(3) | Budget(5)


def test_a_session_with_a_person_ends_where_the_row_does(fitted: VIPClassifier) -> None:
    X, _ = patients(seed=1)
    row = X.iloc[[1]]
    session = fitted.session()
    while not session.done:
        answer = row[session.ask().name].iloc[0]
        if pd.isna(answer):
            session.dont_know()
        else:
            session.tell(answer)
    assert session.prediction == fitted.predict(row)[0]
    assert session.chain.to_dict() == fitted.explain(row)[0].to_dict()


def test_images_in_any_usual_shape() -> None:
    images = np.random.default_rng(0).random((60, 4, 4))
    y = (images[:, 0, 0] > 0.5).astype(int)
    model = VIPClassifier(PatchQueries((1, 4, 4), 2), random_state=0, **QUICKEST).fit(images, y)
    flat, full = model.predict_proba(images.reshape(60, 16)), model.predict_proba(images[:, None])
    np.testing.assert_array_equal(flat, full)
    assert model.n_features_in_ == 16


def test_texts_come_as_a_list_an_array_or_a_series(tmp_path: Path) -> None:
    texts = ["the senate voted", "a new recipe for soup", "senators and taxes", "soup of the day"] * 5
    y = ["politics", "food"] * 10
    model = VIPClassifier(WordQueries.from_texts(texts, min_documents=1), random_state=0, **QUICK).fit(texts, y)
    model.save(tmp_path)
    loaded = VIPClassifier.load(tmp_path)
    for as_texts in (list, np.array, pd.Series, lambda texts: np.array(texts, dtype=object)[:, None]):
        again = VIPClassifier(model.query_set, **QUICKEST).fit(as_texts(texts), y)
        assert again.n_features_in_ == model.n_features_in_ == 1
        assert model.predict(as_texts(texts)).tolist() == y
        assert loaded.predict(as_texts(texts[:2])).tolist() == y[:2]
        assert len(model.explain(as_texts(texts[:2]))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("data", [load_wine, load_breast_cancer])
def test_defaults_are_fair_on_small_tables(data: Any) -> None:
    """One split; the README has five. A margin of three rows more than its 2.5 points allows for the luck of one. At
    most two fifths of the columns are asked for."""
    X, y = data(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=20)
    all_columns = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X_train, y_train)
    at_stop = VIPClassifier(random_state=20).fit(X_train, y_train).evaluate(X_test, y_test).at_stop
    assert at_stop is not None
    assert at_stop.accuracy >= all_columns.score(X_test, y_test) - 0.025 - 3 / len(y_test)
    assert at_stop.mean_asked <= 0.4 * X.shape[1]


def test_fitting_leaves_the_randomness_of_torch_as_it_was() -> None:
    X, y = patients(30)
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    VIPClassifier(random_state=0, **QUICKEST).fit(X, y)
    assert torch.equal(torch.rand(1), expected)


# What is learnt besides the pursuer

LEARNED = ("classes_", "model_", "n_features_in_", "has_initially_known_", "notes_", "stop_", "guaranteed_", "chosen_")


def test_every_learned_attribute_exists_after_fit_as_after_load(tmp_path: Path) -> None:
    X, y, initially_known = reporting_patients()
    for data, names in ((X, True), (X[["age"]].to_numpy(), False)):
        known = initially_known[:, : data.shape[1]]
        model = VIPClassifier(random_state=0, **QUICKEST).fit(data, y, initially_known=known)
        model.save(tmp_path)
        loaded = VIPClassifier.load(tmp_path)
        learned = {name for name in vars(model) if name.endswith("_")} - {"plan_"}  # of which `chosen_` is kept
        assert learned == {*LEARNED, *(["feature_names_in_"] if names else [])}
        assert {name for name in vars(loaded) if name.endswith("_")} == learned
        for name in learned - {"model_"}:
            np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
            assert type(getattr(loaded, name)) is type(getattr(model, name)), name
        assert loaded.classes_.dtype == model.classes_.dtype
        assert model.notes_ == {}


def test_fitting_again_forgets_what_was_learnt_before(tmp_path: Path) -> None:
    X, y, initially_known = reporting_patients()
    model = VIPClassifier(random_state=0, **QUICKEST).fit(X, y, initially_known=initially_known)
    model.save(tmp_path, {"origin": "test"})
    loaded = VIPClassifier.load(tmp_path)
    assert loaded.notes_ == {"origin": "test"}
    loaded.fit(X[["age"]].to_numpy(), y == "flu")
    assert not hasattr(loaded, "feature_names_in_")
    assert (loaded.notes_, loaded.n_features_in_, loaded.has_initially_known_) == ({}, 1, False)
    assert loaded.classes_.tolist() == [False, True]


def test_whether_rows_come_with_known_answers_is_learnt() -> None:
    X, y = np.eye(4)[np.arange(40) % 4], np.arange(40) % 2
    queries = ColumnQueries([yes_no(name) for name in "abcd"])
    for initially_known in (None, X > 0):
        model = VIPClassifier(queries, random_state=0, **QUICKEST).fit(X, y, initially_known=initially_known)
        assert model.has_initially_known_ == (initially_known is not None)
    assert VIPClassifier(SYMPTOMS, random_state=0, **QUICKEST).fit(PATIENTS).has_initially_known_


# Errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.assign(age=np.inf), r"Infinite values \(inf\) in age"),
        (lambda X: X.iloc[:0], "minimum of 1|empty"),
        (lambda X: X[[]], "no columns|minimum of 1"),
    ],
)
def test_bad_tables_get_a_sentence(change: Any, message: str) -> None:
    X, y = patients()
    X = change(X)
    with pytest.raises(ValueError, match=message):
        VIPClassifier(**QUICK).fit(X, y[: len(X)])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (lambda n: pd.to_timedelta(range(n), unit="D"), "'new' holds durations"),
        (lambda n: [f"person {i % 60}" for i in range(n)], r"'new' is not a question .* 60 diff"),
    ],
)
def test_columns_that_cannot_be_asked_for_are_left_out_with_a_sentence(column: Any, message: str) -> None:
    X, y = patients()
    with pytest.warns(UserWarning, match=message):
        model = VIPClassifier(**QUICKEST).fit(X.assign(new=column(len(X))), y)
    assert [query.name for query in model.model_.query_set.queries] == list(X.columns)


def test_bad_labels_get_a_sentence() -> None:
    X, y = patients()
    with pytest.raises(ValueError, match=r"only one class \('flu'\), so there is nothing to predict: at least two"):
        VIPClassifier(**QUICK).fit(X, np.full(len(X), "flu"))
    with pytest.raises(ValueError, match="missing"):
        VIPClassifier(**QUICK).fit(X, np.where(y == "flu", None, y))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        VIPClassifier(**QUICK).fit(X, y[:-1])
    with pytest.raises(ValueError, match="give a label for every row"):
        VIPClassifier(**QUICK).fit(X)


def test_bad_rows_at_prediction_get_a_sentence(fitted: VIPClassifier) -> None:
    X, _ = patients()
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="label 'cough' did not occur in training"):
        fitted.evaluate(X, np.full(len(X), "cough"))


def test_rows_with_values_never_seen_are_predicted_with_a_warning(fitted: VIPClassifier) -> None:
    X, _ = patients()
    with pytest.warns(UserWarning, match=r"never seen in training count as unknown: 120 of 'where' \('foot'\)"):
        predicted = fitted.predict_proba(X.assign(where="foot"))
    np.testing.assert_array_equal(predicted, fitted.predict_proba(X.assign(where=None)))
    strict = VIPClassifier(ColumnQueries.from_data(X, unknown="error"), **QUICKEST).fit(*patients())
    with pytest.raises(ValueError, match=r"'where' holds 'foot', but one of belly, chest, head .*leave it empty"):
        strict.predict(X.assign(where="foot"))


def test_a_pixel_that_was_black_or_white_in_training_is_still_a_number(recwarn: pytest.WarningsRecorder) -> None:
    X, y = load_digits(return_X_y=True)
    model = VIPClassifier(random_state=0, **QUICKEST).fit(np.minimum(X[:100], 1), y[:100])
    recwarn.clear()
    assert np.isfinite(model.predict_proba(X[300:310] / 16)).all()
    assert not recwarn.list


def test_columns_that_say_nothing_are_not_asked_but_are_columns_still(tmp_path: Path) -> None:
    X, y = patients()
    whole = X.assign(id=range(len(X)), site="Bonn")[["id", *X.columns, "site"]]
    with pytest.warns(UserWarning, match=r"Not asked for: 'id' \(numbers the rows\); 'site' \(the same in every row\)"):
        model = VIPClassifier(random_state=0, **QUICKEST).fit(whole, y)
    assert model.n_features_in_ == 6
    assert model.feature_names_in_.tolist() == list(whole.columns)
    assert [query.name for query in model.model_.query_set.queries] == list(X.columns)
    model.save(tmp_path)
    for fitted in (model, VIPClassifier.load(tmp_path)):
        expected = fitted.predict_proba(whole)
        np.testing.assert_array_equal(fitted.predict_proba(X), expected)
        np.testing.assert_array_equal(fitted.predict_proba(whole.drop(columns="site")), expected)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            np.testing.assert_array_equal(fitted.predict_proba(whole.to_numpy(dtype=object)), expected)
        with pytest.raises(ValueError, match="yet now missing:\n- age"):
            fitted.predict(whole.drop(columns="age"))


def test_what_is_known_may_be_said_of_every_column() -> None:
    X, y, initially_known = reporting_patients()
    whole, known = X.assign(site="Bonn")[["site", *X.columns]], np.insert(initially_known, 0, True, axis=1)
    with pytest.warns(UserWarning, match="Not asked for: 'site'"):
        model = VIPClassifier(random_state=0, **QUICKEST).fit(whole, y, initially_known=known)
    one, other = (model.explain(whole, initially_known=given) for given in (known, initially_known))
    assert one.to_dict() == other.to_dict()


def test_columns_of_arrays_that_say_nothing_are_skipped_too() -> None:
    randomness = np.random.default_rng(0)
    X, y = randomness.normal(size=(60, 4)), randomness.integers(0, 2, 60)
    X[:, 1] = 7
    with pytest.warns(UserWarning, match=r"Not asked for: 'x1' \(the same in every row\)"):
        model = VIPClassifier(random_state=0, **QUICKEST).fit(X, y)
    assert model.n_features_in_ == 4
    other = X.copy()
    other[:, 1] = 8
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(other))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(X[:, :3])


def test_kinds_overrule_guesses() -> None:
    X, y = patients()
    X = X.assign(born=[f"19{50 + i % 50}-05-17" for i in range(len(X))], ward=np.arange(len(X)) % 3 + 1)
    kinds = {"born": "date", "ward": "choice", "smokes": "skip"}
    model = VIPClassifier(column_types=kinds, random_state=0, **QUICKEST).fit(X, y)
    queries = {query.name: query for query in model.model_.query_set.queries}
    assert list(queries) == ["fever", "where", "age", "born", "ward"]
    assert isinstance(queries["born"], Date)
    assert queries["ward"].choices == ("1", "2", "3")
    with pytest.raises(ValueError, match="so does the query_set: leave one out"):
        VIPClassifier(ColumnQueries.from_data(X, column_types=kinds), column_types=kinds, **QUICKEST).fit(X, y)
    with pytest.raises(ValueError, match="leave column_types out"):
        VIPClassifier(column_types=kinds, **QUICKEST).fit(PATIENTS)


@pytest.mark.parametrize("stop", ["confidence=1.5", "budget=-1", "stability=-0.1", "sometimes", Confidence])
def test_bad_stopping_rules_are_reported_before_training(stop: Any) -> None:
    X, y = patients()
    reports: list[Any] = []
    with pytest.raises((ValueError, TypeError)):
        VIPClassifier(stop=stop, **QUICK).fit(X, y, run=TrainingRun(on_report=reports.append))
    assert not reports


def test_a_rule_that_never_asks_gets_a_warning() -> None:
    X, _ = patients(400)
    y = np.where(np.arange(400) == 0, "rare", "common")
    with pytest.warns(UserWarning, match=r"would stop before the first question: 'common' makes up 99.5%"):
        model = VIPClassifier(random_state=0, network=MLP((4,)), stages=[Stage(1)]).fit(X, y)
    assert all(len(chain) == 0 for chain in model.explain(X[:5]))


# Initially known answers


def test_known_answers_are_never_asked(fitted: VIPClassifier) -> None:
    X, y, initially_known = reporting_patients(seed=1)
    chains = fitted.explain(X, Budget(4), initially_known=initially_known)
    exists = initially_known & X.notna().to_numpy()
    for chain, given in zip(chains, exists, strict=True):
        known = {step.query for step in chain.initially_known}
        assert known == set(np.flatnonzero(given))
        assert not known & {step.query for step in chain.steps}
        assert len(chain) == 4 - len(known)  # all that is left
    chains = fitted.explain(X, initially_known=initially_known)
    proba = fitted.predict_proba(X, initially_known=initially_known)
    np.testing.assert_allclose(np.stack([chain.posterior for chain in chains]), proba, atol=1e-6)
    predicted = fitted.predict(X, initially_known=initially_known)
    assert [chain.prediction for chain in chains] == predicted.tolist()
    evaluation = fitted.evaluate(X, y, "budget=1", initially_known=initially_known)
    assert evaluation.at_stop is not None
    assert evaluation.at_stop.mean_asked == np.mean([not given.all() for given in exists])


def test_a_score_counts_what_is_initially_known_as_predictions_do() -> None:
    X, y, initially_known = drawn_patients()
    model = symptom_classifier(stop=Budget(0)).fit(PATIENTS)
    predicted = model.predict(X, initially_known=initially_known)
    score = model.score(X, y, initially_known=initially_known)
    assert score == np.mean(predicted == y)
    assert score > model.score(X, y) + 0.1  # which knows nothing, and asks nothing
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    weight = np.where(y == "flu", 1.0, 0.0)
    found = model.score(X, y, weight, initially_known=initially_known)
    assert found == pytest.approx(np.mean(predicted[y == "flu"] == "flu"))


def test_knowing_nothing_is_the_same_as_not_saying_what_is_known(fitted: VIPClassifier) -> None:
    X, y, initially_known = reporting_patients(seed=1)
    nothing = np.zeros_like(initially_known)
    np.testing.assert_array_equal(fitted.predict_proba(X, initially_known=nothing), fitted.predict_proba(X))
    assert fitted.evaluate(X, y, initially_known=nothing) == fitted.evaluate(X, y)
    np.testing.assert_array_equal(
        fitted.predict_proba(X, initially_known=initially_known),
        fitted.predict_proba(X, initially_known=initially_known.tolist()),
    )


def test_where_everything_is_known_nothing_is_left_to_ask(fitted: VIPClassifier) -> None:
    X, _, _ = reporting_patients()
    X = X[X.notna().all(axis=1)]
    chains = fitted.explain(X, initially_known=np.ones(X.shape, dtype=bool))
    assert all(len(chain) == 0 and len(chain.initially_known) == 4 for chain in chains)


@pytest.mark.parametrize("shape", [(120,), (120, 3), (119, 4), (4, 120), (1, 4), (120, 4, 1)])
def test_known_answers_of_another_shape_are_refused(fitted: VIPClassifier, shape: tuple[int, ...]) -> None:
    X, y = patients()
    wrong = np.zeros(shape, dtype=bool)
    message = r"initially_known says for every row and query .* shape \(120, 4\) is expected"
    for refused in (
        lambda: fitted.predict(X, initially_known=wrong),
        lambda: fitted.predict_proba(X, initially_known=wrong),
        lambda: fitted.score(X, y, initially_known=wrong),
        lambda: fitted.explain(X, initially_known=wrong),
        lambda: fitted.evaluate(X, y, initially_known=wrong),
        lambda: VIPClassifier(**QUICK).fit(X, y, initially_known=wrong),
    ):
        with pytest.raises(ValueError, match=message):
            refused()


def test_pandas_booleans_are_labels_in_training_and_in_measuring() -> None:
    X, y = patients()
    labels = pd.Series(y == y[0], dtype="boolean")
    model = VIPClassifier(**QUICKEST, random_state=0).fit(X, labels)
    assert model.classes_.dtype == bool
    assert model.evaluate(X, labels).n_rows == len(y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_queries": -1}, "max_queries is the most queries asked of a row, at least 1, not -1"),
        ({"device": "tpu"}, "one of cpu"),
        ({"stop": "soon"}, "'soon' is not a stopping rule"),
    ],
)
@pytest.mark.parametrize("name", ["vip", "naive-bayes", "tree"])
def test_wrong_parameters_are_refused_by_every_method(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS[name].build(**parameters).fit(*patients())


def test_streamed_rows_without_names_forget_the_columns_of_an_earlier_fit() -> None:
    model = VIPClassifier(**QUICKEST, random_state=0).fit(patients()[0], patients()[1])
    assert len(model.feature_names_in_) == 4
    model.set_params(query_set=SYMPTOMS).fit(PATIENTS)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == len(SYMPTOMS)


def test_nobody_is_warned_of_a_prior_that_no_row_starts_with(recwarn: pytest.WarningsRecorder) -> None:
    X, y, initially_known = reporting_patients()
    VIPClassifier(**QUICKEST, stop="confidence=0.3").fit(X, y, initially_known=initially_known)
    assert not [warning for warning in recwarn if "before the first question" in str(warning.message)]
    with pytest.warns(UserWarning, match="would stop before the first question"):
        VIPClassifier(**QUICKEST, stop="confidence=0.3").fit(X, y)


def test_the_cost_of_many_labels_is_told_before_it_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is not the memory for it, nothing is begun."""
    n = 3000
    X, y = pd.DataFrame({"a": np.arange(n) % 2}), np.arange(n)
    monkeypatch.setattr("pursuit.estimators.validation.free_memory", lambda: 10**8)
    with pytest.raises(
        ValueError, match=r"3,000 labels of 3,000 rows take at least 0\.1 GB of memory, and 0\.1 GB are free"
    ):
        NaiveBayesIPClassifier(random_state=0).fit(X, y)
    monkeypatch.setattr("pursuit.estimators.validation.free_memory", lambda: None)
    monkeypatch.setattr("pursuit.estimators.validation.NOTABLE_BYTES", 10**8)
    with pytest.warns(UserWarning, match="3,000 labels of 3,000 rows take at least"):
        NaiveBayesIPClassifier(random_state=0).fit(X, y)


@pytest.mark.programs
@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="the system does not say what is free")
def test_free_memory_ends_at_the_limit_of_the_process() -> None:
    script = """
import resource
from pathlib import Path
from pursuit.estimators.validation import free_memory
first = free_memory()
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), used + (1 << 30)))
print(0 < free_memory() <= 1 << 30, first > 0)
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "True True\n"
