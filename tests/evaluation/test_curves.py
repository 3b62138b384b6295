"""Figures of an evaluation, against the chains they sum up."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pursuit.evaluation.calibration import accuracy_interval
from pursuit.evaluation.curves import Evaluation, evaluate
from pursuit.evaluation.rollouts import placed
from pursuit.inference.chain import Chains, explain
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.stopping import Budget, Confidence, Stability, StoppingRule
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training.rows import Rows
from strategies import SEEDS, SHARES, TYPES
from untrained import Counting, InOrder, make_columns, make_rows, make_vip

RULES = st.sampled_from([Budget(0), Budget(2), Confidence(0.6), Stability(0.1), Stability(0.3, 2) | Confidence(0.9)])


def everything(pursuer: Pursuer, rows: Rows, stop: StoppingRule | None = None) -> Chains:
    return explain(pursuer, rows.x, rows.available, stop, rows.initially_known)


def slow_accuracy(pursuer: Pursuer, rows: Rows, longest: int, of_answers: bool) -> list[float]:
    """The share of rows that are right after 0..longest queries or answers, row by row; where these end, the belief
    stays."""
    right = torch.zeros(longest + 1, dtype=torch.double)
    for chain, y in zip(everything(pursuer, rows), rows.y.tolist(), strict=True):
        shown = [step for step in chain.steps if step.answer is not None or not of_answers]
        beliefs = [chain.prior, *(step.posterior for step in shown)]
        for k in range(longest + 1):
            right[k] += int(beliefs[min(k, len(beliefs) - 1)].argmax()) == y
    return (right / len(rows)).tolist()


@given(types=TYPES, seed=SEEDS, missing=SHARES, known_share=SHARES, cut=st.sampled_from([None, 0, 1, 3]))
def test_accuracy_is_that_of_the_chains(
    types: list[str], seed: int, missing: float, known_share: float, cut: int | None
) -> None:
    query_set = make_columns(types)
    rows, model = make_rows(query_set, 20, seed, missing, known_share), make_vip(query_set, seed=seed)
    result = evaluate(model, rows, max_queries=cut)
    longest = len(types) if cut is None else min(cut, len(types))
    assert result.n_rows == 20
    assert result.n_queries == len(types)
    assert result.accuracy_by_asked == pytest.approx(slow_accuracy(model, rows, longest, of_answers=False))
    assert result.accuracy_by_answered == pytest.approx(slow_accuracy(model, rows, longest, of_answers=True))
    assert result.at_stop is None
    assert (result.accuracy_by_cost, result.area_by_cost) == ([], None)  # every query costs 1
    if longest:
        assert result.area == pytest.approx(sum(result.accuracy_by_asked[1:]) / longest)
        assert result.area_by_answered == pytest.approx(sum(result.accuracy_by_answered[1:]) / longest)
    if known_share == 0:
        prior = (model.log_prior.argmax() == rows.y).double().mean().item()
        assert result.accuracy_by_asked[0] == pytest.approx(prior)
    with torch.no_grad():
        believed = model.log_posterior(History(rows.x, rows.available, rows.available)).argmax(dim=1)
    assert result.accuracy_all_answers == pytest.approx((believed == rows.y).double().mean().item())
    if missing == 0:
        assert result.accuracy_by_asked == result.accuracy_by_answered
    if cut is None:
        assert result.accuracy_by_asked[-1] == pytest.approx(result.accuracy_all_answers)
        assert result.accuracy_by_answered[-1] == pytest.approx(result.accuracy_all_answers)


def slow_calibration_error(confidences: list[float], right: list[bool]) -> float:
    error = 0.0
    for bin in range(10):
        inside = [i for i, confidence in enumerate(confidences) if min(int(confidence * 10), 9) == bin]
        error += abs(sum(confidences[i] - right[i] for i in inside))
    return error / len(right)


@given(types=TYPES, seed=SEEDS, missing=SHARES, known_share=SHARES, rule=RULES, cut=st.sampled_from([None, 2]))
def test_figures_at_the_stop_are_those_of_the_chains(
    types: list[str], seed: int, missing: float, known_share: float, rule: StoppingRule, cut: int | None
) -> None:
    query_set = make_columns(types)
    rows, model = make_rows(query_set, 20, seed, missing, known_share), make_vip(query_set, seed=seed)
    stop = evaluate(model, rows, rule, cut).at_stop
    chains = everything(model, rows, rule if cut is None else rule | Budget(cut))
    right = [int(c.posterior.argmax()) == y for c, y in zip(chains, rows.y.tolist(), strict=True)]
    confidences = [c.posterior.max().item() for c in chains]
    assert stop is not None
    assert stop.rule == str(rule)
    assert stop.mean_answered == pytest.approx(sum(c.n_answered for c in chains) / 20)
    assert stop.mean_asked == stop.mean_cost == pytest.approx(sum(len(c) for c in chains) / 20)
    assert stop.accuracy == pytest.approx(sum(right) / 20)
    assert stop.accuracy_interval == accuracy_interval(sum(right), 20)
    assert stop.mean_confidence == pytest.approx(sum(confidences) / 20, abs=1e-6)
    assert stop.calibration_error == pytest.approx(slow_calibration_error(confidences, right), abs=1e-6)


class LastAnswer:
    """Asks from first to last, and believes that the label is whether the last known answer was yes."""

    def __init__(self, n_queries: int):
        self.query_set = ColumnQueries([yes_no(f"q{i}") for i in range(n_queries)])
        self.classes = ["no", "yes"]

    def scores(self, history: History) -> Tensor:
        return -torch.arange(len(self.query_set), dtype=torch.float).expand(history.known.shape)

    def log_posterior(self, history: History) -> Tensor:
        last = (history.known * torch.arange(1, len(self.query_set) + 1)).argmax(dim=1)
        answer = torch.where(history.known.any(dim=1), history.x.gather(1, last[:, None])[:, 0], -1)
        return torch.stack([answer < 0, answer > 0], dim=1).double().clamp(min=0.1, max=0.9).log()


def test_missing_answers_count_as_asked_and_not_as_answered() -> None:
    # Both rows are of class yes. The first lacks its first answer, so that its first answer revealed is the second.
    x = torch.tensor([[9.0, 1.0, -1.0], [-1.0, 1.0, 1.0]])
    available = torch.tensor([[False, True, True], [True, True, True]])
    result = evaluate(LastAnswer(3), Rows(x, available, torch.tensor([1, 1])), Budget(2))
    # After 0 answers both say no; after 1 yes and no; after 2 no and yes; after 3 the first row has no more.
    assert result.accuracy_by_answered == [0, 0.5, 0.5, 0.5]
    assert result.area_by_answered == 0.5
    # After 1 query both say no, for the first has no answer; after 2 both say yes; after 3 no and yes.
    assert result.accuracy_by_asked == [0, 0, 1, 0.5]
    assert result.area == 0.5
    assert result.accuracy_all_answers == 0.5
    assert result.at_stop is not None
    assert (result.at_stop.mean_answered, result.at_stop.mean_asked, result.at_stop.accuracy) == (1.5, 2, 1)
    assert result.at_stop.mean_confidence == pytest.approx(0.9)
    assert result.at_stop.calibration_error == pytest.approx(0.1)


def test_rows_without_any_answer_keep_the_prior() -> None:
    x, nothing = torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.bool)
    result = evaluate(LastAnswer(2), Rows(x, nothing, torch.tensor([0, 1])), Confidence(0.95))
    assert result.accuracy_by_answered == [0.5, 0.5, 0.5]
    assert result.accuracy_all_answers == 0.5
    assert result.at_stop is not None
    assert (result.at_stop.mean_answered, result.at_stop.mean_asked) == (0, 2)


def test_what_is_initially_known_does_not_count() -> None:
    x = torch.tensor([[1.0, -1.0, 1.0], [1.0, -1.0, -1.0]])
    initially_known = torch.tensor([[False, True, False], [True, False, False]])
    rows = Rows(x, torch.ones(2, 3, dtype=torch.bool), torch.tensor([1, 1]), initially_known)
    result = evaluate(LastAnswer(3), rows, Budget(1))
    # The first row begins with no, is asked q0 (the last known stays no), then q2: yes. The second: yes, no, no.
    assert result.accuracy_by_answered == [0.5, 0, 0.5, 0.5]
    assert result.at_stop is not None
    assert (result.at_stop.mean_answered, result.at_stop.mean_asked, result.at_stop.accuracy) == (1, 1, 0)


def test_what_has_no_answer_is_not_initially_known() -> None:
    x, available = torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.tensor([[False, True], [True, True]])
    rows = Rows(x, available, torch.tensor([1, 1]), torch.tensor([[True, False], [True, False]]))
    result = evaluate(LastAnswer(2), rows, Budget(2))
    # The first row begins with nothing, and after its one answer says yes; the second begins with yes, then says no.
    assert result.accuracy_by_answered == [0.5, 0.5, 0.5]
    assert result.at_stop is not None
    assert result.at_stop.mean_answered == 1


def test_no_rows_are_refused(world: Any) -> None:
    with pytest.raises(ValueError, match="There are no rows to measure on"):
        evaluate(world.pursuer, world.rows.take(torch.arange(0)))


def test_accuracies_are_exact_shares() -> None:
    x, available = torch.tensor([[1.0], [1.0], [1.0], [-1.0], [-1.0]]), torch.ones(5, 1, dtype=torch.bool)
    result = evaluate(LastAnswer(1), Rows(x, available, torch.ones(5, dtype=torch.long)))
    assert result.accuracy_all_answers == 0.6
    assert result.accuracy_by_answered == [0, 0.6]
    assert result.area == 0.6


@pytest.mark.parametrize("batch_rows", [1, 7, 24, 1000])
def test_batches_do_not_matter(batch_rows: int) -> None:
    query_set = make_columns(["yes_no", "choice", "number", "number"])
    rows, model = make_rows(query_set, 24, 3, missing=0.3, reported=0.2), make_vip(query_set)
    whole, parts = (evaluate(model, rows, Confidence(0.7), batch_rows=n).to_dict() for n in (24, batch_rows))
    stop, stop_of_parts = whole.pop("at_stop"), parts.pop("at_stop")
    assert parts == whole
    interval, interval_of_parts = stop.pop("accuracy_interval"), stop_of_parts.pop("accuracy_interval")
    assert interval_of_parts == pytest.approx(interval)
    assert stop_of_parts == pytest.approx(stop)


def test_exact_pursuit_gets_better_with_answers(world: Any) -> None:
    result = evaluate(world.pursuer, world.rows, Confidence(0.8))
    assert isinstance(result, Evaluation)
    assert result.accuracy_by_answered[0] == pytest.approx((world.rows.y == 1).double().mean().item())
    assert result.accuracy_by_answered[-1] == pytest.approx(19 / 24)  # all but the five with an unlikely label
    assert result.at_stop is not None
    assert 1 < result.at_stop.mean_answered < 4


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_the_device_changes_no_figure(device: str) -> None:
    query_set = make_columns(["yes_no", "choice", "number"])
    model, rows = make_vip(query_set), make_rows(query_set, 40, missing=0.2, reported=0.2)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if device == "auto" and torch.cuda.is_available():
        pytest.skip("a GPU computes with less precision")
    assert evaluate(model, rows, Confidence(0.7), device=device) == evaluate(model, rows, Confidence(0.7))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not model.training


class Moved(nn.Module):
    """Notes where it is sent, and goes nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def to(self, *places: Any, **options: Any) -> "Moved":  # type: ignore[override]
        self.sent += [str(place) for place in (*places, *options.values())]
        return self


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """For evaluation alone: torch itself still has none."""
    monkeypatch.setattr("pursuit.evaluation.rollouts.find_device", torch.device)


