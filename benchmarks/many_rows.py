"""Evaluations of many rows: in this process, by Ray on cores and on nodes, by numbers of rows; and seconds for a step
of a chain by numbers of queries and labels, by which docs/scale.md reckons what far more would cost. Rows have 20
yes/no columns and one of five labels; they and the model are kept in results/many-rows. More: `--run part=rows
n_rows=100000000`. Then: very long and very wide tables by default settings."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.common import Stopwatch, fit
from benchmarks.report import Record, columns, grid, grouped, origins
from benchmarks.study import Study, every
from benchmarks.worlds import yes_no_queries
from pursuit import MLP, Budget, InformationVIP, ModelSpec, Rows, VIPClassifier, load
from pursuit.evaluation.curves import evaluate
from pursuit.inference.rollout import BATCH_ROWS, pursue, rows_at_once
from pursuit.information import AnswerModel
from pursuit.tables.engine import Engine, Local, Ray, one_thread
from pursuit.tables.row_jobs import measure_all
from pursuit.tables.source import TableSource, open_table

FOLDER = Path("results") / "many-rows"
COLUMNS, LABELS = [f"symptom {i}" for i in range(20)], np.array([f"disease {i}" for i in range(5)])
FILE_ROWS, TRAIN_ROWS, PLAIN_ROWS = 1_000_000, 20_000, 100_000
QUERIES, N_LABELS, STEPS, WIDTH, MOST_ODDS = (20, 100, 300, 1000, 3000, 10_000), (2, 10, 100, 1000), 5, 256, 10_000_000
"""Of queries times labels, no more than the last are tried."""
N_TOLD, PREDICTED_ROWS = 10, 200
"""Of generated tables: how many columns have to do with the label, and how many rows are predicted."""


def draw(n: int, seed: int) -> pd.DataFrame:
    """Patients: every disease has its own chances of every symptom."""
    chances = np.random.default_rng(0).beta(0.6, 0.6, (len(LABELS), len(COLUMNS)))
    chance = np.random.default_rng([1, seed])
    y = chance.integers(0, len(LABELS), n)
    answers = chance.random((n, len(COLUMNS)), dtype=np.float32) < chances[y]
    return pd.DataFrame(answers, columns=COLUMNS).assign(disease=pd.Categorical.from_codes(y, LABELS))


def drawn(n: int, folder: Path = FOLDER) -> TableSource:
    """A folder with n rows, in files of a million, drawn if they are not there."""
    rows = folder / f"{n}-rows"
    rows.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, n, FILE_ROWS)):
        path = rows / f"{number:04d}.parquet"
        if not path.exists():
            draw(min(FILE_ROWS, n - start), number + 1).to_parquet(path.with_suffix(".unfinished"))
            path.with_suffix(".unfinished").rename(path)
    return open_table(rows, COLUMNS, {"target": "disease"})


def trained(folder: Path = FOLDER) -> Any:
    """A model with all defaults."""
    if not (folder / "model").exists():
        rows = draw(TRAIN_ROWS, 0)
        VIPClassifier(random_state=0).fit(rows[COLUMNS], rows["disease"].astype(str)).save(folder / "model")
    return load(folder / "model")


@contextmanager
def watched() -> Iterator[list[int]]:
    """The memory that this process and all below it have together, looked at twice a second."""
    seen, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            seen.append(sum(_bytes(pid) for pid in _family()))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


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


def evaluated(model: Any, rows: TableSource, engine: Engine) -> Record:
    """Seconds, memory and figures of one evaluation of all rows."""
    start = time.perf_counter()
    with watched() as memory:
        found = measure_all(model, rows, None, engine, lambda n_rows: None).evaluation
    seconds, stop = time.perf_counter() - start, found.at_stop
    figures = {"accuracy": stop.accuracy, "asked": stop.mean_asked}
    return {"rows": found.n_rows, "seconds": seconds, "peak_bytes": max(memory), **figures}


class OnRay(Ray):
    """Ray on this machine with so many cores, or on a cluster of nodes with a core each, as processes of it."""

    def __init__(self, n_cores: int = 1, n_nodes: int | None = None):
        super().__init__()
        self.n_cores, self.n_nodes = n_cores, n_nodes

    def each(self, do: Any, items: Any) -> Any:
        import ray

        quiet, cluster = {"log_to_driver": False, "logging_level": "error"}, None
        if self.n_nodes is None:
            ray.init("local", num_cpus=self.n_cores, include_dashboard=False, **quiet)
        else:
            from ray.cluster_utils import Cluster

            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
            for _ in range(self.n_nodes - 1):
                cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            ray.init(cluster.address, **quiet)
        try:
            yield from super().each(do, items)
        finally:
            ray.shutdown()
            if cluster:
                cluster.shutdown()


WAYS: dict[str, Any] = {
    "this process": Local,
    "Ray, 1 worker": lambda: OnRay(1),
    "Ray, 2 workers": lambda: OnRay(2),
    **{f"nodes: {n}": (lambda n=n: OnRay(n_nodes=n)) for n in (1, 2, 3)},
}


def measure(part: str, way: str = "all cores", n_rows: int = 0, queries: int = 0, labels: int = 0) -> Record:
    cores = {"cores": os.cpu_count()}
    if part == "tables":
        return {**cores, **learnt_table(n_rows, queries)}
    if part == "sizes":
        return {**cores, **step_seconds(queries, labels)}
    if way != "plain batches":
        engine = WAYS[way]() if way in WAYS else OnRay(os.cpu_count() or 1)
        return {**cores, **evaluated(trained(), drawn(n_rows), engine)}
    model, few, start = trained(), draw(n_rows, 1), time.perf_counter()
    with one_thread():
        rows = model.rows(few[COLUMNS], few["disease"].astype(str))
        evaluate(model.model_, rows, model.stopping_rule(), in_detail=True, batch_rows=BATCH_ROWS)
    return {**cores, "rows": n_rows, "seconds": time.perf_counter() - start}


def step_seconds(n_queries: int, n_labels: int) -> Record:
    """Seconds for a row and step, by an untrained network of the default size: what it knows does not matter here."""
    chance, query_set = torch.Generator().manual_seed(0), yes_no_queries(n_queries)

    def answers(n: int) -> torch.Tensor:
        return (torch.rand(n, n_queries, generator=chance) < 0.5).float() * 2 - 1

    x = answers(WIDTH)
    counted = AnswerModel.count(
        query_set, n_labels, Rows(x, torch.ones(x.shape, dtype=torch.bool), torch.arange(WIDTH) % n_labels)
    )
    model = InformationVIP.build(
        ModelSpec(query_set, range(n_labels), MLP((WIDTH, WIDTH))), answer_model=counted
    ).eval()
    n_rows = max(4, min(rows_at_once(model, BATCH_ROWS), 3_000_000 // (n_queries * n_labels)))
    x, seconds = answers(n_rows), []
    with one_thread():
        for _ in range(5):
            start = time.perf_counter()
            n_steps = sum(1 for _ in pursue(model, x, stop=Budget(STEPS)))
            seconds.append((time.perf_counter() - start) / n_rows / n_steps)
    n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    return {"seconds": min(seconds), "model_bytes": n_bytes}


def learnt_table(n_rows: int, n_columns: int) -> Record:
    """What learning a table takes, in a process that has done nothing else."""
    imports = peak_mb()
    X, y = mixed_table(n_rows + PREDICTED_ROWS, n_columns)
    of_rows, model = peak_mb(), VIPClassifier(random_state=0)
    learning = fit(model, X[:n_rows], y[:n_rows])
    of_fit, predicting = peak_mb(), Stopwatch()
    right = model.predict(X[n_rows:]) == y[n_rows:]
    peaks = {"peak_of_rows_mb": of_rows - imports, "peak_of_fit_mb": of_fit - imports}
    return {**learning, **predicting.read("predict"), "accuracy": float(right.mean()), **peaks}


def mixed_table(n_rows: int, n_columns: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Half numbers and half words of four kinds; ten columns tell something about a label of three, and one cell in
    twenty is missing."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n_rows)
    cells: dict[str, Any] = {}
    for i in range(n_columns):
        told, missing = i < N_TOLD, rng.random(n_rows) < 0.05
        if i % 2:
            code = np.where(told & (rng.random(n_rows) < 0.4), (y + i) % 4, rng.integers(4, size=n_rows))
            words = np.array(["north", "east", "south", "west"], dtype=object)[code]
            words[missing] = None
            cells[f"word {i}"] = words
        else:
            number = rng.normal(size=n_rows) + (0.7 * (y == i % 3) if told else 0)
            number[missing] = np.nan
            cells[f"number {i}"] = number
    return pd.DataFrame(cells), np.array(["a", "b", "c"])[y]


def peak_mb() -> float:
    """The most memory this process ever had, with everything that training imports. The figure of `getrusage` may be
    that of the process that started this one."""
    import lightning_fabric  # noqa: F401

    import pursuit.methods  # noqa: F401

    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e6


def page(records: list[Record]) -> dict[str, str]:
    shown = columns(
        "seconds = seconds|,.1f; rows a second = pace|,.0f; peak memory of all processes, GB = peak_bytes*1e-9|.2f;"
        "accuracy = accuracy|.4f; asked = asked|.2f; cores = cores"
    )
    parts, sections = grouped(records, "part"), {}
    for part in ("engines", "rows", "nodes"):
        found = [{**one, "pace": one["rows"] / one["seconds"]} for one in parts.get(part, [])]
        found.sort(key=lambda one: one["rows"] if part == "rows" else 0)
        sections[part] = grid(grouped(found, "way", "rows"), shown, "way", "rows")
    steps = columns("microseconds = seconds*1e6|figure; model, MB = model_bytes*1e-6|,.0f")
    sizes = grid(grouped(parts.get("sizes", []), "queries", "labels"), steps, "queries", "labels")
    learnt = columns(
        "fit s = fit_seconds|figure; predict s = predict_seconds|figure; accuracy = accuracy|.3f;"
        "MB of the table = peak_of_rows_mb|figure; MB at the peak = peak_of_fit_mb|figure"
    )
    tables = grid(grouped(parts.get("tables", []), "n_rows", "queries"), learnt, "rows", "columns")
    return {**sections, "sizes": sizes, "tables": tables, "origins": origins(records, "part")}


STUDY = Study(
    name="many_rows",
    runs=[
        *every(part=["engines"], way=list(WAYS)[:3], n_rows=[4_000_000]),
        {"part": "engines", "way": "plain batches", "n_rows": PLAIN_ROWS},
        *every(part=["rows"], way=["all cores"], n_rows=(10**5, 10**6, 10**7)),
        *every(part=["nodes"], way=list(WAYS)[3:], n_rows=[3_000_000]),
        *({"part": "sizes", "queries": q, "labels": c} for q in QUERIES for c in N_LABELS if q * c <= MOST_ODDS),
        {"part": "tables", "n_rows": 1_000_000, "queries": 20},
        {"part": "tables", "n_rows": 500, "queries": 20_000},
    ],
    measure=measure,
    page=page,
    quick={"n_rows": 3000},
)
