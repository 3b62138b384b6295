"""Teachers: posteriors that established learners give rows that they did not see.

A network that learns from labels alone learns small tables by heart, and falls behind boosting on numbers. Forests,
boosting and logistic regression do better where all answers are known, but cannot say anything given a few of them. So
they teach: the network's target for a row is a mixture of its label and of the posterior by teachers that did not see
it, out of bag or out of fold. Further rows are made by swapping cells between rows. They are labelled by the teachers
that did not see the row they were made from, so that no label leaks into its own neighbourhood.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import clone
from torch import Tensor

from pursuit.estimators.lazy_imports import without_statistics
from pursuit.estimators.plan import MANY_ROWS, VERY_MANY_ROWS
from pursuit.inference.pursuer import Labels
from pursuit.inference.target_bins import TargetBins
from pursuit.queries import QuerySet
from pursuit.training.rows import Rows

LABEL_SHARE = 0.6
"""Weight of the label in the target of a row; the rest is the teachers' posterior."""
SWAPPED = 0.3
"""Probability that a cell of a made row comes from another row."""
MADE_ROWS, MOST_COPIES, REAL_ROWS = 40_000, 8, 2
"""About how many rows are made, how many of a single row at most, and how many real rows are learnt from for each. From
`VERY_MANY_ROWS` on, none are made."""
N_FOLDS, LEAST_ROWS, KNOWN_SHARE = 5, 30, 0.8
"""Teachers learn tables of at least `LEAST_ROWS` rows, in which the labels of `KNOWN_SHARE` have rows enough for all
folds."""
NEAR, NEAR_NATS, WORSE = 1.1, 0.01, 1.25
"""Teachers whose log loss is at most `NEAR` times the best, and this much more, are averaged with it. One that is
`WORSE` in its first fold is not asked for the others."""
LEAST_PROBABILITY, LEAST_BELIEF = 0.02, 1e-3
"""What is less probable counts as the first in the log loss of a teacher, so that single rows do not decide, and as the
second before posteriors are calibrated."""
TEMPERATURES = tuple(1.1**i for i in range(-17, 13))
"""From 0.2 to 3.1."""
FEW_TREES, MANY_TREES = 100, 200
LARGEST_FOREST, LARGEST_BOOSTING, LARGEST_REGRESSION = 1e6, 6e4, 3e7
"""The most rows times labels that a forest and boosting learn in a few seconds, and the most rows times labels times
inputs of logistic regression."""
LARGEST_ALONE = 1.5e7
"""From `VERY_MANY_ROWS` on, where training takes minutes, boosting is the only teacher: the most rows times labels
times answers that it learns in about as long."""
N_ERRORS = 64
"""How many quantiles of a teacher's errors spread its prediction of a number."""

Read = Callable[[Rows], np.ndarray]
"""Rows as the input (N, inputs) of a teacher."""
Teachers = Literal["auto"] | None | Sequence[Any]
"""Who teaches: those that suit the rows, nobody, or any classifiers (for a number: regressors) of scikit-learn."""


class Teacher(NamedTuple):
    """An estimator of scikit-learn, and how it reads rows."""

    name: str
    model: Any
    read: Read


class Beliefs(NamedTuple):
    """The posteriors that a teacher gives rows and those made from them, none of which it saw."""

    own: np.ndarray  # (N, C)
    made: np.ndarray  # (R, N, C)


@dataclass(frozen=True)
class Teaching:
    """What teachers say of rows."""

    rows: Rows
    """Rows to learn from: those given, with targets, and others made from them."""
    judging: Rows
    """The rows given, with the posteriors by teachers that did not see them as targets."""
    names: str


