"""The models that a server asks with."""

import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import pursuit.methods  # noqa: F401  makes all that a model may be made of known
from pursuit.estimators import PursuitEstimator, fingerprint, load
from pursuit.evaluation import RegressionEvaluation
from pursuit.inference.incremental import HistoryState
from pursuit.inference.pursuer import label_list, label_text
from pursuit.inference.rollout import template_state
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target_bins import target_of
from pursuit.methods.random_order import RandomOrder
from pursuit.queries import Questions
from pursuit.queries.questions import Presentation
from pursuit.report import ModelReport
from pursuit.report.facts import ModelFacts, no_better_than_guessing, quality
from pursuit.report.measured import Measured, kept
from pursuit.sessions.experience import Experience
from pursuit.sessions.log import FurtherTarget
from pursuit.sessions.session import Session
from pursuit.sessions.state import question_of
from pursuit.web.serving import schemas
from pursuit.web.serving.problems import NotFound
from pursuit.web.titles import load_by_title, title_of


@dataclass(frozen=True)
class SamplePictures:
    """Pictures to try a model with."""

    pixels: np.ndarray  # (N, channels, height, width), in the range of the query set
    labels: tuple[str, ...]


LOW_PRIORITY = 15
logger = logging.getLogger("pursuit.serving")
Measure = Callable[[PursuitEstimator, StoppingRule], Measured | None]
"""Measures a model that asks by a rule on rows that it has not seen, where there are any."""
FindSamples = Callable[[PursuitEstimator], SamplePictures | None]


def nothing(estimator: PursuitEstimator, stop: StoppingRule | None = None) -> None:
    """Neither rows to measure on nor pictures."""


