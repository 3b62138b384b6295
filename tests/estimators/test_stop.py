"""The stopping rule that suits a learner, judged by rows it did not learn from, and what to expect of it."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from pursuit import ModelSpec
from pursuit.estimators import selection as stop_module
from pursuit.estimators.selection import BITS, SURE, Expected, expected, suitable_bits, suitable_stop
from pursuit.inference.stopping import AnyOf, Budget, Confidence, Never, NothingWorthAsking, StoppingRule
from pursuit.information import AnswerModel
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training import RandomHistories, Stage, train
from pursuit.training.rows import Rows
from pursuit.vip import InformationVIP

N_QUERIES = 6
QUERIES = ColumnQueries([yes_no(f"q{i}") for i in range(N_QUERIES)])


def world(n: int, seed: int, reliability: float | tuple[float, ...]) -> Rows:
    """Rows of a label that each query repeats with a probability of its own; one of a half says nothing."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (n,), generator=generator)
    right = torch.rand(n, N_QUERIES, generator=generator) < torch.tensor(reliability)
    x = torch.where(right, y[:, None], 1 - y[:, None]) * 2.0 - 1
    return Rows(x, torch.ones(n, N_QUERIES, dtype=torch.bool), y)


def learnt(rows: Rows) -> InformationVIP:
    """What is counted and nearly nothing else, because answers are independent given the label."""
    torch.manual_seed(0)
    model = InformationVIP.build(
        ModelSpec(QUERIES, [0, 1], MLP((4,), direct=True)), answer_model=AnswerModel.count(QUERIES, 2, rows)
    )
    model.start_from_counts(rows)
    return model.eval()


ONE_TELLS = (0.95, 0.5, 0.5, 0.5, 0.5, 0.5)
ALL_MATTER = (0.75,) * N_QUERIES


def mean_asked(model: InformationVIP, rows: Rows, rule: StoppingRule) -> float:
    return expected(model, rows, rule).n_queries


def test_where_one_column_tells_all_there_is_one_is_asked() -> None:
    model, judged = learnt(world(4000, 1, ONE_TELLS)), world(500, 2, ONE_TELLS)
    rule = suitable_stop(model, judged)
    assert isinstance(rule, AnyOf)
    assert Confidence(SURE) in rule.rules
    assert mean_asked(model, world(300, 3, ONE_TELLS), rule) == 1


def test_where_all_columns_matter_it_asks_on() -> None:
    model, judged = learnt(world(4000, 1, ALL_MATTER)), world(500, 2, ALL_MATTER)
    asked = mean_asked(model, world(300, 3, ALL_MATTER), suitable_stop(model, judged))
    assert asked > 4


def test_where_a_model_gets_lost_in_answers_it_is_not_asked_nothing() -> None:
    """Five columns mislead it: to ask everything is worse than to ask nothing, but the first column is worth asking."""
    model, judged = learnt(world(4000, 1, (0.8, *[0.7] * 5))), world(500, 2, (0.8, *[0.3] * 5))
    rule = suitable_stop(model, judged)
    assert mean_asked(model, judged, rule) == 1
    assert expected(model, judged, rule).accuracy > 0.7


def test_more_than_held_out_rows_were_asked_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    model, judged = learnt(world(4000, 1, ALL_MATTER)), world(500, 2, ALL_MATTER)
    monkeypatch.setattr(stop_module, "LONGEST", N_QUERIES)
    assert "budget" not in str(suitable_stop(model, judged))
    monkeypatch.setattr(stop_module, "LONGEST", 2)
    rule = suitable_stop(model, judged)
    assert isinstance(rule, AnyOf)
    assert Budget(2) in rule.rules
    assert mean_asked(model, world(300, 3, ALL_MATTER), rule) <= 2


