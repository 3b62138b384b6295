"""Chains: what was asked, answered and believed, as text and as JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from known_bits import in_bits
from pursuit.inference.chain import Chain, Chains, ChainStep, bits_text, doubt, explain
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import pursue
from pursuit.inference.stopping import Budget, Confidence, StoppingRule
from pursuit.queries import Choice, ColumnQueries, yes_no
from pursuit.training.rows import Rows
from strategies import RULES, SEEDS, SHARES, TYPES
from untrained import make_columns, make_rows, make_vip


@given(types=TYPES, seed=SEEDS, missing=SHARES, known_share=SHARES)
def test_everything_is_asked_exactly_once(types: list[str], seed: int, missing: float, known_share: float) -> None:
    query_set = make_columns(types)
    rows = make_rows(query_set, 7, seed, missing, known_share)
    initially_known = torch.zeros_like(rows.available) if rows.initially_known is None else rows.initially_known
    for row, chain in enumerate(
        explain(make_vip(query_set, seed=seed), rows.x, rows.available, initially_known=rows.initially_known)
    ):
        asked = [step.query for step in chain.steps]
        assert sorted(asked) == (~initially_known[row]).nonzero()[:, 0].tolist()
        assert [step.query for step in chain.initially_known] == initially_known[row].nonzero()[:, 0].tolist()


@given(types=TYPES, seed=SEEDS, missing=SHARES, known_share=SHARES, rule=RULES)
def test_chains_have_the_steps_of_the_rollout(
    types: list[str], seed: int, missing: float, known_share: float, rule: StoppingRule
) -> None:
    query_set = make_columns(types)
    rows, model = make_rows(query_set, 7, seed, missing, known_share), make_vip(query_set, seed=seed)
    asked: list[list[int]] = [[] for _ in range(7)]
    for rollout_step in pursue(model, rows.x, rows.available, rule, rows.initially_known):
        for row, query in zip(rollout_step.rows.tolist(), rollout_step.query.tolist(), strict=True):
            asked[row] += [query] * (query >= 0)
    chains = explain(model, rows.x, rows.available, rule, rows.initially_known)
    assert [[step.query for step in chain.steps] for chain in chains] == asked
    assert [len(chain) for chain in chains] == [len(queries) for queries in asked]
    assert [chain.n_answered for chain in chains] == [int(rows.available[i, q].sum()) for i, q in enumerate(asked)]
    for row, chain in enumerate(chains):
        for step in chain.steps:
            available = bool(rows.available[row, step.query])
            assert step.answer == (query_set.describe(step.query, rows.x[row]) if available else None)


@given(types=TYPES, seed=SEEDS, missing=SHARES)
def test_posteriors_sum_to_one_at_every_step(types: list[str], seed: int, missing: float) -> None:
    query_set = make_columns(types)
    rows = make_rows(query_set, 5, seed, missing)
    for chain in explain(make_vip(query_set, 4, seed), rows.x, rows.available):
        for posterior in (chain.prior, chain.posterior, *(step.posterior for step in chain.steps)):
            assert posterior.shape == (4,)
            assert posterior.min() >= 0
            assert posterior.sum().item() == pytest.approx(1, abs=1e-5)


def believed(model: Pursuer, rows: Rows, row: int, chain: Chain, n_steps: int) -> Tensor:
    """The posterior (C,) after some steps of a row's chain, from the history alone."""
    history = History.start(
        rows.x[row : row + 1],
        len(model.query_set),
        None if rows.initially_known is None else rows.initially_known[row : row + 1],
    )
    for step in chain.steps[:n_steps]:
        history = history.ask(torch.tensor([step.query]), rows.available[row : row + 1])
    with torch.no_grad():
        return model.log_posterior(history)[0].exp()


@given(types=TYPES, seed=SEEDS, missing=SHARES, known_share=SHARES)
def test_each_step_believes_what_its_history_says(
    types: list[str], seed: int, missing: float, known_share: float
) -> None:
    query_set = make_columns(types)
    rows, model = make_rows(query_set, 3, seed, missing, known_share), make_vip(query_set, seed=seed)
    for row, chain in enumerate(explain(model, rows.x, rows.available, initially_known=rows.initially_known)):
        torch.testing.assert_close(chain.prior, believed(model, rows, row, chain, 0))
        for i, step in enumerate(chain.steps, start=1):
            torch.testing.assert_close(step.posterior, believed(model, rows, row, chain, i))


@pytest.mark.parametrize("batch_rows", [1, 4, 1000])
def test_batches_do_not_matter(batch_rows: int) -> None:
    query_set = make_columns(["yes_no", "choice", "number"])
    rows, model = make_rows(query_set, 10, missing=0.3, reported=0.2), make_vip(query_set)
    together = explain(model, rows.x, rows.available, Confidence(0.7), rows.initially_known)
    parts = explain(model, rows.x, rows.available, Confidence(0.7), rows.initially_known, batch_rows)
    assert [[s.query for s in chain.steps] for chain in parts] == [[s.query for s in chain.steps] for chain in together]
    for part, chain in zip(parts, together, strict=True):
        torch.testing.assert_close(part.posterior, chain.posterior)


