"""`scipy.stats`, which takes longer to import than scikit-learn does, and of which training uses a single mean: left
out until somebody asks for something in it."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

STATISTICS = "scipy.stats"
IMPORTED_BY_NAME = ("chi2", "rankdata", "spearmanr")
"""What modules of scikit-learn import from it for themselves, beside `gmean`."""


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


def geometric_mean(values: Any, axis: int | None = 0) -> Any:
    """`gmean`, the only thing in `scipy.stats` that training uses: boosting for more than two labels does."""
    return np.exp(np.log(values).mean(axis=axis))


@contextmanager
def without_statistics() -> Iterator[None]:
    """Inside of this, modules of scikit-learn are imported without `scipy.stats`, unless it is there already."""
    stand_in = _StandIn(STATISTICS)
    later = {name: _Later(STATISTICS, name) for name in IMPORTED_BY_NAME}
    vars(stand_in).update(later, gmean=geometric_mean)
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
