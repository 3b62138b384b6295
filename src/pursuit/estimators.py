"""`VIPClassifier`: V-IP in scikit-learn's manner."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from pursuit import saving
from pursuit.chains import Chains, explain, pursue_in_batches
from pursuit.checkpoints import write_whole
from pursuit.devices import n_processes
from pursuit.evaluation import Evaluation, evaluate
from pursuit.histories import CarriedHistories
from pursuit.networks import NetworkSettings
from pursuit.processes import is_first
from pursuit.queries import Answers, ColumnQueries, QuerySet, WordQueries
from pursuit.rows import Rows, RowSource, StreamedRows
from pursuit.session import Session
from pursuit.stages import Stage
from pursuit.stopping import Budget, Confidence, StoppingRule, parse_stop
from pursuit.training import HELD_OUT_MOST, EarlyStopping, Report, check_plan, train
from pursuit.vip import VIP

DEFAULT_STOP = Confidence(0.99)
DEFAULT_STEPS = 1000
DEFAULT_PASSES = 20
STANDARD_ROWS = 20_000
"""How many of the rows that are not in memory show what answers are usual."""
CHAIN_QUERIES = 20
"""How far chains are carried in training by default; random histories cover what lies beyond."""


class CannotResume(ValueError):
    """A folder holds a run of other settings or data, or what it holds is damaged."""


class VIPClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that asks for one answer after the other until it is sure, and explains itself by them.

    Parameters
    ----------
    query_set : QuerySet, optional
        What may be asked. By default every column of the table is a query.
    stop : StoppingRule or str, optional
        When to stop asking, as `Confidence(0.95)` or "confidence=0.95,budget=10". By default `Confidence(0.99)`.
    max_queries : int, optional
        The most queries ever asked of a row. By default all of them.
    network : NetworkSettings, optional
        `MLP`, `Conv` or `SetNetwork` with its sizes. By default one that suits the query set.
    shared : bool
        Whether querier and classifier share a trunk.
    standardise : bool
        Whether networks see answers relative to what is usual, which helps where nearly all answers are no, as with
        words. For columns, words and concepts only.
    stages : list of Stage, optional
        The training plan. By default one stage of carried histories, long enough for the number of rows.
    held_out : float
        Share of the rows to hold out for early stopping. By default none: training goes on to the end of its plan.
    random_state : int, RandomState or None
        Seed; the same number gives the same model on the same machine.
    device : str
        Where to train and evaluate: "cpu", "cuda" or "auto".
    devices : int
        How many devices of that kind, or processes on a CPU, train together; each but the first runs the program again
        up to `fit`. A program started by torchrun has as many as torchrun started.

    Attributes
    ----------
    classes_ : labels, in the order of all posteriors.
    model_ : the trained `VIP`, a pursuer.
    has_opening_ : whether it learnt from rows that open with answers given unasked.
    """

    def __init__(
        self,
        query_set: QuerySet | None = None,
        *,
        stop: StoppingRule | str | None = None,
        max_queries: int | None = None,
        network: NetworkSettings | None = None,
        shared: bool = False,
        standardise: bool = False,
        stages: list[Stage] | None = None,
        held_out: float = 0.0,
        random_state: Any = None,
        device: str = "cpu",
        devices: int = 1,
    ):
        self.query_set = query_set
        self.stop = stop
        self.max_queries = max_queries
        self.network = network
        self.shared = shared
        self.standardise = standardise
        self.stages = stages
        self.held_out = held_out
        self.random_state = random_state
        self.device = device
        self.devices = devices

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        opening: Any = None,
        folder: str | Path | None = None,
        resume: bool = False,
        log: Any = "csv",
        on_report: Callable[[Report], None] | None = None,
    ) -> "VIPClassifier":
        """Learn what to ask and what to believe from rows X with labels y, or from X that brings both along: rows
        streamed from files (`ParquetRows`) or drawn by a rule (`GeneratedRows`).

        `opening` (N, Q) says which answers are given unasked, such as what a patient complains of. With a `folder`,
        training is logged there and can go on with `resume` after a crash; `on_report` hears how it does.
        """
        self.stopping_rule()  # a wrong rule is better told before training than after
        if self.max_queries is not None and self.max_queries < 1:
            raise ValueError(f"max_queries is the most queries asked of a row, at least 1, not {self.max_queries}.")
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is a share of the rows, at least 0 and below 1, not {self.held_out}.")
        query_set, rows = self._training_rows(X, y, opening)
        if len(self.classes_) < 2:
            raise ValueError(
                f"The labels have only one class ('{self.classes_[0]}'): there is nothing to tell "
                "apart. At least two are needed."
            )
        seed = int(check_random_state(self.random_state).randint(2**31))
        kept, early_stopping = self._split(rows, seed)
        stages = self.stages if self.stages is not None else default_stages(len(kept), len(query_set), self.max_queries)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            prior = kept.prior(len(self.classes_))
            model = VIP.build(query_set, self.classes_, self.network, self.shared, prior, self.standardise)
        if self.standardise:
            sample = (
                kept.draw(STANDARD_ROWS, torch.Generator().manual_seed(seed))
                if isinstance(kept, StreamedRows)
                else kept
            )
            model.standardise(sample.x, sample.available)
        check_plan(stages, self.device, log, n_processes(self.devices))
        self._warn_if_nothing_will_be_asked(model)
        run = Path(folder) if folder is not None else None
        if run is not None and is_first():
            _claim(
                run, {"model": repr(model), "stages": repr(stages), "seed": seed, "rows": kept.fingerprint()}, resume
            )
        train(
            model,
            kept,
            stages,
            seed=seed,
            device=self.device,
            devices=self.devices,
            early_stopping=early_stopping,
            folder=run,
            resume=resume,
            log=log,
            on_report=on_report,
        )
        self.model_ = model
        return self

    def predict_proba(self, X: Any, *, opening: Any = None) -> np.ndarray:
        """The belief about every class once enough was asked of each row: (N, C)."""
        answers = self._answers(X)
        opened = self._opening(opening, len(answers.x))
        posterior = torch.zeros(len(answers.x), len(self.classes_))
        for turn in pursue_in_batches(self.model_, *answers, self.stopping_rule(), opened):
            posterior[turn.rows] = turn.log_posterior.exp().float()
        return posterior.numpy()

    def predict(self, X: Any, *, opening: Any = None) -> np.ndarray:
        """The most probable label of each row once enough was asked."""
        best = self.predict_proba(X, opening=opening).argmax(axis=1)
        return self.classes_[best]

    def explain(self, X: Any, stop: StoppingRule | str | None = None, *, opening: Any = None) -> Chains:
        """The chain of queries, answers and posteriors of each row, which is the whole reason for its prediction."""
        answers = self._answers(X)
        return explain(self.model_, *answers, self.stopping_rule(stop), self._opening(opening, len(answers.x)))

    def evaluate(self, X: Any, y: Any, stop: StoppingRule | str | None = None, *, opening: Any = None) -> Evaluation:
        """Accuracy against number of queries, and what the stopping rule gives; computed on the classifier's device."""
        return evaluate(
            self.model_, self.rows(X, y, opening=opening), self.stopping_rule(stop), self.max_queries, self.device
        )

    def rows(self, X: Any, y: Any, *, opening: Any = None) -> Rows:
        """Rows with labels as the functions beneath the estimator take them."""
        answers = self._answers(X)
        y = column_or_1d(y)
        check_consistent_length(answers.x, y)
        codes = pd.Index(self.classes_).get_indexer(pd.Index(y))
        if (codes < 0).any():
            raise ValueError(
                f"The label '{y[codes < 0][0]}' was not there in training: it cannot be predicted. Leave such rows out."
            )
        return Rows(*answers, torch.from_numpy(codes.astype(np.int64)), self._opening(opening, len(y)))

    def session(self, stop: StoppingRule | str | None = None) -> Session:
        """A session with a person, who is asked one query after the other."""
        check_is_fitted(self, "model_")
        return Session(self.model_, self.stopping_rule(stop))

    def save(self, folder: str | Path, notes: dict[str, Any] | None = None) -> None:
        """Write the trained model as `model.json` and `model.safetensors` into a folder."""
        check_is_fitted(self, "model_")
        stop = None if self.stop is None else str(_as_rule(self.stop))
        names = getattr(self, "feature_names_in_", None)
        estimator = {
            "stop": stop,
            "max_queries": self.max_queries,
            "feature_names": None if names is None else names.tolist(),
            "has_opening": getattr(self, "has_opening_", False),
        }
        saving.save(
            folder, self.model_, {**(notes or {}), "estimator": {**estimator, "n_features": self.n_features_in_}}
        )

    @classmethod
    def load(cls, folder: str | Path) -> "VIPClassifier":
        """The classifier that `save` wrote; it predicts as before; its training plan is the default."""
        model, notes = saving.load(folder)
        kept = notes.get("estimator", {})
        network, shared = model.settings or (None, False)
        asking = {"stop": kept.get("stop"), "max_queries": kept.get("max_queries")}
        classifier = cls(model.query_set, network=network, shared=shared, standardise=model.standardised, **asking)
        classifier.model_, classifier.classes_, classifier.notes_ = model, np.asarray(model.classes), notes
        classifier.has_opening_ = kept.get("has_opening", False)
        classifier.n_features_in_ = kept.get("n_features", len(model.query_set))
        if kept.get("feature_names"):
            classifier.feature_names_in_ = np.array(kept["feature_names"], dtype=object)
        return classifier

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def stopping_rule(self, stop: StoppingRule | str | None = None) -> StoppingRule:
        """The rule that rows are asked by: `stop`, or else the classifier's own, and never more than max_queries."""
        chosen = stop if stop is not None else self.stop
        rule = DEFAULT_STOP if chosen is None else _as_rule(chosen)
        return rule if self.max_queries is None else rule | Budget(self.max_queries)

    def _validated(self, X: Any, reset: bool) -> Any:
        """X as a DataFrame or an array of the right number of columns; texts are a single column."""
        if isinstance(self.query_set, WordQueries) and not isinstance(X, str) and np.ndim(X) == 1:
            X = np.asarray(X, dtype=object)[:, None]
        if isinstance(X, pd.DataFrame) and (reset or hasattr(self, "feature_names_in_")):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        X = check_array(
            X,
            dtype=None,
            ensure_all_finite=False,
            allow_nd=True,
            ensure_min_features=1,
            ensure_min_samples=1,
            estimator=self,
        )
        flat = X.reshape(len(X), -1)
        validate_data(self, flat, reset=reset, skip_check_array=True)
        return X

    def _labels(self, X: Any, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError(
                "VIPClassifier requires y to be passed, but the target y is None: give a label for every row."
            )
        if isinstance(y, pd.Series) and isinstance(y.dtype, pd.BooleanDtype) and not y.hasnans:
            y = y.to_numpy(dtype=bool)  # which scikit-learn would make numbers
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        if pd.isna(y).any():
            raise ValueError("Some labels y are missing (NaN): fill them in, or leave these rows out.")
        check_classification_targets(y)
        return y

    def _warn_if_nothing_will_be_asked(self, model: VIP) -> None:
        rule, nothing = self.stopping_rule(), torch.zeros(1)
        stops, _ = rule.step(rule.start(1), model.log_prior[None], nothing, nothing)
        if stops:
            share, most = model.log_prior.exp().max(dim=0)
            warnings.warn(
                f"The stopping rule {rule} is content before anything is asked: '{self.classes_[int(most)]}' makes up "
                f"{share:.1%} of the labels. Choose a higher confidence, or a rule such as stability=0.001.",
                stacklevel=3,
            )

    def _answers(self, X: Any) -> Answers:
        check_is_fitted(self, "model_")
        return self.model_.query_set.answers(self._validated(X, reset=False))

    def _training_rows(self, X: Any, y: Any, opening: Any) -> tuple[QuerySet, RowSource]:
        """The query set and the rows in its answer space; learns the classes on the way."""
        if isinstance(X, StreamedRows):
            return self._streamed_rows(X, y, opening)
        X = self._validated(X, reset=True)
        y = self._labels(X, y)
        query_set = self.query_set if self.query_set is not None else ColumnQueries.from_data(X)
        self.classes_, codes = np.unique(y, return_inverse=True)
        opened = _as_opening(opening, (len(y), len(query_set)))
        self.has_opening_ = opened is not None
        return query_set, Rows(*query_set.answers(X), torch.from_numpy(codes.astype(np.int64)), opened)

    def _streamed_rows(self, X: StreamedRows, y: Any, opening: Any) -> tuple[QuerySet, StreamedRows]:
        query_set = self.query_set if self.query_set is not None else X.query_set
        if query_set is None or y is not None or opening is not None:
            raise ValueError(
                f"{type(X).__name__} bring labels and openings along, and need the query_set they are for."
            )
        if X.n_queries != len(query_set):
            raise ValueError(f"The rows answer {X.n_queries} queries, but the query_set has {len(query_set)}.")
        self.classes_, self.n_features_in_, self.has_opening_ = np.asarray(X.classes), X.n_queries, X.has_opening
        if X.feature_names:
            self.feature_names_in_ = np.array(X.feature_names, dtype=object)
            self.n_features_in_ = len(X.feature_names)
        return query_set, X

    def _opening(self, opening: Any, n_rows: int) -> torch.Tensor | None:
        return _as_opening(opening, (n_rows, len(self.model_.query_set)))

    def _split(self, rows: RowSource, seed: int) -> tuple[RowSource, EarlyStopping | None]:
        if not self.held_out:
            return rows, None
        if isinstance(rows, StreamedRows):
            others, held_out = rows.hold_out(self.held_out, HELD_OUT_MOST, seed + 1)
            return others, EarlyStopping(held_out)
        kept, held_out = train_test_split(np.arange(len(rows)), test_size=self.held_out, random_state=seed)
        return rows.take(torch.from_numpy(kept)), EarlyStopping(rows.take(torch.from_numpy(held_out)))


def default_stages(n_rows: int, n_queries: int, max_queries: int | None = None) -> list[Stage]:
    """One stage that suits the size of the data: small tables are seen often, large ones a few times in larger
    batches."""
    batch_size = 128 if n_rows < 20_000 else 512
    epochs = max(DEFAULT_STEPS * batch_size / n_rows, DEFAULT_PASSES)
    longest = max(1, min(n_queries, n_queries if max_queries is None else max_queries, CHAIN_QUERIES))
    return [Stage(epochs, CarriedHistories(longest), batch_size=batch_size)]


def _as_rule(stop: StoppingRule | str) -> StoppingRule:
    rule = parse_stop(stop) if isinstance(stop, str) else stop
    if not isinstance(rule, StoppingRule):
        raise TypeError(
            f"stop is a stopping rule such as Confidence(0.95), or its text 'confidence=0.95', not {stop!r}."
        )
    return rule


def _as_opening(opening: Any, shape: tuple[int, int]) -> torch.Tensor | None:
    if opening is None:
        return None
    opened = torch.as_tensor(np.asarray(opening), dtype=torch.bool)
    if opened.shape != shape:
        raise ValueError(
            f"opening says for every row and query whether its answer is given unasked: shape {shape} is expected, "
            f"not {tuple(opened.shape)}."
        )
    return opened


def _claim(folder: Path, run: dict[str, Any], resume: bool) -> None:
    """Write down what is trained in `folder`, or, to resume, make sure that it is the same."""
    path = folder / "run.json"
    if resume and path.exists():
        try:
            before = json.loads(path.read_text())
        except ValueError:
            raise CannotResume(
                f"{path} is damaged, so this run cannot be resumed: start anew in another folder."
            ) from None
        changed = [key for key in run if before.get(key) != run[key]]
        if changed:
            raise CannotResume(
                f"{folder} holds a run with other {' and '.join(changed)}, so it cannot be resumed with these. "
                "Give the settings and data it was started with, or start anew in another folder."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    saving.remove(folder)  # a model of an earlier run would not belong to this one
    write_whole(path, json.dumps(run, indent=1).encode())
