"""Checkpoint files: whole or not there."""

import os
from pathlib import Path

import pytest
import torch

from pursuit.training.checkpoints import KEPT, CannotResume, load_checkpoint, remove_checkpoints, save_checkpoint

TENSORS = {"weights": torch.arange(6.0).view(2, 3), "mask": torch.tensor([True, False]), "step": torch.tensor(3)}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, TENSORS, {"stage": 2, "best": None})
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    tensors, values = loaded
    assert values == {"stage": 2, "best": None}
    assert all(torch.equal(tensors[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 40, 100, -33, -32, -1])
def test_a_torn_file_is_never_read_and_the_one_before_is(tmp_path: Path, keep: int) -> None:
    save_checkpoint(tmp_path, 1, TENSORS, {"number": 1})
    save_checkpoint(tmp_path, 2, TENSORS, {"number": 2})
    newest = max(tmp_path.iterdir())
    newest.write_bytes(newest.read_bytes()[:keep])
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded[1] == {"number": 1}


def test_one_flipped_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, TENSORS, {})
    (path,) = tmp_path.iterdir()
    good = path.read_bytes()
    for place in range(0, len(good), 7):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        assert load_checkpoint(tmp_path) is None


def test_only_the_last_few_are_kept_and_left_overs_go(tmp_path: Path) -> None:
    (tmp_path / ".checkpoint-000000001.pursuit.torn").write_bytes(b"half")
    for step in range(1, 6):
        save_checkpoint(tmp_path, step, TENSORS, {"step": step})
    assert len(list(tmp_path.iterdir())) == KEPT
    assert load_checkpoint(tmp_path)[1] == {"step": 5}  # type: ignore[index]
    remove_checkpoints(tmp_path)
    assert not tmp_path.exists()


def test_without_a_folder_there_is_no_checkpoint(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "nowhere") is None


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, TENSORS, {"number": 1}, identity="seed 0")
    assert load_checkpoint(tmp_path, "seed 0") is not None
    with pytest.raises(CannotResume, match=r"checkpoint-000000001\.pursuit belongs to another run, with another seed"):
        load_checkpoint(tmp_path, "seed 1")


def test_a_pipe_is_not_a_checkpoint(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "checkpoint-000000001.pursuit")
    with pytest.raises(ValueError, match="is a pipe: give the path of a checkpoint"):
        load_checkpoint(tmp_path)
