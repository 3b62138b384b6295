"""Estimators whose pursuer is trained by the training loop."""

import hashlib
import json
import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import is_regressor
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits
from torch import Tensor

from pursuit.estimators import saving
from pursuit.estimators.base import PursuitEstimator
from pursuit.estimators.classifier import PursuitClassifier
from pursuit.estimators.plan import MANY_ROWS, MOST_HELD_OUT, Reason, given, suitable_plan
from pursuit.estimators.saving import RUN
from pursuit.estimators.selection import expected
from pursuit.estimators.teachers import Teachers, can_teach, taught
from pursuit.estimators.tuned import OF_NETWORK, OF_TRAINING, Tuned
from pursuit.evaluation.rollouts import placed
from pursuit.files import DamagedFile, is_first, make_folder, read_json, remove_torn, write_whole
from pursuit.inference.pursuer import label_text
from pursuit.inference.stopping import StoppingRule, guarantees_of, stopping_rule, without_guarantees
from pursuit.networks import NetworkSettings
from pursuit.networks.dense import one_thread
from pursuit.queries import QuerySet
from pursuit.training import ClassifierModel, EarlyStopping, Kept, Learner, Stage, TrainingRun, train
from pursuit.training.calibration import fit_temperature
from pursuit.training.checkpoints import CannotResume
from pursuit.training.devices import n_processes
from pursuit.training.held_out import split_by_group
from pursuit.training.learner import ModelSpec
from pursuit.training.rows import Rows, RowSource, StreamedRows, Unreliable, answer_features, rows_in_memory
from pursuit.training.run import check_plan

STANDARD_ROWS = 20_000
"""How many of the rows that are not in memory the mean and spread of answers are measured on."""

SMALL_TABLE = 2**20
"""Up to this many answers are learnt from by one thread."""

GUESSING = "no better than guessing"
"""What is said first of a model that may be no better than somebody who always says the most frequent label."""
NO_GROUP_HELD_OUT = (
    "Holding out a whole group would remove every row of some label, so training is judged by rows of the groups "
    "it learns from: expect lower accuracy on new groups."
)


