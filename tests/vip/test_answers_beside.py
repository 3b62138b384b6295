"""A straight-through querier with an answer model beside it: it asks as ever, and its questions have bits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from exported import deciding_model
from pursuit import (
    MLP,
    VIP,
    AnswerSettings,
    ColumnQueries,
    InformationVIP,
    ModelSpec,
    Session,
    Stage,
    VIPClassifier,
    load,
)
from pursuit.inference.chain import bits_text
from pursuit.inference.history import History
from pursuit.inference.pursuer import score_unit
from pursuit.inference.rollout import pursue
from pursuit.inference.stopping import NothingWorthAsking
from pursuit.information import AnswerModel
from pursuit.networks import NetworkSettings, SetNetwork
from pursuit.sessions.why import ImaginedAnswer, Why, bits_told
from pursuit.training import AdamW, Batch
from pursuit.training.rows import Rows
from pursuit.vip import choose_straight_through
from untrained import make_columns, make_rows, make_vip

NAMES = ["test", "question", "coin", "age"]


def patients(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A test that nearly tells the disease, a question that says something, a coin, and ages that may be missing."""
    randomness = np.random.default_rng(seed)
    y = randomness.choice(["cold", "flu", "measles"], n)
    test = (y == "flu") ^ (randomness.random(n) < 0.05)
    question = (y == "cold") ^ (randomness.random(n) < 0.2)
    age = np.where(randomness.random(n) < 0.2, np.nan, randomness.integers(1, 90, n) // np.where(y == "measles", 4, 1))
    columns = (test.astype(int), question.astype(int), randomness.integers(0, 2, n), age)
    return pd.DataFrame(dict(zip(NAMES, columns, strict=True))), y


@pytest.fixture(scope="module")
def fitted() -> VIPClassifier:
    classifier = VIPClassifier(
        querier="straight-through",
        network=MLP((32,)),
        stages=[Stage(12, optimizer=AdamW(1e-2), batch_size=32)],
        random_state=0,
    )
    return classifier.fit(*patients())


def beside(model: Any) -> VIP:
    assert type(model) is VIP
    assert model.answer_model is not None
    assert model.reader is not None
    return model


def rows_of(fitted: VIPClassifier, n: int = 30) -> Rows:
    return fitted.rows(*patients(n, seed=1))


# What it learns


@pytest.mark.parametrize(
    ("network", "shared"), [(MLP((8,)), False), (MLP((8,)), True), (SetNetwork(5, "sum", 6), True)]
)
def test_it_takes_nothing_from_querier_and_classifier(network: NetworkSettings, shared: bool) -> None:
    """The loss is the paper's with the surprise of the answers added, which no gradient of theirs comes from."""
    query_set = make_columns(["yes_no", "choice", "number"])
    rows = make_rows(query_set, 40, missing=0.2)
    rows = Rows(rows.x.float(), rows.available, rows.y)
    answer_model = AnswerModel.count(query_set, 3, rows)
    model = VIP.build(ModelSpec(query_set, range(3), network, shared=shared), answer_model=answer_model)
    assert model.reader is not None
    torch.nn.init.normal_(model.reader[-1].weight, std=0.2)  # type: ignore[index, arg-type]
    asked = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)) < 0.3
    batch = Batch(rows.x, asked & rows.available, asked, rows.available, rows.y, tau=0.5)
    encoded = model.network_input(batch.x, batch.known.float())
    query = choose_straight_through(model.querier(encoded), asked, 0.5)
    logits = model.classifier(model.network_input(batch.x, batch.known + query * batch.available))
    paper = F.cross_entropy(logits, batch.y)
    surprise = answer_model.loss(model.reader(encoded), rows.x, rows.y, rows.available, asked)
    loss, chosen = model(batch)
    torch.testing.assert_close(loss, paper + surprise)
    assert torch.equal(chosen, query.argmax(dim=1))
    theirs = [*model.querier.parameters(), *model.classifier.parameters()]
    own = [*model.reader.parameters(), *answer_model.parameters()]
    wanted, found = (torch.autograd.grad(one, theirs, retain_graph=True) for one in (paper, loss))
    torch.testing.assert_close(found, wanted)
    assert all(gradient.any() for gradient in torch.autograd.grad(loss, own))


