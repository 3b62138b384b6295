"""How good a pursuer is, in numbers and figures."""

from pursuit.evaluation.curves import AtStop, Evaluation, evaluate
from pursuit.evaluation.details import ClassResult, ClassResults, QuestionUse, QuestionUses
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
