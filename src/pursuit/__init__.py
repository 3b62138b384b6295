"""Predictions that explain themselves by the questions they ask: Variational Information Pursuit."""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pursuit.version import __version__ as __version__

if TYPE_CHECKING:
    from pursuit.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Any public name, or the list of them. All come at once with the first, because torch takes seconds to import and
    `pursuit --help` should not wait for it."""
    if name != "__all__" and name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    collects = gc.isenabled()
    gc.disable()  # collections would take a fifth of the time: importing makes many objects, and no garbage
    try:
        public = import_module("pursuit.public")
    finally:
        if collects:
            gc.enable()
    globals().update({known: getattr(public, known) for known in public.__all__ if hasattr(public, known)})
    globals()["__all__"] = [*public.__all__, "__version__"]
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), *globals()]
