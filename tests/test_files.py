"""Files that are whole or not there."""

import os
import threading
from pathlib import Path

import pytest

from pursuit.files import DamagedFile, write_whole


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    with pytest.raises(TypeError):
        write_whole(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_and_has_the_usual_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"old", b"new"):
        write_whole(path, data)
        assert path.read_bytes() == data
    other = tmp_path / "other"
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode


def test_where_the_disk_is_full_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def interrupted(self: Path, target: Path) -> None:
        assert self.parent == target.parent  # on another file system it could not be replaced in one step
        assert self.read_bytes() == b"new"
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_readers_see_one_whole_file_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    versions = [bytes([i]) * 100_000 for i in range(4)]
    write_whole(path, versions[0])

    def write_again_and_again(data: bytes) -> None:
        for _ in range(5):
            write_whole(path, data)

    writers = [threading.Thread(target=write_again_and_again, args=[data]) for data in versions]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_bytes() in versions
    for writer in writers:
        writer.join()
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"nowhere/file cannot be written: the folder does not exist. Make it first"):
        write_whole(tmp_path / "nowhere" / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_damage_is_an_error_of_the_value() -> None:
    assert issubclass(DamagedFile, ValueError)  # so that the program reports it in a sentence
