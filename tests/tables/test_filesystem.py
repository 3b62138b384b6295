"""Folders and files on other machines, on a small object storage in this process."""

import pickle
import socket
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("pyarrow")

from object_store import ObjectStore, object_store
from pursuit.tables.filesystem import (
    CannotReach,
    RemotePath,
    display_name,
    files_below,
    find_path,
    is_remote,
    local,
    make_folder,
    open_to_write,
    write,
)
from pursuit.tables.source import ArrowSource


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with object_store() as running:
        yield running


@pytest.fixture
def store(server: ObjectStore) -> ObjectStore:
    server.objects.clear()
    server.asked.clear()
    return server


def at(store: ObjectStore, key: str) -> RemotePath:
    found = find_path(store.uri(key))
    assert isinstance(found, RemotePath)
    return found


def test_names_of_places() -> None:
    assert find_path("runs/out") == Path("runs/out")
    assert find_path("file:///tmp/out") == Path("/tmp/out")
    assert not is_remote("file:///tmp/out")
    assert not is_remote(Path("s3/x"))
    assert display_name("s3://key:secret@bucket/x?region=eu") == "s3://bucket/x"
    assert display_name("abfs://box@account.net/x") == "abfs://box@account.net/x"
    assert display_name("a?b") == "a?b"


def test_a_folder_is_written_listed_and_read(store: ObjectStore) -> None:
    folder = at(store, "a/b")
    assert not folder.exists()
    folder.make_folder()
    write(folder / "two.txt", b"second")
    with open_to_write(folder / "one.txt") as file:
        file.write(b"first")
    write(folder / "deeper" / "three.txt", b"third")
    assert folder.is_dir()
    assert (folder / "one.txt").is_file()
    assert sorted(path.name for path in folder.iterdir()) == ["one.txt", "two.txt"]
    assert [str(path) for path in sorted(folder.rglob("*"))] == [
        f"s3://bucket/a/b/{name}" for name in ("deeper/three.txt", "one.txt", "two.txt")
    ]
    assert (folder / "two.txt").read_text() == "second"
    assert (folder / "two.txt").size == 6
    with local(folder / "two.txt") as copy:
        assert (copy.name, copy.read_bytes()) == ("two.txt", b"second")
    assert not copy.exists()
    with local(copy) as same:
        assert same == copy


def test_what_is_not_written_to_its_end_is_not_there(store: ObjectStore) -> None:
    torn = at(store, "x/torn")

    def interrupted() -> None:
        with open_to_write(torn) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not torn.exists()


def test_a_place_goes_to_other_processes_and_keeps_its_password_to_itself(store: ObjectStore) -> None:
    write(at(store, "x/one"), b"1")
    again = pickle.loads(pickle.dumps(at(store, "x/one")))
    assert again.read_bytes() == b"1"
    assert "secret" not in f"{again} {again!r}"


def test_a_message_about_a_copy_names_the_file_itself(store: ObjectStore) -> None:
    write(at(store, "x/empty.csv"), b"")
    with (
        pytest.raises(ValueError, match=r"^s3://bucket/x/empty\.csv is empty"),
        local(at(store, "x/empty.csv")) as copy,
    ):
        raise ValueError(f"{copy} is empty")


@pytest.mark.slow  # seconds, until whoever asks the storage gives up
def test_where_nobody_answers_is_said_with_what_to_check(unused: int) -> None:
    gone = find_path(f"s3://a:b@bucket/x?endpoint_override=127.0.0.1:{unused}&scheme=http&region=us-east-1")
    assert isinstance(gone, RemotePath)
    with pytest.raises(
        CannotReach, match=r"^s3://bucket/x cannot be reached \(AWS Error NETWORK_CONNECTION.*Check its"
    ):
        gone.exists()


def test_what_cannot_be_reached_is_said_with_what_to_check(store: ObjectStore) -> None:
    with pytest.raises(CannotReach, match="ACCESS_DENIED"):
        list(find_path(store.uri("x", keys="wrong:secret")).iterdir())
    with pytest.raises(CannotReach, match="Bucket 'other' not found"):
        make_folder(find_path(store.uri("x", bucket="other")))
    with pytest.raises(ValueError, match=r"^ftp://host/x cannot be used .*: give a folder, or one at s3://"):
        find_path("ftp://key:secret@host/x")
    with pytest.raises(FileNotFoundError, match="There is nothing at s3://bucket/nowhere"):
        ArrowSource(store.uri("nowhere"))


def test_tables_read_the_same_as_from_a_disk(store: ObjectStore, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": range(50), "b": ["yes", "no"] * 25})
    frame.to_parquet(tmp_path / "one.parquet", row_group_size=20)
    frame.to_feather(tmp_path / "two.arrow")
    for path in tmp_path.iterdir():
        write(at(store, f"rows/{path.name}"), path.read_bytes())
    there, local = ArrowSource(store.uri("rows")), ArrowSource(tmp_path)
    assert there.pieces == local.pieces
    assert there.fingerprint() == local.fingerprint()
    for piece in local.pieces:
        read = [[chunk for _, chunk in table.chunks(piece, ["a", "b"])] for table in (there, local)]
        assert read[0] == read[1]
    write(at(store, "rows/one.parquet"), b"no longer")
    with pytest.raises(ValueError, match=r"s3://bucket/rows/one\.parquet cannot be read: it is not a Parquet file"):
        ArrowSource(store.uri("rows"))


@pytest.fixture
def unused() -> int:
    """A port that nothing listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def test_files_in_a_folder_are_found_without_a_look_into_those_of_other_programs(tmp_path: Path) -> None:
    for name in ("a.csv", "below/b.CSV", "below/deep/c.csv", ".git/d.csv", "_temporary/e.csv", "_f.csv", "g.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".git").chmod(0o000)  # it is not even opened
    try:
        found = files_below(tmp_path, (".csv",))
    finally:
        (tmp_path / ".git").chmod(0o700)
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a.csv", "below/b.CSV", "below/deep/c.csv"]


def test_a_folder_of_everything_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.tables.filesystem.MOST_FILES", 20)
    for i in range(30):
        (tmp_path / f"{i}.txt").write_text("x")
    with pytest.raises(ValueError, match="holds more than 20 files and folders: give the path of those with the table"):
        files_below(tmp_path, (".csv",))
