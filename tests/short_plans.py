"""Trainings without a setting, cut short: for tests of how settings are chosen and used, not of what is learnt.

`conftest.py` trains this way in every test that is not marked `full_training`, `programs`, `scale` or `slow`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pursuit.estimators import teachers
from pursuit.estimators.plan import Size
from pursuit.queries import QuerySet

SHORTER = {
    "PASSES": 10,
    "LEAST_STEPS": 20,
    "LEAST_TAUGHT_STEPS": 20,
    "DEFAULT_STEPS": 100,
    "DEFAULT_PASSES": 2,
    "TAUGHT": ((2000, Size(64, 256, 1e-2, 40)),),
}
FEWER = {"forest": {"n_estimators": 10}, "boosting": {"max_iter": 3}}
"""Trees of the default teachers, which all learn as they do for users. Of ten trees, some row is drawn by all."""

_suitable = teachers._suitable


def _small(query_set: QuerySet, lesson: teachers.Lesson) -> Iterator[teachers.Teacher]:
    for teacher in _suitable(query_set, lesson):
        yield teacher._replace(model=teacher.model.set_params(**FEWER.get(teacher.name, {})))


@contextmanager
def short_plans() -> Iterator[None]:
    """What is chosen by default trains a tenth as long, and its teachers have few trees."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teachers, "_suitable", _small)
        for name, value in SHORTER.items():
            patch.setattr(f"pursuit.estimators.plan.{name}", value)
        yield
