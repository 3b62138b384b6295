"""Modules of other packages that take long to import and are hardly used by what imports them: left out until somebody
asks for something in them."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _StandIn(ModuleType):
    """Has a few functions of a module. Anything else in it brings the module itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _remove(self)
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def left_out(name: str, **functions: Any) -> Iterator[None]:
    """Inside of this, whoever imports the module gets a stand-in with these functions, unless the module is there
    already."""
    stand_in = _StandIn(name)
    vars(stand_in).update(functions)
    if sys.modules.setdefault(name, stand_in) is not stand_in:
        yield
        return
    try:
        yield
    finally:
        _remove(stand_in)


def _remove(stand_in: ModuleType) -> None:
    if sys.modules.get(stand_in.__name__) is stand_in:
        del sys.modules[stand_in.__name__]
