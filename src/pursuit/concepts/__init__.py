"""Concept networks: which yes/no concepts does an image show, and how sure is that?

V-IP works on the answers such a network gives. Two things make them honest. The network is calibrated, so that what it
says with 80% is so in four of five cases. And the answers that V-IP learns from are *cross-fitted*: each image is
answered by a network that never saw it, because on its own training images a network is far too good, and V-IP would
learn to trust it.
"""

from pursuit.concepts.calibration import Calibration, ConceptScores, attribute_accuracy, fit_calibration
from pursuit.concepts.learning import (
    ConceptReport,
    CrossFitted,
    calibrate,
    cross_answers,
    fresh,
    train_concepts,
)
from pursuit.concepts.network import ConceptNetwork, efficientnet_lite, load, raw_logits, save

__all__ = [
    "Calibration",
    "ConceptNetwork",
    "ConceptReport",
    "ConceptScores",
    "CrossFitted",
    "attribute_accuracy",
    "calibrate",
    "cross_answers",
    "efficientnet_lite",
    "fit_calibration",
    "fresh",
    "load",
    "raw_logits",
    "save",
    "train_concepts",
]
