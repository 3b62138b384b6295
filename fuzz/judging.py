"""What comes of one input: fine, refused by a sentence, or bad; and what an input must never do meanwhile."""

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pursuit

FINE, REFUSED, BAD = "fine", "refused", "bad"
OURS = Path(pursuit.__file__).parent
MOST_BYTES = 3 << 30
"""Memory that a worker may ask for beyond what it starts with, in addresses."""
MOST_RESIDENT = 1 << 30
"""Memory that one input may really take."""
FOREIGN = {
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "subprocess.Popen",
    "ctypes.dlopen",
    "socket.connect",
    "socket.bind",
    "webbrowser.open",
    "pickle.find_class",
}
"""Events that Python announces and that no input may bring about."""
CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
"""Events whose first argument is a path that is changed."""
ALLOWED_CLASSES = {("_codecs", "encode"), ("numpy", "dtype"), ("numpy", "ndarray")}
"""What the reader of CIFAR's pickles looks up, and replaces by stand-ins."""


class Outcome(NamedTuple):
    kind: str
    what: str
    """The sentence, or what is bad."""


class Wrong(Exception):
    """What was read is wrong without a word: not a number, or other than what was written."""


class Watch:
    """Listens to what Python does while an input is tried."""

    def __init__(self) -> None:
        self.folder = Path()
        self.is_on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def begin(self, folder: Path) -> None:
        self.folder, self.seen, self.is_on = folder.resolve(), [], True

    def end(self) -> list[str]:
        self.is_on = False
        return self.seen

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event == "ctypes.dlopen" and _is_installed(arguments[0]):
            return
        if event in FOREIGN:
            if event == "pickle.find_class" and _is_allowed(arguments):
                return
            self.seen.append(f"{event} {arguments!r:.200}")
        elif (event == "open" and _writes(arguments)) or event in CHANGES:
            self._changes(event, arguments[0])

    def _changes(self, event: str, path: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a file that is open already
        place = Path(os.fsdecode(path)).absolute()
        if not any(place.is_relative_to(allowed) for allowed in (self.folder, tempfile.gettempdir(), "/dev/null")):
            if {"__pycache__", ".cache", "matplotlib"} & set(place.parts):
                return  # of Python and libraries, which write there whatever the input is
            self.seen.append(f"{event} outside: {place}")


def _is_installed(library: Any) -> bool:
    """Whether a library is one of the packages here, as threadpoolctl looks at them."""
    return library is None or (isinstance(library, str) and "site-packages" in Path(library).parts)


def _is_allowed(arguments: tuple[Any, ...]) -> bool:
    """Whether a class that a pickle names is a part of an array."""
    _, module, name = arguments
    return (module, name) in ALLOWED_CLASSES or str(module).startswith("numpy.")


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def judged(try_it: Callable[[Path], None], folder: Path, watch: Watch | None) -> Outcome:
    """Try an input that lies in a folder. Nobody can `watch` what is done in a process of its own."""
    before = peak_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if watch is not None:
            watch.begin(folder)
        try:
            try_it(folder)
            outcome = Outcome(FINE, "")
        except Wrong as error:
            outcome = Outcome(BAD, f"silent: {error}")
        except (ValueError, OSError, ModuleNotFoundError) as error:  # what the program shows as a sentence
            text = str(error)
            is_sentence = " " in text and not text.startswith("[Errno")
            outcome = Outcome(REFUSED, text) if is_sentence else Outcome(BAD, f"not a sentence: {error!r}")
        except BaseException as error:
            outcome = Outcome(BAD, f"traceback: {type(error).__name__}: {error!s:.300}{_place(error)}")
        seen = [] if watch is None else watch.end()
    if (taken := peak_memory() - before) > MOST_RESIDENT:
        return Outcome(BAD, f"takes {taken >> 20:,} MB of memory")
    return Outcome(BAD, f"does what no input may: {'; '.join(seen[:3])}") if seen else outcome


def _place(error: BaseException) -> str:
    """Where an error comes from: the last line of ours."""
    place, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if Path(name).is_relative_to(OURS):
            place = f" ({Path(name).name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def peak_memory() -> int:
    """The most bytes that this process has had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory() -> None:
    """Give this process no more than a few gigabytes beyond what it has."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
