"""Histories to train on: random ones, rolled-out ones and carried ones, and that all of them can be resumed."""

from collections import Counter
from itertools import combinations, pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer, choose
from pursuit.inference.rollout import pursue
from pursuit.training.rows import Rows, ShuffledRows
from pursuit.training.samplers import (
    CarriedHistories,
    HistorySettings,
    RandomHistories,
    RolledOutHistories,
    Sampler,
    random_histories,
    rolled_out_histories,
    rolled_out_together,
)
from strategies import SEEDS
from untrained import Counting, InOrder, make_columns, make_rows, make_vip

COLUMNS = ["yes_no", "choice", "number", "yes_no", "single", "number"]
SHARES = st.sampled_from([0.0, 0.3])


def chi_square(counts: Tensor) -> float:
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def numbered(rows: Rows) -> Rows:
    """The same rows with their number for a label, so that each can be recognised in a batch."""
    return Rows(rows.x, rows.available, torch.arange(len(rows)), rows.initially_known)


def make_sampler(settings: HistorySettings, rows: Rows, batch_size: int, seed: int = 0) -> Sampler:
    generator = torch.Generator().manual_seed(seed)
    return settings.sampler(ShuffledRows(rows, generator), batch_size, generator)


def drawn_once(sampler: Sampler, pursuer: Pursuer) -> History:
    sampler.prepare()
    return sampler.draw(pursuer).history


@torch.no_grad()
def one_step(sampler: Sampler, pursuer: Pursuer) -> tuple[Rows, Tensor, Tensor]:
    """What the training loop does: draw, choose, advance. Gives the rows and the histories that were drawn."""
    sampler.prepare()
    batch = sampler.draw(pursuer)
    # What is drawn is the sampler's own memory, and goes on with the chains.
    rows = Rows(batch.x.clone(), batch.available.clone(), batch.y.clone())
    drawn = rows, batch.known.clone(), batch.asked.clone()
    sampler.advance(choose(pursuer.scores(batch.history), batch.asked))
    return drawn


# Random histories


@given(seed=SEEDS, missing=SHARES)
def test_exactly_k_queries_are_asked(seed: int, missing: float) -> None:
    rows = make_rows(make_columns(COLUMNS), 10, seed, missing)
    generator = torch.Generator().manual_seed(seed)
    k = torch.randint(7, (10,), generator=generator)
    history = random_histories(rows, k, generator)
    assert history.asked.sum(dim=1).tolist() == k.tolist()
    assert torch.equal(history.known, history.asked & rows.available)
    assert history.x is rows.x


@given(seed=SEEDS, missing=SHARES)
def test_what_is_initially_known_is_kept(seed: int, missing: float) -> None:
    rows = make_rows(make_columns(COLUMNS), 10, seed, missing, reported=0.4)
    generator = torch.Generator().manual_seed(seed)
    history = random_histories(rows, torch.randint(7, (10,), generator=generator), generator)
    assert (history.asked | ~rows.initially_known).all()
    assert torch.equal(history.known, history.asked & rows.available)
    nothing = random_histories(rows, torch.zeros(10, dtype=torch.long), generator)
    assert torch.equal(nothing.asked, rows.initially_known)


def test_k_queries_are_asked_on_top_of_what_is_initially_known() -> None:
    rows = make_rows(make_columns(COLUMNS), 10, reported=0.4)
    history = random_histories(rows, torch.full((10,), 2), torch.Generator().manual_seed(0))
    left = (~rows.initially_known).sum(dim=1)
    assert (history.asked & ~rows.initially_known).sum(dim=1).tolist() == left.clamp(max=2).tolist()


def test_no_queries_on_top_of_what_is_initially_known_are_the_start() -> None:
    rows = make_rows(make_columns(COLUMNS), 10, missing=0.4)
    rows = Rows(rows.x, rows.available, rows.y, torch.ones_like(rows.available))
    history = random_histories(rows, torch.zeros(10, dtype=torch.long), torch.Generator().manual_seed(0))
    assert torch.equal(history.known, rows.start().known)
    assert torch.equal(history.asked, rows.start().asked)


