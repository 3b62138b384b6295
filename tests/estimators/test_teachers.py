"""Teachers: what they say of rows that they did not see, and of rows made from these."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import pursuit
from pursuit import MLP, Stage, TrainingRun, VIPClassifier, VIPRegressor
from pursuit.estimators import teachers as teachers_module
from pursuit.estimators.plan import VERY_MANY_ROWS
from pursuit.estimators.teachers import (
    LABEL_SHARE,
    LARGEST_ALONE,
    LEAST_ROWS,
    MADE_ROWS,
    MOST_COPIES,
    N_FOLDS,
    REAL_ROWS,
    SWAPPED,
    Beliefs,
    Lesson,
    Teacher,
    calibrated,
    can_teach,
    swapped,
    taught,
)
from pursuit.inference.target_bins import TargetBins
from pursuit.information import AnswerModel
from pursuit.methods import METHODS
from pursuit.queries import ColumnQueries, Number, yes_no
from pursuit.training.rows import Rows
from pursuit.training.schedule import AdamW
from short_plans import few_trees
from small_table import patients

pytestmark = pytest.mark.full_training

N_COLUMNS = 5
QUICKEST: dict[str, Any] = {"network": MLP((4,)), "stages": [Stage(0.1, batch_size=32)]}
QUERIES = ColumnQueries([*(yes_no(f"q{i}") for i in range(4)), Number("number", "How many?", edges=(-1.0, 0.0, 1.0))])
FOREST = RandomForestClassifier(40, random_state=0)


def rows(n: int = 120, seed: int = 0, n_labels: int = 2, missing: float = 0.1) -> Rows:
    """The label is in two columns and a number, most of the time."""
    randomness = np.random.default_rng(seed)
    answers = randomness.integers(0, 2, (n, 4)).astype(float)
    number = randomness.normal(size=n)
    y = (answers[:, 0] + answers[:, 1] + (number > 0)).astype(int) % n_labels
    table = np.column_stack([answers, number])
    table[randomness.random(table.shape) < missing] = np.nan
    y = np.where(randomness.random(n) < 0.1, randomness.integers(0, n_labels, n), y)
    return Rows(*QUERIES.answers(table), torch.from_numpy(y))


def lesson(learnt: Rows, n_labels: int = 2, labels: Any = None) -> Lesson:
    generator = torch.Generator().manual_seed(1)
    copies = tuple(swapped(QUERIES, learnt, generator) for _ in range(2))
    return Lesson(learnt, copies, labels or list(range(n_labels)), seed=3)


def teacher(model: Any) -> Teacher:
    return Teacher("teacher", model, teachers_module._encoded_answers(QUERIES))


def relabelled(learnt: Rows, row: int, n_labels: int = 2) -> Rows:
    y = learnt.y.clone()
    y[row] = (y[row] + 1) % n_labels
    return replace(learnt, y=y)


@pytest.fixture
def quick_teachers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The teachers that there are by default, of few trees: where it does not matter how good they are."""
    monkeypatch.setattr(teachers_module, "_suitable", few_trees)


# No label reaches what is said of its own row


@pytest.mark.parametrize("row", [0, 17, 64])
def test_a_label_changes_nothing_out_of_bag_but_what_is_said_of_other_rows(row: int) -> None:
    learnt = rows()
    one, other = (teachers_module._out_of_bag(teacher(FOREST), lesson(r)) for r in (learnt, relabelled(learnt, row)))
    assert one.shape == (3, 120, 2)
    np.testing.assert_array_equal(one[:, row], other[:, row])  # the row and both of those made from it
    assert (one != other).any(axis=(0, 2)).sum() > 10


