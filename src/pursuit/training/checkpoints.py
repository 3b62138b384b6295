"""Checkpoints: tensors and JSON values in one file with a checksum.

A checkpoint is one file: a safetensors body, whose metadata hold the JSON part, followed by the body's sha256. It is
written beside its place and moved there, and a file whose checksum does not fit is never read as good.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from pursuit.files import DamagedFile, make_folder, parse_json, read_bytes, write_whole

KEPT = 2
"""How many checkpoints stay: the newest, and one to fall back on if that is damaged."""
_DIGEST_BYTES = hashlib.sha256().digest_size
_NAME = re.compile(r"checkpoint-(\d+)\.pursuit")


class CannotResume(ValueError):
    """A folder holds a run with other settings or data, or what it holds is damaged."""


def save_checkpoint(
    folder: Path, step: int, tensors: dict[str, Tensor], values: dict[str, Any], identity: str = ""
) -> None:
    """Write the checkpoint of `step` into `folder`, and remove those no longer needed. It carries the `identity` of its
    run."""
    make_folder(folder)
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    body = safetensors.torch.save(contiguous, metadata={"values": json.dumps(values), "run": identity})
    write_whole(folder / f"checkpoint-{step:09d}.pursuit", body + hashlib.sha256(body).digest())
    for old in _newest_first(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    for torn in folder.glob(".checkpoint-*"):
        torn.unlink(missing_ok=True)


def load_checkpoint(folder: Path, identity: str = "") -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The newest checkpoint in `folder` that is whole, or None where there is none; raises CannotResume if it is of a
    run with another `identity`."""
    for path in _newest_first(folder):
        try:
            tensors, values, run = _read(path)
        except DamagedFile:
            continue
        if run != identity:
            raise CannotResume(
                f"{path} belongs to another run, with another seed, other settings or other data, so it cannot be "
                "resumed with these. Start again with --overwrite, or in another folder."
            )
        return tensors, values
    return None


def remove_checkpoints(folder: Path) -> None:
    """Remove all checkpoints, and the folder if nothing else is in it."""
    for path in (*_newest_first(folder), *folder.glob(".checkpoint-*")):
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _newest_first(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, reverse=True)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """Tensors, values and the identity of the run."""
    data = read_bytes(path, "a checkpoint")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise DamagedFile(f"{path} is damaged: its checksum does not fit.")
    try:
        tensors = safetensors.torch.load(body)
        header_bytes = int.from_bytes(body[:8], "little")
        metadata = parse_json(body[8 : 8 + header_bytes])["__metadata__"]
        values, run = parse_json(metadata["values"]), metadata["run"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"{path} is damaged: {error}") from None
    return tensors, values, run
