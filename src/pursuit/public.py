"""All public names. `import pursuit` loads this module on first attribute access."""

from pursuit import methods
from pursuit.estimators import Method, PursuitClassifier, PursuitEstimator, PursuitRegressor, load, method
from pursuit.estimators.tuned import Tuned
from pursuit.evaluation import Evaluation, RegressionEvaluation, evaluate
from pursuit.inference.chain import Chain, Chains
from pursuit.inference.guarantees import ConformalSet, RiskControlled
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.stopping import (
    AnyOf,
    Budget,
    Confidence,
    CostBudget,
    IntervalWidth,
    NothingWorthAsking,
    Stability,
    Standing,
    StoppingRule,
)
from pursuit.inference.target_bins import TargetBins
from pursuit.information import AnswerSettings
from pursuit.methods import *  # noqa: F403
from pursuit.networks import DLA, MLP, Conv, DenseNet, NetworkSettings, PaperConv, Residual, SetNetwork
from pursuit.queries import (
    Choice,
    ColumnQueries,
    ConceptQueries,
    Date,
    DoubtfulAnswer,
    Number,
    PatchQueries,
    Query,
    QuerySet,
    Questions,
    WordQueries,
    yes_no,
)
from pursuit.registry import register
from pursuit.sessions.session import Session
from pursuit.training import CarriedHistories, ModelSpec, RandomHistories, RolledOutHistories, Stage, TrainingRun
from pursuit.training.rows import Rows
from pursuit.training.unreliable import Unreliable
from pursuit.vip import VIP, InformationVIP
from pursuit.web.exporting import Exported, export

__all__ = [
    "DLA",
    "MLP",
    "VIP",
    "AnswerSettings",
    "AnyOf",
    "Budget",
    "CarriedHistories",
    "Chain",
    "Chains",
    "Choice",
    "ColumnQueries",
    "ConceptQueries",
    "Confidence",
    "ConformalSet",
    "Conv",
    "CostBudget",
    "Date",
    "DenseNet",
    "DoubtfulAnswer",
    "Evaluation",
    "Exported",
    "History",
    "InformationVIP",
    "IntervalWidth",
    "Method",
    "ModelSpec",
    "NetworkSettings",
    "NothingWorthAsking",
    "Number",
    "PaperConv",
    "PatchQueries",
    "Pursuer",
    "PursuitClassifier",
    "PursuitEstimator",
    "PursuitRegressor",
    "Query",
    "QuerySet",
    "Questions",
    "RandomHistories",
    "RegressionEvaluation",
    "Residual",
    "RiskControlled",
    "RolledOutHistories",
    "Rows",
    "Session",
    "SetNetwork",
    "Stability",
    "Stage",
    "Standing",
    "StoppingRule",
    "TargetBins",
    "TrainingRun",
    "Tuned",
    "Unreliable",
    "WordQueries",
    "evaluate",
    "export",
    "load",
    "method",
    "register",
    "yes_no",
]
__all__ += methods.__all__
