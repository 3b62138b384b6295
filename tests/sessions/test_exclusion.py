"""Bits about the labels that are left: all queries at once, and equal to what single answers would do."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit import MLP, Stage, VIPClassifier
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer, score_unit
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.sessions.exclusion import information_without, without
from pursuit.sessions.session import Session


class OneByOne:
    """Another pursuer that knows only what each answer would do."""

    def __init__(self, pursuer: Any):
        self.pursuer, self.query_set, self.classes = pursuer, pursuer.query_set, pursuer.classes
        self.score_unit, self.possible_answers = score_unit(pursuer), pursuer.possible_answers
        self.scores, self.log_posterior = pursuer.scores, pursuer.log_posterior


def table(missing: bool = False) -> tuple[pd.DataFrame, pd.Series]:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(3, (240, 6), generator=generator).numpy()
    X = pd.DataFrame(np.array(["low", "mid", "top"])[codes], columns=list("abcdef"))
    y = pd.Series([f"class {(a + 2 * b) % 5}" for a, b in codes[:, :2]])
    if missing:
        X.loc[y == "class 1", "c"] = None
    return X, y


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    X, y = table()
    options: dict[str, Any] = {"network": MLP((16,)), "stages": [Stage(3)], "teachers": None, "random_state": 0}
    return {
        "naive Bayes": NaiveBayesIPClassifier().fit(X, y).model_,
        "information": VIPClassifier(querier="information", **options).fit(X, y).model_,
        "cost": VIPClassifier(querier="information", cost_aware=True, **options).fit(X, y).model_,
    }


def bits_of(pursuer: Pursuer, history: History, excluded: list[int]) -> Any:
    belief = without(pursuer.log_posterior(history), excluded)
    return information_without(pursuer, history, belief, excluded, history.asked)


@pytest.mark.parametrize("name", ["naive Bayes", "information", "exact"])
def test_all_queries_at_once_are_as_one_by_one(name: str, models: dict[str, Any], world: Any) -> None:
    pursuer = world.pursuer if name == "exact" else models[name]
    query_set, generator = pursuer.query_set, torch.Generator().manual_seed(1)
    for _ in range(10):
        x = query_set.answers(pd.DataFrame([{q.name: q.choices[0] for q in query_set.queries}])).x
        for query, column in enumerate(query_set.queries):
            query_set.tell(
                x[0], query, column.choices[int(torch.randint(len(column.choices), (), generator=generator))]
            )
        known = torch.rand(1, len(query_set), generator=generator) < 0.4
        history, excluded = History(x, known, known), [int(torch.randint(3, (), generator=generator))]
        with torch.no_grad():
            at_once, one_by_one = (bits_of(one, history, excluded) for one in (pursuer, OneByOne(pursuer)))
        assert torch.allclose(at_once.double(), one_by_one.double(), atol=2e-4)
        assert not at_once[known].any()


@pytest.mark.parametrize("name", ["information", "cost"])
def test_sessions_ask_the_same_after_a_wrong_guess(name: str, models: dict[str, Any]) -> None:
    X, _ = table()
    for row in range(5):
        sessions = [Session(pursuer) for pursuer in (models[name], OneByOne(models[name]))]
        for session in sessions:
            session.tell(X["f"][row], "f")
            session.reject()
        for _ in range(4):
            asked = {session.ask().name for session in sessions}
            assert len(asked) == 1
            name_of = asked.pop()
            first, second = (session.ask().bits for session in sessions)
            assert first == pytest.approx(second, abs=2e-4)
            for session in sessions:
                session.tell(X[name_of][row])


def test_with_nothing_excluded_bits_are_those_of_the_pursuer() -> None:
    X, y = table(missing=True)
    options: dict[str, Any] = {"network": MLP((16,)), "stages": [Stage(3)], "teachers": None, "random_state": 0}
    for querier in ("information", "straight-through"):
        model = VIPClassifier(querier=querier, **options).fit(X, y).model_
        x, available = model.query_set.answers(X[:4])
        known = available & (torch.arange(6) < 2)
        for row in range(4):
            history = History(x[[row]], known[[row]], known[[row]])
            with torch.no_grad():
                bits, expected = bits_of(model, history, []), model.expected_information(history)
            if expected is None:  # a querier without an answer model
                assert bits is None
                continue
            assert torch.equal(bits, expected.masked_fill(known[[row]], 0))