def surprise(log_posterior: torch.Tensor, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    return -rows.at_label(log_posterior), torch.zeros(len(rows), dtype=torch.bool)


def test_the_bits_chosen_are_the_most_that_cost_no_more_than_allowed() -> None:
    model, judged = learnt(world(4000, 1, ALL_MATTER)), world(500, 2, ALL_MATTER)
    found = [suitable_bits(model, judged, surprise, worse) for worse in (10.0, 0.2, 0.05, -1.0)]
    assert found[0] == BITS[0]
    assert found[-1] is None
    least = [0.0 if bits is None else bits for bits in found]
    assert least == sorted(least, reverse=True)
    assert least[0] > least[2]


def test_few_rows_must_show_more_clearly_that_less_is_enough() -> None:
    """The same rows, once and many times: as much is lost, but it is less likely by chance."""
    model, found = learnt(world(4000, 1, ALL_MATTER)), []
    for seed in range(3):
        few = world(30, seed, ALL_MATTER)
        for worse in (0.01, 0.05, 0.1, 0.2):
            alike = [few.take(torch.arange(30).repeat(times)) for times in (1, 15)]
            found.append([suitable_bits(model, rows, surprise, worse) or 0.0 for rows in alike])
    assert all(one <= other for one, other in found)
    assert any(one < other for one, other in found)


@pytest.mark.parametrize("most", [1, 2, 4])
def test_no_row_is_asked_more_than_allowed(most: int) -> None:
    model, judged = learnt(world(4000, 1, ALL_MATTER)), world(300, 2, ALL_MATTER)
    rule = suitable_stop(model, judged, max_queries=most) | Budget(most)
    assert mean_asked(model, judged, rule) <= most
    assert expected(model, judged, Never()).n_queries == N_QUERIES


def test_what_is_expected_is_measured_where_each_row_stops() -> None:
    model, judged = learnt(world(4000, 1, ONE_TELLS)), world(400, 2, ONE_TELLS)
    found = expected(model, judged, Budget(1))
    follows_first = (judged.x[:, 0] > 0) == (judged.y == 1)
    assert found == Expected(1.0, pytest.approx(float(follows_first.float().mean())), 400)
    surely = replace(judged, y=torch.full((400,), -1), target=F.one_hot(judged.y, 2).float())
    assert expected(model, surely, Budget(1)) == found
    halves = replace(surely, target=torch.full((400, 2), 0.5))  # as teachers that know nothing label them
    assert expected(model, halves, Budget(1)) == Expected(1.0, 0.5, 400)


def test_what_is_expected_is_a_range_that_few_rows_make_wide() -> None:
    assert str(Expected(3.14, 0.925, 10)) == "about 3.1 queries a row and an accuracy of 54% to 100% on new rows"
    assert str(Expected(3.14, 0.925, 500)) == "about 3.1 queries a row and an accuracy of 89% to 95% on new rows"
    for accuracy in (0.0, 0.5, 0.999, 1.0, 1.0000001):
        (low, high), (lower, higher) = (Expected(1.0, accuracy, n).accuracy_range for n in (300, 30))
        assert 0 <= lower <= low <= accuracy
        assert min(1.0, accuracy) <= high <= higher <= 1


@pytest.mark.parametrize("truth", [0.6, 0.9])
def test_the_range_covers_what_new_rows_show(truth: float) -> None:
    """In nine of ten worlds or more, also where new rows are no more than those that were judged by."""
    right = torch.rand(400, 2, 150, generator=torch.Generator().manual_seed(0)) < truth
    covered = 0
    for judged, new in right.float().mean(dim=2).tolist():
        low, high = Expected(1.0, judged, 150).accuracy_range
        covered += low <= new <= high
    assert covered >= 0.9 * len(right)


def test_a_model_that_knows_the_labels_is_expected_to_do_as_its_teachers_do() -> None:
    """Teachers that did not see a row are 80% sure, and right in 80%. A model that repeats the labels it learnt agrees
    with them less than they agree with new labels, though it knows no less."""
    model, judged = learnt(world(4000, 1, ONE_TELLS)), world(400, 2, ONE_TELLS)
    judged = replace(judged, y=(judged.x[:, 0] > 0).long())  # what the model says after one answer
    is_right = torch.arange(400) % 5 < 4
    said = F.one_hot(torch.where(is_right, judged.y, 1 - judged.y), 2)
    found = expected(model, replace(judged, target=0.2 + 0.6 * said), Budget(1))
    assert found == Expected(1.0, pytest.approx(0.8 * 0.8 + 0.2 * 0.2), 400, teachers=pytest.approx(0.8))
    low, high = found.accuracy_range
    assert low == Expected(1.0, found.accuracy, 400).accuracy_range[0]
    assert high == pytest.approx(Expected(1.0, 0.8, 400).accuracy_range[1])
    assert expected(model, judged, Budget(1)) == Expected(1.0, 1.0, 400)  # rows that were held out say it themselves


def test_rows_of_a_group_count_together() -> None:
    """Rows of one group are not independent, so that the range is that of as many rows as there are groups."""
    model, judged = learnt(world(4000, 1, ONE_TELLS)), world(400, 2, ONE_TELLS)
    grouped = replace(judged, group=torch.arange(400) // 10)
    found = expected(model, grouped, Budget(1))
    assert (found.n_rows, found.n_groups) == (400, 40)
    assert found.accuracy_range == Expected(1.0, found.accuracy, 40).accuracy_range
    alone = replace(judged, group=torch.full((400,), -1))  # a row without a group is one by itself
    assert expected(model, alone, Budget(1)).n_groups == 400


def test_targets_choose_the_rule_as_labels_do() -> None:
    model, judged = learnt(world(4000, 1, ALL_MATTER)), world(500, 2, ALL_MATTER)
    as_taught = replace(judged, y=torch.full((500,), -1), target=F.one_hot(judged.y, 2).float())
    assert suitable_stop(model, as_taught) == suitable_stop(model, judged)
    # Where teachers believe no answer, no question is worth asking.
    nothing = replace(as_taught, target=torch.full((500, 2), 0.5))
    assert mean_asked(model, judged, suitable_stop(model, nothing)) < 1


def test_rows_with_missing_answers_and_known_ones_are_judged_too() -> None:
    rows = world(600, 5, ALL_MATTER)
    rows.available[::2, 3] = False
    known = torch.zeros_like(rows.available)
    known[:, 0] = True
    rows = Rows(rows.x, rows.available, rows.y, known)
    torch.manual_seed(0)
    model = InformationVIP.build(
        ModelSpec(QUERIES, [0, 1], MLP((16,))), answer_model=AnswerModel.count(QUERIES, 2, rows)
    )
    train(model, rows, [Stage(5, RandomHistories(), batch_size=50)])
    rule = suitable_stop(model, rows)
    assert 0 < mean_asked(model, rows, rule) < N_QUERIES
    assert isinstance(rule, AnyOf | Confidence)
    assert not isinstance(rule, NothingWorthAsking)
