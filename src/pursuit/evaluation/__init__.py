"""How good a pursuer is, in numbers and figures."""

from pursuit.evaluation.classes import ClassResult, ClassResults
from pursuit.evaluation.curves import AtStop, Evaluation, evaluate
from pursuit.evaluation.questions import QuestionUse, QuestionUses
from pursuit.evaluation.regression import (
    NumbersAtStop,
    NumberScores,
    RegressionEvaluation,
    evaluate_regression,
)

__all__ = [
    "AtStop",
    "ClassResult",
    "ClassResults",
    "Evaluation",
    "NumberScores",
    "NumbersAtStop",
    "QuestionUse",
    "QuestionUses",
    "RegressionEvaluation",
    "evaluate",
    "evaluate_regression",
]
