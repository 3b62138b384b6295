"""`pursuit reproduce paper`: the runs behind the paper's tables and figures, and a queue that does them."""

import os
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from rich.table import Column, Table

from pursuit.cli.console import escaped, out, print_json, say, stoppable
from pursuit.experiments.paper import records
from pursuit.experiments.paper.queue import Place, work_through
from pursuit.experiments.paper.runs import PLAN, PaperRun
from pursuit.training.devices import find_device

FOLDER, WORK = Path("docs/results/paper"), Path("results/paper")
DONE, BEGUN, NO_DATA, TO_DO = "done", "begun", "data absent", "to do"


def paper(
    minutes: float | None, jobs: int, only: list[str], effort: float, device: str, to: Path | None, as_json: bool
) -> None:
    """List the runs, or do those that are left for some minutes."""
    find_device(device)
    plan = tuple(run.scaled(effort) for run in PLAN)
    place = Place(to or FOLDER, WORK, device, max(1, (os.cpu_count() or 1) // jobs))
    done = records.read(place.out, plan)
    chosen = [run for run in plan if not only or any(fnmatch(run.name, pattern) for pattern in only)]
    if not chosen:
        raise ValueError(f"No run is called {' or '.join(only)}: `pursuit reproduce paper` lists them.")
    chosen = [replace(run, minutes=records.minutes_of(run, done)) for run in chosen]
    status = {run: _status(run, run in done, place) for run in chosen}
    if minutes is None:
        _show(status, as_json)
        return
    left = [run for run, now in status.items() if now in (BEGUN, TO_DO)]
    for task in dict.fromkeys(run.task for run, now in status.items() if now == NO_DATA):
        say(f"{task} is left out: its data are absent (pursuit data get {task}).")
    with stoppable("Run the same command again to continue."):
        failed = work_through(left, minutes, jobs, place, say)
    if failed:
        raise ValueError(f"These failed, and the same command tries them again: {', '.join(failed)}.")


def _status(run: PaperRun, is_done: bool, place: Place) -> str:
    if is_done:
        return DONE
    return NO_DATA if not run.has_data else BEGUN if place.has_begun(run) else TO_DO


def _show(status: dict[PaperRun, str], as_json: bool) -> None:
    runs = sorted(status, key=lambda run: -run.value)
    if as_json:
        keys = ("name", "task", "method", "fills", "value", "minutes")
        print_json({"runs": [{**{key: getattr(run, key) for key in keys}, "status": status[run]} for run in runs]})
        return
    columns = [Column(title, no_wrap=True) for title in ("run", "value", "minutes", "status")]
    table = Table(*columns, "for", box=None, padding=(0, 1, 0, 0), header_style="underline")
    for run in runs:
        table.add_row(escaped(run.name), str(run.value), f"{run.minutes:.1f}", status[run], run.fills)
    out.print(table)
    left = [run for run, now in status.items() if now != DONE]
    hours = sum(run.minutes for run in left) / 60
    out.print(f"{len(left)} of {len(status)} runs are left: about {hours:.0f} hours one after the other.")
