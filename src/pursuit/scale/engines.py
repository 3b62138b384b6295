"""Engines by name."""

from pursuit.scale.engine import Engine, Local
from pursuit.scale.ray_engine import Ray

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)


def find_engine(name: str | None, address: str | None = None) -> Engine:
    """The engine of this name, or the one that an address is of; raises ModuleNotFoundError, with what to install, if
    it is absent."""
    if name == LOCAL:
        if address is not None:
            raise ValueError("--address is that of a cluster: use --engine ray, or leave it out.")
        return Local()
    if name not in (RAY, None):
        raise ValueError(f"The engine is one of {', '.join(ENGINES)}, not '{name}'.")
    return Ray(address)


def find_cluster(engine: str | None, address: str | None) -> Ray | None:
    """The cluster that a command line means; None where it means this process."""
    if engine is None and address is None:
        return None
    found = find_engine(engine, address)
    return found if isinstance(found, Ray) else None
