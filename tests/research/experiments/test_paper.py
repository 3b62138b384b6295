"""The paper's runs: their names and plan, the queue that does them, and what it leaves behind."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pursuit.methods import METHODS
from pursuit.methods.ram import RAMSettings
from pursuit.methods.vip import VIPClassifier
from pursuit.research.experiments import paper as queue
from pursuit.research.experiments.paper import (
    PLAN,
    PaperRun,
    Place,
    minutes_of,
    next_run,
    planned,
    read_records,
    work_through,
)
from pursuit.research.experiments.results import read_result
from pursuit.research.tasks import TASKS

pytestmark = pytest.mark.usefixtures("small_tasks")
RUN = PaperRun("columns", recipe="fast", querier="straight-through", minutes=2.0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "results" / "paper", tmp_path / "work", "cpu")


class Clock:
    """Minutes that pass when somebody waits."""

    def __init__(self) -> None:
        self.minutes = 0.0

    def __call__(self) -> float:
        return 60 * self.minutes

    def wait(self, sentinels: list[int], timeout: float) -> None:
        self.minutes += min(timeout / 60, 0.25)


class Pretended:
    """A process that takes as many minutes as it says, and then ends with an exit code."""

    sentinel = 0

    def __init__(self, run: PaperRun, clock: Clock, exitcode: int):
        self.run, self.clock, self.ends, self.code = run, clock, clock.minutes + run.minutes, exitcode
        self.stopped = False

    @property
    def exitcode(self) -> int:
        return self.code

    def is_alive(self) -> bool:
        return not self.stopped and self.clock.minutes < self.ends

    def terminate(self) -> None:
        self.stopped = True

    kill = terminate

    def join(self, timeout: float | None = None) -> None: ...


class Machine:
    """Runs that are only pretended, and what was begun when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...] = ()):
        self.clock, self.failing = Clock(), failing
        self.begun: dict[str, float] = {}
        self.most, self.said = 0, list[str]()
        self.processes: list[Pretended] = []
        monkeypatch.setattr(queue.connection, "wait", self.clock.wait)
        monkeypatch.setattr(queue, "_outcome", self.outcome)

    def begin(self, run: PaperRun, place: Place) -> Pretended:
        self.begun[run.name] = self.clock.minutes
        self.processes.append(Pretended(run, self.clock, int(run.name in self.failing)))
        self.most = max(self.most, sum(process.is_alive() for process in self.processes))
        return self.processes[-1]

    def outcome(self, run: PaperRun, place: Place) -> str | None:
        ended = any(process.run.name == run.name and self.clock.minutes >= process.ends for process in self.processes)
        return "right" if ended and run.name not in self.failing else None

    def work(self, runs: list[PaperRun], minutes: float, jobs: int, place: Place) -> list[str]:
        return work_through(runs, minutes, jobs, place, self.said.append, self.begin, self.clock)


def runs_of(*given: tuple[int, float]) -> list[PaperRun]:
    """Runs by their value and minutes; the seed is their number."""
    return [replace(RUN, seed=seed, value=value, minutes=minutes) for seed, (value, minutes) in enumerate(given)]


# ---- the plan


def test_every_run_of_the_plan_can_be_named_and_built(place: Place) -> None:
    names = [run.name for run in PLAN]
    assert len(set(names)) == len(set(PLAN)) == len(PLAN)
    for run in PLAN:
        assert run.method in METHODS
        assert run.recipe in TASKS[run.task].recipes
        assert run.minutes > 0
        if run.seed == 0:
            made = run.method_run(place.folder(run), "cpu")
            assert made.name == run.method


def test_v_ip_says_its_querier_and_comes_first() -> None:
    assert all(run.querier for run in PLAN if run.method == "vip" and not run.is_ablation)
    assert not any(run.querier for run in PLAN if run.method != "vip")
    first = [run for run in PLAN if run.value >= 98]
    assert {run.querier for run in first} == {"straight-through"}
    assert {"cub", "huffpost", "symcat-200", "symcat-300", "symcat-400", "muzhi", "dxy"} <= {run.task for run in first}


def test_further_seeds_come_last() -> None:
    runs = list(planned("Table 3", 50, 5, {"muzhi": 1.0}, recipe="fast"))
    assert [run.value for run in runs] == [50, 49, 48, -3, -4]
    assert len({run.way for run in runs}) == 1


def test_published_settings_are_those_of_the_paper(place: Place) -> None:
    run = PaperRun("mnist", "ram+", published=True)
    method = run.method_run(place.folder(run), "cpu").method
    assert method is not None
    assert method.parameters["settings"] == RAMSettings("sum")
    assert run.name == "mnist-gpu-ram+-published-settings-seed-0"


# ---- packing


def test_the_most_valuable_run_that_fits_is_next(place: Place) -> None:
    runs = runs_of((9, 30.0), (5, 2.0), (5, 4.0), (1, 1.0))
    assert next_run(runs, 10, place) == runs[2]
    assert next_run(runs, 3, place) == runs[1]
    assert next_run(runs, 60, place) == runs[0]
    assert next_run(runs, 0.5, place) is None


