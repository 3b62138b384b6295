"""Fixed order: the ranking is the greedy one of the losses measured, and all rows are asked by it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pursuit import ModelSpec
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.methods import fixed_order
from pursuit.methods.fixed_order import FixedOrder, FixedOrderClassifier, PrefixHistories, prefix_histories
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training import TrainingRun
from pursuit.training.rows import Rows
from pursuit.training.samplers import RandomHistories
from pursuit.training.schedule import AdamW, Stage
from untrained import make_vip

N_QUERIES, N_CLASSES = 8, 3
QUERIES = ColumnQueries([yes_no(f"q{i}") for i in range(N_QUERIES)])
PRIOR = torch.tensor([0.5, 0.3, 0.2])
YES = torch.rand(N_CLASSES, N_QUERIES, generator=torch.Generator().manual_seed(4)) * 0.9 + 0.05
EXACT = IndependentIP.from_yes(QUERIES, range(N_CLASSES), PRIOR, YES)
STAGE = Stage(40, optimizer=AdamW(1e-2), batch_size=16)
QUICK: dict[str, Any] = {"network": MLP((16,)), "stages": [STAGE], "random_state": 0}


def draw(n_rows: int = 400, missing: float = 0.0, given: float = 0.0) -> Rows:
    generator = torch.Generator().manual_seed(1)
    y = torch.multinomial(PRIOR, n_rows, replacement=True, generator=generator)
    x = 2 * (torch.rand(n_rows, N_QUERIES, generator=generator) < YES[y]).float() - 1
    available = torch.rand(n_rows, N_QUERIES, generator=generator) >= missing
    initially_known = torch.rand(n_rows, N_QUERIES, generator=generator) < given
    return Rows(x, available, y, initially_known if given else None)


def with_exact_posterior() -> FixedOrder:
    """With evidence that is linear in the network's input, answers and mask: the posterior is the exact one."""
    no, yes = (1 - YES).log(), YES.log()
    classifier = nn.Linear(2 * N_QUERIES, N_CLASSES)
    with torch.no_grad():
        classifier.weight.copy_(torch.cat([(yes - no) / 2, (yes + no) / 2], dim=1))
        classifier.bias.copy_(PRIOR.log())
    return FixedOrder(ModelSpec(QUERIES, range(N_CLASSES), prior=PRIOR), classifier)


def loss(rows: Rows, queries: list[int]) -> float:
    """The exact posterior's loss where these were asked on top of what is initially known."""
    known = rows.start().known.clone()
    known[:, queries] = True
    known &= rows.available
    log_posterior = EXACT.log_posterior(History(rows.x, known, known))
    return float(nn.functional.nll_loss(log_posterior, rows.y))


@pytest.mark.parametrize(("missing", "given"), [(0.0, 0.0), (0.4, 0.2)])
def test_each_query_ranked_is_the_most_informative_after_those_before(missing: float, given: float) -> None:
    rows, model = draw(missing=missing, given=given), with_exact_posterior()
    order: list[int] = model.ranked(rows).tolist()
    for place in range(N_QUERIES):
        losses = {
            query: loss(rows, [*order[:place], query]) for query in range(N_QUERIES) if query not in order[:place]
        }
        assert losses[order[place]] <= min(losses.values()) + 1e-5
    assert sorted(order) == list(range(N_QUERIES))


def test_no_more_is_measured_than_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, model, n_measured = draw(), with_exact_posterior(), 0
    full = model.ranked(rows).tolist()
    measured = FixedOrder._loss

    def counted(self: FixedOrder, rows: Rows, known: Tensor) -> Tensor:
        nonlocal n_measured
        n_measured += 1
        return measured(self, rows, known)

    monkeypatch.setattr(FixedOrder, "_loss", counted)
    monkeypatch.setattr(fixed_order, "CANDIDATES", 1)
    order = model.ranked(rows, max_queries=3).tolist()
    assert n_measured < 1 + N_QUERIES + (N_QUERIES - 1) + (N_QUERIES - 2)
    assert order[:3] == full[:3]
    assert sorted(order) == list(range(N_QUERIES))


