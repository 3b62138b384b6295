"""Inputs are tried in a process of their own: one that hangs or crashes there is found by who waits for it."""

import multiprocessing
import multiprocessing.connection
import os
import random
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.judging import BAD, Outcome, Watch, judged, limit_memory

LIMIT, MOST_WAITING = 20.0, 300.0
"""Seconds of work after which an input counts as hanging, and seconds of waiting: a busy machine is not a hang."""
Files = dict[str, bytes]
"""An input: the files of a folder by name."""


@dataclass(frozen=True)
class Target:
    """Something that reads input."""

    name: str
    title: str
    prepare: Callable[[Path], Any]
    """Makes good input and whatever is needed to read it, once a process, in a folder of its own."""
    make: Callable[[random.Random, Any], Files]
    """A bad input, from what was prepared."""
    read: Callable[[Path, Any], None]
    """Reads the input in a folder; raises Wrong where the reading is wrong without a word."""
    weight: int = 1
    """Of the inputs of a run, how many are for this target, relative to the others."""
    is_slow: bool = False
    """Whether each input takes seconds."""
    limit: float = LIMIT


def input_of(target: Target, prepared: Any, seed: int, number: int) -> Files:
    """The input of this number: the same whenever and wherever it is made."""
    return target.make(random.Random(f"{seed} {target.name} {number}"), prepared)


class Worker:
    """A process that tries inputs of a target, begun again after a hang or a crash."""

    def __init__(self, target: Target, seed: int):
        self.target, self.seed = target, seed
        self._context = multiprocessing.get_context("fork")
        self._process: Any = None
        self._pipe: Any = None

    def try_input(self, number: int) -> Outcome:
        if self._process is None:
            self._begin()
        self._pipe.send(number)
        try:
            if not self._pipe.poll(MOST_WAITING):
                self.end()
                return Outcome(BAD, f"hangs: no end after {MOST_WAITING:.0f} s")
            return Outcome(*self._pipe.recv())
        except (EOFError, OSError):
            self._process.join(5)
            code = self._process.exitcode
            self.end()
            if code == -signal.SIGPROF:
                return Outcome(BAD, f"hangs: no end after {self.target.limit:.0f} s of work")
            return Outcome(BAD, f"crashes: the process ended with {code}")

    def make(self, number: int) -> Files:
        """The input of this number, which the process makes but does not try."""
        if self._process is None:
            self._begin()
        self._pipe.send(-1 - number)
        files: Files = self._pipe.recv()
        return files

    def _begin(self) -> None:
        self._pipe, other = self._context.Pipe()
        self._process = self._context.Process(target=_work, args=(self.target, self.seed, other), daemon=True)
        self._process.start()
        other.close()
        if not self._pipe.poll(600) or self._pipe.recv() != "ready":
            raise RuntimeError(f"The target {self.target.name} could not be prepared.")

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


def _work(target: Target, seed: int, pipe: multiprocessing.connection.Connection) -> None:
    import torch

    torch.set_num_threads(1)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    with in_folder() as place:
        try:
            prepared = target.prepare(place / "prepared")
        except BaseException:
            traceback.print_exc()
            raise
        limit_memory()
        watch = Watch()
        pipe.send("ready")
        while True:
            try:
                number = pipe.recv()
            except EOFError:
                return
            if number < 0:
                pipe.send(input_of(target, prepared, seed, -1 - number))
                continue
            folder = place / "input"
            write_input(folder, input_of(target, prepared, seed, number))
            signal.setitimer(signal.ITIMER_PROF, target.limit)  # ends the process, unless it is done before
            outcome = judged(lambda where: target.read(where, prepared), folder, watch)
            signal.setitimer(signal.ITIMER_PROF, 0)
            pipe.send(tuple(outcome))
            shutil.rmtree(folder, ignore_errors=True)


def write_input(folder: Path, files: Files) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@contextmanager
def in_folder() -> Iterator[Path]:
    """A folder that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="pursuit-fuzz-") as name:
        yield Path(name)
