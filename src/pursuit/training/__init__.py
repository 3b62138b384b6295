"""Training: learners, the histories they learn from, schedules, and the one loop."""

from pursuit.training.held_out import EarlyStopping, Kept
from pursuit.training.learner import ClassifierModel, Learner, ModelSpec, QuerierClassifier
from pursuit.training.loop import Report
from pursuit.training.run import TrainingRun, train
from pursuit.training.samplers import Batch, CarriedHistories, RandomHistories, RolledOutHistories, TrainingOutcome
from pursuit.training.schedule import SGD, Adam, AdamW, Stage

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Batch",
    "CarriedHistories",
    "ClassifierModel",
    "EarlyStopping",
    "Kept",
    "Learner",
    "ModelSpec",
    "QuerierClassifier",
    "RandomHistories",
    "Report",
    "RolledOutHistories",
    "Stage",
    "TrainingOutcome",
    "TrainingRun",
    "train",
]
