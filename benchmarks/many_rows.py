"""Many rows: `python benchmarks/many_rows.py` writes docs/results/many_rows.md, with parts measured before kept in
many_rows.json. Parts are named on the command line:

- `engines`: rows a second of `pursuit evaluate` in this process, by Ray with one and two workers, and in plain batches,
- `rows=100000000`: one evaluation of that many rows by Ray on all cores, with its peak memory,
- `nodes`: clusters of one, two and three nodes of one core, as processes of this machine,
- `sizes`: seconds for a step of a chain by numbers of queries and labels, which the costs in docs/scale.md are made of.

Rows have 20 yes/no columns and one of five labels, and are drawn for it; where they lie can be said by `--folder`.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from many_rows_page import page
from pursuit import MLP, InformationVIP, VIPClassifier, load
from pursuit.data.rows import Rows
from pursuit.evaluation.curves import evaluate
from pursuit.inference.rollout import BATCH_ROWS, pursue, rows_at_once
from pursuit.inference.stopping import Budget
from pursuit.information import AnswerModel
from pursuit.scale.engine import Engine, Local, Ray, one_thread
from pursuit.scale.work import measure_all
from pursuit.tables.source import TableSource, open_table
from report import RESULTS, cpu, save, where
from worlds import yes_no_queries

COLUMNS = [f"symptom {i}" for i in range(20)]
LABELS = np.array([f"disease {i}" for i in range(5)])
FILE_ROWS, TRAIN_ROWS = 1_000_000, 20_000
ENGINE_ROWS, NODE_ROWS, PLAIN_ROWS = 4_000_000, 3_000_000, 100_000
QUERIES, N_LABELS, STEPS, WIDTH = (20, 100, 300, 1000, 3000, 10_000), (2, 10, 100, 1000), 5, 256
MOST_ODDS = 10_000_000
"""Of queries times labels that are tried."""


def draw(n: int, seed: int) -> pd.DataFrame:
    """Patients: every disease has its own chances of every symptom."""
    chances = np.random.default_rng(0).beta(0.6, 0.6, (len(LABELS), len(COLUMNS)))
    chance = np.random.default_rng([1, seed])
    y = chance.integers(0, len(LABELS), n)
    answers = chance.random((n, len(COLUMNS)), dtype=np.float32) < chances[y]
    return pd.DataFrame(answers, columns=COLUMNS).assign(disease=pd.Categorical.from_codes(y, LABELS))


def drawn(n: int, folder: Path) -> Path:
    """A folder with n rows, in files of a million, drawn if they are not there."""
    rows = folder / f"{n}-rows"
    rows.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, n, FILE_ROWS)):
        path = rows / f"{number:04d}.parquet"
        if not path.exists():
            frame = draw(min(FILE_ROWS, n - start), number + 1)
            frame.to_parquet(path.with_suffix(".unfinished"))
            path.with_suffix(".unfinished").rename(path)
    return rows


def trained(folder: Path) -> VIPClassifier:
    """A model with all defaults."""
    path = folder / "model"
    if not path.exists():
        rows = draw(TRAIN_ROWS, 0)
        VIPClassifier(random_state=0).fit(rows[COLUMNS], rows["disease"].astype(str)).save(path)
    model = load(path)
    assert isinstance(model, VIPClassifier)
    return model


def rows_in(folder: Path) -> TableSource:
    return open_table(folder, COLUMNS, {"target": "disease"})


@dataclass
class Memory:
    """The most memory that this process and all below it had together, looked at twice a second."""

    peak: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.done.wait(0.5):
            self.peak = max(self.peak, sum(_bytes(pid) for pid in _family()))


def _family() -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found, n_before = {os.getpid()}, 0
    while len(found) > n_before:
        n_before = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found


def _bytes(pid: int) -> int:
    """What a process has of the memory, with its part of what it shares with others."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