def test_all_sets_of_queries_are_equally_likely() -> None:
    n_rows = 10 * 300
    rows = Rows(torch.zeros(n_rows, 5), torch.ones(n_rows, 5).bool(), torch.zeros(n_rows).long())
    history = random_histories(rows, torch.full((n_rows,), 2), torch.Generator().manual_seed(0))
    counts = Counter(tuple(row.nonzero()[:, 0].tolist()) for row in history.asked)
    assert set(counts) == set(combinations(range(5), 2))
    assert chi_square(torch.tensor(list(counts.values()))) < 27.9  # 99.9 % with 9 degrees of freedom


@pytest.mark.parametrize(("max_queries", "longest"), [(None, 5), (2, 2), (99, 5)])
def test_random_lengths_are_uniform(max_queries: int | None, longest: int, world: Any) -> None:
    rows = Rows(torch.zeros(10, 5), torch.ones(10, 5).bool(), torch.zeros(10).long())
    history = drawn_once(make_sampler(RandomHistories(max_queries), rows, 3000), world.pursuer)
    counts = torch.bincount(history.asked.sum(dim=1))
    assert len(counts) == longest + 1
    assert chi_square(counts) < 20.5  # 99.9 % with 5 degrees of freedom


# Rolled-out histories


def first_queries(pursuer: Pursuer, rows: Rows) -> list[list[int]]:
    """What the pursuer asks each row, one after the other."""
    queries: list[list[int]] = [[] for _ in range(len(rows))]
    for step in pursue(pursuer, rows.x, rows.available, initially_known=rows.initially_known):
        for row, query in zip(step.rows.tolist(), step.query.tolist(), strict=True):
            if query >= 0:
                queries[row].append(query)
    return queries


@given(seed=SEEDS, missing=SHARES, reported=SHARES)
def test_rolling_out_asks_the_first_k_of_a_chain(seed: int, missing: float, reported: float) -> None:
    query_set = make_columns(COLUMNS)
    rows, model = make_rows(query_set, 8, seed, missing, reported), Counting(make_vip(query_set, seed=seed))
    chains = first_queries(model.pursuer, rows)
    k = torch.randint(7, (8,), generator=torch.Generator().manual_seed(seed))
    k = torch.minimum(k, torch.tensor([len(chain) for chain in chains]))
    history = rolled_out_histories(rows, k, model)
    asked = rows.start().asked.clone()
    for row, chain in enumerate(chains):
        asked[row, chain[: int(k[row])]] = True
    assert torch.equal(history.asked, asked)
    assert torch.equal(history.known, asked & rows.available)
    assert model.rows["scores"] == int(k.sum())
    assert model.calls["scores"] == int(k.max())
    together = rolled_out_together(rows, k, max(len(chain) for chain in chains), model)
    assert torch.equal(together.asked, history.asked)
    assert torch.equal(together.known, history.known)


def test_rolling_out_leaves_what_is_initially_known_as_it_was() -> None:
    query_set = make_columns(COLUMNS)
    rows = make_rows(query_set, 8, reported=0.3)
    before = rows.initially_known.clone()
    rolled_out_histories(rows, torch.full((8,), 2), make_vip(query_set))
    assert torch.equal(rows.initially_known, before)


def test_nothing_is_rolled_out_of_no_rows() -> None:
    query_set = make_columns(COLUMNS)
    history = rolled_out_histories(make_rows(query_set, 0), torch.zeros(0).long(), make_vip(query_set))
    assert len(history) == 0


@pytest.mark.parametrize(("max_queries", "longest"), [(None, 5), (2, 2), (99, 5)])
def test_rolled_out_lengths_are_uniform_and_leave_one_to_choose(max_queries: int | None, longest: int) -> None:
    query_set = make_columns(COLUMNS)
    sampler = make_sampler(RolledOutHistories(max_queries), make_rows(query_set, 10), 3000)
    assert sampler.asks_querier
    history = drawn_once(sampler, InOrder(query_set))
    lengths = history.asked.sum(dim=1)
    assert torch.equal(history.asked, torch.arange(6) < lengths[:, None])
    counts = torch.bincount(lengths)
    assert len(counts) == longest + 1
    assert chi_square(counts) < 20.5


