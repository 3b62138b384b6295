"""Methods by name, and estimators that take the settings of their method and no others."""

from dataclasses import dataclass
from typing import Any

import pytest
from sklearn.base import clone

from pursuit import ModelSpec, registry
from pursuit.estimators import Method, MethodClassifier, NetworkClassifier, method
from pursuit.estimators.base import HOOKS
from pursuit.methods import VIPClassifier
from pursuit.registry import find
from pursuit.training.rows import RowSource


@dataclass(frozen=True)
class Sharpness:
    power: float = 2.0


@dataclass(kw_only=True, eq=False, repr=False)
class _SharpClassifier(MethodClassifier, NetworkClassifier):
    Settings = Sharpness
    settings: Sharpness | None = None

    def make_model(self, spec: ModelSpec, rows: RowSource) -> Any:
        raise NotImplementedError


def test_settings_are_the_methods_own_or_its_defaults() -> None:
    assert _SharpClassifier().chosen_settings == Sharpness(2.0)
    assert _SharpClassifier(settings=Sharpness(3.0)).chosen_settings == Sharpness(3.0)


def test_scikit_learn_knows_them() -> None:
    assert clone(_SharpClassifier(settings=Sharpness(5.0), max_queries=3)).get_params()["settings"] == Sharpness(5.0)


def test_other_settings_are_refused_before_training() -> None:
    wrong: Any = "sharp"
    with pytest.raises(TypeError, match=r"settings of _SharpClassifier are Sharpness\(...\), not 'sharp'"):
        _SharpClassifier(settings=wrong).fit([[0], [1]], [0, 1])


def test_one_estimator_may_be_several_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = {kind: dict(there) for kind, there in registry._known.items()}
    monkeypatch.setattr(registry, "_known", copied)  # so that other tests do not find these methods
    for name, power in (("sharp", 3.0), ("sharper", 9.0)):
        assert method(name, name.title(), settings=Sharpness(power))(_SharpClassifier) is _SharpClassifier
    found: Method = find("method", "sharper")
    assert (found.title, found.estimator) == ("Sharper", _SharpClassifier)
    assert found.estimator(**found.parameters).get_params()["settings"] == Sharpness(9.0)
    assert find("method", "sharp").parameters == {"settings": Sharpness(3.0)}
    assert find("estimator", "_SharpClassifier") is _SharpClassifier


def test_parameters_of_the_settings_are_given_like_those_of_the_estimator() -> None:
    sharp = Method("sharp", "Sharp", _SharpClassifier)
    assert sharp.accepts("power")
    assert sharp.accepts("max_queries")
    assert not sharp.accepts("weakness")
    built = sharp.build(power=4.0, max_queries=2, weakness=1)
    assert (built.settings, built.max_queries) == (Sharpness(4.0), 2)  # type: ignore[attr-defined]
    assert sharp.build(max_queries=2).settings is None  # type: ignore[attr-defined]
    fixed = Method("sharper", "Sharper", _SharpClassifier, {"settings": Sharpness(9.0)})
    assert fixed.build(power=4.0).settings == Sharpness(4.0)  # type: ignore[attr-defined]
    assert fixed.build().settings == Sharpness(9.0)  # type: ignore[attr-defined]
    assert fixed.parameters == {"settings": Sharpness(9.0)}


def test_what_makes_a_method_what_it_is_cannot_be_changed() -> None:
    short = Method("short", "Short", _SharpClassifier, {"max_queries": 2})
    assert not short.accepts("max_queries")
    assert short.build(max_queries=5, power=4.0).max_queries == 2


def test_hooks_for_authors_of_methods_are_not_listed_for_users() -> None:
    listed = dir(VIPClassifier())
    assert {"fit", "predict", "explain", "session", "stop", "querier"} <= set(listed)
    assert not HOOKS & set(listed)
    assert [name for name in HOOKS - {"Settings"} if not hasattr(VIPClassifier, name)] == []