def test_what_fills_a_device_has_nothing_beside_it(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    machine = Machine(monkeypatch)
    runs = runs_of((9, 3.0), (8, 3.0), (7, 3.0))
    runs[1] = replace(runs[1], method="g-ip", querier=None, rows=100)
    assert machine.work(runs, 10, 3, place) == []
    begun = [machine.begun[run.name] for run in runs]
    assert begun[0] == begun[2] == 0
    assert begun[1] == pytest.approx(3, abs=0.3)
    assert next_run(runs[::2], 10, place, [runs[1]]) is None


def test_recipes_of_the_paper_go_beside_each_other_alone(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    machine = Machine(monkeypatch)
    four = runs_of((9, 3.0), (8, 3.0), (7, 3.0), (6, 3.0))
    runs = [replace(run, task="muzhi", recipe=recipe) for run, recipe in zip(four, ["fast", "paper"] * 2, strict=True)]
    assert machine.work(runs, 10, 4, place) == []
    assert [machine.begun[run.name] for run in runs] == pytest.approx([0, 3, 0, 3], abs=0.3)


def test_runs_are_packed_side_by_side(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    machine = Machine(monkeypatch)
    runs = runs_of((9, 6.0), (8, 3.0), (7, 3.0), (6, 5.0), (5, 3.0))
    assert machine.work(runs, 10, 2, place) == []
    assert machine.most == 2
    begun = [machine.begun.get(run.name) for run in runs]
    assert begun[:2] == [0, 0]
    assert begun[2] == pytest.approx(3, abs=0.3)
    assert begun[3] is None  # it would not have ended
    assert begun[4] == pytest.approx(6, abs=0.6)
    assert not any(process.stopped for process in machine.processes)


def test_what_overruns_is_stopped_and_goes_on_later(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    (run,) = runs_of((9, 5.0))
    machine = Machine(monkeypatch)
    begin = machine.begin
    monkeypatch.setattr(machine, "begin", lambda run, place: begin(replace(run, minutes=50), place))
    assert machine.work([run], 6, 1, place) == []
    assert machine.processes[0].stopped
    assert machine.said[-1] == f"{run.name}: stopped"
    assert next_run([run], 1, place) is None
    folder = place.folder(run)
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    assert next_run([run], 1, place) == run
    machine.work([run], 1, 1, place)
    assert machine.said[-2:] == [f"{run.name}: goes on", f"{run.name}: stopped, can go on"]


def test_a_run_that_fails_is_reported_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    runs = runs_of((9, 1.0), (8, 1.0))
    machine = Machine(monkeypatch, failing=(runs[0].name,))
    error = place.folder(runs[0]) / "error.txt"
    error.parent.mkdir(parents=True)
    error.write_text("Traceback …\nRuntimeError: out of memory\n")
    assert machine.work(runs, 5, 1, place) == [runs[0].name]
    assert any(f"{runs[0].name}: failed: RuntimeError: out of memory" in line for line in machine.said)
    assert any(line.startswith(f"{runs[1].name}: right") for line in machine.said)


# ---- measuring


def test_a_run_leaves_a_small_file_and_no_model(place: Place) -> None:
    queue.measure(RUN, place)
    (path,) = place.out.iterdir()
    assert path.name == "columns-fast-straight-through-querier-seed-0.json"
    result = read_result(path)
    assert result is not None
    assert result.querier == "straight-through"
    assert result.provenance["commit"]
    assert result.evaluation.area == round(result.evaluation.area, 4)
    assert len(result.evaluation.trade_off) > 20
    assert not place.folder(RUN).exists()
    assert read_records(place.out, (RUN,)) == {RUN: result}


def test_an_error_is_kept_where_the_run_was(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(VIPClassifier, "learn", failing)
    with pytest.raises(SystemExit):
        queue.measure(RUN, place)
    assert "out of memory" in (place.folder(RUN) / "error.txt").read_text()
    assert not place.out.exists()


@pytest.mark.programs
def test_a_real_process_is_begun_and_its_result_read(place: Place) -> None:
    said: list[str] = []
    run = PaperRun("digits", recipe="fast", querier="straight-through", effort=0.01, curve=2, minutes=0.1)
    assert work_through([run], 5, 1, place, said.append) == []
    assert said[0] == f"{run.name}: begins"
    assert "right after" in said[1]
    assert run in read_records(place.out, (run,))


def test_another_seed_says_how_long_a_run_takes(place: Place) -> None:
    queue.measure(RUN, place)
    done = read_records(place.out, (RUN,))
    result = done[RUN]
    assert result.measuring_seconds is not None
    took = (result.training_seconds + result.measuring_seconds) / 60
    assert minutes_of(replace(RUN, seed=7), done) == took
    assert minutes_of(replace(RUN, querier="information"), done) == RUN.minutes


CHILD = """
import os, time
from multiprocessing import get_context

from pursuit.research.experiments.paper import end_with_parent


def child():
    end_with_parent()
    print(os.getpid(), flush=True)
    time.sleep(600)


if __name__ == "__main__":
    get_context("spawn").Process(target=child).start()
    time.sleep(600)
"""


@pytest.mark.programs
def test_what_a_killed_queue_began_ends_with_it(tmp_path: Path) -> None:
    script = tmp_path / "begins.py"
    script.write_text(CHILD, encoding="utf-8")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        try:
            parent.communicate(timeout=60)  # until nobody holds its output
        except subprocess.TimeoutExpired:
            os.kill(child, signal.SIGKILL)
            raise
