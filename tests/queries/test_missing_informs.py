"""That a value is missing may itself inform: worlds in which nothing else tells the label."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit import ModelSpec, VIPClassifier, load
from pursuit.estimators import Method
from pursuit.inference.history import History
from pursuit.inference.incremental import FirstLayerState, HistoryState
from pursuit.information import AnswerModel, AnswerSettings
from pursuit.methods.g_ip import GIPClassifier
from pursuit.methods.naive_bayes import NaiveBayesIP, NaiveBayesIPClassifier
from pursuit.networks import MLP, NetworkSettings, SetNetwork
from pursuit.networks.first_layer import split_first_layer
from pursuit.queries import Choice, ColumnQueries, Number, yes_no
from pursuit.registry import find
from pursuit.research.tasks import load_task
from pursuit.sessions.session import Session
from pursuit.training import CarriedHistories, Stage
from pursuit.training.rows import Rows
from pursuit.vip import VIP, InformationVIP

EVEN = torch.full((1, 2), 0.5).log()
COLUMN_TYPES = ("number", "choice", "yes/no")
STAGES = [Stage(12, CarriedHistories(), batch_size=64)]


def world(kind: str, n: int = 400, seed: int = 0, share: float = 0.5) -> tuple[pd.DataFrame, np.ndarray]:
    """A column that lacks its value where the label is 0, in a `share` of the rows, and nowhere else; the value itself
    and two further columns are noise."""
    draw = np.random.default_rng(seed)
    y = (np.arange(n) % 10 >= 10 * share).astype(int)
    values = {
        "number": draw.normal(size=n),
        "choice": draw.choice(["red", "green", "blue"], n).astype(object),
        "yes/no": draw.choice(["no", "yes"], n).astype(object),
    }[kind]
    told = pd.Series(values).where(y == 1, None)
    return pd.DataFrame({"told": told, "noise": draw.normal(size=n), "coin": draw.integers(2, size=n)}), y


def mixed() -> ColumnQueries:
    columns = [
        Number("n", "n?", edges=(-1.0, 0.0, 1.0), may_be_missing=True),
        Choice("c", "c?", ("r", "g", "b"), may_be_missing=True),
        Choice("y", "y?", ("no", "yes"), may_be_missing=True),
        Number("m", "m?"),
        yes_no("z"),
    ]
    return ColumnQueries(columns)


def mixed_rows(query_set: ColumnQueries, n: int = 60, seed: int = 0) -> Rows:
    """With every third value missing."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "n": draw.normal(size=n),
            "c": draw.choice(["r", "g", "b"], n).astype(object),
            "y": draw.choice(["no", "yes"], n).astype(object),
            "m": draw.normal(size=n),
            "z": draw.integers(2, size=n).astype(float),
        }
    )
    frame = frame.mask(draw.random(frame.shape) < 1 / 3)
    return Rows(*query_set.answers(frame), torch.from_numpy(draw.integers(3, size=n)))


# A world in which only missingness tells


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "number" else pytest.mark.slow) for kind in COLUMN_TYPES]
)
def test_only_with_the_option_the_label_is_found(kind: str) -> None:
    X, y = world(kind, share=0.4)
    X_test, y_test = world(kind, 200, seed=1, share=0.4)
    plain = VIPClassifier(stages=[STAGES[0].scaled(0.2)], teachers=None, max_queries=1, random_state=0).fit(X, y)
    informed = VIPClassifier(missing_informs=True, stages=STAGES, teachers=None, max_queries=1, random_state=0).fit(
        X, y
    )
    assert informed.score(X_test, y_test) > 0.97
    assert plain.score(X_test, y_test) == pytest.approx(0.6)  # a missing value leaves the belief at the larger label
    first = informed.explain(X_test)[0].steps[0]
    assert first.name == "told"
    assert first.answer == "not given"
    assert first.bits == pytest.approx(0.97, abs=0.1)
    assert first.gained > 0.6


