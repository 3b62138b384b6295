"""Where work is done: in this process, or on a cluster by the engine that people already run there."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from pursuit.scale.work import Done, Work


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
