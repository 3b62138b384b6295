"""How good a pursuer is, in numbers and figures."""

from pursuit.evaluation.classes import ClassResult, ClassResults
from pursuit.evaluation.curves import AtStop, Evaluation, evaluate
from pursuit.evaluation.questions import QuestionUse, QuestionUses

__all__ = ["AtStop", "ClassResult", "ClassResults", "Evaluation", "QuestionUse", "QuestionUses", "evaluate"]