def test_the_exact_pursuer_asks_what_tells_most_first(world: Any) -> None:
    chains = explain(world.pursuer, world.rows.x, world.rows.available, Confidence(0.8))
    nothing = History.start(world.rows.x[:1], 4)
    first = int(world.pursuer.scores(nothing).argmax())
    assert {chain.steps[0].query for chain in chains} == {first}
    assert len({len(chain) for chain in chains}) >= 3
    assert torch.allclose(chains[0].prior, torch.tensor([0.2, 0.5, 0.3], dtype=torch.double))


def test_a_budget_does_not_count_what_is_initially_known(world: Any) -> None:
    initially_known = torch.zeros_like(world.rows.available)
    initially_known[:, 1] = initially_known[:, 3] = True
    chains = explain(world.pursuer, world.rows.x, world.rows.available, Budget(1), initially_known)
    for row, chain in enumerate(chains):
        assert len(chain) == chain.n_answered == 1
        assert [(step.name, step.answer) for step in chain.initially_known] == [
            ("sneezing", "yes" if world.frame.sneezing[row] else "no"),
            ("season", world.frame.season[row]),
        ]
        assert chain.steps[0].name in ("fever", "itching")
    assert not torch.allclose(chains[0].prior, chains[-1].prior)


def test_nothing_is_asked_where_everything_is_initially_known(world: Any) -> None:
    rows = world.rows
    chains = explain(world.pursuer, rows.x, rows.available, initially_known=rows.available)
    assert [len(chain) for chain in chains] == [0] * len(rows)
    history = History(rows.x, rows.available, rows.available)
    posterior = torch.stack([chain.posterior for chain in chains])
    torch.testing.assert_close(posterior, world.pursuer.log_posterior(history).exp())


def test_no_rows_have_no_chains(world: Any) -> None:
    assert len(explain(world.pursuer, world.rows.x[:0], world.rows.available[:0])) == 0


@pytest.fixture
def chain() -> Chain:
    """Of a pursuer that does not know how many bits it asks for."""
    quarter = 1 - doubt(torch.tensor([0.25, 0.75]))  # gained by the first answer
    answers = [
        ("fever", "yes", [0.25, 0.75], quarter),
        ("cough", None, [0.25, 0.75], 0.0),
        ("rash", "no", [0.0, 1.0], 1 - quarter),
    ]
    steps = tuple(
        ChainStep(i, name, f"{name}?", answer, torch.tensor(posterior), None, gained)
        for i, (name, answer, posterior, gained) in enumerate(answers)
    )
    known = (ChainStep(3, "age", "How old are you?", "40", torch.tensor([0.5, 0.5])),)
    return Chain(("cold", "flu"), torch.tensor([0.5, 0.5]), steps, known)


@pytest.fixture
def chain_with_bits(chain: Chain) -> Chain:
    """The same of a pursuer that knows, with an answer that nobody asked for in the middle."""
    first, second, third = chain.steps
    steps = (replace(first, bits=0.62), replace(second, answer="no", volunteered=True), replace(third, bits=0.0004))
    return replace(chain, steps=steps)


def test_a_chain_reads_as_text(chain: Chain) -> None:
    first, known, start, *steps = (line.split() for line in str(chain).splitlines())
    assert " ".join(first) == "Prediction: flu (100%) after 3 questions and 2 answers"
    assert " ".join(known).endswith("How old are you? 40")
    assert " ".join(start) == "start cold 50.0%, flu 50.0%"
    assert [" ".join(step) for step in steps] == [
        "1. fever? yes flu 75.0%, cold 25.0%",
        "2. cough? unknown flu 75.0%, cold 25.0%",
        "3. rash? no flu 100%, cold 0.0%",
    ]
    assert str(Chains([chain, chain])) == f"{chain}\n\n{chain}"


def test_only_certainty_is_written_as_such() -> None:
    almost = Chain(("a", "b"), torch.tensor([1 - 1e-6, 1e-6]), ())
    assert "Prediction: a (99.9%) after 0 answers" in str(almost)
    step = ChainStep(0, "q", "q?", "yes", torch.tensor([0.5, 0.5]))
    assert "after 1 answer\n" in str(Chain(("a", "b"), torch.tensor([0.4, 0.6]), (step,)))


def test_a_chain_reads_as_text_with_the_bits_expected(chain_with_bits: Chain) -> None:
    first, known, start, *steps = str(chain_with_bits).splitlines()
    assert first == "Prediction: flu (100%) after 2 questions and 3 answers"
    assert known == "    +  How old are you?  40"
    assert [line.strip() for line in (start, *steps)] == [
        "start                              cold 50.0%, flu 50.0%",
        "1. fever?            yes   0.62 bits  flu 75.0%, cold 25.0%",
        "+  cough?            no               flu 75.0%, cold 25.0%",
        "2. rash?             no   <0.01 bits  flu 100%, cold 0.0%",
    ]
    assert {line.index("flu") for line in steps} == {start.index("cold")}


