"""Trainings without a setting, shortened: for tests of how settings are chosen and used, not of what is learnt."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pursuit.estimators.plan import Size

SHORTER = {
    "PASSES": 10,
    "LEAST_STEPS": 20,
    "LEAST_TAUGHT_STEPS": 20,
    "DEFAULT_STEPS": 100,
    "DEFAULT_PASSES": 2,
    "TAUGHT": ((2000, Size(64, 256, 1e-2, 40)),),
}


@contextmanager
def short_plans() -> Iterator[None]:
    """What is chosen by default trains a tenth as long."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SHORTER.items():
            patch.setattr(f"pursuit.estimators.plan.{name}", value)
        yield
