"""Fetching from a real server on this machine, which misbehaves in every way servers do."""

import hashlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from program import wait_for
from pursuit.research.tasks.files import TRIES, DownloadFailed, download, wrong_checksum

CONTENT = bytes(i * i % 251 for i in range(10_000)) * 100
MD5, SHA256 = hashlib.md5(CONTENT).hexdigest(), hashlib.sha256(CONTENT).hexdigest()
Deed = Callable[["Answer"], None]


class Site(ThreadingHTTPServer):
    """Answers every request by the next deed of its plan, and properly when there is none left."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.reset()

    def reset(self, content: bytes = CONTENT, plan: tuple[Deed, ...] = ()) -> None:
        self.content, self.plan = content, list(plan)
        self.n_requests = 0
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/folder/file.bin?download=1"

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are part of the play."""


class Answer(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.n_requests += 1
        (self.server.plan.pop(0) if self.server.plan else proper)(self)

    def log_message(self, *_: object) -> None:
        pass

    def send(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def begin(self) -> bytes:
        """Send the header; what is left to send."""
        self.send(200, {"Content-Length": str(len(self.server.content))})
        return self.server.content


def proper(answer: Answer) -> None:
    answer.wfile.write(answer.begin())


def drop_after(n_bytes: int) -> Deed:
    return lambda answer: answer.wfile.write(answer.begin()[:n_bytes]) and None


def status(code: int) -> Deed:
    return lambda answer: answer.send(code, {"Content-Length": "0"})


def without_length(answer: Answer) -> None:
    answer.send(200, {}, answer.server.content)


def say_nothing(answer: Answer) -> None:
    answer.server.released.wait()


def stop_midway(answer: Answer) -> None:
    left = answer.begin()
    answer.wfile.write(left[:500_000])
    answer.wfile.flush()
    answer.server.released.wait()


def wait_then_proper(answer: Answer) -> None:
    answer.server.released.wait()
    proper(answer)


@pytest.fixture(scope="module")
def running_site() -> Iterator[Site]:
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def site(running_site: Site) -> Iterator[Site]:
    running_site.reset()
    yield running_site
    running_site.released.set()


def fetch(site: Site, to: Path, md5: str = MD5, timeout: float = 20, sha256: str = "") -> list[float]:
    """Download without waiting; the pauses that would have been made."""
    pauses: list[float] = []
    download(site.url, to, md5, sha256, pause=pauses.append, timeout=timeout)
    return pauses


def only_good_files(to: Path) -> bool:
    return {path.name for path in to.parent.iterdir() if not path.name.endswith(".lock")} <= {to.name}


def test_fetches_once_and_reports_how_far(site: Site, tmp_path: Path) -> None:
    to, reports = tmp_path / "new" / "folder" / "file.bin", []
    download(site.url, to, MD5, SHA256, lambda done, total: reports.append((done, total)))
    assert to.read_bytes() == CONTENT
    assert only_good_files(to)
    assert reports == sorted(reports)
    assert reports[-1] == (len(CONTENT), len(CONTENT))
    assert fetch(site, to) == []
    assert site.n_requests == 1


def test_a_transfer_that_breaks_off_is_tried_again(site: Site, tmp_path: Path) -> None:
    site.plan = [drop_after(300_000), status(503), drop_after(0)]
    pauses = fetch(site, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert only_good_files(tmp_path / "file.bin")
    assert pauses == [1, 2, 4]


def test_a_server_that_never_answers_properly_leaves_nothing(site: Site, tmp_path: Path) -> None:
    site.plan = [drop_after(400_000)] * TRIES
    with pytest.raises(DownloadFailed, match="cannot be fetched"):
        fetch(site, tmp_path / "file.bin")
    assert only_good_files(tmp_path / "file.bin")
    assert not (tmp_path / "file.bin").exists()


def test_a_server_that_does_not_say_how_much_is_to_come(site: Site, tmp_path: Path) -> None:
    site.plan = [without_length]
    reports: list[tuple[int, int | None]] = []
    download(site.url, tmp_path / "file.bin", MD5, on_progress=lambda done, total: reports.append((done, total)))
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert {total for _, total in reports} == {None}


def test_wrong_bytes_are_never_kept(site: Site, tmp_path: Path) -> None:
    site.content = b"not what was promised"
    with pytest.raises(DownloadFailed, match=f"sends another file than expected: .*{MD5}"):
        fetch(site, tmp_path / "file.bin")
    assert only_good_files(tmp_path / "file.bin")
    assert site.n_requests == 1, "a site that sends another file is not asked again and again"
    with pytest.raises(DownloadFailed, match=SHA256):
        fetch(site, tmp_path / "file.bin", md5="", sha256=SHA256)


def test_a_wrong_file_in_place_is_replaced_only_by_a_good_one(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"old")
    site.plan = [status(404)]
    with pytest.raises(DownloadFailed, match="404 Not Found"):
        fetch(site, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == b"old"
    fetch(site, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_server_that_cannot_help_is_asked_once(site: Site, tmp_path: Path) -> None:
    site.plan = [status(404)]
    with pytest.raises(DownloadFailed, match="404 Not Found"):
        fetch(site, tmp_path / "file.bin")
    assert site.n_requests == 1


def test_silence_ends_with_a_sentence(site: Site, tmp_path: Path) -> None:
    site.plan = [say_nothing] * TRIES
    with pytest.raises(DownloadFailed, match="does not answer in time"):
        fetch(site, tmp_path / "file.bin", timeout=0.05)
    assert site.n_requests == TRIES


def test_no_connection_ends_with_a_sentence(tmp_path: Path) -> None:
    with Site() as closed:
        url = closed.url
    pauses: list[float] = []
    with pytest.raises(DownloadFailed, match="Connection refused"):
        download(url, tmp_path / "file.bin", MD5, pause=pauses.append)
    assert pauses == [1, 2, 4]


@pytest.mark.parametrize("url", ["", "file:///etc/hostname", "ftp://example.org/file", "http://127.0.0.1:port/file"])
def test_bad_addresses(url: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match="cannot be fetched"):
        download(url, tmp_path / "file.bin", pause=lambda _: None)
    assert only_good_files(tmp_path / "file.bin")


def test_a_place_that_cannot_be_written(site: Site, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DownloadFailed, match=r"cannot be written.*PURSUIT_CACHE"):
        fetch(site, tmp_path / "taken" / "file.bin")


def test_wrong_checksum_looks_at_what_is_given(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(CONTENT)
    assert wrong_checksum(path) == ""
    assert wrong_checksum(path, MD5.upper(), SHA256) == ""
    assert "md5" in wrong_checksum(path, "0" * 32, SHA256)
    assert "sha256" in wrong_checksum(path, MD5, "0" * 64)


ALONE = """
import sys
from pathlib import Path
from pursuit.research.tasks.files import download
print("ready", flush=True)
download(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
"""


def start_download(site: Site, to: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ALONE, site.url, str(to), MD5]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_fetch_once(site: Site, tmp_path: Path) -> None:
    site.plan = [wait_then_proper]
    processes = [start_download(site, tmp_path / "file.bin") for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    wait_for(lambda: site.n_requests > 0)
    site.released.set()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert site.n_requests == 1


def test_a_killed_download_puts_nothing_in_place(site: Site, tmp_path: Path) -> None:
    site.plan = [stop_midway]
    process = start_download(site, tmp_path / "file.bin")
    wait_for(lambda: any(path.stat().st_size > 100_000 for path in tmp_path.iterdir()))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "file.bin").exists()
    fetch(site, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
