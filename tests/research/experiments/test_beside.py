"""What a model is measured beside, on the same rows."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from experiments.conftest import RECIPE, columns_task, drawn_task, images_task
from pursuit import VIPClassifier, evaluate
from pursuit.exact import IndependentIP
from pursuit.methods.random_order import RandomOrder
from pursuit.research.experiments.run import EXACT_IP, LOGISTIC_REGRESSION, RANDOM_ORDER, measure_beside
from pursuit.research.tasks import Task


def fit(task: Task) -> VIPClassifier:
    model = VIPClassifier(task.query_set, random_state=0, **RECIPE.settings())
    return model.fit(task.X_train, task.y_train, initially_known=task.initially_known_train)


def test_random_order_has_the_models_own_classifier() -> None:
    task = columns_task(0)
    model = fit(task)
    rows = model.rows(task.X_test, task.y_test, initially_known=task.initially_known_test)
    found = measure_beside(RANDOM_ORDER, model, task, rows, 4, "cpu")
    expected = evaluate(RandomOrder(model.model_, seed=0), rows, max_queries=4)
    assert found is not None
    assert (found.accuracy_by_asked, found.area) == (expected.accuracy_by_asked, expected.area)
    assert found.accuracy_all_answers == evaluate(model.model_, rows).accuracy_all_answers


def test_exact_pursuit_where_a_task_has_it() -> None:
    task = columns_task(0)
    model = fit(task)
    rows = model.rows(task.X_test, task.y_test)
    assert measure_beside(EXACT_IP, model, task, rows, 4, "cpu") is None
    yes = torch.tensor([[0.9, 0.2, 0.5] * 2, [0.1, 0.7, 0.5] * 2])
    exact = partial(IndependentIP.from_yes, task.query_set, ["sick", "well"], torch.ones(2) / 2, yes)
    found = measure_beside(EXACT_IP, model, replace(task, exact=exact), rows, 4, "cpu")
    assert found is not None
    assert found.accuracy_by_asked == evaluate(exact(), rows, max_queries=4).accuracy_by_asked


def test_a_black_box_is_right_where_the_label_is_an_answer() -> None:
    task = columns_task(0)
    model = fit(task)
    found = measure_beside(LOGISTIC_REGRESSION, model, task, model.rows(task.X_test, task.y_test), None, "cpu")
    assert found is not None
    assert (found.accuracy_all_answers, found.area, found.accuracy_by_asked) == (1.0, None, None)


@pytest.mark.parametrize("load", [images_task, drawn_task])
def test_images_and_drawn_rows_have_no_black_box(load: object) -> None:
    task = load(0)  # type: ignore[operator]
    model = fit(task)
    rows = model.rows(task.X_test, task.y_test, initially_known=task.initially_known_test)
    assert measure_beside(LOGISTIC_REGRESSION, model, task, rows, None, "cpu") is None
