"""The digits task."""

import numpy as np

from pursuit.research.tasks import digits


def test_a_fifth_is_held_out_and_the_parts_do_not_meet() -> None:
    task = digits.load(seed=3)
    assert len(task.query_set) == 49
    assert len(task.y_test) == 360
    assert len(task.y_train) == 1437
    assert abs(np.bincount(task.y_test) - 36).max() <= 2
    together = np.concatenate([task.X_train, task.X_test]).reshape(1797, -1)
    assert len(np.unique(together, axis=0)) == 1797
    assert not np.array_equal(task.X_test, digits.load(seed=4).X_test)
