"""What the README promises of the digits, on splits of its own. Takes minutes: run by `make test-slow`."""

import numpy as np
import pytest

from pursuit import VIPClassifier, evaluate
from pursuit.methods import RandomOrder
from pursuit.research.tasks import load_task

pytestmark = pytest.mark.slow


def test_digits_are_read_in_seven_queries_where_random_order_needs_twice_as_many() -> None:
    stops, random_curves = [], []
    for seed in (30, 31, 32):
        task = load_task("digits", seed)
        model = VIPClassifier(task.query_set, random_state=seed, **task.settings).fit(task.X_train, task.y_train)
        found = model.evaluate(task.X_test, task.y_test)
        assert found.at_stop
        stops.append((found.at_stop.accuracy, found.at_stop.mean_asked, found.accuracy_all_answers))
        rows = model.rows(task.X_test, task.y_test)
        random_curves.append(evaluate(RandomOrder(model.model_, seed), rows).accuracy_by_asked)
    accuracy, queries, all_answers = np.mean(stops, axis=0)
    assert queries <= 7
    assert accuracy >= all_answers - 0.01
    assert (np.mean(random_curves, axis=0)[: int(2 * queries)] < accuracy).all()
