"""The version, and the packages that an extra brings. Nothing heavy is imported for it."""

from importlib.util import find_spec

__version__ = "0.1.0b3"


def require(extra: str, what: str, *packages: str) -> None:
    """Raise ModuleNotFoundError, with what to install, where packages that something needs are not installed."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise ModuleNotFoundError(
            f"{what} takes packages that are not installed ({', '.join(missing)}): pip install 'pursuit[{extra}]'"
        )
