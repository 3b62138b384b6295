"""One cache of trained models, shared by all tests, by the processes that run them and by repeated runs.

A model is kept in `.cache/trained` under its name, the source of the package, the module of the test and the versions
that decide its bits: whatever of these changes, it is trained again. Two processes that want the same model train it
once; each has a copy of its own, which tests may change.
"""

import hashlib
import pickle
import platform
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import sklearn
import torch
from filelock import FileLock

import pursuit

T = TypeVar("T")
HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".cache" / "trained"
TABLES = ("short_plans.py", "contract_table.py", "ordered.py")
"""Modules of tests, besides that of the test itself, on which trainings depend."""


def kept(name: str, train: Callable[[], T]) -> T:
    """What `train` returns, from the cache if it has been trained before."""
    module = Path(train.__code__.co_filename)
    key = hashlib.sha256(f"{name}\n{module.name}\n{digest(module)}".encode()).hexdigest()[:24]
    folder = FOLDER / fingerprint()
    path = folder / f"{key}.pickle"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{key}.lock"):
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_bytes(pickle.dumps(train()))
            unfinished.replace(path)
    return pickle.loads(path.read_bytes())


@cache
def fingerprint() -> str:
    """Of the package and of what it computes with. Models of an older package are removed."""
    assert pursuit.__file__ is not None
    source = sorted(Path(pursuit.__file__).parent.rglob("*.py"))
    parts = [digest(path) for path in (*source, *(HERE / name for name in TABLES))]
    parts += [sys.version, torch.__version__, sklearn.__version__, platform.processor(), str(torch.get_num_threads())]
    found = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER.parent / ".gitignore").write_text("*\n")
    with FileLock(FOLDER / "cleaning.lock"):
        older = sorted((path for path in FOLDER.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
        for folder in older[:-3]:
            if folder.name != found:
                shutil.rmtree(folder, ignore_errors=True)
    return found


@cache
def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