# Carried histories


@given(seed=SEEDS, missing=SHARES, reported=SHARES, max_queries=st.integers(1, 6))
def test_carried_histories_are_beginnings_of_chains(
    seed: int, missing: float, reported: float, max_queries: int
) -> None:
    query_set = make_columns(COLUMNS)
    rows, model = numbered(make_rows(query_set, 9, seed, missing, reported)), Counting(make_vip(query_set, seed=seed))
    chains, initially_known = first_queries(model.pursuer, rows), rows.start().asked
    sampler = make_sampler(CarriedHistories(max_queries, random_share=0), rows, 6, seed)
    steps = 2 * max_queries + 3
    for _ in range(steps):
        drawn, known, asked = one_step(sampler, model)
        for i, row in enumerate(drawn.y.tolist()):
            n_asked = int(asked[i].sum() - initially_known[row].sum())
            assert n_asked < max_queries
            wanted = initially_known[row].clone()
            wanted[chains[row][:n_asked]] = True
            assert torch.equal(asked[i], wanted)
            assert torch.equal(known[i], wanted & rows.available[row])
            assert torch.equal(drawn.x[i], rows.x[row])
    assert model.calls["scores"] == steps  # the one of the training step itself: the sampler has none of its own
    assert not sampler.asks_querier


def test_a_finished_chain_starts_again_with_the_next_row() -> None:
    query_set = make_columns(COLUMNS)
    rows, model = numbered(make_rows(query_set, 50, reported=0.2)), make_vip(query_set)
    sampler = make_sampler(CarriedHistories(3, random_share=0), rows, 8)
    drawn, _, asked = one_step(sampler, model)
    seen = drawn.y.tolist()
    finished = 0
    for _ in range(12):
        before, asked_before = drawn.y, asked
        drawn, _, asked = one_step(sampler, model)
        for i in range(8):
            if drawn.y[i] == before[i]:
                assert asked[i].sum() == asked_before[i].sum() + 1
            else:
                finished += 1
                seen.append(int(drawn.y[i]))
                assert torch.equal(asked[i], rows.initially_known[drawn.y[i]])
    assert finished == 8 * 12 // 3
    # No row comes again before every row has come once.
    assert len(seen) == 40
    assert len(set(seen)) == 40


def test_a_chain_with_nothing_left_to_ask_waits_for_its_end() -> None:
    query_set = make_columns(["yes_no", "choice", "number"])
    rows = make_rows(query_set, 20)
    rows = numbered(Rows(rows.x, rows.available, rows.y, torch.tensor([[True, False, True]]).expand(20, -1)))
    sampler = make_sampler(CarriedHistories(99, random_share=0), rows, 10)
    assert sampler.max_queries == 3
    passes = [one_step(sampler, make_vip(query_set)) for _ in range(9)]
    for (drawn, _, asked), (later, _, asked_then) in pairwise(passes):
        same = drawn.y == later.y
        assert (asked | rows.initially_known[:10]).equal(asked)  # what was given is never forgotten
        assert asked_then[same].all()  # one query was left, and is asked in the first step
        assert torch.equal(asked_then[~same], rows.initially_known[:10][~same])
    assert set(torch.cat([drawn.y for drawn, _, _ in passes]).tolist()) == set(range(20))


@pytest.mark.parametrize(("max_queries", "n_rows"), [(5, 2000), (5, 12), (6, 3), (1, 7), (4, 4)])
def test_chains_have_one_length_and_their_ages_are_spread_evenly(max_queries: int, n_rows: int) -> None:
    query_set = make_columns(COLUMNS)
    sampler = make_sampler(CarriedHistories(max_queries, random_share=0), make_rows(query_set, 20), n_rows)
    ages = torch.stack([one_step(sampler, InOrder(query_set))[2].sum(dim=1) for _ in range(4 * max_queries)])
    settled = ages[max_queries:]  # every chain has started again at least once by then
    assert torch.equal(settled[1:], (settled[:-1] + 1) % max_queries)
    for age in settled:
        counts = torch.bincount(age, minlength=max_queries)
        assert counts.max() - counts.min() <= 1


