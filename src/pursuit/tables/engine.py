"""Engines that do many pieces of work: this process, or a Ray cluster, which may be all cores of this machine."""

import logging
import os
import socket
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pursuit.networks.dense import one_thread
from pursuit.tables.filesystem import CannotReach
from pursuit.version import require

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)
PATIENCE = 5.0
"""Seconds until a cluster that does not answer counts as absent."""
RETRIES = 5
"""Number of times that work is done again after its worker or its machine was lost, or a file could not be reached."""

T = TypeVar("T")


@dataclass(frozen=True)
class Lost:
    """The result of a piece of work whose machines were lost again and again."""

    reason: str


class Engine(ABC):
    """Does the same for many items, in whatever order."""

    is_here = False
    """Whether all of it happens in this process."""

    @abstractmethod
    def each(self, do: Callable[[T], Any], items: Iterable[T]) -> Iterator[tuple[T, Any]]:
        """Each item with its result, or `Lost`, as soon as it is done. The work ends when the iterator is closed. A
        sequence is handed over at once; of other items, which may depend on earlier results, the next one is taken when
        there is a place for it. Function and items are pickled; doing an item twice must not change anything."""


class Local(Engine):
    """This process, one item after the other."""

    is_here = True

    def each(self, do: Callable[[T], Any], items: Iterable[T]) -> Iterator[tuple[T, Any]]:
        for item in items:
            yield item, do(item)


HERE = Local()


class Ray(Engine):
    """A cluster that runs already (`address`), or one of this machine's cores that lasts as long as the work.

    Every machine needs this library, and sees the folders that are read and written. Each item is a task with a core
    and a share of a GPU, computed by one thread. If its worker is lost, with its machine or alone, it is done again.
    """

    def __init__(self, address: str | None = None, gpu_share: float = 0.0):
        require("scale", "--engine ray", "ray")
        if not 0 <= gpu_share <= 1:
            raise ValueError(f"A training has a share of a GPU, from 0 to 1, not {gpu_share}.")
        self.address, self.gpu_share = address, gpu_share
        if address is not None:
            _check_answers(address)

    def each(self, do: Callable[[T], Any], items: Iterable[T]) -> Iterator[tuple[T, Any]]:
        import ray

        if isinstance(items, Sequence) and not items:
            return
        with connected(self.address):
            if self.gpu_share and self.address is None and not ray.cluster_resources().get("GPU"):
                raise ValueError("This machine has no GPU that Ray could share out: leave --gpu-share out.")
            again: Any = {"max_retries": RETRIES, "retry_exceptions": [CannotReach]}
            task: Any = ray.remote(num_cpus=1, num_gpus=self.gpu_share, **again)(_do)
            shared, coming = ray.put(do), iter(items)
            waiting: dict[Any, T] = {}
            try:
                while True:
                    n_at_once = len(items) if isinstance(items, Sequence) else self._places()
                    room = max(0, n_at_once - len(waiting))  # fewer places than before where a machine was lost
                    waiting |= {task.remote([shared], item, Path.cwd()): item for item in islice(coming, room)}
                    if not waiting:
                        return
                    (done, *_), _ = ray.wait(list(waiting), num_returns=1)
                    yield waiting.pop(done), _result(done)
            finally:
                for task_left in waiting:  # their workers end, whatever they are doing, and cores are free at once
                    ray.cancel(task_left, force=True)

    def _places(self) -> int:
        """Number of items that the cluster has room for."""
        import ray

        there = ray.cluster_resources()
        places = there.get("CPU", 1.0)
        if self.gpu_share:
            places = min(places, there.get("GPU", 0.0) // self.gpu_share)
        return max(1, int(places))


def _do(shared: list[Any], item: T, home: Path) -> Any:
    with one_thread(), at_home(home):
        return _fetched(shared[0])(item)


@lru_cache(maxsize=1)
def _fetched(reference: Any) -> Any:
    """What all items of some work share, such as a model, which a worker fetches once."""
    import ray

    return ray.get(reference)


def _result(done: Any) -> Any:
    """The result of a task that ended; raises the error that it ended with."""
    import ray

    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        return Lost(_first_line(error))


@contextmanager
def at_home(folder: Path) -> Iterator[None]:
    """Work in the folder that the program was started in, since names of files may be relative to it. A machine that
    does not see it works in an empty folder: nothing else is read by such a name, and what is written by one raises
    ValueError."""
    if folder.is_dir():
        with chdir(folder):
            yield
        return
    with tempfile.TemporaryDirectory() as empty, chdir(empty):
        try:
            yield
        except CannotReach:
            raise
        except (OSError, ValueError) as error:
            raise ValueError(f"{_first_line(error).rstrip('.')}. {_not_seen(folder)}") from None
        if written := sorted(Path(empty).iterdir()):
            raise ValueError(f"{written[0].name} cannot be kept. {_not_seen(folder)}")


def _not_seen(folder: Path) -> str:
    return (
        f"This was on {socket.gethostname()}, which does not see {folder}, where the work was started: name files and "
        "folders by paths that all machines see, such as /shared/rows."
    )


def refuse_other_folder(folder: Path, there: str) -> None:
    """Raise ValueError unless a folder holds the file that whoever started the work has written: this machine may have
    a folder of the same name, or none."""
    if not (folder / there).exists():
        raise ValueError(
            f"What {socket.gethostname()} has at {folder} is not the folder that the work was started with: name one "
            "that all machines share under the same name, such as /shared/runs."
        )


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """A connection to a cluster, which ends with it if it was not there before."""
    import ray

    if ray.is_initialized():  # by whoever calls this
        yield
        return
    os.environ.setdefault("RAY_DEDUP_LOGS", "1")
    try:
        # Ray by itself would join whatever cluster somebody else runs on this machine.
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        dashboard = False if address == "local" else None
        ray.init(address, include_dashboard=dashboard, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, TimeoutError, RuntimeError) as error:
        raise ValueError(
            f"No Ray cluster could be used at {'this machine' if address == 'local' else address}: {_first_line(error)}"
        ) from None
    for name in ("ray.train", "ray._private"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Raise ValueError if nothing listens at an address; Ray itself would wait for a long time."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(
            f"'{address}' is not the address of a Ray cluster: give HOST:PORT, ray://HOST:PORT, or auto for the one of "
            "this machine."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"No Ray cluster answers at {address} ({_first_line(error)}). Is it running there (`ray status`), and can "
            "this machine reach it?"
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def find_engine(name: str | None, address: str | None = None, gpu_share: float = 0.0) -> Engine:
    """The engine of this name, or the one that an address is of; this process where neither is given. Raises
    ModuleNotFoundError, with what to install, if it is absent."""
    if name == RAY or (name is None and address is not None):
        return Ray(address, gpu_share)
    if name not in (LOCAL, None):
        raise ValueError(f"The engine is one of {', '.join(ENGINES)}, not '{name}'.")
    if address is not None:
        raise ValueError("--address is that of a cluster: use --engine ray, or leave it out.")
    return Local()