@pytest.mark.slow
def test_its_bits_are_close_to_those_of_what_asks_by_them(fitted: VIPClassifier) -> None:
    X, y = patients()
    by_bits = VIPClassifier(querier="information", **fitted_plan(fitted)).fit(X, y).model_
    assert type(by_bits) is InformationVIP
    rows = rows_of(fitted, 200)
    known = torch.rand(200, 4, generator=torch.Generator().manual_seed(0)) < 0.3
    history = History(rows.x, known & rows.available, known)
    with torch.no_grad():
        one, other = beside(fitted.model_).expected_information(history), by_bits.scores(history)
    assert one is not None
    assert torch.corrcoef(torch.stack([one[~known], other[~known]]))[0, 1] > 0.9
    assert one[:, 2].mean() < 0.1 * one[:, 0].mean()  # a coin tells nothing


def fitted_plan(fitted: VIPClassifier) -> dict[str, Any]:
    return {"network": fitted.network, "stages": fitted.stages, "random_state": 0}


def test_costs_need_scores_in_bits_however_many_rows_there_are() -> None:
    model = VIPClassifier(cost_aware=True, network=MLP((8,)), stages=[Stage(1)], random_state=0).fit(*patients()).model_
    assert type(model) is InformationVIP
    assert score_unit(model) == "bits per cost"


# What it says


def test_every_step_of_a_chain_has_the_bits_expected_before_it(fitted: VIPClassifier) -> None:
    model, rows = beside(fitted.model_), rows_of(fitted)
    assert score_unit(model) is None
    chains = fitted.explain(patients(30, seed=1)[0], "budget=3")
    history, found = rows.start(), []
    with torch.no_grad():
        for number in range(3):
            query = torch.tensor([chain.steps[number].query for chain in chains])
            bits = model.expected_information(history)
            assert bits is not None
            found.append(bits.gather(1, query[:, None])[:, 0])
            history = history.record(query, rows.available.gather(1, query[:, None])[:, 0])
    expected = torch.tensor([[step.bits for step in chain.steps] for chain in chains])
    torch.testing.assert_close(expected, torch.stack(found, dim=1), atol=1e-4, rtol=0)
    assert expected[:, 0].mean() > 0.4
    assert "bits" in str(chains[0])


def test_bits_are_computed_only_for_those_who_want_them(fitted: VIPClassifier) -> None:
    model, rows, runs = beside(fitted.model_), rows_of(fitted), []
    X, y = patients(30, seed=1)
    hook = model.reader.register_forward_hook(lambda *_: runs.append(1))  # type: ignore[union-attr]
    try:
        assert all(step.bits is None for step in pursue(model, rows.x, rows.available))
        with pytest.MonkeyPatch.context() as patch:  # the rule that was chosen may ask for bits
            patch.setattr(fitted, "stop", "confidence=0.99")
            fitted.predict(X)
        fitted.evaluate(X, y, "confidence=0.99")
        assert runs == []
        steps = list(pursue(model, rows.x, rows.available, with_bits=True))
        assert len(runs) == 4
    finally:
        hook.remove()
    assert all(step.bits is not None for step in steps[:-1])


def test_a_session_says_the_bits_of_the_chain_and_why(fitted: VIPClassifier) -> None:
    X, _ = patients(30, seed=1)
    for row in range(10):
        (chain,) = fitted.explain(X.iloc[[row]])
        session = fitted.session()
        for step in chain.steps:
            question, why = session.ask(), session.why()
            assert question.name == step.name
            assert question.share is None
            assert question.bits == why.question.bits == pytest.approx(step.bits, abs=1e-4)
            left = [candidate.bits for candidate in why.next_best]
            assert promises_most(why) == all(question.bits >= bits for bits in left)  # all that are left are named
            assert said_of(why) in str(why)
            assert sum(answer.probability for answer in why.answers) == pytest.approx(1)
            assert ("no answer" in [answer.text for answer in why.answers]) == (question.name == "age")
            answer = X[step.name].iloc[row]
            session.dont_know() if pd.isna(answer) else session.tell(answer)
        assert session.done
        assert [step.bits for step in session.chain.steps] == pytest.approx([s.bits for s in chain.steps], abs=1e-4)


def test_a_querier_may_prefer_what_promises_less(fitted: VIPClassifier) -> None:
    """And the text does not claim otherwise."""
    model = beside(fitted.model_)
    promises = []
    for name, query in model.query_set.index_of.items():

        def stubborn(outputs: torch.Tensor, _: Any, query: int = query) -> torch.Tensor:
            return F.one_hot(torch.tensor(query), 4).float().expand(len(outputs), 4)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model, "scores_from", stubborn, raising=False)
            why = Session(model).why()
        assert why.question.name == name
        assert said_of(why) in str(why)
        assert ("no other question promises more" in str(why)) == promises_most(why)
        promises.append((why.question.bits, promises_most(why)))
    assert sum(most for _, most in promises) == 1
    assert max(promises)[1]


def promises_most(why: Why) -> bool:
    return why.reason.kind not in ("prefers", "decides")


