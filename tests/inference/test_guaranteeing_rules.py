"""Rules that promise something: how they are written, what they decide, and that they do not without a reason."""

from typing import Any

import pytest
import torch

from pursuit import AnyOf, Budget, Confidence, ConformalSet, RiskControlled, Session, Standing
from pursuit.exact import IndependentIP
from pursuit.inference.chain import explain
from pursuit.inference.predictions import predict_rows
from pursuit.inference.stopping import (
    NEVER,
    NotGuaranteed,
    StoppingRule,
    guarantees_of,
    parse_stop,
    unkept,
    without_guarantees,
)
from pursuit.queries import ColumnQueries, yes_no
from pursuit.registry import from_config, to_config


def standing(posterior: Any, n_asked: Any) -> Standing:
    belief, asked = torch.tensor(posterior).log(), torch.tensor(n_asked)
    return Standing(belief, asked, asked, asked.float())


def illnesses() -> IndependentIP:
    """Three illnesses that three questions tell apart, not quite."""
    query_set = ColumnQueries([yes_no(name, f"{name}?") for name in ("fever", "cough", "rash")])
    yes = torch.tensor([[0.9, 0.8, 0.1], [0.1, 0.9, 0.1], [0.5, 0.1, 0.95]])
    return IndependentIP.from_yes(query_set, ["flu", "cold", "measles"], torch.full((3,), 1 / 3), yes)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("risk=0.05", RiskControlled(0.05)),
        ("risk=0.05x0.2", RiskControlled(0.05, 0.2)),
        ("risk=0.05x0.1xlength", RiskControlled(0.05, 0.1, by_length=True)),
        ("conformal=0.1", ConformalSet(0.1)),
        ("conformal=0.1xclass", ConformalSet(0.1, by_class=True)),
        ("risk=0.1,budget=5", AnyOf((RiskControlled(0.1), Budget(5)))),
    ],
)
def test_promises_are_written_like_other_rules(text: str, rule: StoppingRule) -> None:
    assert parse_stop(text) == rule
    assert str(rule) == text
    assert from_config(to_config(rule)) == rule


def test_what_keeps_a_promise_is_saved_with_it() -> None:
    rule = RiskControlled(0.05, levels=(NEVER, 0.75)) | ConformalSet(0.1, least=(0.25, 0.5))
    assert from_config(to_config(rule)) == rule
    assert str(rule) == "risk=0.05,conformal=0.1"
    assert unkept(rule) == parse_stop("risk=0.05,conformal=0.1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("risk=0", "above 0 and below 1"),
        ("risk=1.5", "above 0 and below 1"),
        ("risk=0.05x0", "delta is a share"),
        ("risk=nan", "above 0 and below 1"),
        ("risk", "not a stopping rule"),
        ("risk=0.05x0.1x3", "not a stopping rule"),
        ("risk=length", "not a stopping rule"),
        ("conformal=2", "above 0 and below 1"),
        ("conformal=0.1x0.1", "not a stopping rule"),
        ("conformal=class", "not a stopping rule"),
    ],
)
def test_what_cannot_be_promised_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_stop(text)


@pytest.mark.parametrize("number", [float("nan"), -1.0, float("inf"), "high", None])
def test_what_is_no_probability_keeps_no_promise(number: Any) -> None:
    """As a file might say that was changed by somebody."""
    with pytest.raises(ValueError, match="probabilities"):
        RiskControlled(0.05, levels=(0.9, number))
    with pytest.raises(ValueError, match="probabilities"):
        ConformalSet(0.05, least=(number,))


def test_nothing_is_promised_before_it_was_chosen_what_it_takes() -> None:
    somewhere = standing([[0.9, 0.1]], [1])
    with pytest.raises(NotGuaranteed, match=r"risk=0.05 is a guarantee.*guarantee"):
        RiskControlled(0.05).step(torch.zeros(1, 0), somewhere)
    with pytest.raises(NotGuaranteed, match="conformal"):
        ConformalSet(0.1).label_set(torch.tensor([[0.9, 0.1]]))


