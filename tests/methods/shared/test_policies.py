"""Policies: what a rollout asks and records, how it is dealt into batches, and that training on it can be resumed."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.methods.ram import RAM
from pursuit.methods.shared.policies import (
    Decisions,
    PolicyHistories,
    advantages,
    chain_length,
    entropy,
    log_policy,
    mean_where,
    policy_plan,
    roll_out,
)
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries
from pursuit.training import Batch, TrainingRun, train
from pursuit.training.rows import Rows, ShuffledRows
from pursuit.training.samplers import CarriedHistories, RandomHistories, Sampler
from pursuit.training.schedule import Adam, Stage
from untrained import make_columns, make_rows, make_vip

KINDS = ["yes_no", "choice", "number", "yes_no", "yes_no"]


def make_ram(query_set: ColumnQueries | None = None, dropout: float = 0.0) -> RAM:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return RAM.build(ModelSpec(query_set or make_columns(KINDS), ["a", "b", "c"], MLP((16,), dropout))).eval()


def in_float(rows: Rows) -> Rows:
    return replace(rows, x=rows.x.float())


def rolled(model: RAM, rows: Rows, n_steps: int = 5, seed: int = 0, **settings: Any) -> Any:
    return roll_out(model, rows, n_steps, PolicyHistories(**settings), torch.Generator().manual_seed(seed))


def make_sampler(rows: Rows, settings: PolicyHistories, batch_size: int) -> Sampler:
    generator = torch.Generator().manual_seed(0)
    return settings.sampler(ShuffledRows(rows, generator), batch_size, generator)


def drawn(sampler: Sampler, model: RAM) -> Batch:
    sampler.prepare()
    return sampler.draw(model)


# What is asked


def test_queries_are_drawn_by_the_softmax_of_the_scores() -> None:
    model = make_ram()
    rows = in_float(make_rows(model.query_set, 1)).take(torch.zeros(4000, dtype=torch.long))
    first = rolled(model, rows, n_steps=1).query[0]
    expected = 4000 * model.scores(rows.take(slice(1)).start()).softmax(dim=1)[0]
    counts = torch.bincount(first, minlength=len(KINDS))
    assert ((counts - expected) ** 2 / expected).sum() < 18.5  # the 99.9 % quantile with 4 degrees of freedom


def test_a_rollout_asks_everything_once_and_knows_what_is_available() -> None:
    model = make_ram()
    rows = in_float(make_rows(model.query_set, 40, missing=0.3, reported=0.4))
    found = rolled(model, rows)
    given = rows.start().known
    assert torch.equal(found.known[0], given)
    assert torch.equal(found.was_asked.sum(dim=0), len(KINDS) - given.sum(dim=1))
    for row in range(40):
        asked = found.query[:, row][found.was_asked[:, row]].tolist()
        assert sorted(asked) == (~given[row]).nonzero()[:, 0].tolist()
    assert torch.equal(found.known, found.asked & (rows.available | given))
    assert not found.asked[-1][found.was_asked[-1]].all(dim=1).any()
    assert found.advantage.isfinite().all()


def test_what_was_recorded_is_what_the_policy_says() -> None:
    model = make_ram()
    rows = in_float(make_rows(model.query_set, 12, missing=0.2))
    found = rolled(model, rows, n_steps=3)
    for known, asked, query, log_prob in zip(found.known, found.asked, found.query, found.log_prob, strict=True):
        all_of_them = log_policy(model.scores(History(rows.x, known, asked)), asked)
        torch.testing.assert_close(all_of_them.gather(1, query[:, None])[:, 0], log_prob)
    torch.testing.assert_close(found.advantage.mean(), torch.tensor(0.0), atol=1e-5, rtol=0)
    torch.testing.assert_close((found.advantage**2).mean(), torch.tensor(1.0))


def test_nothing_but_the_generator_decides() -> None:
    model = make_ram()
    rows, before = in_float(make_rows(model.query_set, 10)), torch.get_rng_state()
    one, same, other = (rolled(model, rows, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.query, same.query)
    assert not torch.equal(one.query, other.query)
    assert torch.equal(torch.get_rng_state(), before)


# How it paid off


def by_hand(reward: Tensor, value: Tensor, discount: float, trace: float) -> Tensor:
    """The sum over k of (discount x trace)**k times the surprise k steps later."""
    after = torch.cat([value[1:], torch.zeros_like(value[:1])])
    surprise, n_steps = reward + discount * after - value, len(reward)
    return torch.stack(
        [
            torch.stack([(discount * trace) ** (k - step) * surprise[k] for k in range(step, n_steps)]).sum(dim=0)
            for step in range(n_steps)
        ]
    )


@pytest.mark.parametrize("trace", [0.0, 0.7, 1.0])
def test_advantages(trace: float) -> None:
    reward, value = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    torch.testing.assert_close(advantages(reward, value, 0.9, trace), by_hand(reward, value, 0.9, trace))


def test_with_full_trace_an_advantage_is_measured_by_rewards_alone() -> None:
    reward, value = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    rest = reward.flip(0).cumsum(dim=0).flip(0)
    torch.testing.assert_close(advantages(reward, value, 1.0, 1.0), rest - value)


def test_where_everything_was_asked_all_is_finite() -> None:
    asked = torch.tensor([[True, True], [True, False]])
    found = log_policy(torch.tensor([[5.0, -3.0], [5.0, -3.0]]), asked)
    assert found.isfinite().all()
    assert found[1].exp().tolist() == [0.0, 1.0]
    torch.testing.assert_close(entropy(found), torch.tensor([2.0, 1.0]).log())
    assert mean_where(found[:, 0], torch.zeros(2, dtype=torch.bool)) == 0


# How it is dealt


def test_a_pass_deals_every_step_once_and_random_histories_have_no_decision() -> None:
    model = make_ram()
    rows = in_float(make_rows(model.query_set, 60))
    rows = replace(rows, y=torch.arange(60) % 3)
    sampler = make_sampler(rows, PolicyHistories(4, passes=2, random_share=0.25), batch_size=16)
    batches = [drawn(sampler, model) for _ in range(9)]
    first_pass, second_pass = batches[:4], batches[4:8]
    for a_pass in (first_pass, second_pass):
        n_asked = torch.cat([batch.asked[:12].sum(dim=1) for batch in a_pass])
        assert Counter(n_asked.tolist()) == {0: 12, 1: 12, 2: 12, 3: 12}
    decisions = [
        {tuple(one) for batch in a_pass for one in torch.stack(batch.extra, dim=1)[:12].tolist()}
        for a_pass in (first_pass, second_pass)
    ]
    assert decisions[0] == decisions[1]
    assert len(decisions[0]) == 48
    for batch in batches:
        assert isinstance(batch.extra, Decisions)
        assert batch.extra.was_asked.tolist() == [True] * 12 + [False] * 4
        assert torch.equal(batch.known, batch.asked)
        assert not batch.asked[:12].gather(1, batch.extra.query[:12, None]).any()
    third = {tuple(one) for one in torch.stack(batches[8].extra, dim=1)[:12].tolist()}
    assert not third & decisions[0]  # of a rollout of other rows


def test_a_sampler_goes_on_where_it_was() -> None:
    model = make_ram()
    rows, settings = in_float(make_rows(model.query_set, 30, missing=0.2, reported=0.2)), PolicyHistories(3, passes=2)
    sampler, other = make_sampler(rows, settings, 8), make_sampler(rows, settings, 8)
    other.load_state(make_sampler(rows, settings, 8).state())  # before the first rollout there is no state
    for _ in range(4):
        drawn(sampler, model)
    other.load_state({name: tensor.clone() for name, tensor in sampler.state().items()})
    other.stream.load_state(sampler.stream.state())
    other.generator.set_state(sampler.generator.get_state())
    for _ in range(5):
        one, same = drawn(sampler, model), drawn(other, model)
        for left, right in zip((*one[:5], *one.extra), (*same[:5], *same.extra), strict=True):
            assert torch.equal(left, right)


@pytest.mark.parametrize(
    "wrong",
    [{"max_queries": 0}, {"passes": 0}, {"discount": 1.5}, {"trace": -0.1}, {"random_share": 1.0}],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PolicyHistories(**wrong)


def test_they_are_for_policies_only() -> None:
    model = make_vip(make_columns(KINDS))
    with pytest.raises(ValueError, match="for policies such as RAM, not for VIP"):
        drawn(make_sampler(make_rows(model.query_set, 10), PolicyHistories(3), 4), model)


def test_the_plan_keeps_the_budget_and_the_length_of_chains() -> None:
    stages = [Stage(3, RandomHistories(), batch_size=32), Stage(5, CarriedHistories(7), average=0.5)]
    plan = policy_plan(stages, None, 1e-3, PolicyHistories(passes=2))
    for new, old in zip(plan, stages, strict=True):
        assert replace(new, histories=old.histories, optimizer=old.optimizer) == old
    assert [stage.histories for stage in plan] == [PolicyHistories(20, passes=2), PolicyHistories(7, passes=2)]
    assert {stage.optimizer for stage in plan} == {Adam(1e-3)}
    assert [chain_length(5, stage) for stage in stages] == [5, 5]
    assert chain_length(9, stages[1]) == 7
    assert chain_length(None, Stage(1, RandomHistories(0))) == 1


# In training


class Crash(Exception):
    pass


def test_training_goes_on_after_a_crash_as_if_nothing_happened(tmp_path: Path) -> None:
    def trained(folder: Path, resume: bool = False, crash_at: int | None = None) -> RAM:
        model = make_ram(dropout=0.2)

        def report(report: Any) -> None:
            if report.step == crash_at:
                raise Crash

        stage = Stage(8, PolicyHistories(3, passes=2), Adam(1e-2), batch_size=8)
        rows = in_float(make_rows(model.query_set, 20, missing=0.2, reported=0.2))
        train(model, rows, [stage], run=TrainingRun(folder, resume, on_report=report, checkpoint_seconds=0))
        return model

    whole = trained(tmp_path / "whole")
    with pytest.raises(Crash):
        trained(tmp_path / "parts", crash_at=11)
    resumed = trained(tmp_path / "parts", resume=True)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_a_policy_has_no_dropout_and_its_classifier_keeps_it() -> None:
    model = make_ram(dropout=0.4)
    model.begin(Stage(1))
    dropouts = [
        [layer.p for layer in network.modules() if isinstance(layer, torch.nn.Dropout)]
        for network in (model.querier, model.classifier)
    ]
    assert dropouts == [[0.0], [0.4]]


def test_held_out_rows_are_judged_by_the_posterior_after_the_best_query() -> None:
    model = make_ram()
    rows = in_float(make_rows(model.query_set, 9))
    start = rows.start()
    loss, query = model(Batch.of(rows, start))
    after = model.log_posterior(start.ask(query, rows.available))
    assert torch.equal(query, model.scores(start).argmax(dim=1))
    torch.testing.assert_close(loss, -after.gather(1, rows.y[:, None]).mean())
