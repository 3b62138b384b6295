"""What is done with the rows of files, share by share: each by itself, in any process, with the same result."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import safetensors.torch
from safetensors import SafetensorError

from pursuit.data.rows import Rows
from pursuit.data.storage import Place, here, put, putting
from pursuit.estimators import PursuitClassifier, PursuitEstimator
from pursuit.evaluation.curves import Setting, evaluation_sums
from pursuit.evaluation.sums import EvaluationSums
from pursuit.inference.predictions import PROBABILITY, STEP
from pursuit.inference.stopping import StoppingRule
from pursuit.tasks.every_row import EveryRow, RowsPart

KEPT_BYTES = 2**27
"""About how much of different rows is kept until they are measured."""
DIGITS = 6
"""Of a probability in a file, behind the point, and of a number, from the first that is not 0."""


class Done(NamedTuple):
    """What came of a share."""

    share: int
    n_rows: int
    n_left_out: int = 0
    """Rows that could not be used: without a label, or with one that training did not have."""
    result: Any = None
    """What is not in a file."""


class Work(ABC):
    """Something to do with every share of some rows. It is pickled, and goes to the processes that do it."""

    rows: EveryRow
    folder: Place | None
    """Where what came of the shares is kept; None: nowhere."""

    @abstractmethod
    def do(self, share: int) -> Done:
        """Do it for one share. Doing it again changes nothing."""

    @abstractmethod
    def mark(self, share: int) -> str:
        """The name of the file that is in the folder once a share is done."""

    @abstractmethod
    def found(self, share: int) -> Done | None:
        """What is kept of a share; None if it is still to be done."""


@dataclass(frozen=True)
class Predict(Work):
    """Predict every row, and write a Parquet file for each share, with a note beside it once it is whole."""

    model: PursuitEstimator
    rows: EveryRow
    stop: StoppingRule | str | None
    folder: Place

    def do(self, share: int) -> Done:
        tables, n_rows = [], 0
        for part in self.rows.read(share):
            tables.append(self.table(part))
            n_rows += len(part.X)
        done = Done(share, n_rows)
        _write_parquet(self._path(share), tables)
        put(self._note(share), json.dumps(done[:3]).encode())
        return done

    def table(self, part: RowsPart) -> pd.DataFrame:
        """What is written of some rows."""
        return _in_lists(predicted(self.model, part, self.stop))

    def found(self, share: int) -> Done | None:
        try:
            return Done(*json.loads(self._note(share).read_text())) if self._path(share).exists() else None
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def mark(self, share: int) -> str:
        return f"_part-{share:06d}.json"  # which readers of such folders leave out

    def _path(self, share: int) -> Place:
        return self.folder / f"part-{share:06d}.parquet"

    def _note(self, share: int) -> Place:
        return self.folder / self.mark(share)


@dataclass(frozen=True)
class Explain(Predict):
    """Write the chain of every row instead, with a row for each step."""

    def table(self, part: RowsPart) -> pd.DataFrame:
        table = self.model.explain_table(part.X, self.stop, initially_known=part.initially_known)
        return _named(table, part, np.cumsum(table[STEP].to_numpy() == 0) - 1)


@dataclass(frozen=True)
class Measure(Work):
    """Count what an evaluation is made of, on the rows that the model was not trained on."""

    model: PursuitClassifier
    rows: EveryRow
    setting: Setting
    with_bits: bool = False
    folder: Place | None = None

    def do(self, share: int) -> Done:
        sums: EvaluationSums | None = None
        n_rows = n_left_out = 0
        waiting: list[Rows] = []  # equal rows are measured once, and so the rows of a share together
        for part in self.rows.read(share):
            is_new, usable = measurable(self.model, self.rows, share, part)
            n_rows, n_left_out = n_rows + int(usable.sum()), n_left_out + int((is_new & ~usable).sum())
            if not usable.any():
                continue
            assert part.labels is not None
            waiting.append(Rows.joined([self.model.rows(part.X[usable], part.labels[usable].to_numpy())]))
            if sum(part.n_bytes for part in waiting) >= KEPT_BYTES:
                waiting = [Rows.joined(waiting)]
                if waiting[0].n_bytes >= KEPT_BYTES // 2:
                    sums, waiting = self._counted(waiting, sums), []
        sums = self._counted(waiting, sums)
        if self.folder is not None:
            tensors = {} if sums is None else sums.tensors()
            metadata = {"done": json.dumps([share, n_rows, n_left_out])}
            put(self._path(share), safetensors.torch.save(tensors, metadata))
        return Done(share, n_rows, n_left_out, sums)

    def _counted(self, waiting: Sequence[Rows], sums: EvaluationSums | None) -> EvaluationSums | None:
        """The sums with those of the rows that wait."""
        if not waiting:
            return sums
        rows, model = Rows.joined(waiting), self.model
        counted = evaluation_sums(model.model_, rows, self.setting, model.device, None, self.with_bits)
        return counted if sums is None else sums + counted

    def found(self, share: int) -> Done | None:
        if self.folder is None or not self._path(share).exists():
            return None
        try:
            with here(self._path(share)) as path, safetensors.safe_open(path, "pt") as file:
                done = Done(*json.loads(file.metadata()["done"]))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, KeyError, TypeError, ValueError):
            return None
        return done._replace(result=EvaluationSums.from_tensors(tensors) if tensors else None)

    def mark(self, share: int) -> str:
        return f"sums-{share:06d}.safetensors"

    def _path(self, share: int) -> Place:
        assert self.folder is not None
        return self.folder / self.mark(share)


def measurable(model: PursuitClassifier, rows: EveryRow, share: int, part: RowsPart) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of a part (N,) the model was not trained on, and which of these have a label that it knows."""
    if part.labels is None:
        raise ValueError("The rows have no labels to measure by: name their column with --target.")
    is_new = ~rows.was_seen(share, np.asarray(part.X.index))
    there = part.labels.notna().to_numpy()
    values = part.labels.astype(str) if model.classes_.dtype.kind in "OU" else part.labels
    return is_new, is_new & there & (pd.Index(model.classes_).get_indexer(pd.Index(values)) >= 0)


