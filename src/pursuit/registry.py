"""One registry of everything that a model folder or the command line names.

`@register` above a class makes it known by its name: from then on it can be saved, loaded and written on the command
line like one of ours. Methods and tasks are objects with a `name` and are registered the same way. Loading never
imports what a file names: a class of your own is known once you have imported the module that defines it, named that
module with `pursuit --plugin`, or installed a package that lists it under the entry point group `pursuit`.
"""

import difflib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import entry_points
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

ENTRY_POINTS = "pursuit"
"""The group in which an installed package lists the modules that register its classes."""
SETTINGS = "settings"
"""The kind of classes that do not say theirs by `registry_kind`."""

MAPPING = "mapping"
"""What a file says in place of a class where a mapping has keys that are not texts, which JSON cannot hold."""

T = TypeVar("T")

_known: dict[str, dict[str, Any]] = {}  # kind -> name -> class or object


class UnknownName(ValueError):
    """A file, a command or a person names something that is not known."""


@overload
def register(value: T) -> T: ...
@overload
def register(*, name: str) -> Callable[[T], T]: ...
def register(value: Any = None, *, name: str | None = None) -> Any:
    """Make a class known by its name (or by `name`), or an object by its attribute `name`.

    Classes say what they are by `registry_kind`, which a subclass inherits: "stopping rule", "network", "query set",
    "histories", "pursuer", "estimator", "method" or "task"; any other is "settings".
    """
    if value is None:
        return lambda later: _add(later, name)
    return _add(value, None)


def _add(value: T, name: str | None) -> T:
    kind = getattr(value, "registry_kind", SETTINGS)
    is_class = isinstance(value, type)
    known_as = name or getattr(value, "__name__" if is_class else "name", None)
    if not isinstance(known_as, str) or not known_as:
        raise ValueError(f"{value!r} has no name to be registered by: give it an attribute `name`.")
    # A file names a class without its kind, so class names are unique over all kinds.
    rivals = [kind] if not is_class else [other for other in _known if other == kind or known_as in _classes(other)]
    for other in rivals:
        before = _known.get(other, {}).get(known_as)
        if before is not None and _origin(before) != _origin(value):
            raise ValueError(f"There is a {other} named '{known_as}' already, from {_origin(before)}: rename yours.")
    _known.setdefault(kind, {})[known_as] = value
    return value


def _classes(kind: str) -> dict[str, type]:
    return {name: value for name, value in _known.get(kind, {}).items() if isinstance(value, type)}


def _origin(value: Any) -> str:
    """Where a value is defined: the same again when a notebook cell or a module is run twice.

    Objects say it by `registry_origin`, a class or function of the file that registers them.
    """
    owner = value if isinstance(value, type) else getattr(value, "registry_origin", type(value))
    return f"{owner.__module__}.{getattr(owner, '__qualname__', type(owner).__qualname__)}"


class Known(Mapping[str, Any]):
    """Everything registered of a kind, by name, in the order of registration: what is registered later shows too."""

    def __init__(self, kind: str):
        self._kind = kind

    def _values(self) -> dict[str, Any]:
        _load_entry_points()  # not before something is looked up: importing pursuit imports no plugins
        return _known.get(self._kind, {})

    def __getitem__(self, name: str) -> Any:
        return self._values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values()))

    def __len__(self) -> int:
        return len(self._values())

    def __repr__(self) -> str:
        return f"Known({self._kind!r}: {', '.join(self)})"


def known(kind: str) -> Known:
    """Everything registered of a kind, by name."""
    return Known(kind)