def test_prefixes_come_on_top_of_what_is_initially_known() -> None:
    rows = draw(50, missing=0.3, given=0.3)
    order = torch.randperm(N_QUERIES, generator=torch.Generator().manual_seed(0))
    k = torch.arange(50) % (N_QUERIES + 1)
    history = prefix_histories(order, rows, k)
    for row in range(50):
        given = rows.start().known[row].nonzero()[:, 0].tolist()
        new = [query for query in order.tolist() if query not in given][: int(k[row])]
        assert sorted(given + new) == history.asked[row].nonzero()[:, 0].tolist()
    assert torch.equal(history.known, history.asked & rows.available)


def test_the_plan_is_half_random_and_half_of_the_order() -> None:
    stages = FixedOrderClassifier(max_queries=5).plan([Stage(10), Stage(4, batch_size=32)])
    assert [stage.epochs for stage in stages] == [5, 2, 5, 2]
    assert [stage.batch_size for stage in stages] == [128, 32, 128, 32]
    assert [stage.histories for stage in stages] == [RandomHistories(5)] * 2 + [PrefixHistories(5)] * 2
    assert [stage.phase for stage in stages] == ["random"] * 2 + ["prefixes"] * 2


def test_the_ranking_is_made_once_when_its_phase_begins() -> None:
    model = with_exact_posterior()
    model.ranking_rows = draw()
    in_order = model.order.clone()
    model.begin(Stage(1, PrefixHistories()))  # the histories alone do not say so
    assert torch.equal(model.order, in_order)
    model.begin(Stage(1, PrefixHistories(), phase="prefixes"))
    assert torch.equal(model.order, model.ranked(draw()))
    model.order.copy_(in_order)
    model.begin(Stage(1, PrefixHistories(), phase="prefixes"))
    assert torch.equal(model.order, in_order)


def test_prefixes_need_an_order() -> None:
    generator = torch.Generator().manual_seed(0)
    sampler = PrefixHistories().sampler(draw().stream(generator), 8, generator)
    with pytest.raises(ValueError, match="a fixed order, which VIP does not have"):
        sampler.draw(make_vip(QUERIES))


def table(n_rows: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The label is made of a and of b, which says less; a copy of a comes first."""
    randomness = np.random.default_rng(seed)
    a, b = randomness.random((2, n_rows)) < 0.5
    X = np.stack([a, randomness.random(n_rows) < 0.5, b ^ (randomness.random(n_rows) < 0.05), a], axis=1).astype(float)
    return X, np.where(a, "yes", np.where(b, "maybe", "no"))


def test_what_an_earlier_query_has_said_does_not_count_again(tmp_path: Path) -> None:
    X, y = table()
    model = FixedOrderClassifier(**QUICK).fit(X, y)
    order = model.model_.order.tolist()
    assert order[0] in (0, 3)
    assert order[1] == 2
    chains = model.explain(X[:20], stop="budget=4")
    assert all([step.query for step in chain.steps] == order for chain in chains)
    assert model.evaluate(X, y).accuracy_by_answered[2] > 0.9
    assert model.model_.ranking_rows is None
    model.save(tmp_path / "model")
    again = FixedOrderClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.explain(X[:5]).to_dict() == model.explain(X[:5]).to_dict()


class Interrupted(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2])
def test_a_resumed_run_ends_as_if_never_interrupted(tmp_path: Path, stage: int) -> None:
    X, y = table()
    plan = {**QUICK, "stages": [replace(STAGE, epochs=10)]}
    whole = FixedOrderClassifier(**plan).fit(X, y)

    def interrupt(report: Any) -> None:
        if report.stage == stage and report.step == report.n_steps:
            raise Interrupted

    with pytest.raises(Interrupted):
        FixedOrderClassifier(**plan).fit(X, y, run=TrainingRun(tmp_path / "run", on_report=interrupt))
    resumed = FixedOrderClassifier(**plan).fit(X, y, run=TrainingRun(tmp_path / "run", resume=True))
    assert torch.equal(resumed.model_.order, whole.model_.order)
    assert np.array_equal(resumed.predict_proba(X), whole.predict_proba(X))
