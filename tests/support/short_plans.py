"""Trainings without a setting, cut short, and coarse figures: for tests of how settings are chosen and used, not of
what is learnt or drawn.

`conftest.py` trains and draws this way in every test that is not marked `full_training`, `programs`, `scale` or `slow`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pursuit.estimators import teachers
from pursuit.estimators.plan import Size
from pursuit.evaluation import figures
from pursuit.queries import QuerySet

SHORTER = {
    "plan.PASSES": 3,
    "plan.LEAST_STEPS": 10,
    "plan.LEAST_TAUGHT_STEPS": 10,
    "plan.DEFAULT_STEPS": 25,
    "plan.DEFAULT_PASSES": 1,
    "plan.TAUGHT": ((2000, Size(64, 256, 2e-2, 10)),),
    "teachers.MOST_COPIES": 2,
}
FEWER = {
    "forest": {"n_estimators": 6},
    "boosting": {"max_iter": 2},
    "logistic regression (C=1)": {"max_iter": 10},
    "logistic regression (C=0.1)": {"max_iter": 10},
}
"""Trees and iterations of the default teachers, which all learn as they do for users. Of six trees, some row is drawn
by all."""

_suitable, _folds, _save_figure = teachers._suitable, teachers._folds, figures.save_figure


def few_trees(query_set: QuerySet, lesson: teachers.Lesson) -> Iterator[teachers.Teacher]:
    """The default teachers with few trees and iterations."""
    for teacher in _suitable(query_set, lesson):
        yield teacher._replace(model=teacher.model.set_params(**FEWER.get(teacher.name, {})))


def two_folds(lesson: teachers.Lesson) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teachers, "N_FOLDS", 2)
        return _folds(lesson)


def _save_coarse_figure(figure: Any, path: str | Path | None) -> Any:
    if path is not None:
        figure.set_layout_engine("none")  # which draws everything once more
    return _save_figure(figure, path)


@contextmanager
def short_plans() -> Iterator[None]:
    """Train what is chosen by default a tenth as long, with teachers of few trees, and draw with few pixels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teachers, "_suitable", few_trees)
        patch.setattr(teachers, "_folds", two_folds)
        patch.setattr(figures, "save_figure", _save_coarse_figure)
        patch.setattr(figures, "DPI", 20)
        for name, value in SHORTER.items():
            patch.setattr(f"pursuit.estimators.{name}", value)
        yield
