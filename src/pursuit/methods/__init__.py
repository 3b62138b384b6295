"""Methods: one file each, with a pursuer, at most one frozen settings class, and one estimator.

A file dropped into this package is a method once its estimator has the decorator `@method`, and its public classes can
be imported from here; a method of your own may live in any file of yours. What several methods share is in `shared`.
"""

import importlib
import pkgutil

from pursuit.registry import known

for _found in pkgutil.iter_modules(__path__):
    _module = importlib.import_module(f"{__name__}.{_found.name}")
    for _name, _value in vars(_module).items():
        if isinstance(_value, type) and _value.__module__ == _module.__name__ and not _name.startswith("_"):
            globals()[_name] = _value

METHODS = known("method")
"""All methods by name, those registered later included."""
