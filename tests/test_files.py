"""Files that are whole or not there, that are files at all, and folders of one process."""

import errno
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pursuit.files import (
    CannotWrite,
    DamagedFile,
    InUse,
    check_file,
    claimed,
    explained,
    holds_anything,
    read_bytes,
    read_json,
    remove_torn,
    whole_file,
    write_whole,
)


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
    with pytest.raises(CannotWrite, match=r"file cannot be written: the disk is full"):
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


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOSPC, "the disk is full. Free some space"),
        (errno.EDQUOT, "your share of the disk is used up. Delete"),
        (errno.EROFS, "the disk cannot be written to. Choose a folder on another disk"),
        (errno.EACCES, "you are not allowed to. Choose a folder of your own"),
    ],
)
def test_why_a_file_cannot_be_written_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tempfile.mkstemp", refused)
    with pytest.raises(CannotWrite, match=f"{tmp_path}/file cannot be written: {why}"):
        write_whole(tmp_path / "file", b"new")


def test_a_full_device_is_a_full_disk() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    with pytest.raises(CannotWrite, match="/dev/full cannot be written: the disk is full"), explained(full):
        full.write_bytes(b"new")


def test_an_error_of_a_file_that_is_read_meanwhile_is_not_one_of_writing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"), whole_file(tmp_path / "file"):
        Path("/nowhere/at/all").read_bytes()


def test_what_is_not_a_file_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path, what in (
            (tmp_path / "pipe", "a pipe"),
            (tmp_path / "socket", "a socket"),
            (tmp_path, "a folder"),
            (Path("/dev/zero"), "a device"),
        ):
            with pytest.raises(ValueError, match=f"{path} is {what}: give the path of a file"):
                read_bytes(path)
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        check_file("a\0b")
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{", "\udcff"])
def test_what_is_not_json_or_too_deep_is_an_error_of_the_value(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("utf-8", errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"\w"):
        read_json(tmp_path / "a.json")


def test_one_process_at_a_time_has_a_folder_and_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    holds = "import sys, pathlib; from pursuit.files import claimed\n"
    holds += "with claimed(pathlib.Path(sys.argv[1])): print('mine', flush=True); input()"
    command = [sys.executable, "-c", holds, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with (
            pytest.raises(InUse, match=f"run is in use by process {other.pid}, which is training"),
            claimed(folder),
        ):
            pass
        other.kill()  # which takes its lock along
    with claimed(folder), claimed(folder):  # and may be nested
        (folder / "file").touch()
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_a_folder_that_nothing_was_written_to_is_not_left(tmp_path: Path) -> None:
    with claimed(tmp_path / "run"):
        assert not holds_anything(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match="there is a file of this name"), claimed(tmp_path / "file"):
        pass


def test_what_a_killed_process_began_to_write_is_removed(tmp_path: Path) -> None:
    for name in (".run.json.abc", ".other.json.abc", "run.json"):
        (tmp_path / name).touch()
    remove_torn(tmp_path, "run.json")
    assert {path.name for path in tmp_path.iterdir()} == {".other.json.abc", "run.json"}