@pytest.mark.parametrize("kind", COLUMN_TYPES)
def test_the_answer_model_counts_it(kind: str) -> None:
    X, y = world(kind)
    query_set = ColumnQueries.from_data(X, missing_informs=True)
    rows = Rows(*query_set.answers(X), torch.from_numpy(y))
    model = AnswerModel.count(query_set, 2, rows, AnswerSettings(rank=0))
    assert model.maybe_missing.tolist() == [0]
    outputs = torch.zeros(1, model.n_outputs)
    bits = model.information(outputs, EVEN)[0]
    assert float(bits[0]) == pytest.approx(1, abs=0.1)
    assert bits[1:].max() < 0.05
    last = model.possible_answers(outputs, EVEN, 0)[-1]
    assert last.text == "not given"
    assert last.probability == pytest.approx(0.5, abs=0.02)
    assert last.posterior[0] > 0.97
    evidence = model.evidence(0, model.outcomes.holds(rows.x)).log_softmax(dim=1)
    assert (evidence.argmax(dim=1) == rows.y).all()
    # The loss is the surprise of what was answered, not given included; what is unknown teaches nothing.
    asked = torch.tensor([[False, True, True]])
    outputs = outputs.expand(len(rows), -1)
    loss = model.loss(outputs, rows.x, rows.y, rows.available, asked).item()
    missing = ~query_set.given(rows.x, rows.available)[:, 0]
    alone = rows.take(missing.nonzero()[:, 0])
    log_p = model.after_answers(outputs[:1], torch.tensor([[0.0, -torch.inf]]), 0)[0][0, -1].log()
    of_missing = model.loss(outputs[: len(alone)], alone.x, alone.y, alone.available, asked).item()
    assert of_missing == pytest.approx(-float(log_p), abs=1e-5)
    unknown = rows.available.clone()
    unknown[missing, 0] = False
    others = model.loss(outputs, rows.x, rows.y, unknown, asked).item()
    assert loss == pytest.approx((of_missing + others) / 2, abs=1e-5)


def test_a_classifier_begins_with_what_not_given_says() -> None:
    """As naive Bayes over choices and numbers, for which input and mask leave room for it."""
    for kind in ("number", "choice"):
        X, y = world(kind)
        query_set = ColumnQueries.from_data(X, missing_informs=True)
        rows = Rows(*query_set.answers(X), torch.from_numpy(y))
        answers = AnswerModel.count(query_set, 2, rows)
        model = InformationVIP.build(ModelSpec(query_set, [0, 1], MLP((8,), direct=True)), answer_model=answers)
        model.start_from_counts(rows)
        told = torch.tensor([[True, False, False]]).expand(len(rows), -1)
        found = model.eval().log_posterior(History(rows.x, told, told)).exp()
        assert (found.argmax(dim=1) == rows.y).all()
        expected = answers.evidence(0, answers.outcomes.holds(rows.x)).softmax(dim=1)
        missing = ~query_set.given(rows.x, told)[:, 0]
        torch.testing.assert_close(found[missing], expected[missing], atol=0.02, rtol=0)


def test_naive_bayes_takes_nothing_from_it() -> None:
    query_set = mixed()
    rows = mixed_rows(query_set)
    model = NaiveBayesIP.count(query_set, [0, 1, 2], rows)
    given = query_set.given(rows.x, rows.available)
    everything = torch.ones_like(given)
    torch.testing.assert_close(
        model.log_posterior(History(rows.x, rows.available, everything)),
        model.log_posterior(History(rows.x, given, everything)),
    )
    plain = Rows(rows.x, given, rows.y)
    torch.testing.assert_close(NaiveBayesIP.count(query_set, [0, 1, 2], plain).log_likelihood, model.log_likelihood)
    state, simple = model.history_state(start := History.start(rows.x, 5)), HistoryState(model, start)
    for query in range(5):
        for one in (state, simple):
            one.ask(torch.full((len(rows),), query), rows.available[:, query])
    torch.testing.assert_close(state.log_posterior(), simple.log_posterior())
    X, y = world("number")
    NaiveBayesIPClassifier(missing_informs=True).fit(X, y).predict(X)


# States


