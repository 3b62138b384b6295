"""Which network suits a query set where the user does not say."""

from pursuit.networks.conv import Conv
from pursuit.networks.dense import MLP
from pursuit.networks.residual import Residual
from pursuit.networks.settings import NetworkSettings
from pursuit.queries import QuerySet


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
