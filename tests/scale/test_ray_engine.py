"""The same work on a real Ray cluster of two nodes, one of which is killed in the middle."""

import _thread
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from program import wait_for
from pursuit.estimators import PursuitClassifier
from pursuit.tables.engine import Local, Ray, find_engine
from pursuit.tables.row_jobs import Explain, Predict, measure_all, write_file, write_folder
from scale.conftest import make_rows, needs_ray, of

pytestmark = [pytest.mark.scale, needs_ray]


class Killer:
    """Kills the second node of a cluster once some rows are done, and adds another one."""

    def __init__(self, cluster: Any, after: int):
        self.cluster, self.after, self.has_killed = cluster, after, False

    def __call__(self, n_rows: int) -> None:
        if n_rows >= self.after and not self.has_killed:
            self.has_killed = True
            node = next(node for node in self.cluster.list_all_nodes() if not node.head)
            self.cluster.remove_node(node, allow_graceful=False)
            self.cluster.add_node(num_cpus=1)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty shares, so that many are left when a node is killed."""
    folder = tmp_path_factory.mktemp("many")
    for i in range(4):
        make_rows(2000, i + 1).to_parquet(folder / f"{i}.parquet", row_group_size=200)
    return folder


@pytest.mark.parametrize("kind", [Predict, Explain])
def test_what_is_written_of_rows_is_that_of_one_machine(
    model: PursuitClassifier, many: Path, tmp_path: Path, cluster: Any, kind: type[Predict]
) -> None:
    killer = Killer(cluster, after=1000)
    assert write_folder(kind(model, of(many), None, tmp_path / "ray"), Ray(), killer) == 8000
    assert killer.has_killed
    assert write_folder(kind(model, of(many), None, tmp_path / "local"), Local(), lambda n: None) == 8000
    parts = sorted(path.name for path in (tmp_path / "local").glob("part-*"))
    assert parts == sorted(path.name for path in (tmp_path / "ray").glob("part-*"))
    for name in parts:
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_work_that_is_interrupted_frees_its_cores(tmp_path: Path, cluster: Any) -> None:
    import ray

    def count_on(number: int) -> int:
        """Work that no signal interrupts, and that does not end by itself."""
        (tmp_path / f"{number}").touch()
        return sum(range(10**13))

    def interrupt() -> None:
        wait_for(lambda: len([*tmp_path.iterdir()]) == 2, seconds=300)
        _thread.interrupt_main()

    stopping = threading.Thread(target=interrupt, daemon=True)
    stopping.start()
    with pytest.raises(KeyboardInterrupt):
        list(Ray().each(count_on, [1, 2, 3]))
    stopping.join()
    wait_for(lambda: ray.available_resources().get("CPU") == 2.0, seconds=300)


def test_relative_paths_are_those_of_the_caller(
    model: PursuitClassifier, parquet: Path, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows").symlink_to(parquet)
    work = Predict(model, of(Path("rows")), None, Path("out"))
    assert write_folder(work, Ray(), lambda n: None) == 2400
    assert len([*(tmp_path / "out").glob("part-*.parquet")]) == 6
    assert [*Ray().each(os.path.abspath, ["here"])] == [("here", str(tmp_path / "here"))]


def test_a_file_is_that_of_one_machine(model: PursuitClassifier, parquet: Path, tmp_path: Path, cluster: Any) -> None:
    for name, engine in (("ray", Ray()), ("local", Local())):
        work = Predict(model, of(parquet), None, tmp_path / f"{name}.parts", in_lists=False)
        assert write_file(work, tmp_path / f"{name}.csv", engine, lambda n: None) == 2400
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()


def test_a_measurement_is_that_of_one_machine(model: PursuitClassifier, many: Path, cluster: Any) -> None:
    killer = Killer(cluster, after=1000)
    found = measure_all(model, of(many), None, Ray(), killer, with_bits=True)
    assert killer.has_killed
    assert found.evaluation.n_rows == 8000
    assert found == measure_all(model, of(many), None, Local(), lambda n: None, with_bits=True)


def test_what_is_wrong_on_a_worker_is_said_here(model: PursuitClassifier, tmp_path: Path, cluster: Any) -> None:
    make_rows(100, 1).to_parquet(tmp_path / "rows.parquet")
    rows = of(tmp_path)
    (tmp_path / "rows.parquet").write_bytes(b"no longer")
    with pytest.raises(ValueError, match=r"^/.*rows\.parquet cannot be read: it is not a Parquet file, is damaged"):
        write_folder(Predict(model, rows, None, tmp_path / "out"), Ray(), lambda n: None)


def test_an_address_that_does_not_answer_is_told_before_ray_waits_for_it() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ValueError, match=f"No Ray cluster answers at 127.0.0.1:{port}"):
        find_engine("ray", f"127.0.0.1:{port}")
    for wrong in ("nowhere", "host:port", ":80"):
        with pytest.raises(ValueError, match="is not the address of a Ray cluster"):
            find_engine("ray", wrong)


def test_without_ray_the_message_says_what_to_install() -> None:
    code = """
import sys
sys.modules["ray"] = None
from pursuit.tables.engine import find_engine
try:
    find_engine("ray")
except ModuleNotFoundError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'pursuit[scale]'" in said