@pytest.mark.parametrize("settings", [MLP((8,)), MLP((8,), direct=True), SetNetwork(5, "max", 7, (8,))], ids=str)
@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("has_codes", [False, True])
@torch.no_grad()
def test_states_are_equal_to_the_full_encoding(settings: NetworkSettings, standardised: bool, has_codes: bool) -> None:
    query_set = mixed() if has_codes else ColumnQueries([Number("n", "n?", may_be_missing=True), *mixed().queries[1:]])
    rows = mixed_rows(query_set)
    assert not query_set.given(rows.x, rows.available)[:, :3].all(dim=0).any()
    torch.manual_seed(0)
    model = VIP.build(ModelSpec(query_set, list("abc"), settings, standardised=standardised))
    if standardised:
        model.standardise(rows.x, rows.available)
    model = model.eval()
    networks = split_first_layer(model.querier, model.classifier, *query_set.input_shape)
    assert networks is not None
    for part in (slice(None), slice(0, 1), slice(1, 2)):
        x, available = rows.x[part], rows.available[part]
        start = History.start(x, 5)
        state, simple = FirstLayerState(model, networks, start), HistoryState(model, start)
        for query in (3, 0, 2, 1, 4):
            for one in (state, simple):
                one.ask(torch.full((len(x),), query), available[:, query])
            torch.testing.assert_close(state.scores(), simple.scores(), atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(state.log_posterior(), simple.log_posterior(), atol=1e-5, rtol=1e-5)


# People, files and other methods


def test_a_person_says_not_given_and_a_saved_model_knows_it(tmp_path: Path) -> None:
    X, y = world("number")
    model = VIPClassifier(missing_informs=True, stages=STAGES, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.missing_informs
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    session = again.session()
    assert session.ask().name == "told"
    assert session.ask().expected.endswith("or not given")
    assert "not given" in [answer.text for answer in session.why().answers]
    before = session.posterior[0]
    session.dont_know()  # nobody knows, which is not the same
    assert session.posterior[0] == pytest.approx(before)
    session.undo()
    session.tell("not given")
    assert session.posterior[0] > 0.95
    assert session.chain.steps[0].answer == "not given"
    resumed = Session.from_json(json.dumps(session.to_dict()), again.model_, session.stop)
    assert resumed.posterior == session.posterior


def test_choices_of_a_session_end_with_it() -> None:
    X, y = world("choice", 60)
    model = VIPClassifier(missing_informs=True, stages=[Stage(1, CarriedHistories())], random_state=0).fit(X, y)
    assert model.session().ask().choices == ("blue", "green", "red", "not given")


def test_a_csv_file_is_read_with_the_option(tmp_path: Path) -> None:
    X, y = world("choice", 200)
    X.assign(label=y).to_csv(tmp_path / "t.csv", index=False)
    plain, informed = (load_task(tmp_path / "t.csv", target="label", missing_informs=on) for on in (False, True))
    assert [query.may_be_missing for query in plain.query_set.queries] == [False] * 3
    assert [query.may_be_missing for query in informed.query_set.queries] == [True, False, False]
    assert any("'told'" in remark and "not given" in remark for remark in informed.notes["remarks"])
    X.dropna(axis=1).assign(label=y).to_csv(tmp_path / "t.csv", index=False)
    full = load_task(tmp_path / "t.csv", target="label", missing_informs=True)
    assert any("changes nothing" in remark for remark in full.notes["remarks"])
    with pytest.raises(ValueError, match="--missing-informs is for CSV files"):
        load_task("digits", missing_informs=True)


def test_where_it_does_not_apply_is_said(tmp_path: Path) -> None:
    X, y = world("number", 60)
    queries = ColumnQueries.from_data(X)
    with pytest.raises(ValueError, match="missing_informs is for tables without a query_set"):
        VIPClassifier(queries, missing_informs=True).fit(X, y)

    with pytest.raises(ValueError, match="'told' may have: leave missing_informs out"):
        GIPClassifier(missing_informs=True).fit(X, y)


@pytest.mark.parametrize("name", ["tree", "refuel", "gdfs"])
def test_other_methods_learn_with_it(name: str) -> None:

    X, y = world("number", 200)
    method: Method = find(Method.registry_kind, name)
    options: dict[str, Any] = {"random_state": 0}
    if method.accepts("stages"):
        options["stages"] = [Stage(3, CarriedHistories(), batch_size=64)]
    model = method.build(None, missing_informs=True, **options).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    if name == "tree":
        assert model.score(X, y) > 0.97
