"""The page computes what the package computes: beliefs, bits, questions, stops."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch

from exported import MODELS, computed, described, histories, model_of, needs_node, random_answer
from pursuit import Session, export
from pursuit.inference.chain import doubt
from pursuit.inference.pursuer import score_unit
from pursuit.inference.target_bins import target_of

N_HISTORIES = 300
CLOSE = 0.05
"""In bits or shares: how far a question of the page may be from the best one, whose weights are not rounded."""


@cache
def exported(name: str) -> tuple[Any, Path]:
    estimator, page = model_of(name), Path(mkdtemp()) / "page.html"
    export(estimator, page)
    return estimator, page


@needs_node
@pytest.mark.parametrize(
    "name", sorted(MODELS.keys() - {"promising"})
)  # which only stops otherwise than the ordered one
@torch.no_grad()
def test_beliefs_and_bits_agree_on_hundreds_of_histories(name: str) -> None:
    estimator, page = exported(name)
    model = estimator.model_
    rows, entries = histories(model.query_set, N_HISTORIES)
    found = computed(page, histories=entries)["beliefs"]
    posterior = torch.tensor([one["posterior"] for one in found])
    assert (posterior - model.log_posterior(rows).exp()).abs().max() < 1e-4
    bits = torch.tensor([one["bits"] for one in found])
    assert (bits - model.expected_information(rows)).abs().max() < 0.02
    assert model.expected_information(rows).max() > 0.1  # or the comparison would say little


def people(query_set: Any, n: int) -> list[list[tuple[Any, Any]]]:
    """Answers of people to all queries, as Python is told them and as the page has them; some they do not know."""
    randomness = np.random.default_rng(1)
    return [
        [(None, None) if randomness.random() < 0.1 else random_answer(query, randomness) for query in query_set.queries]
        for _ in range(n)
    ]


@needs_node
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_an_interview_asks_and_stops_as_a_session_does(name: str) -> None:
    estimator, page = exported(name)
    everybody = people(estimator.model_.query_set, 15)
    held = computed(page, people=[[own for _, own in answers] for answers in everybody])
    n_asked, n_same = 0, 0
    for answers, interview in zip(everybody, held["interviews"], strict=True):
        session = estimator.session()
        for query in interview["asked"]:
            assert not session.done
            assert_nearly_best(session, query)
            n_asked, n_same = n_asked + 1, n_same + (session.ask().query == query)
            name_of = session.pursuer.query_set.queries[query].name
            if session.ask().query != query:  # a tie that rounding decides otherwise: go on as the page does
                session = other_choice(session, query, answers[query][0])
            elif answers[query][0] is None:
                session.dont_know()
            else:
                session.tell(answers[query][0], confirmed=True)
            assert name_of in [step.name for step in session.chain.steps]
        assert session.done
        np.testing.assert_allclose(interview["posterior"], session.chain.steps[-1].posterior, atol=1e-4)
        first = doubt(session.chain.prior)
        assert interview["progress"] == pytest.approx(min(1, max(0, session.bits_gained / first)), abs=2e-3)
        if (target := target_of(session.pursuer)) is not None:
            belief = session.chain.steps[-1].posterior[None]
            expected = [float(target.mean(belief)), *target.interval(belief)[0].tolist()]
            assert interview["number"] == pytest.approx(expected, rel=1e-3)
    assert n_same >= 0.9 * n_asked
    assert n_asked > 25


def assert_nearly_best(session: Session, query: int) -> None:
    """The page's question is one that may be asked, and that is as good as the best."""
    question, pursuer, history = session.ask(), session.pursuer, session.history
    if question.number == 0:  # known beforehand, which nobody chooses
        assert query == question.query
        return
    closed = pursuer.query_set.closed(history.x, history.known, history.asked)[0]
    scores = pursuer.scores(history)[0]
    assert not closed[query]
    assert scores[query] > -torch.inf
    if score_unit(pursuer) == "bits per cost":
        scores = scores * pursuer.query_set.costs.clamp(min=1e-9)
    left = scores.masked_fill(closed, -torch.inf)
    if score_unit(pursuer) is None:
        left = left.softmax(dim=0)
    assert left[query] >= left[question.query] - CLOSE


def other_choice(session: Session, query: int, answer: Any) -> Session:
    """The session after another question than the one it would ask, as if it had asked that."""
    state, name = session.to_dict(), session.pursuer.query_set.queries[query].name
    entry = {"move": "tell", "query": name, "answer": answer, "volunteered": False}
    return Session.from_dict({**state, "moves": [*state["moves"], entry]}, session.pursuer, session.stop)


@needs_node
@pytest.mark.parametrize("stop", ["budget=3", "confidence=0.6", "stability=0.3nats", "never", "bits=0.25", "cost=2"])
def test_every_rule_stops_where_it_does_in_python(stop: str, tmp_path: Path) -> None:
    estimator, _ = exported("ordered")
    page = tmp_path / "page.html"
    export(estimator, page, stop=stop)
    everybody = people(estimator.model_.query_set, 8)
    shown = [[own for _, own in answers] for answers in everybody]
    held = computed(page, people=shown)["interviews"]
    for answers, interview in zip(everybody, held, strict=True):
        session = estimator.session(stop)
        while not session.done:
            answer = answers[session.ask().query][0]
            if answer is None:
                session.dont_know()
            else:
                session.tell(answer, confirmed=True)
        assert abs(len(session.chain.steps) - len(interview["asked"])) <= 1  # a tie may go the other way
        assert interview["cost"] == pytest.approx(session.cost, abs=1)
    assert described(page)["stop"][0]["rule"] == stop.split("=")[0]
