"""Work on all rows of files, share by share: each by itself, in any process, with the same result. Rows are predicted
or explained into a file or a folder, which is written part by part, or measured on."""

import csv
import hashlib
import io
import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple, TextIO

import numpy as np
import pandas as pd
import safetensors.torch
from safetensors import SafetensorError

from pursuit.estimators import PursuitClassifier, PursuitEstimator
from pursuit.evaluation.counts import EvaluationCounts
from pursuit.evaluation.curves import Evaluation, Setting, evaluation_counts
from pursuit.inference.predictions import PROBABILITY, STEP
from pursuit.networks.dense import one_thread
from pursuit.tables.arrow import require_pyarrow
from pursuit.tables.engine import Engine, Lost, refuse_other_folder
from pursuit.tables.filesystem import AnyPath, find_path, make_folder, open_to_write, remove_folder, write
from pursuit.tables.labels import as_known, target_values
from pursuit.tables.source import RowsPart, TableSource, refuse_absent
from pursuit.training.rows import Rows
from pursuit.version import __version__

CSV, PARQUET = (".csv", ".tsv"), (".parquet", ".pq")


def means_folder(name: str) -> bool:
    """Whether a table of this name is a folder of Parquet files: there is one, or the name has no ending. Otherwise it
    is a file; raises ValueError if that cannot be written."""
    path = find_path(name)
    is_folder = path.is_dir() or not path.suffix or name.endswith("/")
    if is_folder or path.suffix.lower() in PARQUET:
        require_pyarrow()
    elif path.suffix.lower() not in CSV:
        raise ValueError(
            f"{path} cannot be written: give a name that ends in {', '.join(CSV + PARQUET)}, or that of a folder."
        )
    if not is_folder and isinstance(path, Path) and not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: give a file in a folder that exists.")
    return is_folder


def write_table(path: AnyPath, parts: Iterable[pd.DataFrame]) -> None:
    """Write the parts of a table, one below the other, to a file that is whole or not there.

    Parts have the same first columns; what a part lacks at the end is missing in its rows.
    """
    with open_to_write(path) as file:
        if path.suffix.lower() in PARQUET:
            write_parquet(file, parts)
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            write_csv(text, parts, "\t" if path.suffix.lower() == ".tsv" else ",")
            text.detach()  # closing is left to whoever opened the file


def write_csv(file: TextIO, parts: Iterable[pd.DataFrame], separator: str = ",") -> None:
    """Write the parts as one CSV file."""
    names: list[str] = []
    # How many columns there are shows with the last part, but their names come first: so the rows wait in a file.
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as waiting:
        for part in parts:
            names = _joined(names, part.columns)
            part.to_csv(waiting, header=False, index=False)
        waiting.seek(0)
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(row + [""] * (len(names) - len(row)) for row in csv.reader(waiting))


