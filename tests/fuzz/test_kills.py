"""Trainings that are killed and resumed end as if nothing had happened."""

import pytest
from fuzz.kills import kill_often


@pytest.mark.programs
def test_one_killed_training_of_each_plan_ends_exactly() -> None:
    kills = kill_often(seed=2, times=2, say=print)
    assert [(kill.is_exact, kill.is_log_whole) for kill in kills] == [(True, True)] * 2
