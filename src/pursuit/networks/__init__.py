"""Querier and classifier networks, sized by small frozen settings that a saved model can carry."""

from pursuit.networks.conv import Conv, PaperConv
from pursuit.networks.dense import MLP, SetNetwork
from pursuit.networks.densenet import DenseNet
from pursuit.networks.dla import DLA
from pursuit.networks.residual import Residual
from pursuit.networks.settings import NetworkSettings, TrunkAndHeads
from pursuit.queries import QuerySet

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


def default_network(query_set: QuerySet) -> NetworkSettings:
    """Convolutions for images, small dense networks otherwise."""
    if query_set.patches is not None:
        n_channels, *sides = query_set.patches.image_shape
        if n_channels == 3 and min(sides) >= 24 and Residual.suits(query_set):
            return Residual()
        if min(sides) >= 16:
            return Conv()
    width = 128 if len(query_set) < 64 else 256
    return MLP(hidden=(width, width), dropout=0.3)
