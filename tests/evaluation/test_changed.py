"""How far results move if answers are changed on purpose, beside a small world in which all of it can be counted."""

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit import PatchQueries, Stage, VIPRegressor
from pursuit.evaluation import changed as changed_module
from pursuit.evaluation.changed import ChangedAnswers, changed_answers
from pursuit.exact import TableIP
from pursuit.inference.history import History
from pursuit.inference.predictions import predict_rows
from pursuit.inference.stopping import Budget, Never, StoppingRule
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.queries import Choice, ColumnQueries, yes_no
from pursuit.registry import read_as
from pursuit.training.rows import Rows

N_QUERIES = 4
QUERIES = ColumnQueries(
    [yes_no("a"), yes_no("b"), Choice("c", "c?", ("x", "y", "z"), values=("x", "y", "z")), yes_no("d")]
)
ANSWERS = [(-1.0,), (1.0,)], [(-1.0,), (1.0,)], [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)], [(-1.0,), (1.0,)]


def world(seed: int, queries: ColumnQueries = QUERIES) -> tuple[TableIP, Rows]:
    """Every row that there can be, with a posterior of its own for each."""
    x = torch.tensor([[value for answer in answers for value in answer] for answers in product(*ANSWERS)])
    generator = torch.Generator().manual_seed(seed)
    joint = torch.rand(len(x), 3, generator=generator).double() ** 3
    pursuer = TableIP(queries, ["no", "yes", "maybe"], x, joint / joint.sum())
    return pursuer, Rows(x, torch.ones(len(x), N_QUERIES, dtype=torch.bool), torch.zeros(len(x), dtype=torch.long))


def interviews(pursuer: TableIP, rows: Rows, stop: StoppingRule) -> list[tuple[int, ...]]:
    """The queries that each row is asked."""
    found = predict_rows(pursuer, rows.x, rows.available, stop)
    return [tuple(q for q in own if q >= 0) for own in found.query.tolist()]


def told(pursuer: TableIP, answers: dict[int, tuple[float, ...]]) -> np.ndarray:
    """The posterior after these answers to queries."""
    x, known = torch.zeros(1, 6), torch.zeros(1, N_QUERIES, dtype=torch.bool)
    for query, answer in answers.items():
        x[0, QUERIES.own_inputs.features(query)] = torch.tensor(answer)
        known[0, query] = True
    return pursuer.log_posterior(History(x, known, known)).exp()[0].numpy()


def counted(pursuer: TableIP, rows: Rows, stop: StoppingRule, kept: set[int]) -> dict[str, Any]:
    """The same by going through all answers of all rows, except to the questions in `kept`."""
    n_by_one = n_by_two = 0
    of_query = dict.fromkeys(range(N_QUERIES), 0)
    fall = {q: [] for q in range(N_QUERIES)}
    of_pair = dict.fromkeys(combinations(range(N_QUERIES), 2), 0)
    wanted = {label: [0, 0, 0] for label in range(3)}
    for row, asked in zip(rows.x, interviews(pursuer, rows, stop), strict=True):
        honest = {q: tuple(row[QUERIES.own_inputs.features(q)].tolist()) for q in asked}
        before = told(pursuer, honest)
        result, alone, together = int(before.argmax()), dict[int, set[int]](), dict[tuple[int, int], set[int]]()
        for q in asked:
            others = [told(pursuer, {**honest, q: other}) for other in ANSWERS[q] if other != honest[q]]
            fall[q].append(max(0.0, *(before[result] - other[result] for other in others)))
            alone[q] = {int(other.argmax()) for other in others}
            of_query[q] += bool(alone[q] - {result})
        free = sorted(set(asked) - kept)
        for q, r in combinations(free, 2):
            others = product(ANSWERS[q], ANSWERS[r])
            both = [(v, w) for v, w in others if v != honest[q] and w != honest[r]]
            together[q, r] = {int(told(pursuer, {**honest, q: v, r: w}).argmax()) for v, w in both}
            of_pair[q, r] += bool(together[q, r] - {result}) and not (alone[q] | alone[r]) - {result}
        by_one = set().union(*(alone[q] for q in free))
        by_two = by_one.union(*together.values())
        n_by_one += bool(by_one - {result})
        n_by_two += bool(by_two - {result})
        for label in {0, 1, 2} - {result}:
            more = 1, label in by_one, label in by_two
            wanted[label] = [n + m for n, m in zip(wanted[label], more, strict=True)]
    return {"one": n_by_one, "two": n_by_two, "query": of_query, "fall": fall, "pair": of_pair, "wanted": wanted}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
