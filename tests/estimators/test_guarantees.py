"""Promises that estimators make: which rows are held out for them, when they are refused, and how they are kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit import MLP, Confidence, ConformalSet, RiskControlled, Stage, VIPClassifier, VIPRegressor, load
from pursuit.estimators.guarantees import LONGEST, hold_out, n_to_hold_out, rows_needed
from pursuit.inference.stopping import NotGuaranteed, guarantees_of
from pursuit.methods.naive_bayes import NaiveBayesIPClassifier
from small_table import PATIENTS, QUICKEST, SYMPTOMS, patients


def noisy(n: int, seed: int = 0, wrong: float = 0.03, n_columns: int = 6) -> tuple[pd.DataFrame, np.ndarray]:
    """Yes/no columns, the first of which is the label but for a few rows."""
    randomness = np.random.default_rng(seed)
    X = randomness.integers(0, 2, (n, n_columns))
    y = np.where(randomness.random(n) < wrong, 1 - X[:, 0], X[:, 0])
    return pd.DataFrame(X, columns=[f"q{i}" for i in range(n_columns)]), np.where(y == 1, "ill", "well")


def fitted(stop: Any, n: int = 600, **options: Any) -> NaiveBayesIPClassifier:
    return NaiveBayesIPClassifier(stop=stop, random_state=0, **options).fit(*noisy(n))


def test_rows_are_held_out_by_itself_and_the_promise_is_kept() -> None:
    model = fitted(RiskControlled(0.1))
    assert model.guaranteed_ is not None
    assert model.stopping_rule() == model.guaranteed_
    X, y = noisy(4000, seed=1)
    decided = model.decided(X)
    assert decided.mean() > 0.9
    assert (model.predict(X) != y)[decided].mean() <= 0.1
    assert any(reason.setting == "risk=0.1" for reason in model.chosen_)
    assert "held-out rows" in str(model)
    table = model.predict_table(X[:50])
    assert ((table["outcome"] == "decided") == decided[:50]).all()
    assert [chain.decided for chain in model.explain(X[:50])] == decided[:50].tolist()


def test_what_is_learnt_does_not_depend_on_the_rows_held_out() -> None:
    """Not even what columns are asked as, or which labels there are."""
    X, y = noisy(400)
    kept, held_out = hold_out(400, n_to_hold_out([RiskControlled(0.1)], 400, None), None, _seed())
    other_X, other_y = X.astype(object).copy(), y.copy()
    other_X.iloc[held_out, 3], other_y[held_out] = "never seen before", "another"
    same = NaiveBayesIPClassifier(stop="risk=0.1", random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="never saw|left to a person|not occur"):
        other = NaiveBayesIPClassifier(stop="risk=0.1", random_state=0).fit(other_X.infer_objects(), other_y)
    assert same.classes_.tolist() == other.classes_.tolist()
    assert len(kept) + len(held_out) == 400
    assert all(torch.equal(a, b) for a, b in zip(same.model_.buffers(), other.model_.buffers(), strict=True))
    assert not other.decided(X).any()  # a label that the model does not know is always wrong


def _seed() -> int:
    return int(np.random.RandomState(0).randint(2**31))


def test_rows_of_the_user_are_taken_instead() -> None:
    model = fitted("risk=0.1", guarantee_share=0)
    X, y = noisy(300, seed=2)
    with pytest.raises(NotGuaranteed, match=r"guarantee\(X, y"):
        model.predict(X)
    assert model.guarantee(X, y) is model
    assert model.decided(X).any()
    plain = fitted(Confidence(0.9))
    assert plain.decided(X).all()  # nothing is promised
    plain.guarantee(X, y, stop=RiskControlled(0.1))
    assert plain.stopping_rule() == model.stopping_rule()
    assert plain.stop == Confidence(0.9)
    with pytest.raises(ValueError, match="guarantees nothing"):
        plain.guarantee(X, y, stop="budget=3")


def test_a_promise_is_for_the_very_rule_it_was_chosen_for() -> None:
    model, (X, _) = fitted("risk=0.1"), noisy(20)
    model.predict_table(X, stop="risk=0.1")
    assert "outcome" not in model.predict_table(X, stop="budget=2")
    for other in ("risk=0.2", "risk=0.1,budget=2", "risk=0.1x0.1xlength"):
        with pytest.raises(NotGuaranteed):
            model.predict_table(X, stop=other)
    model.max_queries = 2
    with pytest.raises(NotGuaranteed):
        model.predict(X)


@pytest.mark.parametrize(
    ("stop", "n", "said"),
    [
        ("risk=0.05", 100, r"takes at least 61 rows that are held out.*there are 100"),
        ("risk=0.01", 400, r"at least 309 rows"),
        ("conformal=0.01", 150, r"at least 99 rows"),
        ("risk=0.05x0.1xlength", 150, r"at least 89 rows"),
        ("risk=0.1,conformal=0.1", 50, r"risk=0.1 with conformal=0.1 takes at least 60 rows"),
    ],
)
def test_too_few_rows_are_refused_with_how_many_it_takes(stop: str, n: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fitted(stop, n)
    model = fitted(Confidence(0.9), 100)
    with pytest.raises(ValueError, match="did not learn from"):
        model.guarantee(*noisy(8), stop=stop)
    assert model.stop == Confidence(0.9)  # nothing was changed


def test_as_few_rows_as_it_says_are_enough() -> None:
    promise = RiskControlled(0.2)
    n = rows_needed([promise])
    model = NaiveBayesIPClassifier(stop=promise, random_state=0, guarantee_share=0).fit(*noisy(500, wrong=0.0))
    assert model.guarantee(*noisy(n, seed=5, wrong=0.0)).decided(noisy(50)[0]).all()


def test_nothing_can_be_promised_of_labels_that_are_chance() -> None:
    X, y = noisy(600, wrong=0.5)
    with pytest.warns(UserWarning, match="left to a person"):
        model = NaiveBayesIPClassifier(stop="risk=0.05", random_state=0).fit(X, y)
    assert not model.decided(X).any()
    assert set(model.predict(X)) <= {"ill", "well"}  # a label is given all the same
    assert "no rows decided" in str(model)


def test_a_promise_that_takes_no_question_says_so() -> None:
    X, _ = noisy(800)
    y = np.where(np.random.default_rng(0).random(800) < 0.02, "rare", "usual")
    with pytest.warns(UserWarning, match="without a single question"):
        model = NaiveBayesIPClassifier(stop="risk=0.2", random_state=0).fit(X, y)
    assert (model.predict_table(X)["n_asked"] == 0).all()


def test_weights_are_refused() -> None:
    X, y = noisy(600)
    model = VIPClassifier(stop="risk=0.1", random_state=0, **QUICKEST)
    with pytest.raises(ValueError, match="count once each"):
        model.fit(X, y, sample_weight=np.ones(600))


def test_of_each_group_one_row_is_taken_and_none_is_learnt_from() -> None:
    group = np.repeat(np.arange(200), 5)
    kept, held_out = hold_out(1000, 60, group, 3)
    assert len(held_out) == 60 == len(np.unique(group[held_out]))
    assert not set(group[kept]) & set(group[held_out])
    assert len(kept) == 1000 - 5 * 60
    X, y = noisy(1000)
    model = NaiveBayesIPClassifier(stop="risk=0.1", random_state=0).fit(X, y, groups=group)
    assert model.guaranteed_ is not None
    few = np.repeat(np.arange(20), 50)
    with pytest.raises(ValueError, match="there are 20"):
        NaiveBayesIPClassifier(stop="risk=0.1", random_state=0).fit(X, y, groups=few)
    with pytest.raises(ValueError, match=r"one of each group.*there are 20"):
        model.guarantee(X, y, groups=few)


def test_streamed_rows_are_held_out_too() -> None:
    model = VIPClassifier(SYMPTOMS, stop="risk=0.4,conformal=0.2xclass", random_state=0, **QUICKEST).fit(PATIENTS)
    assert all(promise.is_kept for promise in guarantees_of(model.stopping_rule()))


def test_sets_of_labels_have_the_right_one_as_often_as_promised() -> None:
    X, y = noisy(6000, seed=9, wrong=0.2)
    model = NaiveBayesIPClassifier(stop=ConformalSet(0.1), random_state=0).fit(X[:2000], y[:2000])
    assert str(model.stopping_rule()) == "confidence=0.99,conformal=0.1"  # the usual rule stops
    sets = model.predict_sets(X[2000:])
    codes = (y[2000:] == "well").astype(int)
    assert model.classes_.tolist() == ["ill", "well"]
    assert sets[np.arange(4000), codes].mean() >= 0.88
    assert sets.any(axis=1).all()
    with pytest.raises(ValueError, match="ConformalSet"):
        model.predict_sets(X, stop="budget=2")


def test_every_class_must_have_rows_where_it_is_promised_something() -> None:
    X, y = noisy(500)
    y[:4] = "rare"
    with pytest.raises(ValueError, match=r"at least 9 held-out rows of every label, and 'rare' has \d"):
        NaiveBayesIPClassifier(stop="conformal=0.1xclass", random_state=0).fit(X, y)
    model = NaiveBayesIPClassifier(stop="conformal=0.1", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="every label"):
        model.guarantee(X, y, stop="conformal=0.1xclass")


def test_both_promises_at_once_have_rows_of_their_own() -> None:
    model = fitted(RiskControlled(0.1) | ConformalSet(0.1, by_class=True), 1500)
    risk, sets = guarantees_of(model.stopping_rule())
    assert isinstance(risk, RiskControlled)
    assert isinstance(sets, ConformalSet)
    assert risk.levels
    assert len(sets.least) == 2
    with pytest.raises(ValueError, match="leave all but one out"):
        fitted(RiskControlled(0.1) | RiskControlled(0.2))


def test_a_promise_by_length_has_a_level_for_every_number_of_questions() -> None:
    model = fitted("risk=0.1x0.1xlength", 1500)
    (promise,) = guarantees_of(model.stopping_rule())
    assert isinstance(promise, RiskControlled)
    assert len(promise.levels) == 7
    X, y = noisy(3000, seed=4)
    table, wrong = model.predict_table(X), model.predict(X) != y
    for t in range(7):
        early = ((table["outcome"] == "decided") & (table["n_asked"] <= t)).to_numpy()
        assert not early.any() or wrong[early].mean() <= 0.1


def test_very_many_questions_are_not_all_asked_before_a_person_is() -> None:
    X, y = noisy(400, n_columns=LONGEST + 20)
    model = NaiveBayesIPClassifier(stop="risk=0.1", random_state=0).fit(X, y)
    assert str(model.stopping_rule()) == f"risk=0.1,budget={LONGEST}"
    given = NaiveBayesIPClassifier(stop="risk=0.1,budget=7", random_state=0).fit(X, y)
    assert str(given.stopping_rule()) == "risk=0.1,budget=7"


def test_a_promise_is_saved_with_the_model(tmp_path: Path) -> None:
    model, (X, _) = fitted("risk=0.1,conformal=0.1", 900), noisy(60, seed=3)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.stopping_rule() == model.stopping_rule()
    pd.testing.assert_frame_equal(again.predict_table(X), model.predict_table(X))
    assert again.session().stop == model.stopping_rule()


def test_numbers_have_no_such_promise() -> None:
    X, _ = patients()
    with pytest.raises(ValueError, match="predict classes"):
        VIPRegressor(stop="risk=0.1").fit(X[["age"]].fillna(1), np.arange(len(X)))


def test_lists_and_arrays_can_be_held_out_of() -> None:
    X, y = noisy(1500)
    for rows in (X.to_numpy(), X.to_numpy().tolist()):
        model = NaiveBayesIPClassifier(stop="risk=0.1", random_state=0).fit(rows, list(y))
        assert model.decided(rows).any()


def test_a_share_that_is_no_share_is_refused() -> None:
    with pytest.raises(ValueError, match="guarantee_share"):
        fitted("risk=0.1", guarantee_share=1.5)
    with pytest.raises(ValueError, match="takes at least 30 rows"):
        fitted("risk=0.1", guarantee_share=0.01)


def test_beliefs_that_change_take_their_promise_along() -> None:
    X, y = noisy(600)
    model = VIPClassifier(stop="risk=0.2", random_state=0, network=MLP((16,)), stages=[Stage(5)]).fit(X, y)
    model.decided(X)
    model.calibrate(*noisy(100, seed=1))
    with pytest.raises(NotGuaranteed):
        model.decided(X)
    assert model.guarantee(*noisy(100, seed=2)).decided(X).any()


def test_sets_alone_go_with_the_rule_that_suits_the_data() -> None:
    model = VIPClassifier(stop="conformal=0.1", random_state=0, network=MLP((16,)), stages=[Stage(5)], held_out=0.2)
    model.fit(*noisy(600))
    assert model.stop_ is not None
    assert str(model.stopping_rule()) == f"{model.stop_},conformal=0.1"