@dataclass(frozen=True)
class Lesson:
    """Rows to ask teachers about, and R copies of each with some cells swapped."""

    rows: Rows
    copies: tuple[Rows, ...]
    labels: Labels
    seed: int

    @property
    def y(self) -> np.ndarray:
        return self.rows.y.numpy()

    @property
    def weight(self) -> np.ndarray | None:
        return None if self.rows.weight is None else self.rows.weight.numpy()

    @property
    def bins(self) -> TargetBins | None:
        """The bins of the number to predict; None where classes are predicted."""
        return self.labels if isinstance(self.labels, TargetBins) else None

    @property
    def learnt(self) -> np.ndarray:
        """What teachers learn to predict (N,): classes, or the mean of the bin of a number."""
        return self.y if self.bins is None else np.array(self.bins.means)[self.y]

    def read(self, read: Read) -> list[np.ndarray]:
        return [read(part) for part in (self.rows, *self.copies)]

    def losses(self, own: np.ndarray) -> np.ndarray:
        """The log loss of each row at the posteriors (N, C): (N,), in nats."""
        return -np.log(own[np.arange(len(own)), self.y].clip(LEAST_PROBABILITY))

    def loss(self, beliefs: Beliefs) -> float:
        return float(np.average(self.losses(beliefs.own), weights=self.weight))

    def posteriors(self, predicted: np.ndarray) -> np.ndarray:
        """Numbers predicted of rows and copies (1 + R, N) as posteriors over bins (1 + R, N, C): spread by the errors
        that the teacher makes on rows that it did not see."""
        assert self.bins is not None
        found, rows = np.zeros((*predicted.shape, len(self.labels))), np.arange(predicted.shape[1])
        for error in np.quantile(self.learnt - predicted[0], (np.arange(N_ERRORS) + 0.5) / N_ERRORS):
            for part, numbers in zip(found, predicted, strict=True):
                part[rows, self.bins.codes(numbers + error)] += 1 / N_ERRORS
        return found


