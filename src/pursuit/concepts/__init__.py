"""Concept networks: which yes/no concepts does an image show, and how sure is that?

V-IP works on the answers such a network gives. Two things make them honest. The network is calibrated, so that what it
says with 80% is so in four of five cases. And the answers that V-IP learns from are *cross-fitted*: each image is
answered by a network that never saw it, because on its own training images a network is far too good, and V-IP would
learn to trust it.
"""

from pursuit.concepts.calibration import Calibration, ConceptScores, attribute_accuracy, fit_calibration
from pursuit.concepts.folds import CrossFitted, Fold, cross_answers, cross_fold, gather, read_fold, write_fold
from pursuit.concepts.learning import ConceptReport, calibrate, fresh, train_concepts
from pursuit.concepts.network import (
    ConceptEnsemble,
    ConceptNetwork,
    efficientnet_lite,
    load,
    load_ensemble,
    raw_logits,
    save,
)

__all__ = [
    "Calibration",
    "ConceptEnsemble",
    "ConceptNetwork",
    "ConceptReport",
    "ConceptScores",
    "CrossFitted",
    "Fold",
    "attribute_accuracy",
    "calibrate",
    "cross_answers",
    "cross_fold",
    "efficientnet_lite",
    "fit_calibration",
    "fresh",
    "gather",
    "load",
    "load_ensemble",
    "raw_logits",
    "read_fold",
    "save",
    "train_concepts",
    "write_fold",
]