def predicted(model: PursuitEstimator, part: RowsPart, stop: StoppingRule | str | None) -> pd.DataFrame:
    """The predictions of some rows, which begin with what tells the rows apart."""
    table = model.predict_table(part.X, stop, initially_known=part.initially_known)
    return _named(table, part, np.arange(len(table)))


def _named(table: pd.DataFrame, part: RowsPart, rows: np.ndarray) -> pd.DataFrame:
    """A table about `rows` of a part, by their places in it, with what tells these apart before its own columns, and
    numbers that are no longer than they mean something."""
    for column in map(str, table.select_dtypes("float")):
        is_share = column.startswith(PROBABILITY)
        table[column] = table[column].round(DIGITS) if is_share else table[column].map(_significant)
    name, values = (part.place, part.places) if part.ids is None else (str(part.ids.name), part.ids.to_numpy())
    values = values[rows]
    for own in [name, *(["file"] if part.file is not None else [])]:
        if own in table.columns:
            raise ValueError(
                f"The predictions have a column '{own}' of their own: rename yours, or name rows by another one."
            )
    table.insert(0, name, values)
    if part.file is not None:
        table.insert(0, "file", part.file)
    return table


def _significant(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def _in_lists(table: pd.DataFrame) -> pd.DataFrame:
    """What was asked as a list in each row, so that all parts have the same columns however much was asked."""
    n_asked = table["n_asked"].to_numpy()
    for kind in ("question", "answer"):
        columns = [name for name in table.columns if name.startswith(f"{kind}_") and name[len(kind) + 1 :].isdecimal()]
        values = table[columns].astype(object).where(table[columns].notna(), None).to_numpy()
        table = table.drop(columns=columns)
        table[f"{kind}s"] = [row[:n] for row, n in zip(values.tolist(), n_asked, strict=True)]
    return table


def _write_parquet(path: Place, tables: Sequence[pd.DataFrame]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = [pa.Table.from_pandas(table, preserve_index=False) for table in tables]
    schema = pa.unify_schemas([part.schema.remove_metadata() for part in parts], promote_options="permissive")
    lists = {"questions": pa.list_(pa.string()), "answers": pa.list_(pa.string())}
    fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in schema]
    schema = pa.schema([field.with_type(lists.get(field.name, field.type)) for field in fields])
    with putting(path) as file, pq.ParquetWriter(file, schema) as writer:
        for part in parts:
            writer.write_table(part.cast(schema))
