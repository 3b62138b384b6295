"""Which single answer would have changed a prediction."""

from typing import Any

import pandas as pd
import pytest

from pursuit.methods import NaiveBayesIPClassifier
from pursuit.sessions.reasons import what_if
from pursuit.sessions.session import Session


@pytest.fixture(scope="module")
def model() -> NaiveBayesIPClassifier:
    X = pd.DataFrame({"fur": ["no", "no", "yes", "yes"] * 20, "wings": ["no", "yes", "no", "no"] * 20})
    return NaiveBayesIPClassifier(stop="budget=2").fit(X, ["fish", "bird", "cat", "cat"] * 20)


def test_an_answer_that_changes_the_prediction_is_found(model: NaiveBayesIPClassifier) -> None:
    X = pd.DataFrame({"fur": ["no"], "wings": ["yes"]})
    (chain,) = model.explain(X)
    found = what_if(model.model_, model.read_answers(X).x[0], chain)
    assert chain.prediction == "bird"
    changed = {one.name: one for one in found}
    for name, other in (("fur", "yes"), ("wings", "no")):
        (again,) = model.explain(X.assign(**{name: other}))
        assert (name in changed) == (again.prediction != "bird")
        if name in changed:
            assert changed[name].instead == other
            assert changed[name].label == again.prediction
            assert changed[name].probability == pytest.approx(float(again.posterior.max()), abs=1e-5)
    assert found
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)


def test_what_was_not_answered_is_not_tried(model: NaiveBayesIPClassifier) -> None:
    X = pd.DataFrame({"fur": [None], "wings": ["yes"]})
    (chain,) = model.explain(X)
    assert "fur" not in {one.name for one in what_if(model.model_, model.read_answers(X).x[0], chain)}


def test_what_a_person_excluded_is_not_what_it_would_have_been(world: Any) -> None:
    session = Session(world.pursuer)
    for name, answer in [("fever", "yes"), ("itching", "no"), ("season", "spring")]:
        session.tell(answer, name)
    assert session.prediction == "cold"
    assert {one.label for one in session.what_if()} == {"flu", "allergy"}
    session.reject("allergy")
    assert {one.label for one in session.what_if()} == {"flu"}
    session.undo()
    session.reject("cold")
    for one in session.what_if():
        again = Session.from_dict(session.to_dict(), world.pursuer)
        again.change(one.name, one.instead)
        assert again.prediction == one.label != session.prediction
        assert again.posterior[one.label] == pytest.approx(one.probability, abs=1e-6)
    assert session.what_if()
