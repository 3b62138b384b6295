"""Querier and classifier networks, sized by small frozen settings that a saved model can carry."""

from pursuit.networks.conv import Conv, PaperConv
from pursuit.networks.defaults import default_network
from pursuit.networks.dense import MLP, SetNetwork
from pursuit.networks.densenet import DenseNet
from pursuit.networks.dla import DLA
from pursuit.networks.residual import Residual
from pursuit.networks.settings import NetworkSettings, TrunkAndHeads

__all__ = [
    "DLA",
    "MLP",
    "Conv",
    "DenseNet",
    "NetworkSettings",
    "PaperConv",
    "Residual",
    "SetNetwork",
    "TrunkAndHeads",
    "default_network",
]