def test_it_must_be_as_sure_as_the_number_of_questions_takes() -> None:
    rule = RiskControlled(0.05, levels=(NEVER, 0.9, 0.6))
    where = standing([[0.99, 0.01], [0.89, 0.11], [0.9001, 0.0999], [0.7, 0.3], [0.7, 0.3]], [0, 1, 1, 2, 9])
    expected = [False, False, True, True, True]  # the last level holds for all numbers that follow
    assert rule.decides(where).tolist() == expected
    stops, _ = rule.step(torch.zeros(5, 0), where)
    assert stops.tolist() == expected


def test_other_rules_end_a_chain_and_decide_nothing() -> None:
    rule = RiskControlled(0.05, levels=(0.9,)) | Budget(2)
    stops, _ = rule.step(rule.start(2), standing([[0.95, 0.05], [0.6, 0.4]], [2, 2]))
    assert stops.tolist() == [True, True]
    decided = rule.decides(standing([[0.95, 0.05], [0.6, 0.4]], [2, 2]))
    assert decided is not None
    assert decided.tolist() == [True, False]
    assert Confidence(0.9).decides(standing([[0.95, 0.05]], [1])) is None
    assert without_guarantees(rule) == Budget(2)
    assert without_guarantees(RiskControlled(0.05)) is None
    assert guarantees_of(Confidence(0.9) | Budget(3)) == ()


def test_the_labels_that_remain_are_never_none_at_all() -> None:
    posterior = torch.tensor([[0.5, 0.3, 0.2], [0.05, 0.9, 0.05], [0.34, 0.33, 0.33]])
    assert ConformalSet(0.1, least=(0.25,)).label_set(posterior).tolist() == [
        [True, True, False],
        [False, True, False],
        [True, True, True],
    ]
    by_class = ConformalSet(0.1, by_class=True, least=(0.9, 0.9, 0.01))
    assert by_class.label_set(posterior)[0].tolist() == [True, False, True]


def test_all_ways_to_ask_agree_on_what_is_decided() -> None:
    pursuer = illnesses()
    rule = RiskControlled(0.05, levels=(0.95,)) | ConformalSet(0.1, least=(0.1,))
    rows = [[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)]
    x, available = torch.tensor(rows), torch.ones(8, 3, dtype=torch.bool)
    chains = explain(pursuer, x, available, rule)
    found = predict_rows(pursuer, x, available, rule)
    assert found.decided is not None
    assert found.label_set is not None
    assert {chain.decided for chain in chains} == {True, False}
    table = found.table(pursuer, x)
    for row, chain in enumerate(chains):
        session = Session(pursuer, rule)
        while not session.done:
            session.tell("yes" if x[row, session.ask().query] > 0 else "no")
        assert session.decided == chain.decided == bool(found.decided[row]) == (chain.posterior.max() >= 0.95)
        assert set(session.label_set or ()) == set(chain.label_set or ())
        assert chain.label_set == session.chain.label_set
        assert table["outcome"][row] == ("decided" if chain.decided else "not sure")
        assert set(table["labels"][row].split(" | ")) == set(chain.label_set or ())
        assert str(chain).startswith("Prediction: " if chain.decided else "Not sure, a person must decide")
        assert "What remains possible: " in str(chain)
        assert ("not sure" in repr(session)) == (not chain.decided)


def test_chains_without_a_promise_say_nothing_of_it() -> None:
    pursuer = illnesses()
    x, available = torch.ones(1, 3), torch.ones(1, 3, dtype=torch.bool)
    chain = explain(pursuer, x, available, Confidence(0.8))[0]
    assert chain.decided is None
    assert chain.label_set is None
    assert "outcome" not in predict_rows(pursuer, x, available, Confidence(0.8)).table(pursuer, x)


def test_a_label_that_is_excluded_does_not_remain() -> None:
    session = Session(illnesses(), RiskControlled(0.05, levels=(0.8,)) | ConformalSet(0.1, least=(0.01,)))
    session.tell("yes", "rash")
    before = session.label_set
    assert before is not None
    session.reject(before[0])
    assert before[0] not in (session.label_set or ())
