"""`pursuit data` on tasks of this file's own: what it prints, fetches and complains of."""

import functools
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import program
from pursuit import registry
from pursuit.cli import data
from pursuit.research.tasks import TASKS, Task, TaskInfo
from pursuit.research.tasks.files import DataFile

REAL_TASKS = dict(TASKS)


class Ended(NamedTuple):
    code: int
    printed: str
    complained: str

    @property
    def json(self) -> dict[str, Any]:
        assert self.printed.count("\n") == 1, "exactly one JSON object"
        return json.loads(self.printed)

    @property
    def words(self) -> str:
        """What was printed, without the breaks and frames of tables."""
        return " ".join("".join(sign if sign.isprintable() and sign < "─" else " " for sign in self.printed).split())


def run(*arguments: str) -> Ended:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "400")
        done = program.run(Path.cwd(), "data", *arguments)
    return Ended(done.returncode, done.stdout, done.stderr)


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def no_load(seed: int) -> Task:
    raise AssertionError("no data are loaded for this")


def info(name: str, *files: DataFile) -> TaskInfo:
    fields = {"n_queries": 2, "n_classes": 2, "n_train": 2, "n_test": 2}
    return TaskInfo(name=name, title=name, load=no_load, files=files, **fields)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a site with two files and an archive."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "images.gz").write_bytes(b"images")
    (folder / "labels.gz").write_bytes(b"labels")
    with tarfile.open(folder / "photos.tar", "w") as archive:
        for name in ("a.bin", "b.bin"):
            member = tarfile.TarInfo(f"photos/{name}")
            member.size = 5
            archive.addfile(member, io.BytesIO(b"photo"))

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def replace_tasks(tasks: Mapping[str, TaskInfo]) -> None:
    """Let these be the only tasks known."""
    known = registry._known["task"]
    known.clear()
    known.update(tasks)


@pytest.fixture(autouse=True)
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: str, forgetful_registry: None) -> None:
    """Tasks with every kind of file, and folders that are empty."""
    images = DataFile("pictures/images.gz", md5=md5(b"images"), url=f"{site}/images.gz")
    labels = DataFile("pictures/labels.gz", md5=md5(b"labels"), url=f"{site}/labels.gz")
    archive = DataFile("photos/photos.tar", url=f"{site}/photos.tar")
    photos = [DataFile(f"photos/photos/{name}", md5=md5(b"photo"), archive=archive) for name in ("a.bin", "b.bin")]
    news = DataFile("news/news.jsonl", origin="It is on a site that wants a login.")
    gone = DataFile("gone/gone.gz", url=f"{site}/gone.gz")
    lost = DataFile("lost/lost.tar", url=f"{site}/lost.tar")
    made = (
        info("built-in"),
        info("pictures", images, labels),
        info("pictures-half", images),
        info("photos", *photos),
        info("news", news),
        info("gone", gone, labels),
        info("lost", DataFile("lost/a", archive=lost), DataFile("lost/b", archive=lost)),
    )
    replace_tasks({task.name: task for task in made})
    monkeypatch.setenv("PURSUIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PURSUIT_CACHE", str(tmp_path / "cache"))


