"""The registry: names find what was registered, values go through JSON, and nothing is imported because it is named."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pursuit import registry
from pursuit.inference.stopping import Budget, Confidence, Stability, parse_stop
from pursuit.networks import MLP
from pursuit.registry import UnknownName, find, find_class, from_config, known, name_of, register, to_config


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    known("settings").get("")  # entry points are loaded before the copy is made
    monkeypatch.setattr(registry, "_known", {kind: dict(there) for kind, there in registry._known.items()})
    yield
    registry._load_entry_points.cache_clear()


@dataclass(frozen=True)
class Spice:
    name: str
    grams: float = 1.0


@dataclass(frozen=True)
class Dish:
    registry_kind: ClassVar[str] = "dish"
    spices: tuple[Spice, ...] = ()
    portions: tuple[tuple[int, ...], ...] = ((1, 2), ())
    best: Spice | None = None
    price: float = field(default=9.5, init=False)


class Menu:
    """Says itself how it is saved."""

    def __init__(self, *dishes: Dish):
        self.dishes = dishes

    def to_config(self) -> dict[str, Any]:
        return {"dishes": to_config(self.dishes)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Menu":
        return cls(*from_config(config["dishes"]))


def through_json(value: Any) -> Any:
    return from_config(json.loads(json.dumps(to_config(value))))


# Names


def test_a_class_is_found_by_its_name_and_kind() -> None:
    assert register(Dish) is Dish
    register(Spice)
    assert find("dish", "Dish") is find_class("Dish") is known("dish")["Dish"] is Dish
    assert name_of(Dish) == "Dish"
    assert known("settings")["Spice"] is Spice  # the kind of what does not say its own
    assert "Dish" not in known("settings")


def test_a_class_may_have_another_name() -> None:
    register(name="course")(Dish)
    assert find_class("course") is Dish
    assert name_of(Dish) == to_config(Dish())["type"] == "course"
    with pytest.raises(UnknownName):
        find_class("Dish")


def test_a_subclass_has_the_kind_of_its_parent() -> None:
    @register
    class Soup(Dish):
        pass

    assert list(known("dish")) == ["Soup"]
    assert find("dish", "Soup") is Soup


def test_objects_are_registered_by_their_attribute_name() -> None:
    lunch = SimpleNamespace(registry_kind="meal", name="lunch")
    assert register(lunch) is lunch
    assert find("meal", "lunch") is lunch
    with pytest.raises(UnknownName):  # a file cannot name it: it is not a class
        find_class("lunch")
    for nameless in (SimpleNamespace(registry_kind="meal"), SimpleNamespace(registry_kind="meal", name="")):
        with pytest.raises(ValueError, match="has no name to be registered by: give it an attribute `name`"):
            register(nameless)


def test_what_is_known_shows_what_is_registered_later_and_cannot_be_changed() -> None:
    dishes = known("dish")
    assert len(dishes) == 0
    assert list(known("nothing of the kind")) == []
    register(Dish)
    assert dict(dishes) == {"Dish": Dish}
    assert "Dish" in repr(dishes)
    with pytest.raises(TypeError):
        dishes["Soup"] = Dish  # type: ignore[index]
    names = list(known("network"))
    assert names.index("Conv") >= 0
    assert names == [name for name, network in known("network").items() if network.__name__ == name]


def test_names_that_nobody_registered_are_refused_with_what_to_do() -> None:
    register(Dish)
    with pytest.raises(UnknownName, match=r"^'Dsh' is not a known dish\. Did you mean 'Dish'\? If 'Dsh' is your own,"):
        find("dish", "Dsh")
    with pytest.raises(UnknownName, match=r"^'tree' is not a known dish\. Known are: Dish\. .*pursuit --plugin MODULE"):
        find("dish", "tree")
    with pytest.raises(UnknownName, match=r"names the class 'Soup', which is not known here\. If 'Soup' is your own,"):
        from_config([{"type": "Soup"}])
    with pytest.raises(ValueError, match=r"Spice cannot be saved, .* put @pursuit\.register above the class"):
        name_of(Spice)


def test_two_of_a_name_are_refused() -> None:
    register(Dish)

    def another(kind: str) -> type:
        return type("Dish", (), {"registry_kind": kind, "__module__": "another.module", "__qualname__": "Dish"})

    message = r"There is a dish named 'Dish' already, from .*test_registry\.Dish: rename yours"
    for kind in ("dish", "network"):  # a file names a class without its kind
        with pytest.raises(ValueError, match=message):
            register(another(kind))
    with pytest.raises(ValueError, match="There is a stopping rule named 'Budget' already, from pursuit"):
        register(name="Budget")(Dish)
    assert find_class("Dish") is Dish
    register(name="another dish")(another("dish"))  # renamed


def test_the_same_class_defined_again_takes_the_place_of_the_first() -> None:
    """As when a notebook cell is run twice."""

    def define() -> type:
        @register
        @dataclass(frozen=True)
        class Pancake:
            n: int = 1

        return Pancake

    first, second = define(), define()
    assert first is not second
    assert find_class("Pancake") is second
    assert type(through_json(second(3))) is second
    with pytest.raises(ValueError, match="Pancake cannot be saved"):
        to_config(first(3))


def test_objects_of_a_name_are_told_from_each_other_by_their_origin() -> None:
    def meal(origin: Any) -> Any:
        return SimpleNamespace(registry_kind="meal", name="lunch", registry_origin=origin)

    register(meal(Dish))
    again = register(meal(Dish))
    assert find("meal", "lunch") is again
    with pytest.raises(ValueError, match=r"There is a meal named 'lunch' already, from .*test_registry\.Dish"):
        register(meal(Spice))
    register(SimpleNamespace(registry_kind="snack", name="lunch"))  # objects are named together with their kind


# Values as JSON

SPICES = st.builds(Spice, st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False))
DISHES = st.builds(
    Dish,
    st.lists(SPICES, max_size=3).map(tuple),
    st.lists(st.lists(st.integers(), max_size=3).map(tuple), max_size=3).map(tuple),
    st.none() | SPICES,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | DISHES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5).filter(lambda key: key != "type"), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_values_come_back_from_json(value: Any) -> None:
    register(Dish)
    register(Spice)
    assert through_json(value) == value


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dishes=st.lists(DISHES, max_size=3))
def test_what_has_a_config_of_its_own_comes_back_by_it(dishes: list[Dish]) -> None:
    for cls in (Menu, Dish, Spice):
        register(cls)
    again = through_json({"menu": Menu(*dishes)})["menu"]
    assert isinstance(again, Menu)
    assert again.dishes == tuple(dishes)


def test_numbers_of_numpy_become_those_of_python() -> None:
    register(Spice)
    config = to_config({"a": [np.int64(3), np.float32(0.5), np.bool_(True)], "b": Spice("salt", np.float64(2.5))})
    assert json.dumps(config) == '{"a": [3, 0.5, true], "b": {"type": "Spice", "name": "salt", "grams": 2.5}}'


def test_our_own_settings_come_back() -> None:
    for value in (MLP((8, 6), dropout=0.5), Budget(3) | Confidence(0.9) | Stability(0.1, 2)):
        assert through_json(value) == value


def test_what_cannot_come_back_is_not_written() -> None:
    with pytest.raises(ValueError, match="Spice cannot be saved, because nothing could load it again"):
        to_config([Spice("salt")])
    for value in (object(), {1, 2}, lambda: None):
        with pytest.raises(ValueError, match="neither a plain value nor an object of a registered class"):
            to_config(value)


# Modules


def write_module(folder: Path, name: str = "kitchen") -> None:
    (folder / f"{name}.py").write_text(
        "from dataclasses import dataclass\n"
        "from pursuit.inference.stopping import StoppingRule, parse_stop\n"
        "from pursuit.registry import register\n"
        "@register\n"
        "@dataclass(frozen=True)\n"
        "class Hungry(StoppingRule):\n"
        "    n: int = 1\n"
        "    def step(self, memory, standing):\n"
        "        return standing.n_answered >= self.n, memory\n"
        "RULE = parse_stop('hungry=2,budget=9')  # looks a name up while it is being imported\n"
    )


def write_entry_point(folder: Path, target: str = "kitchen") -> None:
    """What pip leaves of an installed package that lists a module."""
    info = folder / "kitchen-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kitchen\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pursuit]\nrules = {target}\n")


@pytest.mark.parametrize("name", ["kitchen.Hungry", "Hungry", "kitchen", "os.system", "builtins.eval", ""])
def test_nothing_is_imported_because_a_config_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_module(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    with pytest.raises(UnknownName):
        from_config({"type": name, "n": 3})
    assert set(sys.modules) == before


def test_a_module_that_a_package_lists_is_loaded_once_a_name_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(tmp_path)
    write_entry_point(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    registry._load_entry_points.cache_clear()
    try:
        assert "kitchen" not in sys.modules
        rule = parse_stop("hungry=3")
        assert sys.modules["kitchen"].Hungry is type(rule)
        assert through_json(rule) == rule
        assert "Hungry" in known("stopping rule")
    finally:
        sys.modules.pop("kitchen", None)


@pytest.mark.programs
def test_importing_the_library_imports_no_plugin(tmp_path: Path) -> None:
    write_module(tmp_path)
    write_entry_point(tmp_path)
    code = """
import sys
import pursuit
assert "kitchen" not in sys.modules
assert str(pursuit.VIPClassifier(stop="hungry=3").stopping_rule()) == "hungry=3"
assert "kitchen" in sys.modules
"""
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
