"""V-IP's estimators: a classifier, and a regressor whose labels are bins of a number. The algorithm: `pursuit.vip`."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from pursuit.estimators import PursuitRegressor, TaughtClassifier, TaughtEstimator, method
from pursuit.estimators.plan import FEW_ROWS, HELD_OUT, MOST_HELD_OUT, Reason
from pursuit.estimators.selection import better_querier, suitable_stop, unusual_limits
from pursuit.estimators.tuned import OF_NETWORK, OneOf
from pursuit.inference.stopping import StoppingRule
from pursuit.information import AnswerModel, AnswerSettings
from pursuit.queries import QuerySet
from pursuit.training import Stage, TrainingRun
from pursuit.training.held_out import EarlyStopping, Kept
from pursuit.training.learner import Learner, ModelSpec
from pursuit.training.loop import Report
from pursuit.training.rows import GeneratedRows, Rows, RowSource, StreamedRows, rows_in_memory
from pursuit.vip import VIP, InformationVIP, TwoQueriers

Querier = Literal["auto", "information", "straight-through"]
QUERIERS: tuple[Querier, ...] = ("auto", "information", "straight-through")
TUNABLE = {**OF_NETWORK, "random_share": OneOf((0.4, 1.0, 2.0))}
"""The search space of `pursuit tune`."""
LOOKED_AT = 4096
"""Number of rows from which the encoding of answers is read."""
LOOKAHEAD, LOOKAHEAD_ALONE = 5, 2
"""Look-ahead of the straight-through querier, in answers: while both queriers are trained, and at the start of its
decay to 1 once this querier is chosen."""
CHOOSING = 0.4
"""Share of the steps in which both queriers learn; the one that held-out rows prefer has the rest for itself."""
MANY_STEPS = 3500
"""Beside teachers, so many steps are divided like this, as from 20,000 rows on: in the first of fewer, a
straight-through querier has not yet found what pays off later."""
ALONE = "alone"
"""The folder of the log and the checkpoints of those steps, in that of the training."""
SLOWER = 0.5
"""The learning rate of those steps, as a multiple of the one before."""
COUNTED_ROWS = 100_000
"""The most rows that answers are counted on where rows are not in memory."""


@dataclass(kw_only=True, eq=False, repr=False)
class VIPEstimator(TaughtEstimator):
    """Base of V-IP's classifier and regressor: the parameters of the algorithm, and the model."""

    uses_weights = True
    counts_answers = True
    planned_settings = ("network", "answers", *TaughtEstimator.planned_settings[1:])
    tunable = TUNABLE

    querier: Querier = "auto"
    lookahead: Literal["auto"] | int = "auto"
    cost_aware: bool | None = None
    answers: AnswerSettings | None = None
    shared: bool = False
    """Whether querier and classifier share a trunk."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.querier not in QUERIERS:
            raise ValueError(f"querier is one of {', '.join(QUERIERS)}, not {self.querier!r}.")
        if self.answers is not None and not isinstance(self.answers, AnswerSettings):
            raise TypeError(f"answers are AnswerSettings(...), not {self.answers!r}.")
        if self.lookahead != "auto" and not (isinstance(self.lookahead, int) and self.lookahead >= 1):
            raise ValueError(f'lookahead is "auto" or a number of answers, at least 1, not {self.lookahead!r}.')
        if self._looks_ahead and (self.cost_aware or self.querier == "information"):
            raise ValueError(
                "Only a straight-through querier looks ahead, and it does not weigh costs: leave out lookahead, or "
                "querier='information' and cost_aware."
            )
        if self.cost_aware and self.querier == "straight-through":
            raise ValueError(
                "A straight-through querier does not know how many bits a query is worth, so it cannot weigh them "
                "against costs: use querier='information' with cost_aware=True."
            )

    def make_model(self, spec: ModelSpec, rows: RowSource) -> VIP:
        self._querier_reason: Reason | None = None
        spec, query_set = replace(spec, shared=self.shared), spec.query_set
        answer_model = self._answer_model(query_set, rows)
        querier = self.querier
        if querier == "auto":  # patches have too many answers to list
            querier = "straight-through" if answer_model is None or self._looks_ahead else "information"
        model: VIP
        if querier == "straight-through":
            model = VIP.build(spec, answer_model=answer_model)
            model.look_ahead(1 if self.lookahead == "auto" else self.lookahead)
        elif self._tries_both(query_set, rows):
            model = TwoQueriers.build(spec, answer_model=answer_model)
            model.look_ahead(LOOKAHEAD if self.lookahead == "auto" else self.lookahead)
        else:
            model = InformationVIP.build(spec, answer_model=answer_model)
            model.cost_aware = self._weighs_costs(query_set)
            model.learns_after = self.stages is not None or not self._is_taught(query_set, rows)
        model.label_kernel = self.label_kernel()
        return model

    def make_learner(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> VIP:
        model = super().make_learner(query_set, rows, prior)
        assert isinstance(model, VIP)
        if model.answer_model is not None and getattr(model.spec.network, "direct", False):
            model.start_from_counts(rows_in_memory(rows, LOOKED_AT).take(slice(LOOKED_AT)))
        return model

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
        """Both queriers learn at first; then held-out rows choose one, and the classifier learns from its chains alone.
        By then the querier knows which queries pay off only later, and a look-ahead that shortens makes its next choice
        more accurate. Beside teachers few steps are needed, and unless there are many, both learn to the end."""
        is_long = isinstance(rows, Rows) and sum(stage.n_steps(len(rows)) for stage in stages) >= MANY_STEPS
        if not isinstance(learner, TwoQueriers) or judging is None or not (early_stopping or is_long):
            return super()._train(learner, rows, stages, seed, judging, early_stopping, run)
        both = [stage.scaled(CHOOSING) for stage in stages]
        alone = [_slower(stage.scaled(1 - CHOOSING)) for stage in stages]
        n_alone = sum(stage.n_steps(len(rows)) for stage in alone)

        def with_time_alone(report: Report) -> Report:
            seconds = n_alone * stages[0].batch_size / report.histories_per_second
            return replace(report, seconds_left=report.seconds_left + seconds)

        first = _reporting(run, with_time_alone)
        second = _reporting(run, lambda report: replace(report, stage=report.stage + len(stages)))
        if run.path is not None:
            second = replace(second, folder=run.path / ALONE)
        _, ends_of_both = super()._train(learner, rows, both, seed, judging, early_stopping, first)
        chosen, self._querier_reason = better_querier(learner, judging, self.max_queries)
        if isinstance(chosen, InformationVIP):
            chosen.learns_after = False
        else:  # which may forget queries that pay off only later, where a look-ahead shortens
            early_stopping = early_stopping or self._early_stopping(judging, rows)
            if chosen.lookahead is not None:
                chosen.lookahead.shorten(LOOKAHEAD_ALONE)
        _, ends = super()._train(chosen, rows, alone, seed, judging, early_stopping, second)
        return chosen, [
            Kept(CHOOSING * before.share + (1 - CHOOSING) * after.share, after.temperature)
            for before, after in zip(ends_of_both, ends, strict=True)
        ]

    def suitable_stop(self, model: VIP, rows: Rows) -> StoppingRule | None:
        return None if model.answer_model is None else suitable_stop(model, rows, self.max_queries)

    def finish(self, learner: VIP, rows: RowSource) -> VIP:
        learner.lookahead = None  # which has done its work
        return learner

    @property
    def _looks_ahead(self) -> bool:
        """Whether the user wants it to, whatever held-out rows say."""
        return self.lookahead != "auto" and self.lookahead > 1

    def _tries_both(self, query_set: QuerySet, rows: RowSource) -> bool:
        """Whether rows whose labels were not learnt choose the querier, as they do where nothing else is said and there
        are rows enough."""
        is_open = self.querier == "auto" and self.stages is None and not self.shared
        if not is_open or not self._is_judged or self._weighs_costs(query_set):
            return False
        if len(rows) < FEW_ROWS:
            self._querier_reason = Reason("querier", "information", "too few rows to tell which of two asks better")
        return len(rows) >= FEW_ROWS

    def _fit_to(self, judging: Rows) -> None:
        if isinstance(self.model_, TwoQueriers):
            self.model_, self._querier_reason = better_querier(self.model_, judging, self.max_queries)
        super()._fit_to(judging)
        if self.model_.answer_model is not None:
            self.model_.unusual_from.copy_(unusual_limits(self.model_, judging, self.max_queries))

    def _given(self) -> dict[str, Any]:
        return super()._given() | {"lookahead": None if self.lookahead == "auto" else self.lookahead}

    def _judged_reasons(self, judging: Rows | None, learner: VIP) -> list[Reason]:
        found = getattr(self, "_querier_reason", None)  # which a loaded estimator has among those chosen
        chosen = [] if found is None else [found]
        return [*chosen, *super()._judged_reasons(judging, learner)]

    def _calibration_share(self, rows: RowSource) -> float:
        if self.calibration is None and isinstance(rows, GeneratedRows):  # which draws others, so that none is lost
            return 1.0
        if self.calibration is None and isinstance(rows, StreamedRows) and len(rows) >= FEW_ROWS:
            return min(HELD_OUT, MOST_HELD_OUT / len(rows))
        return super()._calibration_share(rows)

    def _weighs_costs(self, query_set: QuerySet) -> bool:
        """Whether to ask by bits per unit of cost: as `cost_aware` says, or where costs differ and bits are known."""
        if self.cost_aware is not None:
            return self.cost_aware
        knows_bits = query_set.has_own_units and self.querier != "straight-through" and not self._looks_ahead
        prices = query_set.prices(torch.zeros(1, len(query_set), dtype=torch.bool))  # of a whole group for its members
        return knows_bits and not torch.allclose(prices, prices.flatten()[:1])

    def _answer_model(self, query_set: QuerySet, rows: RowSource) -> AnswerModel | None:
        """None for queries without a list of answers, unless it is needed, which says why it cannot be made."""
        if not query_set.has_own_units and self.querier != "information" and not self.cost_aware:
            return None
        counted = rows_in_memory(rows, COUNTED_ROWS)
        return AnswerModel.count(
            query_set, len(self.labels), counted, self.answers or self.plan_.answers, self.label_kernel()
        )


def _reporting(run: TrainingRun, change: Callable[[Report], Report]) -> TrainingRun:
    """The run, whose reports are changed before anybody sees them."""
    tell = run.on_report
    return run if tell is None else replace(run, on_report=lambda report: tell(change(report)))


def _slower(stage: Stage) -> Stage:
    """A stage that goes on where one like it ended."""
    optimizer = replace(stage.optimizer, lr=SLOWER * stage.optimizer.lr)
    return replace(stage, optimizer=optimizer, tau=(stage.tau[1], stage.tau[1]))


@method("vip-straight-through", "V-IP, straight-through", querier="straight-through", cost_aware=False)
@method("vip-information", "V-IP by information", querier="information")
@method("vip", "V-IP")
@dataclass(kw_only=True, eq=False, repr=False)
class VIPClassifier(TaughtClassifier, VIPEstimator):
    """Variational Information Pursuit: a querier and a classifier network, trained end to end.

    Parameters
    ----------
    query_set : QuerySet, optional
        What may be asked. By default every column of the table is a query.
    column_types : mapping, optional
        What columns are asked as where a guess is wrong, as in {"ward": "choice", "note": "skip"}.
    missing_informs : bool
        Treat missing values as an answer ("not given") in columns with many of them.
    stop : StoppingRule or str, optional
        When to stop asking, as `Confidence(0.95)` or "confidence=0.95,budget=10". By default once a label has 99 %, or
        no question promises the bits that matter to held-out rows. `RiskControlled(0.05)` and `ConformalSet(0.1)`
        promise something of new rows, for which rows are held out.
    max_queries : int, optional
        The most queries ever asked of a row. By default all of them.
    querier : "auto", "information" or "straight-through"
        How it learns what to ask: from the information that an answer model expects of every query, or by the paper's
        straight-through gradient. "auto" learns both and takes the one whose questions make labels less surprising on
        rows that were not learnt from, or information where they are level. Patches have too many answers to list and
        take straight-through; given `stages`, a shared trunk or costs take information. Either way the answer model
        says how many bits a query is expected to give, unless queries are patches.
    lookahead : "auto" or int
        Over how many answers the straight-through querier learns to be right: with 1, over the next one alone; with
        more, it also asks what tells little by itself, but decides what to ask next. "auto" looks 5 answers ahead
        while it learns both queriers, so that rows not learnt from say whether it pays, and fewer after that. A number
        above 1 takes the straight-through querier, which looks so far to the end.
    cost_aware : bool, optional
        Whether to ask for the most bits per unit of cost, instead of the most bits. By default it does where the costs
        of queries, or of groups of them, differ, unless they are patches or the querier is straight-through.
    answers : AnswerSettings, optional
        How the answer model is made.
    teachers : "auto", None or list of classifiers
        Who teaches the classifier, for tables in memory: forests, boosting and logistic regression, as they suit the
        rows ("auto"); nobody (None); or any classifiers of scikit-learn.
    network : NetworkSettings, optional
        `MLP`, `Conv`, `SetNetwork` … with its sizes. By default one that suits the data.
    shared : bool
        Whether querier and classifier share a trunk.
    standardise : bool, optional
        Whether networks see answers relative to their mean and spread; for columns, words and concepts only. By default
        where nearly all answers are no.
    stages : list of Stage, optional
        The training plan. By default one stage of carried histories, which held-out rows end.
    held_out : float, optional
        Share of the rows to hold out, to judge what was learnt and, without teachers, to end training early; 0: none.
        By default what suits the number of rows, or none where `stages` are given.
    guarantee_share : float, optional
        Share of the rows to hold out for what `stop` promises; 0: none, and `guarantee` is given them. By default a
        fifth, or what the promise takes.
    calibration : float, optional
        Fraction of rows reserved for calibration when none are held out for early stopping, as when `stages` is given.
        By default none, except a few rows of files larger than memory, and fresh rows if rows are generated.
    unreliable : Unreliable, optional
        How often answers are withheld and wrong in training, as in `Unreliable(withheld=0.05, wrong=0.02)`, so that
        beliefs hold where people do not know or err. By default never.
    tuned : Tuned, optional
        Factors on what is planned or given for training, as `pursuit tune` finds them.
    random_state : int, RandomState or None
        Seed; the same number gives the same model on the same machine.
    device : str
        Where to train and evaluate: "cpu", "cuda" or "auto".
    verbose : bool, optional
        Whether `fit` shows a progress bar. By default where there is a terminal or a notebook.
    devices : int
        How many devices, or processes on a CPU, train together.
    """


@method("vip-regressor", "V-IP for a number")
@dataclass(kw_only=True, eq=False, repr=False)
class VIPRegressor(PursuitRegressor, VIPEstimator):
    """Variational Information Pursuit of a number: it asks for the most information about the number, and predicts its
    distribution.

    Parameters
    ----------
    n_bins : int, optional
        How many bins the number is divided into, with equally many rows in each. By default 8 to 32, by the rows.
    neighbours : float
        How far, in bins, a training row counts for the bins beside its own: the deviation of a normal curve. It keeps
        small data from being learnt by heart, and costs sharpness where the number is known to a bin.
    stop : StoppingRule or str, optional
        When to stop asking, as `IntervalWidth(20)` or "width=20,budget=10". By default once the 90 % interval is a
        tenth of the number's standard deviation, or no question promises enough bits to matter on held-out rows.

    The others are those of `VIPClassifier`, except that there are no weights of classes.
    """

    neighbours: float = 0.7

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 <= self.neighbours < math.inf:
            raise ValueError(f"neighbours is a number of bins, 0 or more, not {self.neighbours}.")

    def suitable_stop(self, model: VIP, rows: Rows) -> StoppingRule | None:
        return None if model.answer_model is None else self._stop_by_error(model, rows)

    def label_kernel(self) -> Tensor | None:
        return self.bins_.kernel(self.neighbours)