@pytest.mark.parametrize("model", [DecisionTreeClassifier(random_state=0), LogisticRegression()])
@pytest.mark.parametrize("row", [0, 17, 64])
def test_a_label_changes_nothing_out_of_fold_but_what_is_said_of_other_folds(
    model: Any, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = np.arange(120) % N_FOLDS  # the same whatever the labels are
    folds = [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(N_FOLDS)]
    monkeypatch.setattr(teachers_module, "_folds", lambda lesson: folds)
    learnt = rows()
    one, other = (teachers_module._out_of_fold(teacher(model), lesson(r)) for r in (learnt, relabelled(learnt, row)))
    assert one is not None
    assert other is not None
    own = fold == fold[row]
    np.testing.assert_array_equal(one[:, own], other[:, own])
    assert (one[:, ~own] != other[:, ~own]).any()


@pytest.mark.parametrize("model", [RandomForestRegressor(30, random_state=0), DecisionTreeRegressor(random_state=0)])
def test_a_number_changes_nothing_of_what_is_predicted_of_its_own_row(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lesson, "posteriors", lambda self, predicted: predicted)
    fold = np.arange(120) % N_FOLDS
    folds = [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(N_FOLDS)]
    monkeypatch.setattr(teachers_module, "_folds", lambda lesson: folds)
    bins = TargetBins.of(np.arange(8.0), 4)
    learnt = rows(n_labels=4)
    found = []
    for part in (learnt, relabelled(learnt, 7, 4)):
        beliefs = teachers_module._ask(teacher(model), lesson(part, labels=bins), None)
        assert beliefs is not None
        found.append(np.concatenate([beliefs.own[None], beliefs.made]))
    np.testing.assert_array_equal(found[0][:, 7], found[1][:, 7])
    assert (found[0] != found[1]).any()


def test_labels_of_chance_are_not_told_to_be_known() -> None:
    """A teacher that saw its rows would be right about every one of them."""
    chance = replace(rows(300), y=torch.randint(2, (300,), generator=torch.Generator().manual_seed(5)))
    teaching = taught(QUERIES, chance, [0, 1], "auto", seed=0)
    assert teaching.judging.target is not None
    right = (teaching.judging.target.argmax(dim=1) == chance.y).float().mean()
    assert float(right) == pytest.approx(0.5, abs=0.12)
    made = teaching.rows.take(teaching.rows.y < 0).target
    assert made is not None
    assert float(made.max(dim=1).values.mean()) < 0.75


def test_no_group_is_both_learnt_and_judged() -> None:
    """Rows of a group are recognised by their answers, and have the label of the group, which nothing else tells."""
    group = torch.arange(40).repeat_interleave(5)
    randomness = np.random.default_rng(0)
    table = np.column_stack([randomness.integers(0, 2, (40, 4)), randomness.normal(size=40)])[group]
    y = torch.from_numpy(randomness.integers(0, 2, 40))[group]
    alone = Rows(*QUERIES.answers(table), y)
    grouped = replace(alone, group=group)
    for seen, unseen in teachers_module._folds(lesson(grouped)):
        assert set(group[seen].tolist()).isdisjoint(group[unseen].tolist())
    for model in (FOREST, DecisionTreeClassifier(random_state=0)):
        accuracy = []
        for part in (alone, grouped):
            found = teachers_module._ask(teacher(model), lesson(part), None)
            assert found is not None
            accuracy.append((found.own.argmax(axis=1) == y.numpy()).mean())
        assert accuracy[0] > 0.95
        assert accuracy[1] < 0.75


def test_rows_without_a_group_are_their_own() -> None:
    group = torch.cat([torch.zeros(20), torch.full((100,), -1)]).long()
    folds = teachers_module._folds(lesson(replace(rows(), group=group)))
    assert len(folds) == N_FOLDS
    assert sorted(np.concatenate([unseen for _, unseen in folds]).tolist()) == list(range(120))
    assert sum(bool((unseen < 20).any()) for _, unseen in folds) == 1
    assert min(len(unseen) for _, unseen in folds) >= 15


def test_a_single_group_is_divided_by_rows() -> None:
    folds = teachers_module._folds(lesson(replace(rows(), group=torch.zeros(120, dtype=torch.long))))
    assert len(folds) == N_FOLDS
    assert all(len(unseen) == 24 for _, unseen in folds)


# Labels with few rows, folds with one label, and weights


@pytest.mark.usefixtures("quick_teachers")
def test_rare_labels_are_learnt_as_they_are() -> None:
    learnt = rows(100)
    learnt.y[:3] = 2
    teaching = taught(QUERIES, learnt, [0, 1, 2, 3], "auto", seed=0)
    real = teaching.rows.take(slice(100))
    assert real.target is not None
    assert torch.equal(real.target[:3], F.one_hot(torch.tensor([2] * 3), 4).float())
    assert teaching.judging.target is not None
    of_label = F.one_hot(learnt.y, 4)
    torch.testing.assert_close(
        real.target[3:], (LABEL_SHARE * of_label + (1 - LABEL_SHARE) * teaching.judging.target)[3:]
    )
    # A label of no rows is hardly believed, and all targets are posteriors.
    assert float(teaching.judging.target[:, 3].max()) < 0.05
    torch.testing.assert_close(teaching.rows.target.sum(dim=1), torch.ones(len(teaching.rows)))  # type: ignore[union-attr]


@pytest.mark.parametrize("model", [LogisticRegression(), DecisionTreeClassifier()])
def test_where_other_folds_have_one_label_that_label_is_believed(model: Any) -> None:
    """All rows of one label are a group: without them, nothing is known of it."""
    learnt = rows(60)
    grouped = replace(learnt, group=learnt.y)
    found = teachers_module._out_of_fold(teacher(model), lesson(grouped))
    assert found is not None
    for part in found:
        np.testing.assert_array_equal(part, np.eye(2)[1 - learnt.y.numpy()])


def test_a_label_that_a_fold_does_not_have_is_not_believed_there() -> None:
    learnt = rows(100, n_labels=3)
    learnt.y[:] = learnt.y % 2
    learnt.y[50] = 2
    found = teachers_module._out_of_fold(teacher(LogisticRegression()), lesson(learnt, 3))
    assert found is not None
    assert (found[:, 50, 2] == 0).all()
    np.testing.assert_allclose(found.sum(axis=2), 1, rtol=1e-5)
    assert (found[0, :, 2] > 0).any()


@pytest.mark.parametrize("model", [FOREST, LogisticRegression()])
def test_weights_count(model: Any) -> None:
    """The same answers have either label, and the heavier is believed."""
    y = torch.arange(120) % 2
    alike = Rows(*QUERIES.answers(np.ones((120, 5))), y)
    for heavy in (0, 1):
        weight = torch.where(y == heavy, 1.8, 0.2)
        found = teachers_module._ask(teacher(model), lesson(replace(alike, weight=weight)), None)
        assert found is not None
        np.testing.assert_allclose(found.own[:, heavy], 0.9, atol=0.06)
        np.testing.assert_allclose(found.made[:, :, heavy], 0.9, atol=0.06)
    weighted = lesson(replace(alike, weight=torch.where(y == 0, 2.0, 0.0)))
    surely = Beliefs(np.tile([1.0, 0.0], (120, 1)), np.empty((0, 120, 2)))
    assert weighted.loss(surely) == 0
    assert lesson(alike).loss(surely) == pytest.approx(-np.log(teachers_module.LEAST_PROBABILITY) / 2)


def test_few_trees_may_all_have_drawn_a_row() -> None:
    found = teachers_module._out_of_bag(teacher(RandomForestClassifier(2, random_state=0)), lesson(rows()))
    np.testing.assert_allclose(found.sum(axis=2), 1, rtol=1e-5)


@pytest.mark.parametrize("grouped", [False, True])
def test_trees_that_draw_all_rows_are_asked_by_folds(grouped: bool) -> None:
    chance = replace(rows(200), y=torch.randint(2, (200,), generator=torch.Generator().manual_seed(5)))
    if grouped:
        chance = replace(chance, group=torch.arange(200) // 2)
    beliefs = teachers_module._ask(teacher(RandomForestClassifier(10, bootstrap=False)), lesson(chance), None)
    assert beliefs is not None
    np.testing.assert_allclose(beliefs.own.sum(axis=1), 1, rtol=1e-5)
    assert (beliefs.own.argmax(axis=1) == chance.y.numpy()).mean() < 0.65


# Made rows


def test_made_rows_mix_the_cells_of_rows_and_have_no_label(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = rows(2000, missing=0.3)
    made = swapped(QUERIES, learnt, torch.Generator().manual_seed(0))
    assert (made.y == -1).all()
    assert (learnt.y >= 0).all()
    changed = (made.available != learnt.available) | (made.x != learnt.x)
    # A cell that comes from elsewhere is the same by chance, about half of the time for yes and no.
    of_number = float(changed[:, 4].float().mean())
    assert of_number == pytest.approx(SWAPPED * (1 - 0.3**2), abs=0.04)
    assert float(changed[:, :4].float().mean()) == pytest.approx(SWAPPED * (1 - 0.3**2 - 0.7**2 / 2), abs=0.03)
    assert float(made.available.float().mean()) == pytest.approx(0.7, abs=0.03)
    known = learnt.x[:, 4][learnt.available[:, 4]]
    assert set(made.x[:, 4][made.available[:, 4]].tolist()) <= set(known.tolist())
    monkeypatch.setattr(teachers_module, "SWAPPED", 0.0)
    nothing = swapped(QUERIES, learnt, torch.Generator().manual_seed(0))
    assert torch.equal(nothing.x, learnt.x)
    assert torch.equal(nothing.available, learnt.available)


def test_a_cell_is_swapped_as_a_whole() -> None:
    """A word is several features; it comes from one row."""
    table = pd.DataFrame({"word": ["a", "b", "c", "d"] * 50, "x": np.arange(200) % 7})
    query_set = ColumnQueries.from_data(table)
    x, available = query_set.answers(table)
    made = swapped(query_set, Rows(x, available, torch.zeros(200, dtype=torch.long)), torch.Generator())
    words = {tuple(row) for row in x.tolist()}
    n_word = len(query_set.units.of_feature) - 1
    assert {tuple(row[:n_word]) for row in made.x.tolist()} <= {row[:n_word] for row in words}


@pytest.mark.usefixtures("quick_teachers")
def test_what_is_taught_is_the_rows_twice_for_every_made_one() -> None:
    learnt = replace(rows(100), weight=torch.linspace(0.5, 1.5, 100), initially_known=torch.rand(100, 5) < 0.2)
    teaching = taught(QUERIES, learnt, [0, 1], "auto", seed=0)
    n_copies = min(MOST_COPIES, MADE_ROWS // 100)
    assert len(teaching.rows) == 100 * n_copies * (REAL_ROWS + 1)
    is_made = teaching.rows.y < 0
    assert int(is_made.sum()) == 100 * n_copies
    real = teaching.rows.take(~is_made)
    assert torch.equal(real.x, learnt.x.repeat(REAL_ROWS * n_copies, 1))
    assert torch.equal(real.y, learnt.y.repeat(REAL_ROWS * n_copies))
    assert torch.equal(teaching.rows.weight, learnt.weight.repeat(n_copies * (REAL_ROWS + 1)))  # type: ignore[union-attr,arg-type]
    made = teaching.rows.take(is_made)
    assert made.target is not None
    torch.testing.assert_close(made.target.sum(dim=1), torch.ones(len(made)))
    copies = torch.cat([made.x, made.available], dim=1).view(n_copies, 100, -1)
    assert len({tuple(copy.flatten().tolist()) for copy in copies}) == n_copies  # no two are the same
    assert torch.equal(teaching.judging.y, learnt.y)
    assert torch.equal(teaching.judging.x, learnt.x)
    again = taught(QUERIES, learnt, [0, 1], "auto", seed=0)
    assert torch.equal(again.rows.target, teaching.rows.target)  # type: ignore[arg-type]
    assert torch.equal(again.rows.x, teaching.rows.x)
    other = taught(QUERIES, learnt, [0, 1], "auto", seed=1)
    assert not torch.equal(other.rows.x, teaching.rows.x)


@pytest.mark.usefixtures("quick_teachers")
def test_very_many_rows_are_taught_as_they_are() -> None:
    learnt = rows(VERY_MANY_ROWS)
    teaching = taught(QUERIES, learnt, [0, 1], "auto", 0)
    assert teaching.judging.target is not None
    torch.testing.assert_close(teaching.rows.x, learnt.x)
    of_label = F.one_hot(learnt.y, 2).float()
    torch.testing.assert_close(
        teaching.rows.target, LABEL_SHARE * of_label + (1 - LABEL_SHARE) * teaching.judging.target
    )


def test_made_rows_teach_the_answer_model_nothing() -> None:
    learnt = rows(40)
    model = AnswerModel.count(QUERIES, 2, learnt)
    made = swapped(QUERIES, learnt, torch.Generator().manual_seed(0))
    both = Rows(*(torch.cat([getattr(learnt, name), getattr(made, name)]) for name in ("x", "available", "y")))
    outputs = torch.randn(80, model.n_outputs, generator=torch.Generator().manual_seed(1))

    def loss_and_gradient(some: Rows, own: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        own = own.clone().requires_grad_()
        model.zero_grad()
        loss = model.loss(own, some.x, some.y, some.available, torch.zeros_like(some.available))
        loss.backward()
        assert own.grad is not None
        return loss.detach(), own.grad

    alone, gradient = loss_and_gradient(learnt, outputs[:40])
    with_made, gradient_with_made = loss_and_gradient(both, outputs)
    torch.testing.assert_close(with_made, alone)
    torch.testing.assert_close(gradient_with_made[:40], gradient)
    assert (gradient_with_made[40:] == 0).all()
    nothing, none = loss_and_gradient(made, outputs[40:])
    assert float(nothing) == 0
    assert (none == 0).all()


# Calibration, and who is believed


@pytest.mark.parametrize("power", [0.4, 1.0, 3.0])
def test_calibrated_posteriors_are_as_sure_as_labels_bear_out(power: float) -> None:
    """Posteriors that were right before they were made too cautious, or too sure."""
    randomness = np.random.default_rng(0)
    p = randomness.uniform(0.12, 0.88, 4000)  # whose powers are above the least that is believed
    y = torch.from_numpy((randomness.random(4000) < p).astype(int))
    right = np.stack([1 - p, p], axis=1)
    told = right**power / (right**power).sum(axis=1, keepdims=True)
    judged = Rows(torch.zeros(4000, 1), torch.ones(4000, 1, dtype=torch.bool), y)
    found = calibrated(Beliefs(told, told[None]), judged)

    def loss(posterior: np.ndarray) -> float:
        return float(-np.log(posterior[np.arange(4000), y]).mean())

    assert loss(found.own) <= loss(told) + 1e-6
    assert loss(found.own) == pytest.approx(loss(right), abs=0.003)
    np.testing.assert_allclose(found.own, right, atol=0.03)
    np.testing.assert_allclose(found.made[0], found.own)
    np.testing.assert_allclose(found.own.sum(axis=1), 1, rtol=1e-5)


def test_weights_count_in_calibration() -> None:
    told = np.tile([0.2, 0.8], (100, 1))
    y = torch.arange(100) % 2
    judged = Rows(torch.zeros(100, 1), torch.ones(100, 1, dtype=torch.bool), y, weight=torch.where(y == 1, 1.9, 0.1))
    assert calibrated(Beliefs(told, told[None]), judged).own[0, 1] == pytest.approx(0.95, abs=0.01)
    even = calibrated(Beliefs(told, told[None]), replace(judged, weight=None))
    assert even.own[0, 1] < 0.65


def test_a_teacher_that_is_clearly_worse_is_not_believed() -> None:
    learnt = rows(300, missing=0.0)
    good, poor = (
        DecisionTreeClassifier(max_depth=4, random_state=0),
        DecisionTreeClassifier(max_depth=1, max_features=1),
    )
    for order in ([good, poor], [poor, good]):
        assert taught(QUERIES, learnt, [0, 1], order, 0).names == f"{1 + order.index(good)}. DecisionTreeClassifier"
    names = taught(QUERIES, learnt, [0, 1], [good, good], 0).names
    assert names == "1. DecisionTreeClassifier, 2. DecisionTreeClassifier"


# Numbers


def numbers(n: int = 400) -> tuple[Rows, TargetBins, np.ndarray]:
    """A number that is ten times the number of yeses, and noise."""
    learnt, randomness = rows(n, missing=0.0), np.random.default_rng(4)
    y = 10 * (learnt.x[:, :4] > 0).float().sum(dim=1).numpy() + randomness.normal(size=n)
    bins = TargetBins.of(y, 12)
    return replace(learnt, y=torch.from_numpy(bins.codes(y))), bins, y


@pytest.mark.parametrize("model", [RandomForestRegressor(50, random_state=0), Ridge()])
def test_posteriors_of_numbers_are_distributions_around_what_is_predicted(model: Any) -> None:
    learnt, bins, y = numbers()
    found = teachers_module._ask(teacher(model), lesson(learnt, labels=bins), None)
    assert found is not None
    assert found.own.shape == (400, len(bins))
    assert found.made.shape == (2, 400, len(bins))
    for part in (found.own, *found.made):
        assert (part >= 0).all()
        np.testing.assert_allclose(part.sum(axis=1), 1, rtol=1e-5)
    mean = bins.mean(torch.from_numpy(found.own)).numpy()
    assert np.corrcoef(mean, y)[0, 1] > 0.95
    assert np.abs(mean - y).mean() < 4
    assert mean.mean() == pytest.approx(y.mean(), abs=0.5)


def test_posteriors_of_numbers_are_as_wide_as_the_errors() -> None:
    """Of a teacher that always says the same, the posterior is what is frequent; of one that is right, it is sure."""
    learnt, bins, _ = numbers()
    task = lesson(learnt, labels=bins)
    frequent = np.bincount(learnt.y.numpy(), minlength=len(bins)) / len(learnt)
    same = task.posteriors(np.full((1, 400), 12.0))[0]
    np.testing.assert_allclose(same, np.tile(frequent, (400, 1)), atol=0.03)
    sure = task.posteriors(task.learnt[None])[0]
    np.testing.assert_array_equal(sure, np.eye(len(bins))[learnt.y.numpy()])


@pytest.mark.usefixtures("quick_teachers")
def test_neighbours_of_a_number_are_part_of_its_target() -> None:
    learnt, bins, _ = numbers(100)
    kernel = bins.kernel(0.7)
    assert kernel is not None
    teaching = taught(QUERIES, learnt, bins, "auto", 0, kernel)
    real, own = teaching.rows.take(slice(100)).target, teaching.judging.target
    assert own is not None
    is_rare = torch.bincount(learnt.y, minlength=len(bins))[learnt.y] < N_FOLDS
    share = torch.where(is_rare, 1.0, LABEL_SHARE)[:, None]
    torch.testing.assert_close(real, share * kernel[learnt.y] + (1 - share) * own)


# Who may teach


def blank(n: int, y: Any = None, n_answers: int = 1) -> Rows:
    labels = torch.arange(n) % 2 if y is None else torch.as_tensor(y)
    return Rows(
        torch.zeros(1, n_answers).expand(n, -1), torch.ones(1, n_answers, dtype=torch.bool).expand(n, -1), labels
    )


def test_tables_that_are_taught() -> None:
    assert [can_teach(blank(n), [0, 1], "auto") for n in (LEAST_ROWS - 1, LEAST_ROWS)] == [False, True]
    n = VERY_MANY_ROWS
    most = int(LARGEST_ALONE) // (2 * n)  # answers of very many rows
    assert can_teach(blank(n - 1, n_answers=10 * most), [0, 1], "auto")
    assert can_teach(blank(n, n_answers=most), [0, 1], "auto")
    assert not can_teach(blank(n, n_answers=most + 1), [0, 1], "auto")
    assert can_teach(blank(n, n_answers=most + 1), [0, 1], [LogisticRegression()])  # which someone wants to wait for
    assert not can_teach(blank(100, [0] * 100), [0, 1], "auto")  # nothing to tell apart
    # One row in five may have a label of fewer than five rows.
    rare = [2 + i // 4 for i in range(24)]
    assert can_teach(blank(120, [0] * 48 + [1] * 48 + rare), range(8), "auto")
    assert not can_teach(blank(116, [0] * 46 + [1] * 46 + rare), range(8), "auto")
    many = blank(n - 1, torch.arange(n - 1) % 60)
    assert not can_teach(many, range(60), "auto")
    assert can_teach(many, range(60), [LogisticRegression()])


def test_very_many_rows_are_taught_by_boosting_alone() -> None:
    few, many = (
        [one.name for one in teachers_module._suitable(QUERIES, lesson(rows(n)))] for n in (200, VERY_MANY_ROWS)
    )
    assert many == ["boosting"]
    assert {"forest", "boosting"} < set(few)


def chosen(model: Any) -> dict[str, str]:
    return {reason.setting: reason.value for reason in model.chosen_}


def test_teachers_may_be_given_and_say_so(tmp_path: Path) -> None:
    X, y = patients()
    given = [LogisticRegression(C=0.5), DecisionTreeClassifier(max_depth=3)]
    model = VIPClassifier(teachers=given, random_state=0, **QUICKEST).fit(X, y)
    assert set(chosen(model)["teachers"].split(", ")) <= {"1. LogisticRegression", "2. DecisionTreeClassifier"}
    assert not hasattr(given[0], "coef_")  # clones are fitted
    assert model.score(X, y) >= 0
    model.save(tmp_path)
    loaded = pursuit.load(tmp_path)
    assert loaded.teachers is None  # who taught is not needed any more
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.chosen_ == model.chosen_


@pytest.mark.parametrize("nobody", [None, [], ()])
def test_nobody_need_teach(nobody: Any) -> None:
    X, y = patients(60)
    assert "teachers" not in chosen(VIPClassifier(teachers=nobody, random_state=0, **QUICKEST).fit(X, y))


def test_somebody_teaches_by_default() -> None:
    assert "teachers" in chosen(VIPClassifier(random_state=0, **QUICKEST).fit(*patients(60)))


@pytest.mark.parametrize("wrong", ["forest", ["forest"], LogisticRegression(), [LogisticRegression], [LinearSVC()], 3])
def test_what_cannot_teach_is_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="teachers"):
        VIPClassifier(teachers=wrong, **QUICKEST).fit(*patients(60))


def test_a_number_is_taught_by_regressors() -> None:
    X, _ = patients()
    y = X.pop("age").fillna(40.0)
    model = VIPRegressor(teachers=[Ridge(), LinearSVR()], random_state=0, **QUICKEST).fit(X, y)
    assert "Ridge" in chosen(model)["teachers"] or "SVR" in chosen(model)["teachers"]


@pytest.mark.usefixtures("quick_teachers")
def test_a_run_is_gone_on_with_by_the_same_teachers_only(tmp_path: Path) -> None:
    X, y = patients()
    VIPClassifier(random_state=0, **QUICKEST).fit(X, y, run=TrainingRun(tmp_path))
    for other in (None, [LogisticRegression()]):
        with pytest.raises(pursuit.estimators.CannotResume, match="teachers, so it cannot"):
            VIPClassifier(teachers=other, random_state=0, **QUICKEST).fit(X, y, run=TrainingRun(tmp_path, resume=True))


def test_a_network_believes_as_its_teachers_do() -> None:
    """One that knows nothing but how frequent labels are leaves it unsure where labels alone make it sure."""
    X, y = patients(120)
    stage = Stage(15, optimizer=AdamW(1e-2), batch_size=32)
    plan: dict[str, Any] = {"network": MLP((32,)), "stages": [stage], "random_state": 0}
    sure = []
    for who in ([DummyClassifier()], [DecisionTreeClassifier(random_state=0)], None):
        model = VIPClassifier(teachers=who, stop="budget=4", **plan).fit(X, y)
        sure.append(float(model.predict_proba(X).max(axis=1).mean()))
    assert sure[0] < 0.7
    assert min(sure[1:]) > 0.8


@pytest.mark.parametrize("method", ["gdfs", "dime", "fixed", "random", "all-answers"])
def test_rivals_that_learn_from_targets_are_taught_too(method: str) -> None:
    X, y = patients(LEAST_ROWS)
    model = METHODS[method].build(random_state=0, teachers=[FOREST], **QUICKEST).fit(X, y)
    assert [reason.value for reason in model.chosen_ if reason.setting == "teachers"] == ["1. RandomForestClassifier"]
    assert not [reason for reason in model.chosen_ if reason.setting == "held out"]


@pytest.mark.parametrize("method", ["ram", "refuel", "partial-vae"])
def test_methods_that_need_labels_have_no_teachers(method: str) -> None:
    assert not METHODS[method].accepts("teachers")