def find(kind: str, name: str, also: Sequence[str] = ()) -> Any:
    """What is registered under this name; raises UnknownName with what to do. `also` may be meant instead."""
    there = known(kind)
    if name not in there:
        names = [*there, *also]
        hint = did_you_mean(str(name), names, f"Known are: {', '.join(names)}.")
        raise UnknownName(f"'{name}' is not a known {kind}. {hint} {how_to_make_known(name)}")
    return there[name]


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The name that is nearly this one, as a question; what to say where there is none."""
    close = nearest(name, known)
    return f"Did you mean '{close}'?" if close else otherwise


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that is nearly this one, in any case of letters; None if there is none."""
    folded = {other.casefold(): other for other in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    return folded[close[0]] if close else None


def find_class(name: str) -> type[Any]:
    """The class that a file names; raises UnknownName with how to make it known."""
    _load_entry_points()
    for kind in _known:
        if name in (classes := _classes(kind)):
            return classes[name]
    raise UnknownName(f"It names the class '{name}', which is not known here. {how_to_make_known(name)}")


def how_to_make_known(name: str) -> str:
    """What a user can do about a name of their own."""
    return (
        f"If '{name}' is your own, import the module that registers it first (@pursuit.register), or name that module: "
        "pursuit --plugin MODULE_OR_FILE.py …"
    )


def is_in_use() -> bool:
    """Whether anything is registered yet: nothing is before the first module that registers classes is imported."""
    return bool(_known)


@cache
def _load_entry_points() -> None:
    """Import the modules that installed packages list, once and only when a name is looked up."""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:  # one broken package must not take everything else along
            warnings.warn(
                f"The plugin {entry.value} of an installed package cannot be imported, so nothing it registers is "
                f"known: {type(error).__name__}: {error}",
                stacklevel=4,
            )


def name_of(cls: type[Any]) -> str:
    """The name a class is registered by; raises ValueError if it is not."""
    for kind in _known:
        for name, other in _known[kind].items():
            if other is cls:
                return name
    raise ValueError(
        f"{cls.__name__} cannot be saved, because nothing could load it again: put @pursuit.register above the class."
    )


def to_config(value: Any) -> Any:
    """A value as JSON: registered dataclasses by their fields, other registered objects by their own `to_config`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [to_config(item) for item in value]
    if isinstance(value, Mapping):
        # Class weights may go by whole numbers, and what has a key "type" would be read as an object.
        if "type" in value or not all(isinstance(key, str) for key in value):
            return {"type": MAPPING, "items": [[to_config(key), to_config(item)] for key, item in value.items()]}
        return {key: to_config(item) for key, item in value.items()}
    if hasattr(value, "to_config"):
        return {"type": name_of(type(value)), **value.to_config()}
    if is_dataclass(value):
        parts = {field.name: to_config(getattr(value, field.name)) for field in fields(value) if field.init}
        return {"type": name_of(type(value)), **parts}
    if hasattr(value, "item"):  # a number of numpy's
        return value.item()
    raise ValueError(f"{value!r} cannot be saved: it is neither a plain value nor an object of a registered class.")


def from_config(config: Any) -> Any:
    """The value that `to_config` wrote; inside a dataclass sequences are tuples, elsewhere lists."""
    if isinstance(config, list):
        return [from_config(item) for item in config]
    if not isinstance(config, dict):
        return config
    if "type" not in config:
        return {key: from_config(item) for key, item in config.items()}
    if config["type"] == MAPPING:
        return {key: from_config(item) for key, item in config["items"]}
    cls, rest = find_class(config["type"]), {key: item for key, item in config.items() if key != "type"}
    if hasattr(cls, "from_config"):
        return cls.from_config(rest)
    values = {key: _as_tuple(from_config(item)) for key, item in rest.items()}
    check_fields(cls, values)
    return cls(**values)


def settings_from(config: Any, cls: type[T]) -> T:
    """The settings of a class that `to_config` wrote; raises TypeError for anything else."""
    settings = from_config(config)
    if not isinstance(settings, cls):
        raise TypeError(f"{settings!r:.100} is not a {cls.__name__}")
    return settings


def check_fields(cls: type[Any], values: Mapping[str, Any]) -> None:
    """Raise TypeError for values of a dataclass that are not of the types it declares: they come from a file."""
    declared = _declared(cls) if is_dataclass(cls) else {}
    for name, value in values.items():
        if not _is_of(value, declared.get(name, Any)):
            raise TypeError(f"{name} of {cls.__name__} cannot be {value!r:.100}")


@cache
def _declared(cls: type[Any]) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except NameError:  # of types that are only imported for those who check them
        return {}


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as far as that can be seen."""
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and value == value and (isinstance(value, float) or abs(value) < sys.float_info.max)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_of(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        inside = parts[:1] * len(value) if parts[1:] == (...,) else parts
        return len(value) == len(inside) and all(map(_is_of, value, inside))
    if origin is not None:  # a list or mapping: of what, does not matter here
        kinds = (origin, tuple) if origin is list else origin
        return not isinstance(origin, type) or isinstance(value, kinds)
    return not isinstance(hint, type) or getattr(hint, "_is_protocol", False) or isinstance(value, hint)


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


def read_as(hint: Any, value: Any) -> Any:
    """JSON values as the dataclass, or whatever type a `hint` says, whose `asdict` they were; raises TypeError or
    ValueError for any others."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and type(None) in parts:
            return None
        return read_as(next(part for part in parts if part is not type(None)), value)
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise TypeError(f"{value!r:.100} is not a {hint.__name__}")
        declared = get_type_hints(hint)
        return hint(**{str(name): read_as(declared.get(str(name), Any), part) for name, part in value.items()})
    if hasattr(hint, "__orig_bases__"):  # a class of tuples or lists
        return hint(read_as(hint.__orig_bases__[0], value))
    if origin in (list, tuple):
        if not isinstance(value, list | tuple):
            raise TypeError(f"{value!r:.100} is not a list")
        inside = parts if origin is tuple and parts[1:] != (...,) else parts[:1] * len(value)
        return origin(read_as(part, item) for part, item in zip(inside, value, strict=True))
    if not _is_of(value, hint):
        raise TypeError(f"{value!r:.100} is not {hint}")
    return value


# ----------------------------------------------------------------------------------------------------------------------
# Options of the program: the field of a dataclass is the only place that declares the option that sets it. A field that
# is annotated with one of the types below, or with `Annotated[type, Option(...)]`, is an option of every command that
# takes its dataclass (`pursuit.cli.options`).


@dataclass(frozen=True)
class Option:
    """The command-line option that sets a dataclass field."""

    help: str
    name: str = ""
    """The option's name if it differs from the field's, such as "--out" or "--list/--no-list"."""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    parameter: str = ""
    """The parameter of an estimator that the option sets, where only some estimators have it."""


Device = Annotated[str, Option("Where to compute: cpu, cuda, mps or auto.")]
MaxQueries = Annotated[int | None, Option("The most queries to ask of a row.", min=1)]
Network = Annotated[
    str | None,
    Option(
        "A network by name, with its usual sizes: MLP, SetNetwork (the paper's), Conv, or your own.",
        parameter="network",
    ),
]
Querier = Annotated[
    str | None,
    Option(
        "How V-IP learns what to ask: from the information expected of every query, or by the paper's gradient; by "
        "default what suits the data.",
        metavar="auto|information|straight-through",
        parameter="querier",
    ),
]
Seed = Annotated[int, Option("The seed of everything random.", min=0, max=2**32 - 1)]
Also = Annotated[
    list[str] | None,
    Option(
        "The folder of another model, trained on the same columns, whose target the same interview tells about; "
        "repeatable.",
        metavar="MODEL",
    ),
]
Stop = Annotated[
    str | None,
    Option(
        "When to stop asking: confidence=0.99, budget=20, stability=0.001 (the entropy changes by fewer bits; or "
        "0.001nats), bits=0.01 (no query left promises more), cost=20 (never spend more), width=20 (the 90 % interval "
        "of a number); risk=0.05 (at most 5 % of what is decided wrong, else not sure) and conformal=0.1 (a set of "
        "labels with the right one in 90 %), for which training holds rows out; with commas: at the first of several."
    ),
]
Validation = Annotated[bool, Option("Measure on held-out training rows, to choose settings by.")]
