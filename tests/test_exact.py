"""Exact Information Pursuit against the definition of mutual information, summed out by hand."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit.exact import IndependentIP, TableIP
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState, history_state
from pursuit.queries import Choice, ColumnQueries, Number, yes_no

LETTERS = ["a", "b", "c"]


def mixed_queries() -> ColumnQueries:
    """Two yes/no queries and one with three choices: 12 possible rows of answers."""
    return ColumnQueries([yes_no("p"), Choice("colour", "Which colour?", ("red", "green", "blue")), yes_no("q")])


def all_worlds(query_set: ColumnQueries) -> tuple[list[tuple[int, ...]], Tensor]:
    """Every combination of answers, as places in the lists of choices and in the answer space."""
    codes = list(itertools.product(*(range(len(query.choices)) for query in query_set.queries)))
    x = query_set.blank(len(codes))
    for row, code in zip(x, codes, strict=True):
        for query, choice in enumerate(code):
            query_set.tell(row, query, query_set.queries[query].choices[choice])
    return codes, x


def information(joint: dict[tuple[int, int], float]) -> float:
    """I(answer; label) in bits from P(answer, label)."""
    total = sum(joint.values())
    answer, label = {}, {}
    for (a, y), p in joint.items():
        answer[a], label[y] = answer.get(a, 0) + p / total, label.get(y, 0) + p / total
    return sum(p / total * math.log2(p / total / answer[a] / label[y]) for (a, y), p in joint.items() if p > 0)


def histories(query_set: ColumnQueries, x: Tensor) -> list[History]:
    """For every set of asked queries, the histories of all worlds."""
    n = len(query_set)
    masks = [torch.tensor(mask) for mask in itertools.product([False, True], repeat=n)]
    return [History(x, mask.expand(len(x), n), mask.expand(len(x), n)) for mask in masks]


@given(seed=st.integers(0, 10_000))
def test_table_gives_posterior_and_information_of_the_definition(seed: int) -> None:
    query_set = mixed_queries()
    codes, x = all_worlds(query_set)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(len(codes), 3, generator=generator, dtype=torch.double) ** 3
    pursuer = TableIP(query_set, LETTERS, x, weights)
    for history in histories(query_set, x):
        scores, posterior = pursuer.scores(history), pursuer.log_posterior(history).exp()
        for row, code in enumerate(codes):
            asked = history.asked[row].nonzero()[:, 0].tolist()
            agree = [w for w, other in enumerate(codes) if all(other[q] == code[q] for q in asked)]
            label = weights[agree].sum(dim=0)
            torch.testing.assert_close(posterior[row], label / label.sum())
            for query in range(len(query_set)):
                joint: dict[tuple[int, int], float] = {}
                for world, y in itertools.product(agree, range(3)):
                    key = (codes[world][query], y)
                    joint[key] = joint.get(key, 0) + float(weights[world, y])
                assert float(scores[row, query]) == pytest.approx(information(joint), abs=1e-9)


@given(seed=st.integers(0, 10_000))
def test_independent_answers_give_the_same_as_their_table(seed: int) -> None:
    query_set = mixed_queries()
    codes, x = all_worlds(query_set)
    generator = torch.Generator().manual_seed(seed)
    prior = torch.rand(3, generator=generator, dtype=torch.double) + 0.1
    prior /= prior.sum()
    parts = [torch.rand(3, n, generator=generator, dtype=torch.double) + 0.01 for n in (2, 3, 2)]
    parts = [part / part.sum(dim=1, keepdim=True) for part in parts]
    weights = torch.stack([prior * parts[0][:, a] * parts[1][:, b] * parts[2][:, c] for a, b, c in codes])
    closed = IndependentIP(query_set, LETTERS, prior, torch.cat(parts, dim=1))
    table = TableIP(query_set, LETTERS, x, weights)
    for history in histories(query_set, x):
        torch.testing.assert_close(closed.log_posterior(history), table.log_posterior(history))
        left = ~history.asked  # the closed form ignores answers already given to the same query
        torch.testing.assert_close(closed.scores(history)[left], table.scores(history)[left], atol=1e-9, rtol=1e-6)


def test_from_yes_is_the_likelihood_of_yes_and_no() -> None:
    query_set = ColumnQueries([yes_no("p"), yes_no("q")])
    yes = torch.tensor([[0.9, 0.2], [0.1, 0.2]])
    pursuer = IndependentIP.from_yes(query_set, ["a", "b"], torch.tensor([0.5, 0.5]), yes)
    start = History.start(query_set.blank(), 2)
    scores = pursuer.scores(start)[0]
    assert float(scores[0]) == pytest.approx(1 + 0.9 * math.log2(0.9) + 0.1 * math.log2(0.1))
    assert float(scores[1]) == pytest.approx(0, abs=1e-12)


def test_an_impossible_history_still_gives_probabilities() -> None:
    query_set = ColumnQueries([yes_no("p"), yes_no("q")])
    x = query_set.answers([[1, 1], [0, 0]]).x
    pursuer = TableIP(query_set, ["a", "b"], x, torch.eye(2))
    both_known = torch.ones(1, 2, dtype=torch.bool)
    impossible = History(query_set.answers([[1, 0]]).x, both_known, both_known)
    assert torch.isfinite(pursuer.log_posterior(impossible)).all()
    assert torch.isfinite(pursuer.scores(impossible)).all()


@given(seed=st.integers(0, 10_000), zeros=st.booleans())
def test_possible_answers_split_the_belief(seed: int, zeros: bool) -> None:
    """The belief before is the mean of those after, and each of these is what is believed once it is answered."""
    query_set = mixed_queries()
    codes, x = all_worlds(query_set)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(len(codes), 3, generator=generator, dtype=torch.double) ** 3
    parts = [torch.rand(3, n, generator=generator, dtype=torch.double) + 0.01 for n in (2, 3, 2)]
    if zeros:
        weights[torch.rand(len(codes), generator=generator) < 0.3] = 0
        parts[1][:, 2] = 0
    weights[0] += 0.1  # some world is possible
    likelihood = torch.cat([part / part.sum(dim=1, keepdim=True) for part in parts], dim=1)
    closed = IndependentIP(query_set, LETTERS, weights.sum(dim=0) / weights.sum(), likelihood)
    first_world = x[:1]
    for pursuer in (closed, TableIP(query_set, LETTERS, x, weights)):
        for mask in itertools.product([False, True], repeat=3):
            known = torch.tensor([mask])
            history = History(first_world, known, known)
            before = pursuer.log_posterior(history)[0].exp()
            for query in (~known[0]).nonzero()[:, 0].tolist():
                answers = pursuer.possible_answers(history, query)
                assert sum(answer.probability for answer in answers) == pytest.approx(1)
                mean = sum(answer.probability * answer.posterior for answer in answers)
                torch.testing.assert_close(mean, before)
                for answer in answers:
                    assert answer.probability > 0
                    row = first_world.clone()
                    query_set.tell(row[0], query, answer.text)
                    answered = History(row, known, known).ask(torch.tensor([query]))
                    torch.testing.assert_close(answer.posterior, pursuer.log_posterior(answered)[0].exp())


def test_no_answer_is_possible_after_what_cannot_be() -> None:
    query_set = ColumnQueries([yes_no("p"), yes_no("q"), yes_no("r")])
    pursuer = TableIP(query_set, ["a", "b"], query_set.answers([[1, 1, 0], [0, 0, 1]]).x, torch.eye(2))
    known = torch.tensor([[True, True, False]])
    impossible = History(query_set.answers([[1, 0, 0]]).x, known, known)
    assert pursuer.possible_answers(impossible, 2) == ()
    possible = History(query_set.answers([[1, 1, 0]]).x, known, known)
    (answer,) = pursuer.possible_answers(possible, 2)  # the other one is impossible
    assert (answer.text, answer.probability, answer.posterior.tolist()) == ("no", 1, [1, 0])


def test_bad_tables_are_refused() -> None:
    query_set = ColumnQueries([yes_no("p")])
    with pytest.raises(ValueError, match="shape"):
        IndependentIP(query_set, ["a", "b"], torch.tensor([0.5, 0.5]), torch.rand(2, 5))
    with pytest.raises(ValueError, match="sum to one"):
        IndependentIP(query_set, ["a", "b"], torch.tensor([0.5, 0.5]), torch.full((2, 2), 0.4))
    with pytest.raises(ValueError, match="answered by a number"):
        TableIP(ColumnQueries([Number("n", "How many?")]), ["a"], torch.zeros(1, 1), torch.ones(1, 1))


@given(seed=st.integers(0, 10_000), n_rows=st.sampled_from([1, 5]), known_share=st.sampled_from([0.0, 0.3]))
def test_evidence_added_answer_by_answer_is_the_evidence_of_all(seed: int, n_rows: int, known_share: float) -> None:
    query_set = ColumnQueries([*mixed_queries().queries, Choice("one", "Which?", ("only",))])
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.rand(3, n, generator=generator, dtype=torch.double) + 0.01 for n in (2, 3, 2, 1)]
    likelihood = torch.cat([part / part.sum(dim=1, keepdim=True) for part in parts], dim=1)
    pursuer = IndependentIP(query_set, LETTERS, torch.tensor([0.5, 0.3, 0.2]), likelihood)
    _, worlds = all_worlds(query_set)
    x = worlds[torch.randint(len(worlds), (n_rows,), generator=generator)]
    start = torch.rand(n_rows, 4, generator=generator) < known_share
    history = History.start(x, 4, start)
    state = history_state(pursuer, history)
    assert type(state) is not HistoryState
    for query in torch.rand(n_rows, 4, generator=generator).argsort(dim=1).T:
        answered = (torch.rand(n_rows, generator=generator) < 0.7) & ~start.gather(1, query[:, None])[:, 0]
        state.ask(query, answered)
        history = history.record(query, answered)
        torch.testing.assert_close(state.log_posterior(), pursuer.log_posterior(history))
        torch.testing.assert_close(state.scores(), pursuer.scores(history))
        assert torch.equal(state.asked, history.asked)
    state.keep(torch.tensor([n_rows - 1]))
    torch.testing.assert_close(state.log_posterior(), pursuer.log_posterior(history)[-1:])


def test_an_answer_outside_the_choices_is_not_evidence() -> None:
    query_set = mixed_queries()
    likelihood = torch.tensor([[0.1, 0.9, 0.2, 0.3, 0.5, 0.6, 0.4], [0.7, 0.3, 0.6, 0.3, 0.1, 0.5, 0.5]])
    pursuer = IndependentIP(query_set, ["a", "b"], torch.tensor([0.5, 0.5]), likelihood)
    everything = torch.ones(2, 3, dtype=torch.bool)
    x = query_set.blank(2)
    x[1, 0] = 1.0
    posterior = pursuer.log_posterior(History(x, everything, everything)).exp()
    assert posterior.flatten().tolist() == pytest.approx([0.5, 0.5, 0.75, 0.25])


@pytest.mark.parametrize("kind", ["independent", "table"])
def test_with_costs_it_asks_by_bits_for_each_unit_of_cost(kind: str) -> None:
    query_set = mixed_queries().with_costs({"colour": 4.0, "q": 0.0})
    codes, x = all_worlds(query_set)
    generator = torch.Generator().manual_seed(0)
    parts = [torch.rand(3, n, generator=generator, dtype=torch.double) + 0.01 for n in (2, 3, 2)]
    parts = [part / part.sum(dim=1, keepdim=True) for part in parts]
    prior = torch.tensor([0.5, 0.3, 0.2])
    pursuers = []
    for cost_aware in (False, True):
        if kind == "independent":
            pursuers.append(IndependentIP(query_set, LETTERS, prior, torch.cat(parts, dim=1), cost_aware=cost_aware))
        else:
            weights = torch.stack([prior * parts[0][:, a] * parts[1][:, b] * parts[2][:, c] for a, b, c in codes])
            pursuers.append(TableIP(query_set, LETTERS, x, weights, cost_aware=cost_aware))
    blind, aware = pursuers
    assert (blind.score_unit, aware.score_unit) == ("bits", "bits per cost")
    start = History.start(x[:4], 3)
    bits, scores = blind.scores(start), aware.scores(start)
    torch.testing.assert_close(scores[:, :2], bits[:, :2] / torch.tensor([1.0, 4.0]))
    assert scores.argmax(dim=1).tolist() == [2] * 4  # free
    state = history_state(aware, start)
    query, answered = torch.full((4,), 2), torch.ones(4, dtype=torch.bool)
    state.ask(query, answered)
    torch.testing.assert_close(state.scores(), aware.scores(start.record(query, answered)))