@contextmanager
def watched() -> Iterator[Memory]:
    memory = Memory()
    thread = threading.Thread(target=memory.watch, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        memory.done.set()
        thread.join()


def evaluated(model: VIPClassifier, rows: TableSource, engine: Engine) -> dict[str, Any]:
    """Seconds, memory and figures of one evaluation of all rows."""
    start = time.perf_counter()
    with watched() as memory:
        found = measure_all(model, rows, None, engine, lambda n_rows: None).evaluation
    seconds = time.perf_counter() - start
    stop = found.at_stop
    assert stop is not None
    figures = {"accuracy": stop.accuracy, "asked": stop.mean_asked}
    return {"rows": found.n_rows, "seconds": seconds, "peak_bytes": memory.peak, **figures}


class OnCores(Ray):
    """Ray on this machine with so many cores."""

    def __init__(self, n_cores: int):
        super().__init__()
        self.n_cores = n_cores

    def run(self, work: Any, shares: Any) -> Any:
        import ray

        ray.init("local", num_cpus=self.n_cores, include_dashboard=False, log_to_driver=False, logging_level="error")
        ray.data.DataContext.get_current().enable_progress_bars = False
        try:
            yield from super().run(work, shares)
        finally:
            ray.shutdown()


class OnNodes(Ray):
    """Ray on a cluster of so many nodes with a core each, which are processes of this machine."""

    def __init__(self, n_nodes: int):
        super().__init__()
        self.n_nodes = n_nodes

    def run(self, work: Any, shares: Any) -> Any:
        import ray
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            for _ in range(self.n_nodes - 1):
                cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            ray.init(cluster.address, log_to_driver=False, logging_level="error")
            ray.data.DataContext.get_current().enable_progress_bars = False
            yield from super().run(work, shares)
        finally:
            ray.shutdown()
            cluster.shutdown()


def engines(folder: Path) -> dict[str, Any]:
    """The same rows in this process and by Ray; and a few row by row, as if nothing were in common."""
    model, rows = trained(folder), rows_in(drawn(ENGINE_ROWS, folder))
    ways: dict[str, Engine] = {"this process": Local(), "Ray, 1 worker": OnCores(1), "Ray, 2 workers": OnCores(2)}
    found = {name: evaluated(model, rows, engine) for name, engine in ways.items()}
    assert len({(one["accuracy"], one["asked"]) for one in found.values()}) == 1
    few = draw(PLAIN_ROWS, 1)
    start = time.perf_counter()
    with one_thread():
        few_rows = model.rows(few[COLUMNS], few["disease"].astype(str))
        evaluate(model.model_, few_rows, model.stopping_rule(), in_detail=True, batch_rows=BATCH_ROWS)
    found["plain batches"] = {"rows": PLAIN_ROWS, "seconds": time.perf_counter() - start}
    return found


def nodes(folder: Path) -> dict[str, Any]:
    model, rows = trained(folder), rows_in(drawn(NODE_ROWS, folder))
    return {str(n): evaluated(model, rows, OnNodes(n)) for n in (1, 2, 3)}


def untrained(n_queries: int, n_labels: int) -> InformationVIP:
    """Of yes/no queries, with the network that a plan has for many rows on a CPU."""
    chance, queries = torch.Generator().manual_seed(0), yes_no_queries(n_queries)
    x = (torch.rand(WIDTH, n_queries, generator=chance) < 0.5).float() * 2 - 1
    rows = Rows(x, torch.ones(x.shape, dtype=torch.bool), torch.arange(WIDTH) % n_labels)
    answers = AnswerModel.count(queries, n_labels, rows)
    return InformationVIP.build(queries, range(n_labels), MLP((WIDTH, WIDTH)), answer_model=answers).eval()


def sizes() -> list[dict[str, Any]]:
    """Seconds for a row and step, by untrained networks of the default size: what they know does not matter here."""
    found = []
    for n_queries in QUERIES:
        for n_labels in N_LABELS:
            if n_queries * n_labels > MOST_ODDS:
                continue
            model = untrained(n_queries, n_labels)
            n_rows = max(4, min(rows_at_once(model, BATCH_ROWS), 3_000_000 // (n_queries * n_labels)))
            x = (torch.rand(n_rows, n_queries, generator=torch.Generator().manual_seed(0)) < 0.5).float() * 2 - 1
            seconds = []
            with one_thread():
                for _ in range(5):
                    start = time.perf_counter()
                    n_steps = sum(1 for _ in pursue(model, x, stop=Budget(STEPS)))
                    seconds.append((time.perf_counter() - start) / n_rows / n_steps)
            n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
            found.append({"queries": n_queries, "labels": n_labels, "seconds": min(seconds), "model_bytes": n_bytes})
            print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure evaluations of many rows.")
    parser.add_argument("parts", nargs="*", help="engines, nodes, sizes or rows=N; none: write the page again")
    parser.add_argument("--folder", type=Path, help="where rows and the model are kept; by default nowhere")
    given = parser.parse_args()
    path = RESULTS / "many_rows.json"
    measured: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        for part in given.parts:
            name, _, n_rows = part.partition("=")
            origin = {**where(), "processor": cpu(), "cores": os.cpu_count()}
            if name == "rows":
                rows = rows_in(drawn(int(float(n_rows)), folder))
                found: Any = evaluated(trained(folder), rows, OnCores(os.cpu_count() or 1))
                measured["rows"][str(int(float(n_rows)))] = {**found, "where": origin}
            else:
                found = {"engines": engines, "nodes": nodes}[name](folder) if name != "sizes" else sizes()
                measured[name] = {"found": found, "where": origin}
            print(part, found, flush=True)
            save(measured, page, "many_rows", RESULTS)
    print(save(measured, page, "many_rows", RESULTS))


if __name__ == "__main__":
    main()