@pytest.mark.filterwarnings("ignore:.*CUDA is not available")
@pytest.mark.usefixtures("with_gpu")
def test_a_module_goes_to_its_device_and_back_whatever_happens() -> None:
    moved: Any = Moved()
    with placed(moved, "cuda") as place:
        assert place.type == "cuda"
        assert moved.sent == ["cuda", "torch.channels_last"]
    assert moved.sent[2:] == ["cpu", "torch.contiguous_format"]
    moved.sent.clear()
    with pytest.raises(ZeroDivisionError), placed(moved, "cuda"):
        _ = 1 / 0
    assert moved.sent[2:] == ["cpu", "torch.contiguous_format"]


@pytest.mark.usefixtures("with_gpu")
def test_what_is_not_a_module_stays_where_it_is(world: Any) -> None:
    with placed(InOrder(world.query_set), "cuda") as place:
        assert place.type == "cpu"
    moved: Any = Moved()
    with placed(moved, "cpu") as place:
        assert place.type == "cpu"
    assert not moved.sent


@given(seed=SEEDS, missing=SHARES, known_share=SHARES, cut=st.sampled_from([None, 1, 3]))
def test_rules_of_a_trade_off_are_measured_as_if_alone(
    seed: int, missing: float, known_share: float, cut: int | None
) -> None:
    query_set = make_columns(["yes_no", "choice", "number", "yes_no"])
    model, rows = make_vip(query_set, seed=seed), make_rows(query_set, 12, seed, missing, known_share)
    rules = [Confidence(0.6), Budget(2), Stability(0.1), Confidence(0.6)]
    together = evaluate(model, rows, Budget(1), cut, trade_off=rules)
    alone = [evaluate(model, rows, rule, cut) for rule in (Budget(1), *rules)]
    assert [together.at_stop, *together.trade_off] == [one.at_stop for one in alone]
    assert together.accuracy_by_answered == alone[0].accuracy_by_answered
    without = evaluate(model, rows, None, cut, trade_off=rules)
    assert without.at_stop is None
    assert without.trade_off == together.trade_off


