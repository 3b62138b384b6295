"""Any CSV file as a task: every column but the target is a query."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from pursuit.data.parquet.arrow_files import existing_column
from pursuit.data.parquet.survey import MAX_FRACTIONS
from pursuit.queries import ColumnQueries, NotAQuestion
from pursuit.tasks.task import Task

SEPARATORS = ",;\t|"


def load(
    path: str | Path,
    target: str | None,
    *,
    drop: Sequence[str] = (),
    missing: Sequence[str] = (),
    test_share: float = 0.2,
    seed: int = 0,
    regress: bool = False,
) -> Task:
    """Read a CSV file whose column `target` is the label, or to `regress` a number; a share `test_share` of the rows is
    held out for testing.

    Columns in `drop` are left out, and texts in `missing` (such as "?") count as missing in addition to the usual ones.
    Rows without a label are left out.
    """
    if not 0 <= test_share < 1:
        raise ValueError(f"The share of test rows must be at least 0 and below 1, not {test_share}.")
    path = Path(path)
    frame = read_csv(path, missing)
    X, y = (split_number if regress else split_target)(frame, target, path.name)
    X = X.drop(columns=[existing_column(column, X.columns, path.name) for column in drop])
    silent = [name for name in X.columns if X[name].nunique() <= 1]  # empty, or the same in every row
    X = X.drop(columns=silent)
    try:
        query_set = ColumnQueries.from_data(X)
    except NotAQuestion as error:
        raise with_advice(error) from None
    train, test = _split(strata(y, regress), test_share, seed)
    notes = {
        "file": path.name,
        "sha256": fingerprint(path),
        "target": target,
        "regress": regress,
        "missing": list(missing),
        "n_rows": len(X),
        "n_rows_without_label": len(frame) - len(X),
        "silent_columns": silent,
        "numbering_columns": [name for name in X.columns if is_numbering(frame[name])],
        "test_share": test_share,
        "seed": seed,
    }
    return Task(
        path.stem,
        query_set.rescaled(X.iloc[train]),  # test rows have no influence on the scale of numbers
        X.iloc[train],
        y[train],
        X.iloc[test],
        y[test],
        notes=notes,
    )


def parse_costs(texts: Sequence[str]) -> dict[str, float]:
    """What queries cost, from texts NAME=NUMBER and paths of CSV files with the columns query and cost, of which the
    last counts; raises ValueError saying what is wrong."""
    costs: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if Path(text).is_file():
            costs |= _read_costs(Path(text))
        elif equals:
            costs[name.strip()] = _parse_cost(name.strip(), number, text)
        else:
            raise ValueError(
                f"'{text}' is not a cost: write NAME=NUMBER, as in mri=500, or the path of a CSV file with the columns "
                "query and cost."
            )
    return costs


def _read_costs(path: Path) -> dict[str, float]:
    frame = read_csv(path, dtype=str, keep_default_na=False)  # a query may be called "01" or "NA"
    if absent := [column for column in ("query", "cost") if column not in frame.columns]:
        raise ValueError(
            f"{path} has no column '{absent[0]}', only {', '.join(frame.columns)}: a file of costs has the columns "
            "query and cost."
        )
    twice = frame["query"][frame["query"].duplicated()]
    if len(twice):
        raise ValueError(f"{path} has more than one cost of '{twice.iloc[0]}': leave one.")
    return {name: _parse_cost(name, cost, str(path)) for name, cost in zip(frame["query"], frame["cost"], strict=True)}


def _parse_cost(name: str, text: str | None, where: str) -> float:
    try:
        cost = float(text or "")
    except ValueError:
        cost = np.nan
    if not 0 <= cost < np.inf:
        raise ValueError(f"The cost of '{name}' in {where} must be a number of at least 0, as in mri=500.")
    return cost


def read_csv(path: Path, missing: Sequence[str] = (), **options: Any) -> pd.DataFrame:
    """The file as a table, whatever its separator, read with `options` of pandas; raises ValueError saying what is
    wrong."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Give the path of a CSV file.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Give the path of a CSV file with a header line.")
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = file.readline()
        separator = max(SEPARATORS, key=header.count)
        usual = {"na_values": list(missing), "skipinitialspace": True, "encoding": "utf-8-sig"}
        frame = pd.read_csv(path, sep=separator, **{**usual, **options})
        frame = _stripped(frame)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text. Save it as CSV in UTF-8.") from None
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty: it needs a header line and at least one row.") from None
    except pd.errors.ParserError as error:
        raise ValueError(f"{path} is not a well-formed CSV file: {str(error).strip()}.") from None
    if frame.empty:
        raise ValueError(f"{path} has no rows below its header line.")
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError(f"{path} has rows with more values than its header line has names.")
    return frame


