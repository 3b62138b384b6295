"""`scipy.stats`, which takes longer to import than scikit-learn does, and of which training uses nothing: left out
until somebody asks for something in it."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

STATISTICS = "scipy.stats"
IMPORTED_BY_NAME = ("chi2", "gmean", "rankdata", "spearmanr")
"""What modules of scikit-learn import from it for themselves."""


class _Later:
    """Something in a module, which is imported once it is used."""

    def __init__(self, module: str, name: str):
        self._module, self._name = module, name

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(self._module), self._name)(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(importlib.import_module(self._module), self._name), name)


class _StandIn(ModuleType):
    """Has a few things of a module. Anything else in it brings the module itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _remove(self)
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def without_statistics() -> Iterator[None]:
    """Inside of this, modules of scikit-learn are imported without `scipy.stats`, unless it is there already."""
    stand_in = _StandIn(STATISTICS)
    vars(stand_in).update({name: _Later(STATISTICS, name) for name in IMPORTED_BY_NAME})
    if sys.modules.setdefault(STATISTICS, stand_in) is not stand_in:
        yield
        return
    try:
        yield
    finally:
        _remove(stand_in)


def _remove(stand_in: ModuleType) -> None:
    if sys.modules.get(stand_in.__name__) is stand_in:
        del sys.modules[stand_in.__name__]
