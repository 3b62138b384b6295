"""Where work is done: in this process, or on a cluster by the engine that people already run there."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from pursuit.scale.work import Done, Work

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)


class Engine(ABC):
    """Does the shares of some work, in whatever order."""

    @abstractmethod
    def run(self, work: Work, shares: Sequence[int]) -> Iterator[Done]:
        """What came of each share, as soon as it is done. Whoever takes no more of them ends the work."""


class Local(Engine):
    """This process, one share after the other."""

    def run(self, work: Work, shares: Sequence[int]) -> Iterator[Done]:
        for share in shares:
            with one_thread():
                done = work.do(share)
            yield done


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute as every worker does, so that all engines give the same bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def find_engine(name: str | None, address: str | None = None) -> Engine:
    """The engine of this name, or the one that an address is of; raises ModuleNotFoundError, with what to install, if
    it is absent."""
    if name == LOCAL:
        if address is not None:
            raise ValueError("--address is that of a cluster: use --engine ray, or leave it out.")
        return Local()
    if name not in (RAY, None):
        raise ValueError(f"The engine is one of {', '.join(ENGINES)}, not '{name}'.")
    from pursuit.scale.ray_engine import Ray

    return Ray(address)