def taught(
    query_set: QuerySet, rows: Rows, labels: Labels, teachers: Teachers, seed: int, kernel: Tensor | None = None
) -> Teaching:
    """Ask teachers about rows and about those made from them. The posteriors of the best by log loss, and of those near
    it, are averaged. Where labels have neighbours, `kernel` (C, C) says how much a row of each counts for the others.
    """
    generator = torch.Generator().manual_seed(seed)
    n_copies = 0 if len(rows) >= VERY_MANY_ROWS else min(MOST_COPIES, MADE_ROWS // len(rows))
    lesson = Lesson(rows, tuple(swapped(query_set, rows, generator) for _ in range(n_copies)), labels, seed)
    found: dict[str, Beliefs] = {}
    for teacher in _suitable(query_set, lesson) if teachers == "auto" else _given(query_set, teachers or ()):
        best = min(found.values(), key=lesson.loss, default=None)
        if (beliefs := _ask(teacher, lesson, best)) is not None:
            found[teacher.name] = calibrated(beliefs, rows)
    loss = {name: lesson.loss(beliefs) for name, beliefs in found.items()}
    near = [name for name in loss if loss[name] <= NEAR * min(loss.values()) + NEAR_NATS]
    together = calibrated(Beliefs(*(np.mean([found[name][i] for name in near], axis=0) for i in (0, 1))), rows)
    own, made = (torch.from_numpy(part).float() for part in together)
    is_rare = torch.bincount(rows.y, minlength=len(labels))[rows.y] < N_FOLDS  # teachers can hardly know these labels
    label_share = torch.where(is_rare, 1.0, LABEL_SHARE)[:, None]
    of_label = F.one_hot(rows.y, len(labels)) if kernel is None else kernel[rows.y]
    real = replace(rows, target=label_share * of_label + (1 - label_share) * own)
    copies = [replace(copy, target=target) for copy, target in zip(lesson.copies, made, strict=True)]
    parts = [part for copy in copies for part in (*[real] * REAL_ROWS, copy)] or [real]
    return Teaching(Rows.concatenated(parts), replace(rows, target=own), ", ".join(near))


def can_teach(rows: Rows, labels: Labels, teachers: Teachers) -> bool:
    """Whether most labels have rows enough to be known without one of them, and teachers would take no longer than the
    rest of training."""
    counts = torch.bincount(rows.y, minlength=len(labels))
    n_known = int(counts[counts >= N_FOLDS].sum())
    enough = len(rows) >= LEAST_ROWS and n_known >= KNOWN_SHARE * len(rows) and int((counts > 0).sum()) > 1
    size = len(rows) * len(labels)
    is_quick = size <= LARGEST_FOREST if len(rows) < VERY_MANY_ROWS else size * rows.x.shape[1] <= LARGEST_ALONE
    return enough and (teachers != "auto" or is_quick)


def swapped(query_set: QuerySet, rows: Rows, generator: torch.Generator) -> Rows:
    """The rows with some cells taken from other rows: an answer, or that there is none. They have no label."""
    unit_of_feature = query_set.units.of_feature
    other = rows.take(torch.randperm(len(rows), generator=generator))
    swap = torch.rand(rows.available.shape, generator=generator) < SWAPPED
    x = torch.where(swap[:, unit_of_feature], other.x, rows.x)
    available = torch.where(swap, other.available, rows.available)
    return replace(rows, x=x, available=available, y=torch.full_like(rows.y, -1))


def calibrated(beliefs: Beliefs, rows: Rows) -> Beliefs:
    """Posteriors as extreme as the labels of unseen rows bear out: forests are too cautious, boosting is too sure."""
    own, made = (torch.from_numpy(part).clamp(min=LEAST_BELIEF).log() for part in beliefs)
    weight = torch.ones(len(rows)) if rows.weight is None else rows.weight
    losses = [-float((rows.at_label((own / t).log_softmax(dim=1)) * weight).mean()) for t in TEMPERATURES]
    temperature = TEMPERATURES[int(np.argmin(losses))]
    return Beliefs(*((part / temperature).softmax(dim=-1).numpy() for part in (own, made)))


def _suitable(query_set: QuerySet, lesson: Lesson) -> Iterator[Teacher]:
    """The teachers that learn rows like these in a few seconds, the cheapest first."""
    with without_statistics():
        from sklearn import ensemble
        from sklearn.linear_model import LogisticRegression, Ridge

    gaps, encoded, is_number = _answers_with_gaps(query_set), _encoded_answers(query_set), lesson.bins is not None
    n_rows, seed = len(lesson.rows), lesson.seed
    size, are_very_many = n_rows * (1 if is_number else len(lesson.labels)), n_rows >= VERY_MANY_ROWS
    if not are_very_many:
        n_trees = MANY_TREES if n_rows < MANY_ROWS else FEW_TREES
        forest = ensemble.RandomForestRegressor if is_number else ensemble.RandomForestClassifier
        yield Teacher("forest", forest(n_trees, random_state=seed), gaps)
        if size * encoded(lesson.rows.take(slice(1))).shape[1] <= LARGEST_REGRESSION:
            if is_number:
                yield Teacher("ridge regression", Ridge(), encoded)
            else:
                for c in (1.0, 0.1):
                    yield Teacher(f"logistic regression (C={c:g})", LogisticRegression(C=c, max_iter=200), encoded)
    if size <= LARGEST_BOOSTING or are_very_many:
        stops = is_number or int(np.bincount(lesson.y).min()) >= 2 * N_FOLDS  # which takes some rows of every label
        boosting = ensemble.HistGradientBoostingRegressor if is_number else ensemble.HistGradientBoostingClassifier
        n_trees = 200 if stops else 50
        model = boosting(early_stopping=stops, max_iter=n_trees, learning_rate=0.08, random_state=seed)
        yield Teacher("boosting", model, gaps)


def _given(query_set: QuerySet, teachers: Sequence[Any]) -> Iterator[Teacher]:
    for number, teacher in enumerate(teachers, 1):
        yield Teacher(f"{number}. {type(teacher).__name__}", teacher, _encoded_answers(query_set))


def _answers_with_gaps(query_set: QuerySet) -> Read:
    """The answers (N, F) as trees read them: not a number where there is none."""
    unit_of_feature = query_set.units.of_feature
    return lambda rows: rows.x.masked_fill(~rows.available[:, unit_of_feature], torch.nan).numpy()


def _encoded_answers(query_set: QuerySet) -> Read:
    """The answers as networks read them: numbers in pieces, and zero where there is none."""
    return lambda rows: query_set.encode(rows.x, rows.available.to(rows.x.dtype)).flatten(1).numpy()


def _ask(teacher: Teacher, lesson: Lesson, best: Beliefs | None) -> Beliefs | None:
    """The posteriors by a teacher; None if it turns out early that it is clearly worse than the `best` so far."""
    with without_statistics():
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    is_forest = isinstance(teacher.model, RandomForestClassifier | RandomForestRegressor)
    by_bag = is_forest and teacher.model.bootstrap and lesson.rows.group is None
    found = _out_of_bag(teacher, lesson) if by_bag else _out_of_fold(teacher, lesson, best)
    return None if found is None else Beliefs(found[0], found[1:])


def _out_of_bag(teacher: Teacher, lesson: Lesson) -> np.ndarray:
    """Each row and its copies (1 + R, N, C), by the trees that did not draw the row."""
    parts = np.stack(lesson.read(teacher.read)).astype(np.float32)  # (1 + R, N, F)
    forest = clone(teacher.model).fit(parts[0], lesson.learnt, lesson.weight)
    n_outputs = 1 if lesson.bins else len(forest.classes_)
    total, n_trees = np.zeros((*parts.shape[:2], n_outputs)), np.zeros(len(lesson.rows))
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        unseen = np.ones(len(lesson.rows), dtype=bool)
        unseen[drawn] = False
        n_trees += unseen
        predict = tree.predict if lesson.bins else tree.predict_proba
        shown = parts[:, unseen]
        predicted = predict(shown.reshape(-1, parts.shape[2]), check_input=False)
        total[:, unseen] += predicted.reshape(*shown.shape[:2], n_outputs)
    mean = total / np.maximum(n_trees, 1)[:, None]
    if not n_trees.all():  # a row that every tree drew is believed to be as others are
        mean[:, n_trees == 0] = mean[:, n_trees > 0].mean(axis=1, keepdims=True)
    if lesson.bins:
        return lesson.posteriors(mean[:, :, 0])
    found = np.zeros((*mean.shape[:2], len(lesson.labels)))
    found[:, :, forest.classes_] = mean
    return found


def _out_of_fold(teacher: Teacher, lesson: Lesson, best: Beliefs | None = None) -> np.ndarray | None:
    """Each row and its copies (1 + R, N, C), by a teacher that learnt from other folds."""
    from sklearn.exceptions import ConvergenceWarning

    parts = np.stack(lesson.read(teacher.read))  # (1 + R, N, F)
    found = np.zeros((*parts.shape[:2], 1 if lesson.bins else len(lesson.labels)))
    for fold, (seen, unseen) in enumerate(_folds(lesson)):
        if not lesson.bins and len(only := np.unique(lesson.y[seen])) == 1:  # as may be where groups are held out
            found[:, unseen, only] = 1.0
            continue
        model = clone(teacher.model)
        weight = {} if lesson.weight is None else {"sample_weight": lesson.weight[seen]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(parts[0][seen], lesson.learnt[seen], **weight)
        shown = parts[:, unseen]
        predicted = (model.predict if lesson.bins else model.predict_proba)(shown.reshape(-1, parts.shape[2]))
        columns = [0] if lesson.bins else model.classes_
        found[:, unseen[:, None], columns] = predicted.reshape(*shown.shape[:2], len(columns))
        if fold == 0 and best is not None and not lesson.bins:
            own, its = (lesson.losses(posterior)[unseen].mean() for posterior in (found[0], best.own))
            if own > WORSE * its + NEAR_NATS:
                return None
    return lesson.posteriors(found[:, :, 0]) if lesson.bins else found


def _folds(lesson: Lesson) -> list[tuple[np.ndarray, np.ndarray]]:
    with without_statistics():
        from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    n_folds, y, options = min(N_FOLDS, len(lesson.rows)), lesson.y, {"shuffle": True, "random_state": lesson.seed}
    if lesson.rows.group is not None:
        group = lesson.rows.group.numpy()
        group = np.where(group < 0, group.max() + 1 + np.arange(len(group)), group)  # a row without one is its own
        if (n_groups := len(np.unique(group))) > 1:
            return list(GroupKFold(min(n_folds, n_groups), **options).split(y, y, group))
    if np.bincount(y).max() < n_folds:
        return list(KFold(n_folds, **options).split(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of labels with fewer rows than folds
        return list(StratifiedKFold(n_folds, **options).split(y, y))
