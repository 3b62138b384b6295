"""What a model is and how good it is, in sentences."""

from dataclasses import replace
from typing import Any

import pytest

from pursuit.inference.stopping import Never, stopping_rule
from pursuit.report.facts import ModelFacts, overall_trust, rule_in_words, share, trust


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("confidence=0.995", "It stops asking once it is 99.5% sure."),
        ("budget=1", "It stops asking once it has asked 1 question."),
        ("bits=0.005", "It stops asking once no question left is expected to tell 0.005 bits or more."),
        ("bits=1", "It stops asking once no question left is expected to tell 1 bit or more."),
        ("bits=0.02", "It stops asking once no question left is expected to tell 0.02 bits or more."),
        ("cost=20", "It stops asking once another question would cost more than 20 in all."),
        ("width=5", "It stops asking once it can place the number within 5 (90% sure)."),
        ("confidence=0.9,budget=7", "It stops asking once it is 90% sure, or it has asked 7 questions."),
    ],
)
def test_rules_are_said_in_words(rule: str, words: str) -> None:
    assert rule_in_words(stopping_rule(rule)) == words


def test_a_rule_that_never_stops_asks_everything() -> None:
    assert rule_in_words(Never()) == "It stops once everything was asked."


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0%"),
        (-0.002, "0%"),
        (-0.016, "-2%"),
        (1.0, "100%"),
        (0.5, "50%"),
        (0.9999, "99.9%"),
        (0.0001, "0.1%"),
        (0.995, "99.5%"),
    ],
)
def test_shares_never_promise_certainty_by_rounding(value: float, words: str) -> None:
    assert share(value) == words


def test_a_prediction_is_trusted_as_those_of_its_confidence(model: Any, table: Any) -> None:
    evaluation = model.evaluate(*table)
    last = evaluation.reliability[-1]
    said = trust(evaluation, 0.97)
    assert said.startswith(f"In {last.n_rows} measured rows the model was about as sure as here (90% to 100%)")
    assert f"right in {share(last.accuracy)} of them" in said
    assert trust(evaluation, 1.0) == said
    few = replace(evaluation, reliability=(replace(last, n_rows=3),))
    assert "only 3 had a prediction about as sure as this one: too few" in trust(few, 0.97)
    assert "none had a prediction" in trust(few, 0.3)
    assert trust(None, 0.97) == ""


def test_too_sure_and_not_sure_enough_are_told_apart() -> None:
    assert overall_trust(0.9, 0.5, (0.4, 0.6)).endswith("it is too sure of itself.")
    assert overall_trust(0.3, 0.5, (0.4, 0.6)).endswith("it is right more often than it says.")
    assert overall_trust(0.55, 0.5, (0.4, 0.6)).endswith("that agrees.")


def test_a_model_is_described_by_what_it_predicts_and_asks(model: Any) -> None:
    facts = ModelFacts.of(model)
    assert facts.labels == tuple(model.classes_.tolist())
    assert facts.predicts().startswith("This model says which of 4 labels fits: ")
    assert "It may ask 3 questions, one after the other" in facts.sentences()[1]
    assert facts.trained_on == ""
    many = replace(facts, labels=tuple(range(20)))
    assert many.predicts().endswith("10, 11 and 8 more.")
