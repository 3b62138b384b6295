"""Whole tables as work: predicted into a folder, or measured on."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pursuit.data.storage import Place, make, put
from pursuit.estimators import PursuitClassifier, PursuitEstimator
from pursuit.evaluation.counts import EvaluationCounts
from pursuit.evaluation.curves import Evaluation, Setting
from pursuit.inference.stopping import StoppingRule
from pursuit.scale.engine import Engine
from pursuit.scale.work import Done, Explain, Measure, Predict, Work, measurable
from pursuit.tasks.every_row import EveryRow
from pursuit.version import __version__

JOB = "_job.json"
"""Says in a folder what is done there."""

OnRows = Callable[[int], None]
"""Takes how many rows are done so far."""


def predict_all(
    model: PursuitEstimator, rows: EveryRow, stop: str | None, folder: Place, engine: Engine, on_rows: OnRows
) -> int:
    """Predict all rows into Parquet files in `folder`, one for each share, and say how many rows there are. What is
    there of the same predictions is not done again."""
    work = Predict(model, rows, stop, folder)
    _claim(folder, {"work": "predictions", **_described(model, rows, model.stopping_rule(stop))})
    return sum(done.n_rows for done in _all_done(work, engine, on_rows))


def explain_all(
    model: PursuitEstimator, rows: EveryRow, stop: str | None, folder: Place, engine: Engine, on_rows: OnRows
) -> int:
    """Write the chains of all rows into Parquet files in `folder`, as `predict_all` writes predictions."""
    work = Explain(model, rows, stop, folder)
    _claim(folder, {"work": "chains", **_described(model, rows, model.stopping_rule(stop))})
    return sum(done.n_rows for done in _all_done(work, engine, on_rows))


class Measured(NamedTuple):
    """What was measured on all rows."""

    evaluation: Evaluation
    n_left_out: int
    """Rows without a label, or with one that training did not have."""


def measure_all(
    model: PursuitClassifier,
    rows: EveryRow,
    stop: str | None,
    engine: Engine,
    on_rows: OnRows,
    folder: Place | None = None,
    with_bits: bool = False,
) -> Measured:
    """Measure a model on all rows that it was not trained on. What is counted on each share is kept in `folder`, if
    there is one, and not counted again."""
    setting = Setting.of(model.model_, model.stopping_rule(stop), model.max_queries, in_detail=True)
    work = Measure(model, rows, setting, with_bits, folder)
    if folder is not None:
        _claim(folder, {"work": "counts", "with_bits": with_bits, **_described(model, rows, model.stopping_rule(stop))})
    total: EvaluationCounts | None = None
    n_left_out = 0
    for done in _all_done(work, engine, on_rows):
        n_left_out += done.n_left_out
        if done.result is not None:
            total = done.result if total is None else total + done.result
    if total is None:
        raise ValueError(
            "There are no rows to measure on: none has a label that the model knows, or it was trained on all."
        )
    return Measured(setting.evaluation(total), n_left_out)


def first_rows(model: PursuitClassifier, rows: EveryRow, most: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The first of the rows that `measure_all` measures on, and their labels; at most `most`."""
    found: list[tuple[pd.DataFrame, pd.Series]] = []
    n_left = most
    for share in range(len(rows.shares)):
        for part in rows.read(share):
            _, usable = measurable(model, rows, share, part)
            assert part.labels is not None
            found.append((part.X[usable][:n_left], part.labels[usable][:n_left]))
            n_left -= len(found[-1][1])
            if not n_left:
                break
        if not n_left:
            break
    return pd.concat([X for X, _ in found]), pd.concat([labels for _, labels in found]).to_numpy()


def _all_done(work: Work, engine: Engine, on_rows: OnRows) -> Iterator[Done]:
    """What came of every share, those done before included; each exactly once."""
    n_rows, left = 0, []
    there = set() if work.folder is None else {path.name for path in work.folder.iterdir()}
    for share in range(len(work.rows.shares)):
        done = work.found(share) if work.mark(share) in there else None
        if done is None:
            left.append(share)
            continue
        n_rows += done.n_rows
        yield done
    on_rows(n_rows)
    missing = set(left)
    for done in engine.run(work, left) if left else ():
        missing.remove(done.share)
        n_rows += done.n_rows
        on_rows(n_rows)
        yield done
    if missing:
        raise RuntimeError(f"{len(missing)} of {len(work.rows.shares)} shares came to nothing: run the same again.")


def _described(model: PursuitEstimator, rows: EveryRow, stop: StoppingRule) -> dict[str, Any]:
    """What tells work with a model on some rows from other work."""
    levels = vars(model.stopping_rule(None))  # among them those that keep a promise
    digest = hashlib.sha256(f"{model!r} {levels!r}".encode())
    for name, tensor in model.model_.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return {
        "version": __version__,
        "model": digest.hexdigest(),
        "stop": str(stop),
        "rows": rows.fingerprint(),
        "number of shares": len(rows.shares),
        "id column": rows.id_column,
    }


def _claim(folder: Place, described: dict[str, Any]) -> None:
    """Make the folder one of this work, or raise ValueError if it holds something else."""
    path, described = folder / JOB, json.loads(json.dumps(described))
    try:
        before = json.loads(path.read_text()) if path.exists() else None
    except ValueError:
        before = {}
    if before is None and folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} holds other files: choose a folder that is empty or not there yet.")
    if before is not None and before != described:
        changed = [name for name in described if not isinstance(before, dict) or before.get(name) != described[name]]
        raise ValueError(
            f"{folder} holds what came of another {' and '.join(changed)}: choose another folder, or delete this one."
        )
    make(folder)
    put(path, json.dumps(described, indent=1).encode())
