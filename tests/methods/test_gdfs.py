"""GDFS: a Concrete sample of the next query, a classifier that learns alone before, and a falling temperature."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from four_labels import QUERIES, draw
from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.methods.gdfs import GDFS, GDFSClassifier, GDFSSettings
from pursuit.methods.random_order import RandomOrderClassifier
from pursuit.networks import MLP
from pursuit.queries import PatchQueries
from pursuit.training import Batch, TrainingRun
from pursuit.training.rows import Rows
from pursuit.training.samplers import CarriedHistories, RandomHistories
from pursuit.training.schedule import AdamW, Stage
from untrained import make_rows, some_history

STAGES = [Stage(12, CarriedHistories(6), AdamW(4e-3), batch_size=64)]


def build(query_set: Any, n_classes: int = 3) -> GDFS:
    torch.manual_seed(0)
    return GDFS.build(ModelSpec(query_set, range(n_classes), MLP((16,)))).eval()


def batch_of(rows: Rows, share: float, phase: str = "joint") -> Batch:
    return Batch.of(rows, some_history(rows, share))._replace(tau=0.5, phase=phase)


def test_the_plan_has_as_many_histories_as_that_of_vip() -> None:
    settings = GDFSSettings((1.0, 0.2), pretraining=0.2)
    plan = GDFSClassifier(settings=settings, max_queries=9).plan([Stage(10, CarriedHistories(5))])
    assert [stage.epochs for stage in plan] == [2, 8]
    assert [stage.histories for stage in plan] == [RandomHistories(9), CarriedHistories(5)]
    assert [stage.phase for stage in plan] == ["pretraining", "joint"]
    assert (plan[1].tau, plan[1].tau_share) == ((1.0, 0.2), 1.0)


def test_without_pretraining_there_is_none() -> None:
    plan = GDFSClassifier(settings=GDFSSettings((0.5, 0.4), pretraining=0.0)).plan(STAGES)
    assert [(stage.epochs, stage.tau) for stage in plan] == [(STAGES[0].epochs, (0.5, 0.4))]


@pytest.mark.parametrize("wrong", [{"temperature": (1.0, 0.0)}, {"pretraining": 1.0}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GDFSSettings(**wrong)


def test_in_pretraining_the_classifier_learns_alone() -> None:
    model, rows = build(QUERIES), make_rows(QUERIES, 20)
    model.double()
    for phase, querier_learns in (("pretraining", False), ("joint", True)):
        loss, query = model(batch_of(rows, 0.4, phase))
        assert (query is not None) == querier_learns
        model.zero_grad()
        loss.backward()
        assert all((p.grad is not None) == querier_learns for p in model.querier.parameters())
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.classifier.parameters())


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_the_querier_of_patches_learns(dtype: torch.dtype) -> None:
    query_set = PatchQueries((1, 5, 5), 2)
    rows, model = make_rows(query_set, 10), build(query_set).to(dtype)
    loss, _ = model(batch_of(replace(rows, x=rows.x.to(dtype)), 0.3))
    loss.backward()
    assert model.querier[-1].bias.grad.count_nonzero() == len(query_set)


def test_it_asks_what_was_not_asked_and_reads_only_what_it_may() -> None:
    rows = make_rows(QUERIES, 50, missing=0.3)
    model = build(QUERIES).double()
    history = some_history(rows, 0.7)
    known, asked = history.known, history.asked
    asked[0], known[0] = True, rows.available[0]  # nothing is left to ask of the first
    hidden = torch.where(rows.available, rows.x, 100.0)
    found = []
    for x in (rows.x, hidden):
        torch.manual_seed(3)
        found.append(model(Batch(x, known, asked, rows.available, rows.y, tau=0.5)))
    (loss, query), (other_loss, other_query) = found
    assert torch.equal(asked.gather(1, query[:, None])[:, 0], asked.all(dim=1))
    assert torch.equal(loss, other_loss)
    assert torch.equal(query, other_query)


@pytest.mark.parametrize("query_set", [QUERIES, PatchQueries((1, 5, 5), 2), PatchQueries((2, 5, 5), 3, mask=False)])
def test_a_whole_share_is_an_answer(query_set: Any) -> None:
    rows, model = make_rows(query_set, 10), build(query_set).double()
    known = some_history(rows, 0.3).known
    more = torch.eye(len(query_set), dtype=torch.double)[torch.arange(10) % len(query_set)] * ~known
    seen = model.partial_input(rows.x, known.double(), more)
    torch.testing.assert_close(seen, model.network_input(rows.x, known | (more > 0)))


def test_patches_are_seen_by_their_shares_where_nothing_is_known() -> None:
    query_set = PatchQueries((1, 2, 3), 2)  # two patches that share the middle column
    model, x = build(query_set), torch.ones(1, 1, 2, 3)
    shares = torch.tensor([[0.25, 0.5]], requires_grad=True)
    seen = model.partial_input(x, torch.zeros(1, 2), shares)
    torch.testing.assert_close(seen[0, 0, 0], torch.tensor([0.25, 0.75, 0.5]))
    torch.testing.assert_close(seen[0, 1], seen[0, 0])
    (slope,) = torch.autograd.grad(seen[:, :1].sum(), shares)
    assert slope.tolist() == [[4, 4]]
    seen = model.partial_input(x, torch.tensor([[1.0, 0.0]]), shares * torch.tensor([[0.0, 1.0]]))
    torch.testing.assert_close(seen[0, 0, 0], torch.tensor([1.0, 1.0, 0.5]))


def test_the_noise_is_gumbels() -> None:
    model = build(QUERIES)
    final = model.querier[-1]
    assert isinstance(final, nn.Linear)
    with torch.no_grad():
        final.weight.zero_()
        final.bias.copy_(torch.linspace(0, 2, 12))
    blank = torch.zeros(20_000, 12)
    nothing = blank.bool()
    torch.manual_seed(0)
    y = torch.zeros(20_000, dtype=torch.long)
    _, query = model(Batch(blank, nothing, nothing, ~nothing, y, tau=0.5))
    frequency = torch.bincount(query, minlength=12) / 20_000
    torch.testing.assert_close(frequency, final.bias.softmax(dim=0), atol=0.012, rtol=0)


@pytest.mark.slow
def test_it_asks_better_than_chance_and_is_saved_with_its_settings(tmp_path: Path) -> None:
    (X, y), test = draw(1000, 0), draw(1000, 1)
    settings = GDFSSettings((1.0, 0.2), pretraining=0.25)
    arguments: dict[str, Any] = {"network": MLP((32,)), "stages": STAGES, "random_state": 0}
    model = GDFSClassifier(QUERIES, settings=settings, **arguments).fit(X, y)
    chance = RandomOrderClassifier(QUERIES, **arguments).fit(X, y)
    assert model.evaluate(*test).area > chance.evaluate(*test).area + 0.02
    model.save(tmp_path)
    loaded = GDFSClassifier.load(tmp_path)
    assert loaded.settings == loaded.model_.settings == settings
    x, available = QUERIES.answers(test[0][:50])
    for history in (History(x, ~available, ~available), History(x, available, available)):
        assert torch.equal(loaded.model_.scores(history), model.model_.scores(history))
        assert torch.equal(loaded.model_.log_posterior(history), model.model_.log_posterior(history))


def test_training_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    X, y = draw(200, 0)

    def fit(run: TrainingRun | None = None) -> GDFSClassifier:
        stages = [Stage(6, CarriedHistories(4), batch_size=50)]
        return GDFSClassifier(QUERIES, network=MLP((8,), dropout=0.1), stages=stages, random_state=0).fit(X, y, run=run)

    def interrupt(report: Any) -> None:
        if report.stage == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(TrainingRun(tmp_path, on_report=interrupt))
    whole, resumed = fit(), fit(TrainingRun(tmp_path, resume=True))
    for name, tensor in whole.model_.state_dict().items():
        assert torch.equal(tensor, resumed.model_.state_dict()[name]), name