def test_a_skip_does_not_hide_behind_what_was_volunteered(chain: Chain) -> None:
    asked, skipped, _ = chain.steps
    volunteered = replace(skipped, answer="no", volunteered=True)
    assert "after 2 questions and 2 answers" in str(replace(chain, steps=(asked, skipped, volunteered)))
    assert "after 2 answers" in str(replace(chain, steps=(asked, asked)))


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0.625, "0.62 bits"),
        (1.0, "1.00 bits"),
        (0.0, "0.00 bits"),
        (-1e-17, "0.00 bits"),
        (1e-9, "0.00 bits"),
        (0.001, "<0.01 bits"),
        (-0.25, "-0.25 bits"),
    ],
)
def test_bits_are_rounded_but_not_to_nothing(bits: float, text: str) -> None:
    assert bits_text(bits) == text


def test_a_chain_goes_through_json(chain: Chain) -> None:
    state = json.loads(chain.to_json())
    quarter = 1 - doubt(torch.tensor([0.25, 0.75]))
    believed_quarter, certain = {"cold": 0.25, "flu": 0.75}, {"cold": 0.0, "flu": 1.0}
    unasked = {"volunteered": False, "bits": None}
    assert state == {
        "prediction": "flu",
        "decided": None,
        "label_set": None,
        "n_asked": 3,
        "n_answered": 2,
        "bits_gained": 1.0,
        "posterior": certain,
        "initially_known": [{"query": "age", "text": "How old are you?", "answer": "40"}],
        "excluded": [],
        "prior": {"cold": 0.5, "flu": 0.5},
        "steps": [
            {"query": "fever", "text": "fever?", "answer": "yes"}
            | unasked
            | {"gained": quarter, "posterior": believed_quarter},
            {"query": "cough", "text": "cough?", "answer": None}
            | unasked
            | {"gained": 0.0, "posterior": believed_quarter},
            {"query": "rash", "text": "rash?", "answer": "no"}
            | unasked
            | {"gained": 1 - quarter, "posterior": certain},
        ],
    }
    assert json.loads(Chains([chain, chain]).to_json()) == [state, state]


def test_bits_go_through_json(chain_with_bits: Chain) -> None:
    steps = json.loads(chain_with_bits.to_json())["steps"]
    assert [(step["bits"], step["volunteered"]) for step in steps] == [(0.62, False), (None, True), (0.0004, False)]
    assert (chain_with_bits.n_asked, chain_with_bits.n_answered) == (2, 3)


@given(types=TYPES, seed=SEEDS, missing=SHARES, known_share=SHARES)
def test_what_steps_gained_is_what_the_chain_gained(
    types: list[str], seed: int, missing: float, known_share: float
) -> None:
    query_set = make_columns(types)
    rows, model = make_rows(query_set, 4, seed, missing, known_share), make_vip(query_set, seed=seed)
    for chain in explain(model, rows.x, rows.available, initially_known=rows.initially_known):
        assert sum(step.gained for step in chain.steps) == pytest.approx(chain.bits_gained, abs=1e-9)
        assert all(step.gained == 0 for step in (*chain.steps, *chain.initially_known) if step.answer is None)
        assert all(step.gained == 0 for step in chain.initially_known)
        assert [step.bits for step in chain.steps] == [None] * len(chain)  # V-IP's querier has a preference


def test_a_surprise_leaves_more_in_doubt(world: Any) -> None:
    chains = explain(in_bits(world.pursuer), world.rows.x, world.rows.available)
    gained = [step.gained for chain in chains for step in chain.steps]
    assert min(gained) < -0.1
    assert max(gained) > 0.4


def test_the_bits_of_a_step_are_those_of_the_history_before_it(world: Any) -> None:
    pursuer, rows = in_bits(world.pursuer), world.rows
    for row, chain in enumerate(explain(pursuer, rows.x, rows.available)):
        history = History.start(rows.x[row : row + 1], 4)
        for step in chain.steps:
            answers = world.pursuer.possible_answers(history, step.query)
            left_in_doubt = sum(answer.probability * doubt(answer.posterior) for answer in answers)
            before = doubt(world.pursuer.log_posterior(history)[0].exp())
            assert step.bits == pytest.approx(before - left_in_doubt, abs=1e-6)
            history = history.ask(torch.tensor([step.query]))


def test_chains_are_a_sequence(chain: Chain) -> None:
    chains = Chains([chain, chain, chain])
    assert len(chains) == 3
    assert chains[-1] is chain
    assert isinstance(chains[1:], Chains)
    assert len(chains[1:]) == 2
    assert list(chains) == [chain] * 3
    assert len(chain) == 3
    assert chain.n_answered == 2


def test_a_query_without_an_answer_is_asked_once() -> None:
    query_set = ColumnQueries([yes_no("a"), Choice("b", "b?"), Choice("c", "c?", ("x", "y", "z"))])
    x, available = torch.zeros(2, 4, dtype=torch.double), torch.tensor([[True, False, True]] * 2)
    for chain in explain(make_vip(query_set), x, available):
        assert sorted((step.query, step.answer is None) for step in chain.steps) == [(0, False), (1, True), (2, False)]