def write_parquet(file: BinaryIO, parts: Iterable[pd.DataFrame]) -> None:
    """Write the parts as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        waiting: list[Path] = []
        for part in parts:
            names = _joined(names, part.columns)
            waiting.append(Path(folder) / f"{len(waiting)}.parquet")
            pq.write_table(pa.Table.from_pandas(part, preserve_index=False), waiting[-1])
        schemas = [pq.read_schema(path).remove_metadata() for path in waiting]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        schema = pa.schema([_with_values(schema.field(name)) for name in names])
        with pq.ParquetWriter(file, schema) as writer:
            for path in waiting:
                table = pq.read_table(path)
                for name in names[table.num_columns :]:
                    table = table.append_column(name, pa.nulls(len(table)))
                writer.write_table(table.cast(schema))


def _with_values(field: Any) -> Any:
    """A column of nothing but missing values, or of lists of nothing, as one of texts, which more programs can read and
    which other files of the same folder have."""
    import pyarrow as pa

    is_list = pa.types.is_list(field.type)
    held = field.type.value_type if is_list else field.type
    held = pa.string() if pa.types.is_null(held) else held
    return field.with_type(pa.list_(held) if is_list else held)


def _joined(names: Sequence[str], more: Iterable[str]) -> list[str]:
    """The names of the part with the most columns; raises ValueError for parts that do not belong together."""
    more = [str(name) for name in more]
    longest, shortest = (names, more) if len(names) > len(more) else (more, names)
    if list(longest[: len(shortest)]) != list(shortest):
        raise ValueError(f"The parts of a table begin with the same columns, but these differ: {names} and {more}.")
    return list(longest)


KEPT_BYTES = 2**27
"""Bytes of different rows, approximately, that are collected before they are measured."""
DIGITS = 6
"""Decimal places of probabilities and significant digits of numbers in output files."""
JOB = "_job.json"
"""The file that identifies the work in a folder."""

OnRows = Callable[[int], None]
"""Takes how many rows are done so far."""


class Done(NamedTuple):
    """The result of a share."""

    share: int
    n_rows: int
    n_left_out: int = 0
    """Rows that could not be used: without a label, or with one that training did not have."""
    result: Any = None
    """The result that is not in a file."""


@dataclass(frozen=True)
class RowsWork(ABC):
    """Something to do with every share of the rows of a source. The result of a share is a file in the folder, with a
    note beside it once it is whole."""

    kind: ClassVar[str]
    file_name: ClassVar[str]

    model: Any
    """The estimator."""
    rows: TableSource
    stop: str | None
    folder: AnyPath | None
    """The folder for the results of shares; None: they are not written."""

    def __call__(self, share: int) -> Done:
        """Do it for one share, by one thread, so that all engines give the same bits."""
        if isinstance(self.folder, Path):
            refuse_other_folder(self.folder, JOB)
        with one_thread():
            done = self.do(share)
        if self.folder is not None:
            write(self.folder / note(share), json.dumps(done[:3]).encode())
        return done

    @abstractmethod
    def do(self, share: int) -> Done:
        """Do it for one share. Doing it again changes nothing."""

    @abstractmethod
    def saved(self, share: int) -> Any:
        """The result that was written for a share; raises an error if it is not there or damaged."""

    def path(self, share: int) -> AnyPath:
        assert self.folder is not None
        return self.folder / self.file_name.format(share)

    def described(self) -> dict[str, Any]:
        """The identity of this work, as JSON values."""
        model = self.model
        levels = vars(model.stopping_rule(None))  # among them those that keep a promise
        digest = hashlib.sha256(f"{model!r} {levels!r}".encode())
        for name, tensor in model.model_.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return {
            "work": self.kind,
            "version": __version__,
            "model": digest.hexdigest(),
            "stop": str(model.stopping_rule(self.stop)),
            "rows": self.rows.fingerprint(),
            "number of shares": len(self.rows.shares),
            "id column": self.rows.id_column,
        }

    def claim(self) -> None:
        """Make the folder one of this work, or raise ValueError if it holds something else."""
        folder = self.folder
        if folder is None:
            return
        path, described = folder / JOB, json.loads(json.dumps(self.described()))
        try:
            before = json.loads(path.read_text()) if path.exists() else None
        except ValueError:
            before = {}
        if before is None and folder.is_dir() and any(folder.iterdir()):
            raise ValueError(f"{folder} holds other files: choose a folder that is empty or not there yet.")
        if before is not None and before != described:
            changed = [
                name for name in described if not isinstance(before, dict) or before.get(name) != described[name]
            ]
            raise ValueError(
                f"{folder} holds what came of another {' and '.join(changed)}: choose another folder, or delete this "
                "one."
            )
        make_folder(folder)
        write(path, json.dumps(described, indent=1).encode())

    def all_done(self, engine: Engine, on_rows: OnRows) -> Iterator[Done]:
        """The results of all shares, those done before included; each exactly once."""
        self.claim()
        n_rows, left = 0, []
        there = set() if self.folder is None else {path.name for path in self.folder.iterdir()}
        for share in range(len(self.rows.shares)):
            done = self.found(share) if note(share) in there else None
            if done is None:
                left.append(share)
                continue
            n_rows += done.n_rows
            yield done
        on_rows(n_rows)
        missing = set(left)
        for share, done in engine.each(self, iter(left)) if left else ():
            if isinstance(done, Lost):
                continue
            missing.remove(share)
            n_rows += done.n_rows
            on_rows(n_rows)
            yield done
        if missing:
            raise RuntimeError(f"{len(missing)} of {len(self.rows.shares)} shares came to nothing: run the same again.")

    def found(self, share: int) -> Done | None:
        """The saved result of a share; None if the share is still to be done."""
        assert self.folder is not None
        try:
            done = Done(*json.loads((self.folder / note(share)).read_text()))
            return done._replace(result=self.saved(share))
        except (FileNotFoundError, ValueError, TypeError, SafetensorError):
            return None


def note(share: int) -> str:
    """The name of the note on a share, which readers of folders of Parquet files leave out."""
    return f"_part-{share:06d}.json"


@dataclass(frozen=True)
class Predict(RowsWork):
    """Predict every row, and write a Parquet file for each share, with a note beside it once it is whole."""

    kind: ClassVar[str] = "predictions"
    file_name: ClassVar[str] = "part-{:06d}.parquet"

    in_lists: bool = True
    """Write questions and answers as lists, so that all shares have the same columns; otherwise in columns."""

    def do(self, share: int) -> Done:
        n_rows = [0]
        write_table(self.path(share), self.tables(self.rows.read(share), n_rows.append))
        return Done(share, n_rows[-1])

    def tables(self, parts: Iterable[RowsPart], on_rows: OnRows) -> Iterator[pd.DataFrame]:
        """The tables to write for parts of the rows."""
        n_rows = 0
        for part in parts:
            yield self.table(part)
            n_rows += len(part.positions)
            on_rows(n_rows)

    def table(self, part: RowsPart) -> pd.DataFrame:
        """The table to write for some rows."""
        table = self.model.predict_table(part.X, self.stop, initially_known=part.initially_known, absent=part.absent)
        table = _named(table, part, np.arange(len(table)))
        return _in_lists(table) if self.in_lists else table

    def saved(self, share: int) -> None:
        if not self.path(share).exists():
            raise FileNotFoundError(self.path(share))

    def described(self) -> dict[str, Any]:
        return {**super().described(), **({} if self.in_lists else {"in lists": False})}


@dataclass(frozen=True)
class Explain(Predict):
    """Write the chain of every row instead, with a row for each step."""

    kind: ClassVar[str] = "chains"

    def table(self, part: RowsPart) -> pd.DataFrame:
        table = self.model.explain_table(part.X, self.stop, initially_known=part.initially_known, absent=part.absent)
        return _named(table, part, np.cumsum(table[STEP].to_numpy() == 0) - 1)


def write_folder(work: Predict, engine: Engine, on_rows: OnRows) -> int:
    """Do all shares into their folder, and say how many rows there are. What is there of the same work is not done
    again."""
    return sum(done.n_rows for done in work.all_done(engine, on_rows))


def write_file(work: Predict, path: AnyPath, engine: Engine, on_rows: OnRows) -> int:
    """Do all shares and join them to one file: their folder is gone once the file is there."""
    n_rows = write_folder(work, engine, on_rows)
    parts = (work.path(share).read_bytes() for share in range(len(work.rows.shares)))
    write_table(path, (pd.read_parquet(io.BytesIO(part)) for part in parts))
    assert work.folder is not None
    remove_folder(work.folder)
    return n_rows


@dataclass(frozen=True)
class Measure(RowsWork):
    """Count the parts of an evaluation, on rows that the model was not trained on."""

    kind: ClassVar[str] = "counts"
    file_name: ClassVar[str] = "counts-{:06d}.safetensors"

    setting: Setting
    with_bits: bool = False

    def described(self) -> dict[str, Any]:
        return {**super().described(), "with_bits": self.with_bits}

    def do(self, share: int) -> Done:
        counts: EvaluationCounts | None = None
        n_rows = n_left_out = 0
        waiting: list[Rows] = []  # equal rows are measured once, and so the rows of a share together
        for part in self.rows.read(share):
            refuse_absent(part.absent, self.rows.name)
            if part.labels is None:
                raise ValueError("The rows have no labels to measure by: name their column with --target.")
            labels = known_labels(self.model, part.labels[part.to_measure])
            n_rows, n_left_out = n_rows + len(labels), n_left_out + int(part.to_measure.sum()) - len(labels)
            if not len(labels):
                continue
            usable = part.labels.index.isin(labels.index)
            known = None if part.initially_known is None else part.initially_known[usable]
            waiting.append(Rows.joined([self.model.rows(part.X[usable], labels.to_numpy(), initially_known=known)]))
            if sum(part.n_bytes for part in waiting) >= KEPT_BYTES:
                waiting = [Rows.joined(waiting)]
                if waiting[0].n_bytes >= KEPT_BYTES // 2:
                    counts, waiting = self._counted(waiting, counts), []
        counts = self._counted(waiting, counts)
        if self.folder is not None:
            write(self.path(share), safetensors.torch.save({} if counts is None else counts.tensors()))
        return Done(share, n_rows, n_left_out, counts)

    def _counted(self, waiting: Sequence[Rows], counts: EvaluationCounts | None) -> EvaluationCounts | None:
        """The counts with those of the rows that wait."""
        if not waiting:
            return counts
        rows, model = Rows.joined(waiting), self.model
        counted = evaluation_counts(model.model_, rows, self.setting, model.device, None, self.with_bits)
        return counted if counts is None else counts + counted

    def saved(self, share: int) -> EvaluationCounts | None:
        tensors = safetensors.torch.load(self.path(share).read_bytes())
        return EvaluationCounts.from_tensors(tensors) if tensors else None


def known_labels(model: PursuitEstimator, labels: pd.Series) -> pd.Series:
    """The labels as the model has them, without those that are missing or that it does not know."""
    present = labels.dropna()
    if not isinstance(model, PursuitClassifier):
        return present
    values = pd.Series(target_values(present), index=present.index)
    values = as_known(values.astype(str), model.classes_) if model.classes_.dtype.kind in "OU" else values
    return values[values.isin(model.classes_)]


def _named(table: pd.DataFrame, part: RowsPart, rows: np.ndarray) -> pd.DataFrame:
    """A table about `rows` of a part, by their numbers in it, with what tells these apart before its own columns, and
    numbers that are no longer than they mean something."""
    for column in map(str, table.select_dtypes("float")):
        is_share = column.startswith(PROBABILITY)
        table[column] = (
            table[column].round(DIGITS) if is_share else table[column].map(lambda x: float(f"{x:.{DIGITS}g}"))
        )
    name, values = (part.position, part.positions) if part.ids is None else (str(part.ids.name), part.ids.to_numpy())
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


def _in_lists(table: pd.DataFrame) -> pd.DataFrame:
    """Questions and answers as lists in each row, so that all parts have the same columns."""
    n_asked = table["n_asked"].to_numpy()
    for kind in ("question", "answer"):
        columns = [name for name in table.columns if name.startswith(f"{kind}_") and name[len(kind) + 1 :].isdecimal()]
        values = table[columns].astype(object).where(table[columns].notna(), None).to_numpy()
        table = table.drop(columns=columns)
        table[f"{kind}s"] = [row[:n] for row, n in zip(values.tolist(), n_asked, strict=True)]
    return table


class Measured(NamedTuple):
    """An evaluation on all rows."""

    evaluation: Evaluation
    n_left_out: int
    """Rows without a label, or with one that training did not have."""


def measure_all(
    model: PursuitClassifier,
    rows: TableSource,
    stop: str | None,
    engine: Engine,
    on_rows: OnRows,
    folder: AnyPath | None = None,
    with_bits: bool = False,
) -> Measured:
    """Measure a model on all rows that it was not trained on. The counts of each share are saved in `folder`, if there
    is one, and not made again."""
    setting = Setting.of(model.model_, model.stopping_rule(stop), model.max_queries, in_detail=True)
    work = Measure(model, rows, stop, folder, setting, with_bits)
    total: EvaluationCounts | None = None
    n_left_out = 0
    for done in work.all_done(engine, on_rows):
        n_left_out += done.n_left_out
        if done.result is not None:
            total = done.result if total is None else total + done.result
    if total is None:
        raise ValueError(
            "There are no rows to measure on: none has a label that the model knows, or it was trained on all."
        )
    return Measured(setting.evaluation(total), n_left_out)
