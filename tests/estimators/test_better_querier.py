"""Which querier is chosen where two were learnt at once: by what their questions make of labels."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from pursuit import MLP, ModelSpec, TrainingRun, VIPClassifier
from pursuit.estimators import selection as asking_module
from pursuit.estimators.plan import FEW_ROWS, Size
from pursuit.estimators.selection import LEVEL, better_querier, chain_losses
from pursuit.inference.history import History
from pursuit.information import AnswerModel, AnswerSettings
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training import AdamW, CarriedHistories, Stage, train
from pursuit.training.calibration import TEMPERATURES
from pursuit.training.loop import Report
from pursuit.training.rows import Rows
from pursuit.vip import VIP, InformationVIP, TwoQueriers
from trained import kept

N_QUERIES = 6
QUERIES = ColumnQueries([yes_no(f"q{i}") for i in range(N_QUERIES)])


def rows_of(answers: np.ndarray, y: np.ndarray) -> Rows:
    return Rows(*QUERIES.answers(answers.astype(float)), torch.from_numpy(y.astype(np.int64)))


def together(n: int, seed: int) -> Rows:
    """The first two answers tell the label, but the second says nothing without the first; the others say a little by
    themselves."""
    randomness = np.random.default_rng(seed)
    first, second = randomness.random(n) < 0.5, randomness.random(n) < 0.25
    y = first ^ second
    little = np.where(randomness.random((n, 4)) < 0.58, y[:, None], ~y[:, None])
    return rows_of(np.column_stack([first, second, little]), y)


def alone(n: int, seed: int) -> Rows:
    """Each answer tells something of the label, and the label is all that they have in common."""
    randomness = np.random.default_rng(seed)
    y = randomness.random(n) < 0.5
    right = randomness.random((n, N_QUERIES)) < np.array([0.6, 0.65, 0.7, 0.75, 0.8, 0.85])
    return rows_of(np.where(right, y[:, None], ~y[:, None]), y)


def learnt(rows: Rows) -> TwoQueriers:
    """By an answer model that knows of answers what the label tells, as those of small tables do."""
    torch.manual_seed(0)
    answer_model = AnswerModel.count(QUERIES, 2, rows, AnswerSettings(rank=0))
    model = TwoQueriers.build(ModelSpec(QUERIES, [0, 1], MLP((32,))), answer_model=answer_model)
    train(
        model,
        rows,
        [Stage(14, CarriedHistories(N_QUERIES, 0.5, complete_share=0.3), AdamW(1e-2), batch_size=128)],
        seed=0,
    )
    return model


@pytest.fixture(scope="module")
def of_together() -> TwoQueriers:
    return kept("together", lambda: learnt(together(2000, 0)))


@pytest.fixture(scope="module")
def of_alone() -> TwoQueriers:
    return kept("alone", lambda: learnt(alone(2000, 0)))


def first_queries(model: VIP, rows: Rows, n: int) -> list[set[int]]:
    """What is asked first, second …"""
    history, asked = rows.start(), []
    with torch.no_grad():
        for _ in range(n):
            query = model.scores(history).masked_fill(history.asked, -torch.inf).argmax(dim=1)
            asked.append(set(query.tolist()))
            history = history.ask(query)
    return asked


def test_where_answers_tell_together_straight_through_asks_them_first(of_together: TwoQueriers) -> None:
    judged = together(600, 1)
    model, reason = better_querier(of_together, judged)
    assert type(model) is VIP
    assert (reason.setting, reason.value) == ("querier", "straight-through")
    assert first_queries(model, judged, 2) == [{0}, {1}]
    by_bits = of_together.asking("information")
    assert first_queries(by_bits, judged, 2)[0] == {0}
    assert 1 not in first_queries(by_bits, judged, 2)[1]  # which tells nothing by itself
    own, other = (float(chain_losses(one, judged).mean()) for one in (model, by_bits))
    assert reason.why == f"log loss {own:.3f} along chains not learnt from, {other:.3f} by information"
    assert own < other - LEVEL


def test_where_answers_tell_alone_information_is_chosen(of_alone: TwoQueriers) -> None:
    judged = alone(600, 1)
    model, reason = better_querier(of_alone, judged)
    assert type(model) is InformationVIP
    assert (reason.setting, reason.value) == ("querier", "information")
    assert reason.why.endswith("by straight-through")
    assert first_queries(model, judged, 1) == [{5}]


@pytest.mark.parametrize(
    ("gain", "spread", "best"),
    [
        (-0.5, 0.0, "information"),
        (0.0, 0.0, "information"),
        (LEVEL - 0.001, 0.0, "information"),
        (LEVEL + 0.001, 0.0, "straight-through"),
        (0.1, 0.9, "straight-through"),  # a standard error of 0.09
        (0.1, 1.1, "information"),
    ],
)
def test_information_asks_where_they_are_level(
    of_alone: TwoQueriers, gain: float, spread: float, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    noise = spread * (noise - noise.mean()) / noise.std()
    through = torch.full((100,), 0.5, dtype=torch.double)

    def losses(learner: VIP, rows: Rows, max_queries: int | None) -> torch.Tensor:
        return through + gain + noise if isinstance(learner, InformationVIP) else through

    monkeypatch.setattr(asking_module, "chain_losses", losses)
    model, reason = better_querier(of_alone, alone(100, 1))
    assert reason.value == best
    assert isinstance(model, InformationVIP) == (best == "information")


def test_chains_are_judged_after_each_question(of_alone: TwoQueriers) -> None:
    judged, model = alone(300, 2), of_alone.asking("information")
    history, logits = judged.start(), []
    with torch.no_grad():
        for _ in range(2):
            query = model.scores(history).masked_fill(history.asked, -torch.inf).argmax(dim=1)
            history = history.ask(query)
            logits.append(model.log_posterior(history).double())

    def losses(after: torch.Tensor) -> torch.Tensor:
        """At each temperature: (N, T)."""
        tempered = (after[:, None] / TEMPERATURES[:, None]).log_softmax(dim=2)
        return -tempered.gather(2, judged.y[:, None, None].expand(-1, len(TEMPERATURES), 1))[:, :, 0]

    for n, wanted in ((1, losses(logits[0])), (2, (losses(logits[0]) + losses(logits[1])) / 2)):
        found = chain_losses(model, judged, max_queries=n)
        torch.testing.assert_close(found, wanted[:, int(wanted.mean(dim=0).argmin())], rtol=1e-4, atol=1e-4)


def test_a_row_that_is_sure_keeps_its_belief(of_alone: TwoQueriers, monkeypatch: pytest.MonkeyPatch) -> None:
    judged, model = alone(200, 3), of_alone.asking("information")
    at_one = chain_losses(model, judged, max_queries=1)
    assert not torch.allclose(chain_losses(model, judged), at_one)
    monkeypatch.setattr(asking_module, "SURE", 0.5)  # as all are after the first answer, and before it
    start = History.start(judged.x, N_QUERIES)
    with torch.no_grad():
        posterior = model.log_posterior(start)
    prior = -posterior.gather(1, judged.y[:, None])[:, 0].double()
    found = chain_losses(model, judged)
    assert float(found.mean()) == pytest.approx(float(prior.mean()), abs=0.01)


def chosen(model: Any) -> dict[str, str]:
    return {reason.setting: reason.value for reason in model.chosen_}


def table(rows: Rows) -> tuple[pd.DataFrame, np.ndarray]:
    return pd.DataFrame((rows.x > 0).numpy(), columns=[f"q{i}" for i in range(N_QUERIES)]), rows.y.numpy()


def test_by_default_an_estimator_learns_both_and_says_which_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pursuit.estimators.plan.TAUGHT", ((2000, Size(64, 256, 2e-2, 20)),))
    X, y = table(together(500, 0))
    model = VIPClassifier(network=MLP((32,)), answers=AnswerSettings(rank=0), random_state=0).fit(X, y)
    assert chosen(model)["querier"] == "straight-through"
    why = {reason.setting: reason.why for reason in model.chosen_}["querier"]
    assert why.endswith("it learnt to look 5 answers ahead")
    assert type(model.model_) is VIP
    first = [[step.name for step in chain.steps] for chain in model.explain(X[:50], "budget=2")]
    assert {tuple(asked) for asked in first} == {("q0", "q1")}
    model.save(tmp_path)
    loaded = VIPClassifier.load(tmp_path)
    assert loaded.chosen_ == model.chosen_
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    # Fitted again to other rows, it is chosen again.
    model.fit(*table(alone(300, 0)))
    assert chosen(model)["querier"] == "information"
    assert type(model.model_) is InformationVIP


@pytest.mark.parametrize("teachers", [None, [LogisticRegression()]], ids=["labels", "teachers"])
def test_the_querier_that_held_out_rows_choose_learns_the_rest_alone(
    teachers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pursuit.estimators.plan.TAUGHT", ((2000, Size(64, 64, 1e-2, 20)),))
    monkeypatch.setattr("pursuit.estimators.plan.UNTAUGHT", ((2000, Size(64, 64, 1e-2)),))
    monkeypatch.setattr("pursuit.methods.vip.MANY_STEPS", 100)
    reports: list[Report] = []
    run = TrainingRun(folder=tmp_path, on_report=reports.append)
    X, y = table(together(1000, 0))
    model = VIPClassifier(network=MLP((32,)), teachers=teachers, held_out=0.3, random_state=0).fit(X, y, run=run)
    assert type(model.model_) is (VIP if chosen(model)["querier"] == "straight-through" else InformationVIP)
    steps = {stage: max(one.step for one in reports if one.stage == stage) for stage in (1, 2)}
    n_steps = int(chosen(model)["steps"].split(" of ")[-1].replace(",", ""))
    assert steps[1] == pytest.approx(0.4 * n_steps, abs=1)
    assert 0 < steps[2] <= 0.6 * n_steps + 1
    left = [one.seconds_left for one in reports if one.stage == 1][-1]
    assert left > 0  # the second part is still to come
    log = pd.read_csv(tmp_path / "alone" / "log.csv")
    # Beside teachers too, held-out rows tell which weights of a straight-through querier were best.
    is_judged = teachers is None or chosen(model)["querier"] == "straight-through"
    assert log["held_out_loss"].notna().any() == is_judged


def test_beside_teachers_both_queriers_learn_all_of_few_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.estimators.plan.TAUGHT", ((2000, Size(64, 64, 1e-2, 20)),))
    X, y = table(together(1000, 0))
    model = VIPClassifier(network=MLP((32,)), teachers=[LogisticRegression()], held_out=0.3, random_state=0)
    model.fit(X, y, run=TrainingRun(folder=tmp_path))
    assert "querier" in chosen(model)
    assert not (tmp_path / "alone").exists()


def test_few_rows_cannot_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.estimators.plan.TAUGHT", ((2000, Size(8, 128, 0.01, 1)),))
    X, y = table(together(FEW_ROWS, 0))
    model = VIPClassifier(random_state=0).fit(X[:-1], y[:-1])
    assert type(model.model_) is InformationVIP
    enough = VIPClassifier(random_state=0).fit(X, y)
    few_why, why = (next(one.why for one in m.chosen_ if one.setting == "querier") for m in (model, enough))
    assert few_why == "too few rows to tell which of two asks better"
    assert why.startswith("log loss")


@pytest.mark.parametrize(
    "given",
    [
        {"querier": "information"},
        {"querier": "straight-through"},
        {"shared": True},
        {"cost_aware": True},
        {"stages": [Stage(1, batch_size=32)]},
    ],
    ids=str,
)
def test_a_querier_that_is_given_is_not_chosen(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.estimators.plan.TAUGHT", ((2000, Size(8, 32, 0.01, 1)),))
    X, y = table(together(100, 0))
    model = VIPClassifier(network=MLP((8,)), random_state=0, **given).fit(X, y)
    assert "querier" not in chosen(model)
    assert type(model.model_) is (VIP if given.get("querier") == "straight-through" else InformationVIP)