def test_rows_that_the_curve_cuts_short_are_counted() -> None:
    pursuer = LastAnswer(5)
    rows = Rows(torch.ones(4, 5), torch.ones(4, 5, dtype=torch.bool), torch.ones(4, dtype=torch.long))

    def cut_short(rule: StoppingRule, most: int | None) -> float:
        stop = evaluate(pursuer, rows, rule, most).at_stop
        assert stop is not None
        return stop.cut_short

    assert cut_short(Budget(4), 3) == 1
    assert cut_short(Budget(3), 3) == cut_short(Budget(2), 3) == 0
    assert cut_short(Budget(9), None) == cut_short(Budget(9), 5) == 0  # there is nothing more to ask
    never = Stability(0.0, 99)
    assert cut_short(never, 4) == 1
    assert cut_short(never | Budget(4), 4) == 0


def test_memory_bounds_the_rows_of_a_batch_and_changes_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    query_set = make_columns(["yes_no", "choice", "number"])
    model, rows = make_vip(query_set), make_rows(query_set, 40, missing=0.2, reported=0.2)
    whole = evaluate(model, rows, Confidence(0.7))
    monkeypatch.setattr("pursuit.evaluation.rollouts.BATCH_BYTES", 2000)
    counted = Counting(model)
    parts = evaluate(counted, rows, Confidence(0.7))
    assert parts.accuracy_by_answered == whole.accuracy_by_answered
    assert parts.at_stop is not None
    assert whole.at_stop is not None
    assert parts.at_stop.mean_answered == whole.at_stop.mean_answered
    rows_of_a_call = counted.rows["log_posterior"] / counted.calls["log_posterior"]
    assert 1 <= rows_of_a_call < 10


def test_a_belief_may_change_where_no_answer_comes() -> None:
    class CountsWhatWasAsked(LastAnswer):
        def log_posterior(self, history: History) -> Tensor:
            is_odd = history.asked.sum(dim=1) % 2 == 1
            return torch.stack([~is_odd, is_odd], dim=1).double().clamp(min=0.1, max=0.9).log()

    available = torch.tensor([[False, True, False], [True, True, True]])
    rows = Rows(torch.ones(2, 3), available, torch.tensor([1, 1]))
    # Row 0 is asked what it cannot answer and believes yes; then it is answered: no; then yes. Row 1: no, yes, no, yes.
    result = evaluate(CountsWhatWasAsked(3), rows)
    assert result.accuracy_by_answered == [0.5, 1.0, 0.5, 1.0]
    assert result.accuracy_by_asked == [0, 1, 0, 1]