def split_target(frame: pd.DataFrame, target: str | None, where: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Queries and labels; rows without a label are left out."""
    if target is None:
        raise ValueError(
            f"Which column of {where} is the label? Name it with --target: {', '.join(frame.columns[:20])}."
        )
    target = existing_column(target, frame.columns, where)
    labelled = frame[frame[target].notna()]
    if labelled.empty:
        raise ValueError(f"Column '{target}' of {where} has no labels: all its values are missing.")
    labels = labelled[target]
    if pd.api.types.is_float_dtype(labels) and not (labels % 1 == 0).all():
        if labels.nunique() > MAX_FRACTIONS:
            raise ValueError(
                f"Column '{target}' of {where} has {labels.nunique()} different fractions, but a label is one of a few "
                "classes: group the values first."
            )
        labels = labels.astype(str)
    # Labels of several types (numbers and words) can only be sorted as words.
    y = labels.to_numpy() if pd.api.types.is_numeric_dtype(labels) else labels.astype(str).to_numpy(dtype=str)
    if pd.api.types.is_float_dtype(labels) and (labels % 1 == 0).all():
        y = labels.to_numpy(dtype=np.int64)  # whole numbers, read as fractions because some were missing
    return labelled.drop(columns=target), y


def split_number(frame: pd.DataFrame, target: str | None, where: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Queries and the numbers to predict; rows without one are left out."""
    if target is None:
        raise ValueError(
            f"Which column of {where} is to be predicted? Name it with --target: {', '.join(frame.columns[:20])}."
        )
    target = existing_column(target, frame.columns, where)
    numbers = pd.to_numeric(frame[target], errors="coerce")
    other = frame[target][frame[target].notna() & ~np.isfinite(numbers)]
    if len(other):
        raise ValueError(
            f"Column '{target}' of {where} has {len(other)} values that are not numbers, such as '{other.iloc[0]}': "
            "leave out --regress to predict classes, or name with --missing what means missing."
        )
    has_number = numbers.notna()
    if not has_number.any():
        raise ValueError(f"Column '{target}' of {where} has no numbers: all its values are missing.")
    return frame[has_number].drop(columns=target), numbers[has_number].to_numpy(dtype=np.float64)


def strata(y: np.ndarray, regress: bool) -> np.ndarray:
    """What rows are split by, so that each part has its share of every class; numbers make no classes."""
    return np.zeros(len(y)) if regress else y


def with_advice(error: NotAQuestion) -> ValueError:
    """The error with the options of the command line that leave the columns out."""
    options = " ".join(f"--drop {shlex.quote(name)}" for name in error.columns)
    return ValueError(f"{error} To leave them out: {options}")


def unseen_rows(
    path: str | Path,
    columns: Sequence[str],
    trained: Mapping[str, Any],
    target: str | None = None,
    missing: Sequence[str] = (),
) -> tuple[pd.DataFrame, np.ndarray | None, str]:
    """The rows of a CSV file that a model was not trained on, their labels if there are any, and a remark for the user.

    `columns` are the model's queries, and `trained` the notes of the task it was trained on: if that was this file,
    only the rows held out then are returned.
    """
    path = Path(path)
    frame = read_csv(path, missing or trained.get("missing", ()))
    if target is None and trained.get("target") not in frame.columns:
        X, y = frame, None
    else:
        split = split_number if trained.get("regress") else split_target
        X, y = split(frame, target or trained.get("target"), path.name)
    absent = [column for column in columns if column not in X.columns]
    if absent:
        raise ValueError(
            f"{path.name} lacks columns the model asks for: {', '.join(absent[:10])}. Add them; unknown answers may "
            "stay empty."
        )
    X = X[list(columns)]
    if y is None or trained.get("sha256") != fingerprint(path):
        return X, y, ""
    _, test = _split(strata(y, trained.get("regress", False)), trained["test_share"], trained["seed"])
    if len(test) == 0:
        return X, y, f"Warning: the model was trained on all rows of {path.name}: its accuracy on them says little."
    remark = f"The model was trained on {path.name}: only the {len(test)} held-out rows are used."
    return X.iloc[test], y[test], remark


def _stripped(frame: pd.DataFrame) -> pd.DataFrame:
    """The table without the spaces around words; a word of nothing but spaces is missing."""
    frame = frame.rename(columns=lambda name: str(name).strip())
    for name in frame.columns[~frame.columns.duplicated()]:
        column = frame[name]
        if isinstance(column, pd.Series) and pd.api.types.is_string_dtype(column):
            frame[name] = column.str.strip().replace("", None)
    return frame


def is_numbering(column: pd.Series) -> bool:
    """Whether a column only counts the rows, as an index or an identifier does."""
    return bool(pd.api.types.is_integer_dtype(column) and len(column) > 2 and (column.diff().iloc[1:] == 1).all())


def fingerprint(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _split(y: np.ndarray, test_share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and for testing; a class that occurs once stays in training, or it could not be
    learnt."""
    rows = np.arange(len(y))
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = rows[counts[codes] > 1]
    n_test = round(test_share * len(y))
    if n_test == 0 or len(several) <= n_test:
        return rows, rows[:0]
    can_stratify = n_test >= len(np.unique(y[several])) and len(several) - n_test >= len(np.unique(y[several]))
    _, test = train_test_split(
        several, test_size=n_test, random_state=seed, stratify=y[several] if can_stratify else None
    )
    # A class whose rows are all test rows could not be learnt: they go back to training.
    learnt = np.setdiff1d(rows, test)
    test = np.sort(test[np.isin(y[test], y[learnt])])
    return np.setdiff1d(rows, test), test
