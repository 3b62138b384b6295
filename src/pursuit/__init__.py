"""Predictions that explain themselves by the questions they ask: Variational Information Pursuit.

All public names are here, and are imported with the first of them that is used: torch takes seconds to import, and
`pursuit --help` should not wait for it.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pursuit.version import __version__ as __version__

if TYPE_CHECKING:  # the same once more, for those who check types
    from pursuit.estimators import (  # noqa: I001
        Method as Method,
        PursuitClassifier as PursuitClassifier,
        PursuitEstimator as PursuitEstimator,
        PursuitRegressor as PursuitRegressor,
        load as load,
        method as method,
    )
    from pursuit.estimators.tuned import Tuned as Tuned
    from pursuit.evaluation import (
        Evaluation as Evaluation,
        RegressionEvaluation as RegressionEvaluation,
        evaluate as evaluate,
    )
    from pursuit.inference.chain import Chain as Chain, Chains as Chains
    from pursuit.inference.history import History as History
    from pursuit.inference.pursuer import Pursuer as Pursuer
    from pursuit.inference.stopping import (
        AnyOf as AnyOf,
        Budget as Budget,
        Confidence as Confidence,
        ConformalSet as ConformalSet,
        CostBudget as CostBudget,
        IntervalWidth as IntervalWidth,
        NothingWorthAsking as NothingWorthAsking,
        RiskControlled as RiskControlled,
        Stability as Stability,
        Standing as Standing,
        StoppingRule as StoppingRule,
    )
    from pursuit.inference.target_bins import TargetBins as TargetBins
    from pursuit.information import AnswerSettings as AnswerSettings
    from pursuit.methods import *  # noqa: F403
    from pursuit.networks import (
        DLA as DLA,
        MLP as MLP,
        Conv as Conv,
        DenseNet as DenseNet,
        NetworkSettings as NetworkSettings,
        PaperConv as PaperConv,
        Residual as Residual,
        SetNetwork as SetNetwork,
    )
    from pursuit.queries import (
        Choice as Choice,
        ColumnQueries as ColumnQueries,
        ConceptQueries as ConceptQueries,
        Date as Date,
        DoubtfulAnswer as DoubtfulAnswer,
        Number as Number,
        PatchQueries as PatchQueries,
        Query as Query,
        QuerySet as QuerySet,
        Questions as Questions,
        WordQueries as WordQueries,
        yes_no as yes_no,
    )
    from pursuit.registry import register as register
    from pursuit.sessions.session import Session as Session
    from pursuit.training import (
        CarriedHistories as CarriedHistories,
        ModelSpec as ModelSpec,
        RandomHistories as RandomHistories,
        RolledOutHistories as RolledOutHistories,
        Stage as Stage,
        TrainingRun as TrainingRun,
    )
    from pursuit.training.rows import Rows as Rows, Unreliable as Unreliable
    from pursuit.vip import VIP as VIP, InformationVIP as InformationVIP
    from pursuit.web.exporting import Exported as Exported, export as export

_PUBLIC = {
    "estimators": "Method PursuitClassifier PursuitEstimator PursuitRegressor load method",
    "estimators.tuned": "Tuned",
    "evaluation": "Evaluation RegressionEvaluation evaluate",
    "inference.chain": "Chain Chains",
    "inference.history": "History",
    "inference.pursuer": "Pursuer",
    "inference.stopping": "AnyOf Budget Confidence ConformalSet CostBudget IntervalWidth NothingWorthAsking "
    "RiskControlled Stability Standing StoppingRule",
    "inference.target_bins": "TargetBins",
    "information": "AnswerSettings",
    "networks": "DLA MLP Conv DenseNet NetworkSettings PaperConv Residual SetNetwork",
    "queries": "Choice ColumnQueries ConceptQueries Date DoubtfulAnswer Number PatchQueries Query QuerySet Questions "
    "WordQueries yes_no",
    "registry": "register",
    "sessions.session": "Session",
    "training": "CarriedHistories ModelSpec RandomHistories RolledOutHistories Stage TrainingRun",
    "training.rows": "Rows Unreliable",
    "vip": "VIP InformationVIP",
    "web.exporting": "Exported export",
}
"""The public names of each module; those of `methods` are all that it lists itself."""


def __getattr__(name: str) -> Any:
    """Any public name, or the list of them."""
    if "__all__" not in globals() and (name == "__all__" or not name.startswith("__")):
        globals().update(_public_names())
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), *globals()]


def _public_names() -> dict[str, Any]:
    collects = gc.isenabled()
    gc.disable()  # collections would take a fifth of the time: importing makes many objects, and no garbage
    try:
        methods = import_module("pursuit.methods")
        listed = {**_PUBLIC, "methods": " ".join(methods.__all__)}
        found = {
            name: getattr(import_module(f"pursuit.{module}"), name)
            for module, names in listed.items()
            for name in names.split()
        }
    finally:
        if collects:
            gc.enable()
    return {**found, "__all__": [*found, "__version__"]}