@dataclass(kw_only=True, eq=False, repr=False)
class LearnerEstimator(PursuitEstimator):
    """An estimator around a `Learner`: a subclass builds one in `make_learner`, and may adapt the training plan in
    `plan`."""

    counts_answers: ClassVar[bool] = False
    """Whether its classifier can begin with what was counted, as naive Bayes."""
    planned_settings: ClassVar[tuple[str, ...]] = ("passes", "batch size", "steps", "held out")
    """What it takes from the plan."""
    tunable = OF_TRAINING

    stages: list[Stage] | None = None
    """The training plan. By default one stage of carried histories, long enough for the number of rows. A method that
    learns from other histories takes as many of them, in the same batches."""
    held_out: float | None = None
    """Share of the rows to hold out, to judge what was learnt and, without teachers, to end training early; 0: none. By
    default what suits the number of rows, or 0 where `stages` are given."""
    calibration: float | None = None
    """Fraction of rows reserved for calibration when none are held out for early stopping, as when `stages` is given.
    By default 0; V-IP takes a few of those in files, and fresh rows if rows are generated. `calibrate` does it
    later."""
    unreliable: Unreliable | None = None
    """How often answers are withheld and wrong in training, and in the rows that judge it, as those of people will be;
    for columns, words and concepts only. By default never."""
    tuned: Tuned | None = None
    """Factors on what is planned or given for training, as `pursuit tune` finds them. By default it is left as it
    is."""
    devices: int = 1
    """How many devices, or processes on a CPU, train together; each but the first runs the program again up to `fit`.
    A program started by torchrun has as many as torchrun started."""

    @abstractmethod
    def make_learner(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> Learner:
        """A fresh learner for these rows, whose classes have the frequencies `prior` (C,)."""

    def chosen_teachers(self) -> Teachers:
        """Who teaches the learner; it must learn from `Batch.targets` wherever rows may have no label."""
        return None

    def label_kernel(self) -> Tensor | None:
        """How much a training row of each label counts for others (C, C), where labels have neighbours."""
        return None

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        """The stages that this method trains in, from those of `stages` or the default."""
        return list(stages)

    def finish(self, learner: Any, rows: RowSource) -> Any:
        """The pursuer, once the learner is trained."""
        return learner

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.held_out is not None and not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is a share of the rows, at least 0 and below 1, not {self.held_out}.")
        if self.calibration is not None and not 0 <= self.calibration < 1:
            raise ValueError(f"calibration is a share of the rows, at least 0 and below 1, not {self.calibration}.")
        if self.unreliable is not None and not isinstance(self.unreliable, Unreliable):
            raise TypeError(f"unreliable is Unreliable(withheld=…, wrong=…), not {self.unreliable!r}.")
        if self.tuned is not None and not isinstance(self.tuned, Tuned):
            raise TypeError(f"tuned is Tuned(lr=…, width=…), not {self.tuned!r}.")

    def learn(self, query_set: QuerySet, rows: RowSource, seed: int, run: TrainingRun) -> Any:
        with one_thread(_is_small(query_set, rows)):
            return self._learn(query_set, rows, seed, run)

    def _learn(self, query_set: QuerySet, rows: RowSource, seed: int, run: TrainingRun) -> Any:
        """Set some rows aside, let teachers label the others, train once, and fit beliefs to the rows set aside."""
        is_taught = self._is_taught(query_set, rows)
        counts = self.counts_answers
        plan = suitable_plan(query_set, rows, len(self.labels), self.max_queries, self.device, counts, is_taught)
        self.plan_, stages = plan, self._adapted(query_set, plan.stages if self.stages is None else self.stages)
        check_plan(stages, self.device, run.log, n_processes(self.devices))
        kept, judging = self._set_aside(query_set, rows, seed, self._share_aside(rows))
        if isinstance(kept, Rows) and not len(kept):
            raise ValueError(f"Of {len(rows):,} rows, none is left to learn from: hold out fewer, or give more rows.")
        lesson, more_reasons = kept, []
        if is_taught and isinstance(kept, Rows):
            with threadpool_limits(1 if _is_small(query_set, rows) else None):  # for scikit-learn what `one_thread` is
                teaching = taught(query_set, kept, self.labels, self.chosen_teachers(), seed, self.label_kernel())
            lesson, more_reasons = teaching.rows, [Reason("teachers", teaching.names, "best on rows they did not see")]
            judging = teaching.judging if judging is None else judging
        self._is_judged = judging is not None
        learner = self.make_learner(query_set, kept, kept.prior(len(self.labels)))
        early_stopping = None
        if judging is not None and not is_taught and self._ends_early():
            early_stopping = self._early_stopping(judging, rows)
        run = self._claimed(run, learner, stages, seed, kept, self.chosen_teachers() if is_taught else None)
        # As many steps as planned, although rows were made.
        stages = [replace(stage, epochs=stage.epochs * len(kept) / len(lesson)) for stage in stages]
        self.model_, ends = self._train(learner, lesson, stages, seed, judging, early_stopping, run)
        if judging is not None:
            self._fit_to(judging)
        learnt = self.model_
        self.model_ = self.finish(learnt, kept)  # which the usual stopping rule may depend on
        n_planned = _n_steps(stages, len(lesson))
        n_trained = _n_steps(stages, len(lesson), [end.share for end in ends])
        reasons = self._plan_reasons(n_planned, n_trained, early_stopping is not None)
        if judging is not None and judging.target is None and early_stopping is None:
            what_for = "held out for nothing else" if isinstance(rows, Rows) else "not learnt from"
            more_reasons.append(Reason("calibrated on", f"{len(judging):,} rows", what_for))
        self.chosen_ = _guessing_first([*reasons, *more_reasons, *self._judged_reasons(judging, learnt)])
        return self.model_

    def _is_taught(self, query_set: QuerySet, rows: RowSource) -> bool:
        """Whether teachers label the rows: those in memory, by answers that can be listed."""
        if not (teachers := self.chosen_teachers()) or n_processes(self.devices) > 1:
            return False
        return isinstance(rows, Rows) and query_set.has_own_units and can_teach(rows, self.labels, teachers)

    def _adapted(self, query_set: QuerySet, stages: Sequence[Stage]) -> list[Stage]:
        """The stages as this method and the estimator's settings want them."""
        stages = self.plan(stages)
        if self.tuned is not None:
            stages = self.tuned.stages(stages)
        if self.unreliable is not None:
            answer_features(query_set, torch.device("cpu"))  # raises ValueError for queries that cannot be, and
            self.unreliable.rates(query_set, torch.device("cpu"))  # for those that are not asked
            stages = [replace(stage, unreliable=self.unreliable) for stage in stages]
        return stages

    def _share_aside(self, rows: RowSource) -> float:
        """The share of rows to set aside, by which training may end and to which beliefs are fitted."""
        if self.held_out is not None:
            return self.held_out or self._calibration_share(rows)
        planned = self.plan_.held_out if self.stages is None and n_processes(self.devices) == 1 else 0.0
        return planned or self._calibration_share(rows)

    def _ends_early(self) -> bool:
        """Whether rows that are set aside end training."""
        return bool(self.held_out) or (self.held_out is None and self.stages is None and self.plan_.held_out > 0)

    def _claimed(
        self,
        run: TrainingRun,
        learner: Learner,
        stages: Sequence[Stage],
        seed: int,
        rows: RowSource,
        teachers: Teachers,
    ) -> TrainingRun:
        """The run with what tells it from others, which is written into its folder."""
        if run.path is None:
            return run
        described = {
            "model": {"type": type(learner).__name__, **learner.to_config()},
            "query_set": learner.query_set.to_config(),
            "stages": repr(list(stages)),
            "seed": seed,
            "rows": rows.fingerprint(),
            "teachers": None if teachers is None else str(teachers),
            **({} if self.unreliable is None else {"unreliable": repr(self.unreliable)}),
        }
        return replace(run, identity=_claim(run.path, described, run.resume))

    def calibrate(self, X: Any, y: Any, *, initially_known: Any = None) -> Self:
        """Fit beliefs to rows X with labels y that the model did not learn from: what they say of how sure to be, when
        to stop asking (unless `stop` is given), and what to expect of predictions. Guarantees were made of beliefs as
        they were before, and must be made again by `guarantee`, on other rows."""
        rows = self.rows(X, y, initially_known=initially_known)
        if not hasattr(self.model_, "temperature"):
            raise ValueError(f"The beliefs of {type(self).__name__} cannot be changed, so it is not calibrated.")
        self.guaranteed_ = None
        self._fit_to(rows)
        renewed = self._judged_reasons(rows, self.model_)
        names = {GUESSING, *(reason.setting for reason in renewed)}
        others = [reason for reason in self.chosen_ if reason.setting not in names]
        self.chosen_ = _guessing_first([*others, *renewed])
        return self

    @abstractmethod
    def rows(self, X: Any, y: Any, *, initially_known: Any = None) -> Rows:
        """Rows with the numbers of their labels."""

    def _fit_to(self, judging: Rows) -> None:
        """Fit beliefs to rows whose labels were not learnt, and choose by them when to stop. Where teachers judge,
        beliefs stay as they are: they were learnt from these teachers, who know how sure to be."""
        with placed(self.model_, self.device):
            if hasattr(self.model_, "temperature") and judging.target is None:
                self.model_.set_temperature(fit_temperature(self.model_, judging, self.max_queries))
            if self.stop is None or without_guarantees(stopping_rule(self.stop)) is None:
                self.stop_ = self.suitable_stop(self.model_, judging)

    def _judged_reasons(self, judging: Rows | None, learner: Any) -> list[Reason]:
        """What rows whose labels were not learnt chose, and what they make one expect of a learner."""
        judged_by = _judged_by(judging)
        reasons = [self._stop_reason(judged_by)]
        if judging is None:
            return reasons
        if hasattr(learner, "temperature") and judging.target is None:
            low, high = (f"{float(learner.temperature[n]):.3g}" for n in (1, -1))
            value = low if low == high else f"{low} after one answer, {high} after all"
            reasons.insert(0, Reason("temperature", value, f"fits beliefs to {judged_by}"))
        with placed(learner, self.device):
            return [*reasons, *self._expectations(judging, learner)]

    def _calibration_share(self, rows: RowSource) -> float:
        """The share of rows that beliefs are fitted to where training holds out none."""
        return self.calibration or 0.0

    def _plan_reasons(self, n_planned: int, n_trained: int, is_judged: bool) -> tuple[Reason, ...]:
        """What was planned or given, and how many steps were trained where held-out rows ended training."""
        reasons = {reason.setting: reason for reason in self.plan_.reasons if reason.setting in self.planned_settings}
        if self.stages is not None or (self.plan_.held_out and not is_judged):  # or processes train together
            reasons.pop("held out", None)
        if self.tuned is not None:
            for setting in ("network", "steps", "passes"):  # which are tuned: what is given says how
                reasons.pop(setting, None)
        if self.stages is not None:
            for setting in ("batch size", "steps", "passes"):
                reasons.pop(setting, None)
            n_steps = f"{n_planned:,}" if n_trained == n_planned else f"{n_trained:,} of {n_planned:,}"
            n_stages = len(self.stages)
            value = f"{n_stages} stage{'s' * (n_stages > 1)}, {n_steps} step{'s' * (n_planned > 1)}"
            reasons["stages"] = given("stages", value)
        elif is_judged or n_trained < n_planned:
            reasons["steps"] = Reason("steps", f"{n_trained:,} of {n_planned:,}", "best on held-out rows")
        elif "steps" in reasons:  # of which there are fewer where rows are held out
            reasons["steps"] = replace(reasons["steps"], value=f"{n_planned:,}")
        reasons |= {name: given(name, value) for name, value in self._given().items() if value is not None}
        return tuple(reasons.values())

    def _given(self) -> dict[str, Any]:
        """The settings of the plan that the user may give; None for one that is left open."""
        return {"held out": None if self.held_out is None else f"{self.held_out:.0%}", "tuned": self.tuned}

    def _stop_reason(self, judged_by: str) -> Reason:
        """Which rule rows are asked by."""
        rule = self.stopping_rule()
        if self.stop is not None:
            return given("stop", rule)
        return Reason("stop", str(rule), "by default" if self.stop_ is None else f"{judged_by} need no more than that")

    def _expectations(self, judging: Rows, learner: Any) -> list[Reason]:
        """What to expect of predictions, by rows whose labels were not learnt."""
        return []

    def _train(
        self,
        learner: Learner,
        rows: RowSource,
        stages: list[Stage],
        seed: int,
        judging: Rows | None,
        early_stopping: EarlyStopping | None,
        run: TrainingRun,
    ) -> tuple[Any, list[Kept]]:
        """Train the learner. Gives the one to use, which is another where rows for `judging` choose it on the way, and
        how much of each stage was kept."""
        levelled = rows.levelled() if isinstance(rows, Rows) else rows
        options: Any = {"seed": seed, "device": self.device, "devices": self.devices}
        return learner, train(learner, levelled, stages, early_stopping=early_stopping, run=run, **options)

    def suitable_stop(self, model: Any, rows: Rows) -> StoppingRule | None:
        """The rule to stop by that suits a model, judged by rows whose labels were not learnt; None: the usual one."""
        return None

    def _early_stopping(self, judging: Rows, rows: RowSource) -> EarlyStopping:
        if isinstance(rows, StreamedRows):
            return EarlyStopping(judging)
        return EarlyStopping(judging, every=self.plan_.look_every, prefers_end=len(rows) >= MANY_ROWS)

    def _set_aside(
        self, query_set: QuerySet, rows: RowSource, seed: int, share: float
    ) -> tuple[RowSource, Rows | None]:
        """The rows to train on, and a `share` held out to judge by."""
        if not share:
            return rows, None
        kept, judging = self._divide(rows, seed, share)
        if self.unreliable is not None:
            device = judging.x.device
            features, rates = answer_features(query_set, device), self.unreliable.rates(query_set, device)
            judging = self.unreliable(judging, features, torch.Generator().manual_seed(seed), rates)
        return kept, judging

    def _divide(self, rows: RowSource, seed: int, share: float) -> tuple[RowSource, Rows]:
        if isinstance(rows, StreamedRows):
            # Another seed, because rows may be drawn, and those of `seed` are trained on
            return rows.hold_out(share, MOST_HELD_OUT, seed + 1)
        # What train_test_split of scikit-learn gives, which takes a second to import
        judged, kept = np.split(check_random_state(seed).permutation(len(rows)), [math.ceil(share * len(rows))])
        if rows.group is not None:
            by_group = split_by_group(rows.y.numpy(), rows.group.numpy(), round(share * len(rows)), seed)
            if len(by_group[1]):
                kept, judged = (np.random.default_rng(seed).permutation(part) for part in by_group)
            else:
                warnings.warn(NO_GROUP_HELD_OUT, stacklevel=2)
        return rows.take(torch.from_numpy(kept)), rows.take(torch.from_numpy(judged)).levelled()


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(LearnerEstimator):
    """An estimator whose learner is a `ClassifierModel`, with a querier or without: it reads histories by networks."""

    Model: ClassVar[type[ClassifierModel]] = ClassifierModel
    """What is trained. One that takes more than its specification is built by `make_model`."""
    planned_settings = ("network", "standardise", *LearnerEstimator.planned_settings)
    tunable = OF_NETWORK

    network: NetworkSettings | None = None
    """`MLP`, `Conv`, `SetNetwork` … with its sizes. By default one that suits the query set."""
    standardise: bool | None = None
    """Whether networks see answers relative to their mean and spread, which helps where nearly all answers are no, as
    with words. For columns, words and concepts only. By default where answers are like that."""

    def _given(self) -> dict[str, Any]:
        return super()._given() | {"network": self.network, "standardise": self.standardise}

    def make_model(self, spec: ModelSpec, rows: RowSource) -> ClassifierModel:
        """A fresh model of this specification for these rows: a `Model`, with the settings of its method."""
        settings, shared = getattr(self, "chosen_settings", None), getattr(self, "shared", False)
        return self.Model.build(replace(spec, settings=settings, shared=shared))

    def make_learner(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> ClassifierModel:
        standardise = self.plan_.standardise if self.standardise is None else self.standardise
        network = self.plan_.network if self.network is None else self.network
        network = network if self.tuned is None else self.tuned.network(network)
        spec = ModelSpec(query_set, self.labels, network, prior=prior, standardised=standardise)
        model = self.make_model(spec, rows)
        if standardise:
            sample = rows_in_memory(rows, STANDARD_ROWS)
            model.standardise(sample.x, sample.available)
        return model


@dataclass(kw_only=True, eq=False, repr=False)
class TaughtEstimator(NetworkEstimator):
    """An estimator whose model learns from `Batch.targets` alone, so that teachers can label its rows."""

    teachers: Teachers = "auto"
    """Who labels the rows of a table in memory beside their own labels: scikit-learn estimators, or those that are best
    on rows they did not see ("auto"); None: nobody."""

    def chosen_teachers(self) -> Teachers:
        return self.teachers

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.teachers is None or (isinstance(self.teachers, str) and self.teachers == "auto"):
            return
        kind, needs = ("regressors", "predict") if is_regressor(self) else ("classifiers", "predict_proba")
        is_list = isinstance(self.teachers, list | tuple)
        if not is_list or any(isinstance(one, type) or not hasattr(one, needs) for one in self.teachers):
            raise TypeError(f'teachers are "auto", None or a list of {kind} with {needs}, not {self.teachers!r}.')


@dataclass(kw_only=True, eq=False, repr=False)
class LearnerClassifier(PursuitClassifier, LearnerEstimator):
    """A classifier around a `Learner`."""

    def _expectations(self, judging: Rows, learner: Any) -> list[Reason]:
        rule = self.stopping_rule()
        if guarantees_of(rule):  # what they take is chosen later, and says itself what to expect
            return []
        found, judged_by = expected(learner, judging, rule), _judged_by(judging)
        reasons = [Reason("expected", str(found), f"judged by {found.n_rows:,} {judged_by}")]
        counts = torch.bincount(judging.y, minlength=len(self.labels))
        guess = int(counts.argmax())
        share = float(counts[guess]) / len(judging)
        if self.class_weight is None and found.accuracy_range[0] <= share:
            value = f"always saying '{label_text(self.classes_[guess])}' is right in {share:.0%}"
            reasons.append(Reason(GUESSING, value, f"as far as {found.n_rows:,} {judged_by} can tell"))
        return reasons


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkClassifier(LearnerClassifier, NetworkEstimator):
    """A classifier around a `ClassifierModel`."""


@dataclass(kw_only=True, eq=False, repr=False)
class TaughtClassifier(NetworkClassifier, TaughtEstimator):
    """A classifier around a `ClassifierModel` that can be taught."""


def _guessing_first(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """The reasons; that a model is no better than guessing is said before all others."""
    return tuple(sorted(reasons, key=lambda reason: reason.setting != GUESSING))


def _judged_by(rows: Rows | None) -> str:
    return "rows as teachers label them" if rows is not None and rows.target is not None else "held-out rows"


SAID = {"model": "settings", "query_set": "questions", "stages": "passes over the rows", "unreliable": "doubts"}
"""What users call the parts of a run that are called otherwise in its file."""


def _claim(folder: Path, run: dict[str, Any], resume: bool) -> str:
    """Write down what is trained in `folder`, or, to resume, make sure that it is the same; what tells the run from
    others. Of processes that train together, the first one writes."""
    path, run = folder / RUN, json.loads(json.dumps(run))
    identity = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()
    if not is_first():
        return identity
    if resume and path.exists():
        try:
            before = read_json(path)
            if not isinstance(before, dict):
                raise DamagedFile
        except ValueError:
            raise CannotResume(
                f"{path} is damaged, so this run cannot be resumed: start again in another folder."
            ) from None
        changed = [SAID.get(key, key) for key in run if before.get(key) != run[key]]
        if changed:
            raise CannotResume(
                f"{folder} holds a run with other {' and '.join(changed)}, so it cannot be resumed with these. "
                "Use the settings and data it was started with, or start again in another folder."
            )
        return identity
    make_folder(folder)
    remove_torn(folder, RUN, saving.DESCRIPTION, saving.WEIGHTS)
    write_whole(path, json.dumps(run, indent=1).encode())
    return identity


def _n_steps(stages: Sequence[Stage], n_rows: int, shares: Sequence[float] | None = None) -> int:
    """How many steps stages have, or the shares of them."""
    n_steps = [stage.n_steps(n_rows) for stage in stages]
    return sum(n_steps) if shares is None else round(sum(n * share for n, share in zip(n_steps, shares, strict=True)))


def _is_small(query_set: QuerySet, rows: RowSource) -> bool:
    return query_set.has_own_units and len(rows) * len(query_set) <= SMALL_TABLE
