"""Models with settings of their method: they are built with them, and saved and loaded with them."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from pursuit import ModelSpec
from pursuit.methods.dime import DIME, DIMESettings
from pursuit.methods.gdfs import GDFS, GDFSSettings
from pursuit.methods.ram import RAM, RAMSettings
from pursuit.methods.refuel import REFUEL, REFUELSettings
from pursuit.networks import MLP
from pursuit.training.learner import QuerierClassifier
from pursuit.training.samplers import Batch, TrainingOutcome
from untrained import make_columns

KINDS = ["yes_no", "choice", "number"]
MODELS: list[tuple[type[QuerierClassifier], Any]] = [
    (GDFS, GDFSSettings((1.0, 0.3), pretraining=0.4)),
    (DIME, DIMESettings(penalty=0.1, candidates=2)),
    (RAM, RAMSettings("sum", lr=1e-2)),
    (REFUEL, REFUELSettings(positive=2.0, trace=0.1)),
]


@dataclass(frozen=True)
class Sharpness:
    power: float = 2.0


class Sharp(QuerierClassifier):
    Settings = Sharpness

    def forward(self, batch: Batch) -> TrainingOutcome:
        raise NotImplementedError


def test_settings_are_given_or_the_defaults_and_say_what_is_trained() -> None:
    query_set = make_columns(KINDS)
    assert Sharp.build(ModelSpec(query_set, ["a", "b"])).settings == Sharpness(2.0)
    model = Sharp.build(ModelSpec(query_set, ["a", "b"], settings=Sharpness(3.0)))
    assert model.settings == Sharpness(3.0)
    assert "Sharpness(power=3.0)" in repr(model)  # a run with other settings cannot be resumed


@pytest.mark.parametrize(("cls", "settings"), MODELS)
def test_loading_restores_the_very_same_settings(cls: type[QuerierClassifier], settings: Any) -> None:
    query_set = make_columns(KINDS)
    model = cls.build(ModelSpec(query_set, ["a", "b"], MLP((8,)), settings=settings, standardised=True))
    config = json.loads(json.dumps(model.to_config()))
    again = cls.from_config(query_set, ["a", "b"], config)
    assert again.settings == settings
    assert (again.spec.network, again.spec.standardised, again.spec.shared) == (MLP((8,)), True, model.spec.shared)
    assert again.to_config() == model.to_config()
    again.load_state_dict(model.state_dict())


def test_settings_of_another_method_are_refused() -> None:
    with pytest.raises(TypeError, match=r"GDFS has GDFSSettings\(...\), not Sharpness"):
        GDFS.build(ModelSpec(make_columns(KINDS), ["a", "b"], settings=Sharpness()))
