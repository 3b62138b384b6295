"""How good a pursuer is, in numbers and figures."""

from pursuit.evaluation.curves import AtStop, Evaluation, evaluate
from pursuit.evaluation.regression import (
    NumbersAtStop,
    NumberScores,
    RegressionEvaluation,
    evaluate_regression,
)

__all__ = [
    "AtStop",
    "Evaluation",
    "NumberScores",
    "NumbersAtStop",
    "RegressionEvaluation",
    "evaluate",
    "evaluate_regression",
]
