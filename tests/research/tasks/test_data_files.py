"""Finding files in the folders named, fetching what is absent, and unpacking archives, hostile ones too."""

import functools
import hashlib
import io
import os
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pursuit.research.tasks.files import (
    DataFile,
    DownloadFailed,
    MissingData,
    damage,
    find,
    folders,
    get,
    locate,
    unpack,
)


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch, unchecked: None) -> None:
    monkeypatch.delenv("PURSUIT_UNCHECKED")


@pytest.fixture
def cache(data: Path) -> Path:
    return data.parent / "cache"


class Site:
    """A folder that is served, with a count of what was fetched from it."""

    def __init__(self, folder: Path):
        self.folder, self.url = folder, ""
        self.fetched: list[str] = []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()
    site = Site(folder)

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            site.fetched.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        site.url = f"http://127.0.0.1:{server.server_port}"
        yield site
        server.shutdown()
        thread.join()


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def tar(path: Path, members: dict[str, bytes], more: tuple[tarfile.TarInfo, ...] = ()) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in more:
            archive.addfile(member)
    return path


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def content_of(folder: Path) -> dict[str, bytes]:
    """What lies in a folder, but for locks."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_folders_in_order(data: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(folders().items()) == [("$PURSUIT_DATA", data), ("$PURSUIT_CACHE", cache)]
    monkeypatch.setenv("PURSUIT_DATA", "~/data")
    assert folders()["$PURSUIT_DATA"] == Path.home() / "data"
    monkeypatch.delenv("PURSUIT_DATA")
    monkeypatch.delenv("PURSUIT_CACHE")
    (name,), (folder,) = folders().keys(), folders().values()
    assert name == "cache"
    assert folder.name == "pursuit"
    assert folder.is_absolute()


def test_the_users_folder_comes_before_the_cache(data: Path, cache: Path) -> None:
    file = DataFile("mnist/images.gz")
    assert locate(file) is None
    write(cache / file.path, b"cached")
    assert find(file) == cache / file.path
    write(data / file.path, b"own")
    assert find(file) == data / file.path


def test_an_alternative_that_is_there_is_taken_before_fetching(data: Path, cache: Path, site: Site) -> None:
    write(site.folder / "a.bin", b"binary")
    other = DataFile("cifar10/a.pickle", md5=md5(b"python"))
    file = DataFile("cifar10/a.bin", url=f"{site.url}/a.bin", alternatives=(DataFile("cifar10/none"), other))
    write(data / other.path, b"python")
    assert find(file) == data / other.path
    found = locate(file)
    assert found is not None
    assert found.file == other
    assert site.fetched == []
    (data / other.path).unlink()
    assert find(file) == cache / file.path
    write(data / other.path, b"python")
    assert find(file) == cache / file.path, "the file itself comes first"


def test_fetches_into_the_cache_once(data: Path, cache: Path, site: Site) -> None:
    write(site.folder / "images.gz", b"images")
    file = DataFile("mnist/images.gz", md5=md5(b"images"), url=f"{site.url}/images.gz")
    reports: list[int] = []
    assert find(file, on_progress=lambda done, _: reports.append(done)) == cache / file.path
    assert find(file) == cache / file.path
    assert content_of(cache) == {"mnist/images.gz": b"images"}
    assert content_of(data) == {}
    assert set(reports) == {6}
    assert len(site.fetched) == 1


def test_a_file_without_an_address_says_where_it_comes_from(data: Path, cache: Path) -> None:
    file = DataFile("news/news.jsonl", origin="It is on Kaggle, for those with an account.")
    with pytest.raises(MissingData) as caught:
        find(file, "news")
    for part in (str(data), str(cache), "news/news.jsonl", "`pursuit data get news`", file.origin):
        assert part in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)
    assert not cache.exists()


def test_a_file_that_cannot_be_fetched_says_why(data: Path, cache: Path, site: Site) -> None:
    file = DataFile("mnist/images.gz", url=f"{site.url}/nothing", alternatives=(DataFile("mnist/images"),))
    with pytest.raises(MissingData) as caught:
        find(file, "mnist")
    for part in (str(data), "There is no mnist/images.gz below", "`pursuit data get mnist`", "404", site.url):
        assert part in str(caught.value)
    assert content_of(cache) == {}


def test_a_second_choice_is_fetched_where_the_first_fails(cache: Path, data: Path, site: Site) -> None:
    write(site.folder / "b", b"second")
    second = DataFile("task/b", url=f"{site.url}/b")
    assert find(DataFile("task/a", url=f"{site.url}/a", alternatives=(second,))) == cache / "task/b"


def published(site: Site, members: dict[str, bytes]) -> DataFile:
    path = tar(site.folder / "birds.tgz", members)
    return DataFile("cub/birds.tgz", md5=md5(path.read_bytes()), url=f"{site.url}/birds.tgz")


MEMBERS = {"Birds/images/1.jpg": b"one", "Birds/names.txt": b"names", "attributes.txt": b"attributes"}


def test_an_archive_is_fetched_once_and_unpacked(data: Path, cache: Path, site: Site) -> None:
    archive = published(site, MEMBERS)
    assert find(DataFile("cub/Birds/names.txt", archive=archive)).read_bytes() == b"names"
    assert find(DataFile("cub/attributes.txt", archive=archive)).read_bytes() == b"attributes"
    assert find(DataFile("cub/Birds/images", archive=archive)).is_dir()
    assert content_of(cache) == {f"cub/{name}": content for name, content in MEMBERS.items()}, "the archive is removed"
    assert not list(cache.rglob(".unpacking-*"))
    assert len(site.fetched) == 1


def test_an_archive_that_is_there_is_unpacked_without_fetching(data: Path, cache: Path, site: Site) -> None:
    archive = published(site, MEMBERS)
    write(data / archive.path, (site.folder / "birds.tgz").read_bytes())
    file = DataFile("cub/Birds/names.txt", archive=archive)
    assert find(file) == cache / file.path
    assert (data / archive.path).exists(), "the user's own file stays"
    assert site.fetched == []
    (cache / file.path).unlink()
    write(data / archive.path, b"damaged")
    assert find(file).read_bytes() == b"names", "a good one is fetched instead"


def test_a_damaged_archive_without_an_address(data: Path, cache: Path) -> None:
    archive = DataFile("cub/birds.tgz", md5=md5(b"whole"))
    write(data / archive.path, b"damaged")
    with pytest.raises(MissingData, match=r"birds.tgz cannot be unpacked: its md5"):
        find(DataFile("cub/names.txt", archive=archive))


def test_an_archive_that_lacks_the_file(data: Path, cache: Path, site: Site) -> None:
    archive = published(site, {"other.txt": b"other"})
    with pytest.raises(MissingData, match=r"cub/birds.tgz does not contain cub/names.txt"):
        find(DataFile("cub/names.txt", archive=archive))


def test_a_lost_file_comes_back_and_files_beside_stay(data: Path, cache: Path, site: Site) -> None:
    archive = published(site, MEMBERS)
    file = DataFile("cub/Birds/names.txt", archive=archive)
    find(file)
    write(cache / "cub/Birds/mine.txt", b"mine")
    (cache / file.path).unlink()
    find(file)
    assert content_of(cache) == {f"cub/{name}": content for name, content in MEMBERS.items()} | {
        "cub/Birds/mine.txt": b"mine"
    }


@pytest.mark.parametrize("name", ["../evil.txt", "a/../../evil.txt", "a/../../../../evil.txt"])
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    tar(tmp_path / "evil.tgz", {"good.txt": b"good", name: b"evil"})
    with pytest.raises(ValueError, match=r"evil.tgz cannot be trusted: .*evil.txt"):
        unpack(tmp_path / "evil.tgz", tmp_path / "into" / "deep")
    assert content_of(tmp_path) == {"evil.tgz": (tmp_path / "evil.tgz").read_bytes()}


@pytest.mark.parametrize("name", ["/evil.txt", "//evil.txt", "a\\..\\evil.txt", "c:evil.txt"])
def test_other_hostile_names_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    tar(tmp_path / "evil.tgz", {"good.txt": b"good", name: b"evil"})
    unpack(tmp_path / "evil.tgz", tmp_path / "into")
    assert sorted(content_of(tmp_path / "into").values()) == [b"evil", b"good"]
    assert not Path("/evil.txt").exists()


def test_files_can_be_read_and_replaced_whatever_their_modes(tmp_path: Path) -> None:
    locked = tarfile.TarInfo("folder/locked.txt")
    locked.mode = 0
    tar(tmp_path / "modes.tgz", {}, (locked,))
    unpack(tmp_path / "modes.tgz", tmp_path / "into")
    assert (tmp_path / "into/folder/locked.txt").stat().st_mode & 0o777 == 0o600


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    link, hard, pipe = (tarfile.TarInfo(name) for name in ("folder", "hard", "pipe"))
    link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
    hard.type, hard.linkname = tarfile.LNKTYPE, "/etc/hostname"
    pipe.type = tarfile.FIFOTYPE
    tar(tmp_path / "links.tgz", {"good.txt": b"good"}, (link, hard, pipe))
    unpack(tmp_path / "links.tgz", tmp_path / "into")
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["good.txt"]


def test_a_link_does_not_lead_later_members_astray(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    link = tarfile.TarInfo("folder")
    link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
    inside = tarfile.TarInfo("folder/evil.txt")
    with tarfile.open(path, "w") as archive:
        archive.addfile(link)
        archive.addfile(inside)
    unpack(path, tmp_path / "into")
    assert not (tmp_path / "evil.txt").exists()
    assert (tmp_path / "into/folder/evil.txt").exists()


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_truncated_archive_leaves_nothing(tmp_path: Path, kept: float) -> None:
    noise = hashlib.sha256(b"noise").digest() * 1000
    whole = tar(tmp_path / "whole.tgz", {f"{i}.bin": noise for i in range(20)}).read_bytes()
    (tmp_path / "part.tgz").write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(ValueError, match=r"part.tgz is damaged"):
        unpack(tmp_path / "part.tgz", tmp_path / "into")
    assert content_of(tmp_path / "into") == {}


def test_an_archive_of_unknown_checksum_that_is_damaged_is_not_kept(data: Path, cache: Path, site: Site) -> None:
    write(site.folder / "birds.tgz", b"no archive at all")
    archive = DataFile("cub/birds.tgz", url=f"{site.url}/birds.tgz")
    with pytest.raises(MissingData, match=r"birds.tgz is damaged"):
        find(DataFile("cub/names.txt", archive=archive))
    assert content_of(cache) == {}


def test_what_a_killed_process_left_unpacked_is_cleared_away(tmp_path: Path) -> None:
    write(tmp_path / "into/.unpacking-killed/half.txt", b"half")
    unpack(tar(tmp_path / "a.tgz", {"a.txt": b"a"}), tmp_path / "into")
    assert content_of(tmp_path / "into") == {"a.txt": b"a"}


def test_damage(tmp_path: Path) -> None:
    path = write(tmp_path / "file", b"content")
    assert damage(DataFile("file"), path) == ""
    assert damage(DataFile("file", md5=md5(b"content"), size=7), path) == ""
    assert damage(DataFile("file", size=8), path) == "it has 7 bytes, not 8"
    assert "md5" in damage(DataFile("file", md5=md5(b"other")), path)
    assert damage(DataFile("file"), write(tmp_path / "empty", b"")) == "it is empty"
    assert damage(DataFile("folder"), tmp_path) == ""
    (tmp_path / "folder").mkdir()
    assert damage(DataFile("folder"), tmp_path / "folder") == "it is empty"


def test_get_mends_the_cache_and_not_the_users_folder(data: Path, cache: Path, site: Site) -> None:
    write(site.folder / "images.gz", b"images")
    file = DataFile("mnist/images.gz", md5=md5(b"images"), url=f"{site.url}/images.gz")
    write(cache / file.path, b"damaged")
    with pytest.raises(ValueError, match="is not the published file"):
        find(file)
    assert get(file).read_bytes() == b"images"
    write(data / file.path, b"damaged")
    with pytest.raises(ValueError, match=r"images.gz is damaged: its md5 .* Replace it, or remove it"):
        get(file)
    assert (data / file.path).read_bytes() == b"damaged"


def test_a_file_that_was_changed_is_not_used(data: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://example.org/labels.gz"
    file = DataFile("mnist/labels.gz", sha256=hashlib.sha256(b"labels").hexdigest(), url=url)
    write(data / file.path, b"labels")
    assert find(file).read_bytes() == b"labels"
    write(data / file.path, b"tamper")  # of the same size
    os.utime(data / file.path, (1, 1))
    with pytest.raises(ValueError, match=r"labels.gz is not the published file: its sha256 .*`pursuit data get mnist"):
        find(file, "mnist")
    monkeypatch.setenv("PURSUIT_UNCHECKED", "1")
    with pytest.warns(UserWarning, match=r"is not the published file .* and is used all the same"):
        assert find(file).read_bytes() == b"tamper"


def test_a_changed_file_without_an_address_says_where_it_is_from(data: Path, cache: Path) -> None:
    other = DataFile("news/news.json", md5=md5(b"news"))
    file = DataFile("news/news.jsonl", md5=md5(b"news"), origin="It is on Kaggle.", alternatives=(other,))
    for one in (other, file):
        write(data / one.path, b"damaged")
        with pytest.raises(ValueError, match=r"Replace it yourself, or set PURSUIT_UNCHECKED=1 .* It is on Kaggle\.$"):
            find(file, "news")


def test_a_file_that_was_checked_is_not_read_again(data: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DataFile("mnist/images.gz", md5=md5(b"images"))
    write(data / file.path, b"images")
    find(file)
    monkeypatch.setattr(sys.modules[DataFile.__module__], "wrong_checksum", lambda *_: "it was read again")
    assert find(file) == data / file.path


def test_a_pipe_is_not_a_data_file(data: Path, cache: Path) -> None:
    (data / "mnist").mkdir()
    os.mkfifo(data / "mnist" / "images.gz")
    with pytest.raises(ValueError, match="is not the published file: it is not a file"):
        find(DataFile("mnist/images.gz", md5=md5(b"images")))


def test_get_keeps_a_damaged_file_it_cannot_replace(data: Path, cache: Path) -> None:
    file = DataFile("news/news.jsonl", md5=md5(b"news"), origin="It is on Kaggle.")
    write(cache / file.path, b"damaged")
    with pytest.raises(ValueError, match=r"damaged: its md5 .* Replace it. It is on Kaggle."):
        get(file)
    assert (cache / file.path).exists()


def test_get_mends_files_of_an_archive(data: Path, cache: Path, site: Site) -> None:
    archive = published(site, MEMBERS)
    names = DataFile("cub/Birds/names.txt", md5=md5(b"names"), archive=archive)
    images = DataFile("cub/Birds/images", archive=archive)
    write(cache / names.path, b"damaged")
    (cache / images.path).mkdir()
    assert get(names).read_bytes() == b"names"
    assert [path.name for path in get(images).iterdir()] == ["1.jpg"]


def test_a_cache_that_cannot_be_written(data: Path, cache: Path, site: Site) -> None:
    write(cache, b"a file where the folder should be")
    with pytest.raises(MissingData, match=r"cannot be written.*PURSUIT_CACHE"):
        find(DataFile("mnist/images.gz", url=f"{site.url}/images.gz"))


def test_two_that_unpack_at_once_fetch_once(data: Path, cache: Path, site: Site) -> None:
    archive = published(site, MEMBERS)
    found: list[bytes] = []
    wanted = [DataFile(f"cub/{name}", archive=archive) for name in MEMBERS] * 2
    threads = [threading.Thread(target=lambda file=file: found.append(find(file).read_bytes())) for file in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([*MEMBERS.values()] * 2)
    assert len(site.fetched) == 1


def test_failing_to_fetch_is_an_error_of_the_machine() -> None:
    assert issubclass(DownloadFailed, OSError)
    assert issubclass(MissingData, OSError)
