"""The estimator around rivals: it takes settings of its method, and no others."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from sklearn.base import clone

from pursuit.baselines.shared.rival import RivalClassifier
from pursuit.queries import QuerySet
from pursuit.rows import RowSource
from pursuit.vip import VIP


@dataclass(frozen=True)
class Sharpness:
    power: float = 2.0


class _Rival(RivalClassifier):
    kind = VIP
    Settings = Sharpness

    def _build(self, query_set: QuerySet, rows: RowSource, prior: torch.Tensor) -> Any:
        raise NotImplementedError


def test_settings_are_the_methods_own_or_its_defaults() -> None:
    assert _Rival()._own == Sharpness(2.0)
    assert _Rival(settings=Sharpness(3.0))._own == Sharpness(3.0)


def test_scikit_learn_knows_them() -> None:
    assert clone(_Rival(settings=Sharpness(5.0), max_queries=3)).get_params()["settings"] == Sharpness(5.0)


def test_other_settings_are_refused_before_training() -> None:
    with pytest.raises(TypeError, match=r"settings of _Rival are Sharpness\(...\), not 'sharp'"):
        _Rival(settings="sharp").fit([[0], [1]], [0, 1])
