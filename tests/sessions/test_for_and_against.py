"""Reasons of a result: which answers spoke for it and which against it."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit.inference.chain import Chain
from pursuit.inference.target_bins import TargetBins
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.queries import ColumnQueries, yes_no
from pursuit.sessions.reasons import MOST_LISTED, reasons_of
from pursuit.sessions.session import Session
from untrained import InOrder, KnownWorth


def told(world: Any) -> Session:
    session = Session(world.pursuer)
    for name, answer in [("fever", "yes"), ("itching", "yes"), ("season", "winter")]:
        session.tell(answer, name)
    return session


def test_weights_add_up_to_the_change_of_the_label(world: Any) -> None:
    session = told(world)
    for label, place in zip(session.chain.classes, range(3), strict=True):
        reasons = session.reasons(label)
        listed = (*reasons.reasons_for, *reasons.reasons_against, *reasons.other)
        assert len(listed) == 3
        change = math.log2(session.posterior[label] / float(session.chain.prior[place]))
        assert sum(reason.weight for reason in listed) == pytest.approx(change, abs=1e-6)


def test_chains_of_rows_have_the_reasons_that_sessions_have() -> None:
    X = pd.DataFrame({"fur": ["no", "no", "yes", "yes"] * 20, "wings": ["no", "yes", "no", None] * 20})
    model = NaiveBayesIPClassifier(stop="budget=2").fit(X, ["fish", "bird", "cat", "cat"] * 20)
    for (_, row), chain in zip(X[:4].iterrows(), model.explain(X[:4]), strict=True):
        session = model.session()
        while not session.done:
            answer = row[session.ask().name]
            session.tell(answer) if isinstance(answer, str) else session.dont_know()
        of_row, of_session = reasons_of(chain), session.reasons()
        listed = (*of_row.reasons_for, *of_row.reasons_against, *of_row.other)
        assert len(listed) == chain.n_answered
        assert [reason.name for reason in of_row.reasons_for] == [reason.name for reason in of_session.reasons_for]
        best = int(chain.posterior.argmax())
        total = sum(reason.weight for reason in listed)
        assert total == pytest.approx(math.log2(chain.posterior[best] / chain.prior[best]), abs=1e-4)


def test_answers_speak_for_and_against(world: Any) -> None:
    reasons = told(world).reasons()
    assert reasons.label == "flu"
    assert {reason.name for reason in reasons.reasons_for} == {"fever", "season"}
    assert {reason.name for reason in reasons.reasons_against} == {"itching"}
    assert [reason.weight for reason in reasons.reasons_for] == sorted(
        (reason.weight for reason in reasons.reasons_for), reverse=True
    )
    text = str(reasons)
    assert text.splitlines()[:2] == [reasons.text, "For it:"]
    assert "Against it:\n  Do your eyes itch? yes  " in text
    assert reasons.change(reasons.reasons_against[0]) in text
    state = json.loads(reasons.to_json())
    assert [reason["query"] for reason in state["against"]] == ["itching"]
    assert state["label"] == "flu"


def test_reasons_of_another_label_and_of_one_that_is_excluded(world: Any) -> None:
    session = told(world)
    against = {reason.name for reason in session.reasons("ALLERGY").reasons_against}
    assert {"fever", "season"} <= against
    with pytest.raises(ValueError, match="There is no label 'gout'"):
        session.reasons("gout")
    session.reject()
    assert "Excluded as wrong: flu" in str(session.reasons())
    assert session.reasons("flu").text == "flu (excluded as wrong)"
    assert math.isfinite(sum(reason.weight for reason in session.reasons("flu").other))


def test_what_nobody_knows_is_no_reason_and_nothing_is_said_to_be_usual(world: Any) -> None:
    session = Session(world.pursuer)
    assert "Nothing was answered yet" in str(session.reasons())
    session.dont_know()
    reasons = session.reasons()
    assert (reasons.reasons_for, reasons.reasons_against, reasons.other) == ((), (), ())


def test_an_answer_that_changes_nothing_hardly_matters() -> None:
    session = Session(InOrder(ColumnQueries([yes_no("a", "Is it?")])))
    session.tell("yes")
    assert str(session.reasons()).endswith("Hardly mattered: Is it? yes")


def test_of_many_reasons_some_are_shown() -> None:
    session = Session(KnownWorth([1.0] * 20))
    while not session.done:
        session.tell("yes")
    reasons = session.reasons()
    longest = max(reasons.reasons_for, reasons.reasons_against, key=len)
    assert len(longest) > MOST_LISTED
    assert f"and {len(longest) - MOST_LISTED} more" in str(reasons)


def test_a_number_is_raised_and_lowered() -> None:
    target = TargetBins.of(np.arange(90.0), 3)
    beliefs = torch.tensor([[1, 1, 1], [0, 1, 2], [0.5, 1, 1.5], [0.5, 1, 1.5]]) / 3
    session = Session(_Number(target, beliefs))
    for _ in range(3):
        session.tell("yes")
    reasons = session.reasons()
    assert [reason.name for reason in reasons.reasons_for] == ["q0"]
    assert [reason.name for reason in reasons.reasons_against] == ["q1"]
    assert [reason.name for reason in reasons.other] == ["q2"]
    assert "What raised it:" in str(reasons)
    assert "What lowered it:" in str(reasons)
    assert reasons.label == session.prediction
    assert reasons.reasons_for[0].weight == pytest.approx(reasons.reasons_for[0].after - reasons.reasons_for[0].before)
    with pytest.raises(ValueError, match="there is no label to ask about"):
        session.reasons("80 to 90")
    with pytest.raises(ValueError, match="A number is predicted"):
        session.reject()


def test_a_label_that_a_chain_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"There is no label 'c'\. Labels are a, b"):
        reasons_of(Chain(("a", "b"), torch.tensor([0.5, 0.5]), ()), "c")


class _Number:
    """Believes what it is told to after so many answers."""

    def __init__(self, target: TargetBins, beliefs: torch.Tensor):
        self.query_set = ColumnQueries([yes_no(f"q{i}") for i in range(len(beliefs) - 1)])
        self.classes, self.beliefs = target, beliefs

    def scores(self, history: Any) -> torch.Tensor:
        return -torch.arange(len(self.query_set), dtype=torch.float)[None]

    def log_posterior(self, history: Any) -> torch.Tensor:
        return self.beliefs[history.n_known].log()
