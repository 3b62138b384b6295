"""Engines that do work: this process, or a Ray cluster, which may be all cores of this machine."""

import logging
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)
PATIENCE = 5.0
"""Seconds until a cluster that does not answer counts as absent."""


class Work(Protocol):
    """Something that can be done share by share. It is pickled, and goes to the processes that do it."""

    def do(self, share: int) -> Any:
        """The result of one share. Doing it again changes nothing."""


class Engine(ABC):
    """Does the shares of some work, in whatever order."""

    @abstractmethod
    def run(self, work: Work, shares: Sequence[int]) -> Iterator[Any]:
        """The result of each share, as soon as it is done. The work ends when the iterator is closed."""


class Local(Engine):
    """This process, one share after the other."""

    def run(self, work: Work, shares: Sequence[int]) -> Iterator[Any]:
        for share in shares:
            with one_thread():
                done = work.do(share)
            yield done


class Ray(Engine):
    """A cluster that runs already (`address`), or one of this machine's cores that lasts as long as the work.

    Every machine needs this library, and sees the folders that are read and written. A worker that is lost, with its
    machine or alone, is replaced, and its share done again.
    """

    def __init__(self, address: str | None = None):
        require_ray()
        self.address = address
        if address is not None:
            _check_answers(address)

    def run(self, work: Work, shares: Sequence[int]) -> Iterator[Any]:
        import ray

        with connected(self.address):
            shared = ray.put(work)
            items = ray.data.from_items([{"share": share} for share in shares], override_num_blocks=len(shares))
            n_cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
            pool = (1, min(n_cpus, len(shares)))
            worker: Any = _Worker  # Ray makes one in each process of the pool
            done = items.map(worker, fn_constructor_args=(shared, Path.cwd()), concurrency=pool, num_cpus=1)
            for row in done.iter_rows():
                came_of_it = ray.cloudpickle.loads(row["done"])
                if isinstance(came_of_it, Exception):
                    raise came_of_it
                yield came_of_it


class _Worker:
    """Does shares in a process of its own."""

    def __init__(self, shared: Any, home: Path):
        import ray

        self.work: Work = ray.get(shared)
        self.home = home

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        import ray

        try:
            with one_thread(), at_home(self.home):
                done = self.work.do(int(row["share"]))
        except (ValueError, OSError) as error:  # Ray would wrap it up so that nobody could see what to do
            done = error
        return {"done": ray.cloudpickle.dumps(done)}


@contextmanager
def at_home(folder: Path) -> Iterator[None]:
    """Work in the folder that the program was started in, where this machine sees it: names of files may be relative to
    it."""
    with chdir(folder) if folder.is_dir() else nullcontext():
        yield


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
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    for name in ("ray.data", "ray.train", "ray._private"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


def require_ray() -> None:
    """Raise ModuleNotFoundError, which names the package to install, if Ray is absent."""
    try:
        import ray.data  # noqa: F401
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "--engine ray needs Ray, which is not installed: pip install 'pursuit[scale]'"
        ) from None


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
    found = None if engine is None and address is None else find_engine(engine, address)
    return found if isinstance(found, Ray) else None


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute as every worker does, so that all engines give the same bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