@dataclass
class ServedModel:
    """A model that is loaded once, and shared by all sessions with it."""

    id: str
    estimator: PursuitEstimator
    fingerprint: str
    stop: StoppingRule
    measure: Measure = nothing
    find_samples: FindSamples = nothing
    measured: Measured | None = None
    """How good it is; None until that is measured, and where there is nothing to measure on."""
    is_measured: bool = False
    also: Mapping[str, FurtherTarget] = field(default_factory=dict)
    """Further targets that interviews with it tell about."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @cached_property
    def presentation(self) -> Presentation:
        """How its interview is presented."""
        return Questions.presented(self.estimator.notes_)

    @cached_property
    def title(self) -> str:
        return title_of(self.estimator, self.id)

    def session(self, saved: dict[str, Any] | None = None, known: Mapping[str, Any] | None = None) -> Session:
        """A new session in which some answers are known, or one that was saved; raises ValueError if the model does not
        know their questions."""
        model = self.estimator.model_
        if saved is None and not known and self._begun is not None:
            return self._begun.copy()
        if saved is None:
            return Session(model, self.stop, known, template=self._template, also=self.also)
        return Session.from_dict(saved, model, self.stop, template=self._template, also=self.also)

    @cached_property
    def _begun(self) -> Session | None:
        """A session that has just begun, as all others begin; None where they do not."""
        model = self.estimator.model_
        if self.also or isinstance(model, RandomOrder):
            return None
        session = Session(model, self.stop, template=self._template)
        session.state()  # what this computes, all others have
        return session

    @cached_property
    def _template(self) -> HistoryState:
        model = self.estimator.model_
        return template_state(model, model.query_set.blank())

    @cached_property
    def questions(self) -> schemas.Questions:
        """All that it may ask."""
        query_set = self.estimator.model_.query_set
        return schemas.Questions(questions=[question_of(query_set, i) for i in range(len(query_set))])

    def measure_once(self) -> None:
        """Measure how good it is, which may take a while, unless training did."""
        if self.is_measured:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.measured = self.measure(self.estimator, self.stop)
            except Exception:  # the model can be used all the same
                logger.exception("The model %s could not be measured.", self.id)
            self.is_measured = True

    @property
    def report(self) -> ModelReport | None:
        """A report of what was measured."""
        return None if self.measured is None else ModelReport.from_measured(self.estimator, self.measured, self.stop)

    @property
    def experience(self) -> Experience | None:
        """What sessions report of it."""
        return None if self.measured is None else self.measured.experience

    @property
    def samples(self) -> SamplePictures | None:
        """Pictures to try it with; None where there are none."""
        with self._lock:  # they are read once
            return self._samples

    @cached_property
    def _samples(self) -> SamplePictures | None:
        return None if self.estimator.model_.query_set.patches is None else self.find_samples(self.estimator)

    @cached_property
    def labels(self) -> list[str]:
        """What it may say; nothing where it says a number."""
        model = self.estimator.model_
        return [] if target_of(model) is not None else [label_text(label) for label in label_list(model.classes)]

    def summary(self) -> schemas.ModelSummary:
        model, report = self.estimator.model_, self.report
        return schemas.ModelSummary(
            id=self.id,
            title=self.title,
            n_labels=len(label_list(model.classes)),
            n_questions=len(model.query_set),
            is_number=target_of(model) is not None,
            is_image=model.query_set.patches is not None,
            facts=ModelFacts.of(self.estimator, self.title, self.stop).sentences(),
            is_measured=self.is_measured,
            quality=None if report is None else _quality(report),
        )

    def details(self) -> schemas.ModelDetails:
        report = self.report
        return schemas.ModelDetails(
            **vars(self.summary()),
            labels=self.labels,
            report=None if report is None else report.to_dict(),
            report_url=None if report is None else f"/api/models/{self.id}/report",
        )


def _quality(report: ModelReport) -> schemas.Quality:
    evaluation = report.evaluation
    at_stop, accuracy = evaluation.at_stop, None
    if not isinstance(evaluation, RegressionEvaluation):
        accuracy = evaluation.accuracy_all_answers if evaluation.at_stop is None else evaluation.at_stop.accuracy
    return schemas.Quality(
        n_rows=evaluation.n_rows,
        accuracy=accuracy,
        mean_asked=None if at_stop is None else at_stop.mean_asked,
        beats_guessing=not no_better_than_guessing(evaluation),
        sentences=quality(evaluation, report.facts.name),
    )


class ServedModels(dict[str, ServedModel]):
    """All models by their ids."""

    def __init__(self, models: Iterable[ServedModel]):
        super().__init__({model.id: model for model in models})

    def measure_all(self, ends: threading.Event) -> None:
        """Measure how good they are, one after the other, until the server `ends`, with as little of the machine as it
        gives."""
        if hasattr(os, "setpriority") and sys.platform == "linux":  # where a thread has a priority of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)
        for model in self.values():
            if not ends.is_set():
                model.measure_once()

    def find(self, model_id: str) -> ServedModel:
        """The model of this id; raises NotFound, naming those there are."""
        if model_id not in self:
            raise NotFound(f"There is no model “{model_id}” here. Those served are: {', '.join(self)}.")
        return self[model_id]


def id_of(folder: Path) -> str:
    """The id of the model in a folder, unless an earlier one has it."""
    return re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.casefold()).strip("-") or "model"


def load_models(
    folders: Iterable[str | Path],
    stop: StoppingRule | str | None = None,
    measure: Measure = nothing,
    find_samples: FindSamples = nothing,
    also: Iterable[str | Path] = (),
) -> ServedModels:
    """The models in these folders, each with an id made of its folder's name; raises what `load` does. Interviews with
    a single one tell about the targets of those in `also` as well."""
    folders, also = list(folders), list(also)
    if also and len(folders) > 1:
        raise ValueError(
            "Further targets belong to the interview of one model: serve a single one with --also, and others without "
            "it, by another server."
        )
    found = ServedModels([])
    for path in map(Path, folders):
        estimator = load(path)
        name = id_of(path)
        model_id = next(other for n in range(1, 10_000) if (other := name if n == 1 else f"{name}-{n}") not in found)
        rule = estimator.stopping_rule(stop)
        if (answers := getattr(estimator.model_, "answer_model", None)) is not None:
            answers.keep_weights()
        served = ServedModel(model_id, estimator, fingerprint(path), rule, measure, find_samples)
        if also:
            further = load_by_title(also, title_of(estimator, path.name))
            served.also = estimator.further_targets(further, stop=stop)
            served.session()  # says at once where the models do not fit one another
        is_own_rule = str(rule) == str(estimator.stopping_rule())
        if is_own_rule and (before := kept(path, estimator)) is not None:
            served.measured, served.is_measured = before, True
        found[model_id] = served
    return found