def test_a_share_of_the_batch_is_random() -> None:
    query_set = make_columns(COLUMNS)
    rows, model = numbered(make_rows(query_set, 700, missing=0.2)), make_vip(query_set)
    sampler = make_sampler(CarriedHistories(2, random_share=0.75), rows, 2000)
    for _ in range(3):
        drawn, known, asked = one_step(sampler, model)
        assert len(drawn) == len(known) == 2000
        assert torch.equal(known, asked & drawn.available)
        assert torch.equal(drawn.available, rows.available[drawn.y])
        assert torch.equal(drawn.x, rows.x[drawn.y])
        assert asked[:500].sum(dim=1).max() <= 1
        counts = torch.bincount(asked[500:].sum(dim=1))
        assert len(counts) == 7  # random ones are of all lengths, whatever the chains'
        assert chi_square(counts) < 22.5  # 99.9 % with 6 degrees of freedom


@pytest.mark.parametrize("skew", [0.5, 1.0, 3.0])
def test_random_lengths_are_skewed_as_wanted(skew: float, world: Any) -> None:
    """A length is at most k where u**skew is below (k + 1) / (Q + 1)."""
    n = 20_000
    sampler = make_sampler(CarriedHistories(1, random_share=0.999, random_skew=skew), world.rows, n)
    lengths = drawn_once(sampler, world.pursuer).asked[-sampler.n_random :].sum(dim=1)  # type: ignore[attr-defined]
    counts = torch.bincount(lengths, minlength=5)
    assert len(counts) == 5
    cumulative = (torch.arange(1, 6) / 5) ** (1 / skew)
    expected = torch.diff(cumulative, prepend=torch.zeros(1)) * len(lengths)
    assert float(((counts - expected) ** 2 / expected).sum()) < 18.5  # 99.9 % with 4 degrees of freedom


@pytest.mark.parametrize(("share", "n_complete"), [(0.0, 0), (0.3, 300), (1.0, 1000)])
def test_a_share_of_the_random_histories_is_complete(share: float, n_complete: int) -> None:
    query_set = make_columns(COLUMNS)
    rows, model = numbered(make_rows(query_set, 700, missing=0.2)), make_vip(query_set)
    sampler = make_sampler(CarriedHistories(2, random_share=0.5, complete_share=share), rows, 2000)
    for _ in range(3):
        drawn, known, asked = one_step(sampler, model)
        assert asked[:1000].sum(dim=1).max() <= 1  # chains are not
        complete = slice(1000, 1000 + n_complete)
        assert asked[complete].all()
        assert torch.equal(known[complete], drawn.available[complete])
        others = asked[1000 + n_complete :].sum(dim=1)
        if len(others):
            counts = torch.bincount(others, minlength=7)
            assert chi_square(counts) < 22.5  # of all lengths; 99.9 % with 6 degrees of freedom


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_impossible_shares_of_complete_histories_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match="complete_share is a share of the random histories, 0 to 1"):
        CarriedHistories(complete_share=share)


def test_carried_rows_keep_their_targets() -> None:
    """As they keep their answers, also where chains start again and where a state is loaded."""
    query_set = make_columns(COLUMNS)
    rows, model = numbered(make_rows(query_set, 30)), make_vip(query_set)
    target = torch.rand(30, 3, generator=torch.Generator().manual_seed(0))
    rows = Rows(rows.x, rows.available, rows.y, weight=torch.arange(30.0), target=target)
    sampler = make_sampler(CarriedHistories(3, 0.5), rows, 10)
    for _ in range(8):
        sampler.prepare()
        batch = sampler.draw(model)
        assert torch.equal(batch.target, target[batch.y])
        assert torch.equal(batch.weight, batch.y.float())
        sampler.advance(choose(model.scores(batch.history), batch.asked))
    again = make_sampler(CarriedHistories(3, 0.5), rows, 10, seed=1)
    again.load_state(sampler.state())
    again.prepare()
    batch = again.draw(model)
    assert torch.equal(batch.target, target[batch.y])
    assert torch.equal(batch.y[:5], sampler.state()["y"])