def test_where_shows_the_folders_in_order(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert run("where", "--json").json == {
        "folders": [
            {"name": "$PURSUIT_DATA", "folder": str(tmp_path / "data"), "exists": True},
            {"name": "$PURSUIT_CACHE", "folder": str(tmp_path / "cache"), "exists": False},
        ]
    }
    words = run("where").words
    named = f"1. $PURSUIT_DATA: {tmp_path / 'data'} 2. $PURSUIT_CACHE: {tmp_path / 'cache'} (does not exist yet)"
    assert named in words


def test_get_fetches_and_list_shows(tmp_path: Path) -> None:
    before = {task["task"]: task for task in run("list", "--json").json["tasks"]}
    assert before["built-in"] == {"task": "built-in", "complete": True, "files": []}
    assert not before["pictures"]["complete"]
    assert "none needed" in run("list").words
    assert "0 of 2 images.gz and 1 more" in run("list").words

    got = run("get", "pictures", "photos", "built-in", "--json")
    assert got.code == 0, got.complained
    assert got.json["complete"] is True
    cache = tmp_path / "cache"
    assert [file["where"] for file in got.json["tasks"][0]["files"]] == [
        str(cache / "pictures/images.gz"),
        str(cache / "pictures/labels.gz"),
    ]
    assert (cache / "photos/photos/b.bin").read_bytes() == b"photo"

    after = {task["task"]: task for task in run("list", "--json").json["tasks"]}
    assert after["pictures"]["complete"]
    assert after["photos"]["complete"]
    assert after["pictures"]["files"][0] | {"url": ""} == {
        "file": "pictures/images.gz",
        "present": True,
        "size": 6,
        "where": str(cache / "pictures/images.gz"),
        "url": "",
        "origin": "",
    }
    assert "pictures 2 of 2 12 bytes $PURSUIT_CACHE" in run("list").words
    again = run("get", "pictures", "built-in")
    assert again.printed == "pictures: 2 of 2 files are there.\nbuilt-in: embedded, no files are needed.\n"


def test_get_does_what_it_can_and_says_what_failed(tmp_path: Path) -> None:
    ended = run("get", "gone", "news", "--json")
    assert ended.code == 1
    assert ended.json["complete"] is False
    gone, news = ended.json["tasks"]
    assert "404" in gone["files"][0]["error"]
    assert gone["files"][1] == {
        "file": "pictures/labels.gz",
        "where": str(tmp_path / "cache/pictures/labels.gz"),
        "error": None,
    }
    assert "wants a login" in news["files"][0]["error"]
    assert "pursuit data get news" in news["files"][0]["error"]
    assert "wants a login" in ended.complained
    assert "gone: 1 of 2 files are there." in run("get", "gone").printed


def test_a_failing_archive_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    get = data.files.get
    monkeypatch.setattr(data.files, "get", lambda file, *rest: tried.append(file.path) or get(file, *rest))
    ended = run("get", "lost", "--json")
    assert ended.code == 1
    assert tried == ["lost/a"]
    assert [bool(file["error"]) for file in ended.json["tasks"][0]["files"]] == [True, True]
    assert ended.complained.count("404 File not found") == 1, "a port may hold these digits as well"


def test_verify_finds_damage_and_get_mends_it(tmp_path: Path) -> None:
    run("get", "pictures", "photos")
    good = run("verify", "--json")
    assert good.code == 0
    assert good.json["good"] is True
    states = {(row["task"], row["file"]): row["state"] for row in good.json["files"]}
    assert states["pictures", "pictures/images.gz"] == "good"
    assert states["pictures-half", "pictures/images.gz"] == "good"
    assert states["news", "news/news.jsonl"] == "absent"

    (tmp_path / "cache/pictures/images.gz").write_bytes(b"damage")
    (tmp_path / "cache/photos/photos/a.bin").write_bytes(b"")
    damaged = run("verify", "pictures", "photos", "--json")
    assert damaged.code == 1
    assert [row["state"] for row in damaged.json["files"]] == ["damaged", "good", "damaged", "good"]
    assert "md5" in damaged.json["files"][0]["remark"]
    shown = run("verify")
    assert shown.code == 1
    assert "pictures/images.gz damaged" in " ".join(shown.words.split())
    assert shown.words.count(" damaged ") == 2
    assert "pursuit data get" in shown.complained

    assert run("get", "pictures", "photos").code == 0
    assert run("verify").code == 0


def test_verify_without_checksums(tmp_path: Path) -> None:
    path = tmp_path / "data/news/news.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{}")
    ended = run("verify", "news", "--json")
    assert ended.code == 0
    assert [row["state"] for row in ended.json["files"]] == ["unchecked"]
    assert "Unchecked files have no published checksum." in run("verify", "news").words
    assert "need no files" in run("verify", "built-in").words


def test_a_name_that_is_none(tmp_path: Path) -> None:
    for command in ("get", "verify"):
        ended = run(command, "picture")
        assert ended.code == 1
        assert "'picture' is not a known task. Did you mean 'pictures" in ended.complained
        assert ended.printed == ""
    assert "Known are: built-in" in run("get", "xyz").complained
    assert not (tmp_path / "cache").exists()


def test_every_real_task_is_listed() -> None:
    replace_tasks(REAL_TASKS)
    listed = run("list", "--json").json["tasks"]
    assert [task["task"] for task in listed] == list(TASKS)
    for task in listed:
        for file in task["files"]:
            assert file["url"] or file["origin"], f"nothing says where {file['file']} comes from"
    assert run("list").code == 0


def test_no_path_is_broken_however_narrow_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / ("a folder with quite a long name " * 4).strip()
    (own / "pictures").mkdir(parents=True)
    (own / "pictures" / "images.gz").write_bytes(b"")
    monkeypatch.setenv("PURSUIT_DATA", str(own))
    monkeypatch.setattr(data.out, "_width", 50)
    assert any(line.endswith(str(own)) for line in run("where").printed.splitlines())
    verified = run("verify", "pictures")
    assert verified.code == 1
    assert any(str(own / "pictures" / "images.gz") in line for line in verified.printed.splitlines())
