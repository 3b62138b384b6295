"""All kinds of networks, and which of them suits a query set where the user does not say."""

from pursuit.networks.conv import Conv, PaperConv
from pursuit.networks.dense import MLP, SetNetwork
from pursuit.networks.densenet import DenseNet
from pursuit.networks.dla import DLA
from pursuit.networks.residual import Residual
from pursuit.networks.settings import NetworkSettings
from pursuit.queries import PatchQueries, QuerySet

NETWORKS: dict[str, type[NetworkSettings]] = {
    kind.__name__: kind for kind in (MLP, SetNetwork, Conv, PaperConv, Residual, DLA, DenseNet)
}
"""The kinds that a saved model may name."""


def default_network(query_set: QuerySet) -> NetworkSettings:
    """A fair choice where the user makes none: convolutions for images, small dense networks otherwise."""
    if isinstance(query_set, PatchQueries):
        n_channels, *sides = query_set.image_shape
        if n_channels == 3 and min(sides) >= 24 and Residual.suits(query_set):
            return Residual()
        if min(sides) >= 16:
            return Conv()
    width = 128 if len(query_set) < 64 else 256
    return MLP(hidden=(width, width), dropout=0.3)
