"""The labels of a table in memory: found, read as classes or numbers, and what a person should know of them before
training, such as columns that give them away."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pursuit.estimators.lazy_imports import without_statistics
from pursuit.inference.pursuer import label_list
from pursuit.queries.column import NO_WORDS, YES_WORDS, listed
from pursuit.queries.reading import Column, columns_of, is_plain_number, parse_numbers, plain_numbers
from pursuit.tables.arrow import existing_column

MAX_FRACTIONS = 20
"""A target with more different fractions than this is a measurement, not a label."""
FEW_ROWS = 3
"""A label with fewer rows than this can hardly be learnt."""
TARGET_NAME = re.compile(
    r"(?P<before>^|.*[\W_])(target|label|class|outcome|result|decision|verdict|diagnosis|disease|fault|species|churn|"
    r"survived|y|ergebnis|entscheidung|diagnose|befund|klasse|résultat|resultado)$",
    re.I,
)
"""Usual names of label columns; `before` is a prefix, as in loan_decision."""
MOST_NUMBERED = 10
"""More different numbers than this are hardly labels, unless the name of the column says so."""
MANY_NUMBERS, ROWS_PER_NUMBER = 50, 20
"""More different whole numbers than this are amounts, not labels, where each has fewer rows than this on average."""


def split_target(
    frame: pd.DataFrame, target: str | None, where: str, regress: bool = False
) -> tuple[pd.DataFrame, np.ndarray]:
    """Queries, and labels or the numbers to predict; rows without one are left out."""
    column = target_column(frame, target, where).dropna()
    return frame.loc[column.index].drop(columns=column.name), target_values(column, regress, where)


def target_values(column: pd.Series, regress: bool = False, where: str = "the rows") -> np.ndarray:
    """Labels, none of which is missing, as whole numbers, yes/no or words; to `regress`, as numbers."""
    if regress:
        numbers = np.asarray(parse_numbers(column), dtype=np.float64)
        other = column[~np.isfinite(numbers)]
        if len(other):
            raise ValueError(
                f"Column '{column.name}' of {where} has {len(other)} values that are not numbers, such as "
                f"'{other.iloc[0]}': leave out --regress to predict classes, or name with --missing what means missing."
            )
        return numbers
    if _are_whole(column):
        return column.to_numpy(dtype=np.int64)  # some are read as fractions because others were missing
    # Fractions, and labels of several types, can only be sorted as words.
    return column.to_numpy() if pd.api.types.is_bool_dtype(column) else column.astype(str).to_numpy(dtype=str)


def same_labels(classes: Sequence[Any] | np.ndarray, counts: Sequence[int] | np.ndarray) -> dict[str, str]:
    """Spellings of labels that mean another one, and that one: words that differ only in case or spaces, of which the
    most frequent counts, and all words for yes and for no where there are no others, of which the longest counts.
    Single letters stay different, but for Y and N among such words."""
    classes = label_list(classes)
    if not all(isinstance(label, str) for label in classes):
        return {}
    rows = dict(zip(classes, counts, strict=True))
    by_word: dict[str, list[str]] = {}
    for label in classes:
        by_word.setdefault(_plain_word(label), []).append(label)
    groups = [spellings for word, spellings in by_word.items() if len(word) > 1]
    no, yes = ([word for word in by_word if word in words] for words in (NO_WORDS, YES_WORDS))
    if no and yes and len(no) + len(yes) == len(by_word) and not set(no) & set(yes):
        groups = [[label for word in words for label in by_word[word]] for words in (no, yes)]
    found: dict[str, str] = {}
    for spellings in groups:
        meant = max(spellings, key=lambda label: (len(_plain_word(label)), rows[label], label == label.casefold()))
        found |= {label: meant for label in spellings if label != meant}
    return found


def remark_on_same(same: Mapping[str, str]) -> list[str]:
    """What a person should know of labels that count as others."""
    by_label: dict[str, list[str]] = {}
    for label, meant in same.items():
        by_label.setdefault(meant, []).append(f"'{label}'")
    named = "; ".join(f"'{meant}' is also {listed(others)}" for meant, others in by_label.items())
    return [f"Labels that are written in several ways count as one: {named}."] if same else []


def with_same(labels: np.ndarray, same: Mapping[str, str]) -> np.ndarray:
    """Labels (N,), each by the spelling that counts."""
    return np.array([same.get(label, label) for label in labels]) if same else labels


def as_known(values: pd.Series, classes: np.ndarray) -> pd.Series:
    """Labels of other rows as those that a model knows, by which they are meant."""
    if values.isin(classes).all() or classes.dtype.kind not in "OU":
        return values
    known = list(map(str, classes))
    others = [str(value) for value in values.unique() if value not in set(known)]
    by_word = {_plain_word(label): label for label in known if len(label) > 1}
    meant = {label: by_word[word] for label in others if (word := _plain_word(label)) in by_word}
    sides = [[label for label in known if _plain_word(label) in words] for words in (NO_WORDS, YES_WORDS)]
    if len(known) == 2 and all(len(side) == 1 for side in sides):
        for (label,), words in zip(sides, (NO_WORDS, YES_WORDS), strict=True):
            meant |= {other: label for other in others if _plain_word(other) in words}
    return values.replace(meant)


def _plain_word(label: object) -> str:
    return " ".join(str(label).split()).casefold()


def target_column(frame: pd.DataFrame, target: str | None, where: str) -> pd.Series:
    """The column of labels; raises ValueError if there is none, or if it is empty."""
    names = list(frame.columns)
    if target is None:
        raise ValueError(f"Which column of {where} is the label? Name it with --target: {', '.join(names[:20])}.")
    if target not in names and all(_is_number(name) for name in names):
        raise ValueError(
            f"{where} has no column '{target}': its first line holds {listed(names)}. A header line with the names of "
            "the columns is needed above the data."
        )
    if target not in names and (len(names) == 1 or sum(name.startswith("Unnamed: ") for name in names) > 1):
        raise ValueError(
            f"{where} has no column '{target}': its first line holds {names[0]!r}. That must be the header line, with "
            "the names of all columns between commas, semicolons, tabs or bars: delete what stands above it."
        )
    column = frame[existing_column(target, names, where)]
    if column.isna().all():
        raise ValueError(f"Column '{target}' of {where} has no labels: all its values are missing.")
    return column


def remarks_on_labels(y: np.ndarray) -> list[str]:
    """What may be wrong with the labels, each in a sentence."""
    return remarks_on_counts(*np.unique(y, return_counts=True))


def remarks_on_counts(classes: np.ndarray, counts: np.ndarray) -> list[str]:
    """What may be wrong with labels that occur as often as `counts` says."""
    remarks = []
    rare = [f"'{label}'" for label, count in zip(classes, counts, strict=True) if count < FEW_ROWS]
    if rare:
        have = "has" if len(rare) == 1 else "have"
        remarks.append(
            f"Warning: {len(rare)} of {len(classes)} labels {have} fewer than {FEW_ROWS} rows: {listed(rare)}. Such "
            "labels can hardly be learnt: give more rows of them, merge them with others, or leave these rows out."
        )
    if alike := _alike(classes.tolist(), counts.tolist()):
        remarks.append(
            f"Warning: labels that differ only in case or spaces count as different: {listed(alike)}. If they mean the "
            "same, write them alike."
        )
    if np.issubdtype(classes.dtype, np.integer) and len(classes) > MANY_NUMBERS:
        remarks.append(
            f"The labels are {len(classes)} different whole numbers, each a class of its own. If they are amounts, add "
            "--regress to predict a number."
        )
    return remarks


def guess_target(frame: pd.DataFrame, where: str) -> str:
    """The column that is most likely the label: the last that is called so, or whose name ends so, or else the last
    that may be one."""
    several = [name for name in frame.columns if frame[name].nunique() > 1]
    may_be = [name for name in several if _may_be_label(frame[name].dropna())]
    found = {name: match for name in several if (match := TARGET_NAME.match(str(name).strip()))}
    named = [name for name in found if not found[name]["before"]]
    if not named:
        named = [name for name in found if name in may_be] or list(found)
    may_be = [name for name in may_be if not _is_numbered(frame[name].dropna())] or may_be
    if not may_be and not named:
        raise ValueError(
            f"Which column of {where} is the label? Name it with --target: {', '.join(map(str, frame.columns[:20]))}."
        )
    return str((named or may_be)[-1])


def _may_be_label(column: pd.Series) -> bool:
    return not is_amount(column) and column.nunique() <= min(MANY_NUMBERS, len(column) / FEW_ROWS)


def _is_numbered(column: pd.Series) -> bool:
    """Whether labels are more numbers than classes usually are."""
    return _are_numbers(column) and column.nunique() > MOST_NUMBERED


def is_amount(labels: pd.Series) -> bool:
    """Whether numbers are not classes but amounts."""
    if not _are_numbers(labels):
        return False
    n_labels, are_whole = labels.nunique(), _are_whole(labels)
    are_few = n_labels <= (MANY_NUMBERS if are_whole else MAX_FRACTIONS)
    return not are_few and not (are_whole and len(labels) >= ROWS_PER_NUMBER * n_labels)


def refuse_amounts(labels: pd.Series, where: str) -> None:
    """Raise ValueError for numbers that are not classes but amounts."""
    if is_amount(labels):
        what = "whole numbers" if _are_whole(labels) else "fractions"
        raise ValueError(
            f"Column '{labels.name}' of {where} has {labels.nunique()} different {what} in {len(labels):,} rows, but "
            "a label is one of a few classes. To predict the number itself, train with --regress; to predict classes, "
            "group the values first, or write them as words if each is a class."
        )


def _are_numbers(labels: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(labels) and not pd.api.types.is_bool_dtype(labels)


def _are_whole(labels: pd.Series) -> bool:
    is_integer = pd.api.types.is_integer_dtype(labels)
    return is_integer or bool(pd.api.types.is_float_dtype(labels) and (labels % 1 == 0).all())


def _alike(classes: Sequence[object], counts: Sequence[int]) -> list[str]:
    """Groups of labels that differ only in case or spaces, in words."""
    groups: dict[str, list[str]] = {}
    for label, count in zip(classes, counts, strict=True):
        rows = "1 row" if count == 1 else f"{count:,} rows"
        groups.setdefault(_plain_word(label), []).append(f"'{label}' ({rows})")
    return [" and ".join(group) for group in groups.values() if len(group) > 1]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


LEAST_ROWS = 40
"""With fewer rows than this, a column may fit the labels by chance."""
MOST_ROWS = 5000
"""Number of rows to look at."""
LEAST_RIGHT = 0.995
"""The accuracy of a single column from which on it gives the label away."""
MOST_FREQUENT = 0.9
"""Where one label has more of the rows than this, hardly anything is given away."""
FEW = 5
"""A value with fewer rows than this says nothing."""
HARDLY = 1e-6
"""Chance of values that only rows of one label have, below which that is no chance."""


def leaks(X: pd.DataFrame, y: np.ndarray, regress: bool = False) -> list[str]:
    """A warning of the columns that give the label, or the number to predict, away; nothing where there are none."""
    names = leaking_columns(X, y, regress)
    if not names or len(names) == len(X.columns) > 1:
        return []
    quoted, each = listed([f"'{name}'" for name in names]), "by itself" if len(names) == 1 else "each by itself"
    what = "the number" if regress else "the label"
    return [
        f"Warning: {quoted} nearly always {'gives' if len(names) == 1 else 'give'} {what} away, {each}. If people know "
        f"it only afterwards, leave it out: {' '.join(f'--drop {shlex.quote(name)}' for name in names[:3])}"
    ]


def leaking_columns(X: pd.DataFrame, y: np.ndarray, regress: bool = False) -> list[str]:
    """The columns that nearly always give the label, or the number to predict, away."""
    if len(y) < LEAST_ROWS or not len(X.columns):
        return []
    some = np.linspace(0, len(y) - 1, min(len(y), MOST_ROWS)).astype(int)
    X, y = X.iloc[some], y[some]
    labels = y.astype(float) if regress else np.unique(y, return_inverse=True)[1]
    if not regress and np.bincount(labels).max() > MOST_FREQUENT * len(labels):
        return []
    given_away = _follows if regress else _gives_away
    return [name for name, column in zip(X.columns, columns_of(X), strict=True) if given_away(column, labels)]


def _gives_away(column: Column, labels: np.ndarray) -> bool:
    """Whether labels (N,) follow from a column, wherever it has a value, or from its having one."""
    values, distinct = pd.factorize(column)
    present = values >= 0
    if _is_filled_for_one_label(present, labels, len(distinct)):
        return True
    if present.sum() < max(LEAST_ROWS, len(labels) / 2):
        return False
    column, values, labels = column[present], values[present], labels[present]
    if is_plain_number(column) and len(distinct) > FEW * (labels.max() + 1):
        numbers, n_leaves = np.clip(plain_numbers(column), -1e30, 1e30).astype(np.float32), 2 * int(labels.max() + 1)
        # In the order of the numbers, labels change from leaf to leaf, and twice at each row that a leaf gets wrong.
        n_changes = np.count_nonzero(np.diff(labels[np.lexsort((labels, numbers))]))
        if n_changes >= n_leaves + 2 * (1 - LEAST_RIGHT) * len(labels):
            return False  # as for nearly all columns, without a tree for each
        with without_statistics():
            from sklearn.tree import DecisionTreeClassifier

        tree = DecisionTreeClassifier(max_leaf_nodes=n_leaves, min_samples_leaf=FEW).fit(numbers[:, None], labels)
        return bool(tree.score(numbers[:, None], labels) >= LEAST_RIGHT)
    table = np.zeros((len(distinct), labels.max() + 1))
    np.add.at(table, (values, labels), 1)
    is_frequent = table.sum(axis=1) >= FEW
    return bool(table.max(axis=1)[is_frequent].sum() >= LEAST_RIGHT * len(labels))


def _is_filled_for_one_label(present: np.ndarray, labels: np.ndarray, n_values: int) -> bool:
    """Whether a column has values (`present`, of N rows) for rows of one label alone, as the reason of a refusal has.
    One value beside empty cells is a tick: it gives the label away where all labels follow from it."""
    n_present = present.sum()
    if not FEW <= n_present <= len(present) - FEW:
        return False
    of_present = np.bincount(labels[present], minlength=labels.max() + 1)
    of_others = np.bincount(labels[~present])
    if of_present.max() + of_others.max() >= LEAST_RIGHT * len(labels):
        return True
    is_one = of_present.max() == n_present
    return bool(n_values > 1 and is_one and (labels == of_present.argmax()).mean() ** n_present < HARDLY)


def _follows(column: Column, numbers: np.ndarray) -> bool:
    """Whether numbers (N,) are a line in a column of numbers, wherever it has a value."""
    if not is_plain_number(column):
        return False
    present = np.isfinite(own := plain_numbers(column))
    own, numbers, n_rows = own[present], numbers[present], len(numbers)
    if len(own) < max(LEAST_ROWS, n_rows / 2) or len(np.unique(own)) < LEAST_ROWS / 2 or not numbers.std():
        return False
    return bool(abs(np.corrcoef(own, numbers)[0, 1]) >= 1 - (1 - LEAST_RIGHT) ** 2)