def said_of(why: Why) -> str:
    if why.reason.kind == "decides":
        bits = bits_text(why.question.bits or 0.0)
        return f"{bits} about the result. It tells little by itself; it decides what to ask next."
    return "no other question promises more" if promises_most(why) else "the model learnt to prefer this one"


def test_a_question_that_only_decides_what_to_ask_next_says_so() -> None:
    """Two answers tell all together, and the first of them nothing; the second tells all, whatever bits foresee."""
    fitted = deciding_model()
    session = fitted.session()
    first, hint = session.why(), next(one for one in session.why().next_best if one.name == "hint")
    assert (first.question.name, first.reason.kind) == ("one", "decides")
    assert first.question.bits < hint.bits / 3
    assert said_of(first) in str(first)
    assert json.loads(first.to_json())["reason"]["kind"] == "decides"
    session.tell("yes")
    second = session.why()
    assert (second.question.name, second.reason.kind) == ("other", "prefers")
    for effect in second.answers:
        session.tell(effect.text)
        believed = session.posterior
        session.undo()
        assert {shift.label: shift.probability for shift in effect.labels} == pytest.approx(believed, abs=1e-5)
        assert max(believed.values()) > 0.9


def test_answers_move_a_belief_by_their_information() -> None:
    before = torch.tensor([0.5, 0.5, 0.0])
    after = {"yes": torch.tensor([1.0, 0, 0]), "no": torch.tensor([0, 1.0, 0])}
    certain = [ImaginedAnswer(text, 0.5, posterior) for text, posterior in after.items()]
    assert bits_told(certain, before) == pytest.approx(1)
    assert bits_told([ImaginedAnswer("yes", 1.0, before)], before) == 0
    assert bits_told([ImaginedAnswer("yes", None, before)], before) == 0


# What stops by it


@pytest.mark.parametrize("limit", [0.05, 0.3])
def test_chains_end_when_no_query_promises_more_than_the_rule_says(fitted: VIPClassifier, limit: float) -> None:
    model, rows = beside(fitted.model_), rows_of(fitted)
    X, _ = patients(30, seed=1)
    chains = fitted.explain(X, f"bits={limit}")
    with torch.no_grad():
        for row, chain in enumerate(chains):
            history = rows.take(slice(row, row + 1)).start()
            for step in (*chain.steps, None):
                bits = model.expected_information(history)
                assert bits is not None
                most = bits.masked_fill(history.asked, 0).max()
                assert (most > limit) == (step is not None)
                if step is not None:
                    there = rows.available[row, step.query]
                    history = history.record(torch.tensor([step.query]), there[None])
            session = Session(model, NothingWorthAsking(limit))
            while not session.done:
                answer = X[session.ask().name].iloc[row]
                session.dont_know() if pd.isna(answer) else session.tell(answer)
            assert [step.name for step in session.chain.steps] == [step.name for step in chain.steps]
    assert 0 < np.mean([len(chain) for chain in chains]) < 4


def test_without_an_answer_model_the_rule_is_refused(fitted: VIPClassifier) -> None:
    model = make_vip(beside(fitted.model_).query_set, dtype=torch.float)
    rows = rows_of(fitted)
    assert model.possible_answers(rows.take(slice(1)).start(), 0) == ()
    with pytest.raises(ValueError, match=r"querier=.information."):
        list(pursue(model, rows.x, stop=NothingWorthAsking(0.1)))
    with pytest.raises(ValueError, match=r"querier=.information."):
        Session(model, NothingWorthAsking(0.1))


# Saving


@pytest.mark.parametrize("shared", [False, True])
def test_it_is_saved_with_the_model(shared: bool, tmp_path: Path) -> None:
    X, y = patients()
    query_set = ColumnQueries.from_data(X)
    answers = AnswerSettings(rank=2, n_bins=3)
    fitted = VIPClassifier(
        query_set,
        querier="straight-through",
        answers=answers,
        shared=shared,
        network=MLP((8,)),
        stages=[Stage(4)],
        random_state=0,
    ).fit(X, y)
    fitted.save(tmp_path)
    model, loaded = beside(fitted.model_), beside(load(tmp_path).model_)
    assert loaded.answer_model is not None
    assert loaded.answer_model.settings == answers
    assert load(tmp_path).explain(X[:20], "bits=0.02").to_json() == fitted.explain(X[:20], "bits=0.02").to_json()
    history = fitted.rows(X, y).take(slice(1)).start()
    for query in range(4):
        one, other = (own.possible_answers(history, query) for own in (model, loaded))
        assert [(answer.text, answer.probability) for answer in one] == [
            (answer.text, answer.probability) for answer in other
        ]