@pytest.mark.parametrize("skew", [0, -1, float("nan")])
def test_impossible_skews_are_refused(skew: float) -> None:
    with pytest.raises(ValueError, match="random_skew is the power of a share, above 0"):
        CarriedHistories(random_skew=skew)


@given(seed=SEEDS)
def test_carried_chains_keep_what_is_initially_known(seed: int) -> None:
    query_set = make_columns(COLUMNS)
    rows, model = numbered(make_rows(query_set, 9, seed, missing=0.2, reported=0.3)), make_vip(query_set)
    sampler = make_sampler(CarriedHistories(3, random_share=0.5), rows, 8, seed)
    for _ in range(6):
        drawn, known, asked = one_step(sampler, model)
        given = rows.start().asked[drawn.y]
        assert (known & given).equal(given)
        assert (asked & given).equal(given)


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, float("nan")])
def test_impossible_shares_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match="random_share is a share of the batch, at least 0 and below 1"):
        CarriedHistories(random_share=share)


@pytest.mark.parametrize(
    ("settings", "max_queries"),
    [(CarriedHistories, 0), (CarriedHistories, -1), (RandomHistories, -1), (RolledOutHistories, -1)],
)
def test_impossible_lengths_are_refused(settings: Any, max_queries: int) -> None:
    with pytest.raises(ValueError, match="max_queries"):
        settings(max_queries=max_queries)


def test_only_carried_histories_need_to_know_what_is_asked() -> None:
    query_set = make_columns(COLUMNS)
    rows, model = make_rows(query_set, 20), make_vip(query_set)
    for settings in (RandomHistories(3), RolledOutHistories(3)):
        sampler = make_sampler(settings, rows, 6)
        sampler.prepare()
        sampler.draw(model)
        sampler.advance(None)
    carried = make_sampler(CarriedHistories(3), rows, 6)
    carried.prepare()
    carried.draw(model)
    with pytest.raises(ValueError, match="it chooses none: use RandomHistories"):
        carried.advance(None)


# State


@given(n_before=st.integers(0, 9), seed=SEEDS, share=st.sampled_from([0.0, 0.5]), reported=SHARES)
@pytest.mark.parametrize("histories", ["random", "rolled out", "carried"])
def test_a_sampler_goes_on_from_its_state(
    histories: str, n_before: int, seed: int, share: float, reported: float
) -> None:
    query_set = make_columns(COLUMNS)
    rows, model = numbered(make_rows(query_set, 11, seed, missing=0.2, reported=reported)), make_vip(query_set)
    settings: HistorySettings = {
        "random": RandomHistories(4),
        "rolled out": RolledOutHistories(4),
        "carried": CarriedHistories(4, share),
    }[histories]
    sampler = make_sampler(settings, rows, 6, seed)
    for _ in range(n_before):
        one_step(sampler, model)
    state = {name: tensor.clone() for name, tensor in sampler.state().items()}
    stream, randomness = sampler.stream.state(), sampler.generator.get_state()
    again = make_sampler(settings, rows, 6, seed + 1)
    one_step(again, model)
    again.generator.set_state(randomness)
    again.stream.load_state(stream)
    again.load_state(state)
    for _ in range(6):
        (drawn, *history), (drawn_again, *history_again) = one_step(sampler, model), one_step(again, model)
        for one, other in zip(history, history_again, strict=True):
            assert torch.equal(one, other)
        assert torch.equal(drawn.y, drawn_again.y)
        assert torch.equal(drawn.x, drawn_again.x)
        assert torch.equal(drawn.available, drawn_again.available)


def test_a_state_stays_what_it_was() -> None:
    query_set = make_columns(COLUMNS)
    sampler = make_sampler(CarriedHistories(4), make_rows(query_set, 11), 6)
    state = sampler.state()
    before = {name: tensor.clone() for name, tensor in state.items()}
    one_step(sampler, make_vip(query_set))
    assert all(torch.equal(state[name], before[name]) for name in before)