@pytest.mark.parametrize("stop", [Never(), Budget(2)], ids=str)
@pytest.mark.parametrize("kept", [set(), {1}], ids=["none", "b"])
def test_what_moves_is_counted_exactly(seed: int, stop: StoppingRule, kept: set[int]) -> None:
    own = [replace(query, checked=i in kept) for i, query in enumerate(QUERIES.queries)]
    pursuer, rows = world(seed, ColumnQueries(own))
    found, wanted = changed_answers(pursuer, rows, stop), counted(pursuer, rows, stop, kept)
    assert found is not None
    assert (found.n_rows, found.n_by_one, found.n_by_two) == (len(rows), wanted["one"], wanted["two"])
    for one in found.questions:
        query = QUERIES.index_of[one.name]
        assert one.n_moved == wanted["query"][query]
        assert one.n_rows == len(wanted["fall"][query])
        assert one.shift == pytest.approx(np.mean(wanted["fall"][query]), abs=1e-6)
        assert one.is_checked == (query in kept)
    pairs = {tuple(sorted(QUERIES.index_of[name] for name in one.names)): one.n_moved for one in found.pairs}
    assert pairs == {pair: n for pair, n in wanted["pair"].items() if n}
    reached = {one.result: [one.n_rows, one.n_by_one, one.n_by_two] for one in found.wanted}
    labels = ["no", "yes", "maybe"]
    assert reached == {labels[label]: counts for label, counts in wanted["wanted"].items() if counts[0]}
    assert all(one.mean[0] <= one.mean[1] <= one.mean[2] for one in found.wanted)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_checked_cannot_be_changed(seed: int) -> None:
    """What the list of checks promises is what is found once these questions are marked as checked."""
    pursuer, rows = world(seed)
    found = changed_answers(pursuer, rows)
    assert found is not None
    checked: set[str] = set()
    for check in found.checks:
        checked.add(check.name)
        own = [replace(query, checked=query.name in checked) for query in QUERIES.queries]
        again = changed_answers(world(seed, ColumnQueries(own))[0], rows)
        assert again is not None
        assert (again.n_by_one, again.n_by_two) == (check.n_by_one, check.n_by_two)
    assert found.checks[-1].n_by_two == 0


def test_two_answers_do_what_neither_does_alone() -> None:
    """Whoever has both is accepted: of those who have neither, only two lies together help."""
    pair = ColumnQueries([yes_no("a"), yes_no("b")])
    x = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    joint = torch.tensor([[0.24, 0.01], [0.24, 0.01], [0.24, 0.01], [0.01, 0.24]]).double()
    pursuer = TableIP(pair, ["declined", "accepted"], x, joint)
    rows = Rows(x, torch.ones(4, 2, dtype=torch.bool), torch.tensor([0, 0, 0, 1]))
    found = changed_answers(pursuer, rows)
    assert found is not None
    accepted = next(one for one in found.wanted if one.result == "accepted")
    assert (accepted.n_rows, accepted.n_by_one, accepted.n_by_two) == (3, 2, 3)
    assert [(one.names, one.n_moved) for one in found.pairs] == [(("a", "b"), 1)]
    # One of them checked, only the others can be moved: those who have what is checked.
    assert [(one.n_by_one, one.n_by_two) for one in found.checks] == [(2, 2), (0, 0)]


def test_missing_and_initially_known_answers_stay() -> None:
    pursuer, rows = world(0)
    known = torch.zeros_like(rows.available)
    known[:, 0] = True
    available = rows.available.clone()
    available[:, 1] = False
    found = changed_answers(pursuer, replace(rows, initially_known=known, available=available))
    assert found is not None
    assert {one.name for one in found.questions} <= {"c", "d"}


def test_many_changes_are_tried_on_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    pursuer, rows = world(0)
    monkeypatch.setattr(changed_module, "MOST_HISTORIES", 100)
    found = changed_answers(pursuer, rows)
    assert found is not None
    assert 1 <= found.n_rows < len(rows)


def test_a_number_is_raised_and_lowered() -> None:
    randomness = np.random.default_rng(0)
    X = pd.DataFrame({"a": randomness.normal(size=200), "b": randomness.choice(["x", "y"], 200)})
    model = VIPRegressor(stages=[Stage(epochs=30)], random_state=0).fit(X, 10 * X["a"])
    found = changed_answers(model.model_, model.rows(X, 10 * X["a"]), model.stopping_rule("budget=2"))
    assert found is not None
    assert (found.n_by_one, found.n_by_two, found.checks) == (None, None, ())
    higher, lower = found.wanted
    assert higher.mean[0] == pytest.approx(lower.mean[0])
    assert lower.mean[2] <= lower.mean[1] < lower.mean[0] < higher.mean[1] <= higher.mean[2]
    assert found.questions[0].name == "a"
    assert read_as(ChangedAnswers, found.to_dict()) == found


def test_numbers_are_changed_to_those_of_other_rows() -> None:
    randomness = np.random.default_rng(0)
    age = randomness.integers(1, 90, 300)
    X, y = pd.DataFrame({"age": age, "fever": randomness.random(300) < 0.5}), np.where(age > 50, "old", "young")
    model = NaiveBayesIPClassifier().fit(X, y)
    rows = model.rows(X, y)
    found = changed_answers(model.model_, rows, model.stopping_rule())
    assert found is not None
    assert found.n_by_one == found.n_rows  # somebody is older than 50, and somebody is not


def test_patches_share_what_they_show() -> None:
    randomness = np.random.default_rng(0)
    X, y = randomness.random((40, 1, 4, 4)), randomness.integers(0, 2, 40)
    model = NaiveBayesIPClassifier(PatchQueries((1, 4, 4), size=2, stride=1, threshold=0.5)).fit(X, y)
    assert changed_answers(model.model_, model.rows(X, y)) is None


def test_where_nothing_is_asked_nothing_is_changed() -> None:
    """A report would otherwise say that other answers move results by nothing."""
    pursuer, rows = world(0)
    assert changed_answers(pursuer, rows, Budget(0)) is None
    unanswered = replace(rows, available=torch.zeros_like(rows.available))
    assert changed_answers(pursuer, unanswered, Budget(2)) is None
