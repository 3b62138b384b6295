"""How good a pursuer is, in numbers and figures."""

from pursuit.evaluation.curves import AtStop, Evaluation, evaluate

__all__ = ["AtStop", "Evaluation", "evaluate"]
