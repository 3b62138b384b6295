"""What every network is: frozen settings that build a querier and a classifier."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

from torch import nn

from pursuit.queries import PatchGrid, QuerySet

MOST_UNITS = 2**14
"""The largest size of a layer."""


@dataclass(frozen=True)
class NetworkSettings(ABC):
    """How to build a querier and a classifier network for any query set that suits them."""

    registry_kind: ClassVar[str] = "network"

    @abstractmethod
    def build(self, query_set: QuerySet, n_classes: int, shared: bool) -> tuple[nn.Module, nn.Module]:
        """Querier and classifier; `shared` puts both on one trunk.

        From network input (B, *input_shape) they give query scores (B, Q) and label logits (B, C). A query set that
        does not suit raises ValueError with what to use instead.
        """


@dataclass(frozen=True)
class TrunkAndHeads(NetworkSettings):
    """Networks whose querier and classifier are the same but for a head."""

    @abstractmethod
    def trunk(self, query_set: QuerySet) -> nn.Module:
        """The part from network input (B, *input_shape) to what the heads read."""

    @abstractmethod
    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        """From the trunk's output to query scores (B, Q), and to label logits (B, C)."""

    def build(self, query_set: QuerySet, n_classes: int, shared: bool) -> tuple[nn.Module, nn.Module]:
        querier_head, classifier_head = self.heads(query_set, n_classes)
        trunk = self.trunk(query_set)
        other = trunk if shared else self.trunk(query_set)
        return nn.Sequential(trunk, querier_head), nn.Sequential(other, classifier_head)


def check_sizes(settings: object, *names: str) -> None:
    """Raise ValueError unless each of these settings, a whole number or several, lies within 1 and `MOST_UNITS`."""
    for name in names:
        sizes = getattr(settings, name)
        several = sizes if isinstance(sizes, tuple | list) else (sizes,)
        if not all(isinstance(size, Integral) and 1 <= int(size) <= MOST_UNITS for size in several):
            raise ValueError(f"{type(settings).__name__} needs {name} of 1 to {MOST_UNITS:,}, not {sizes}.")


def reads_next_apart(network: nn.Module) -> bool:
    """Whether a part of the network has a true attribute of this name, as `SetEncoder` has where it takes a maximum.

    Such a network also reads input (B, 2, inputs): that of histories, and that of the answer which comes next, each
    query's part of it weighted by how far the query is chosen. Learners with relaxed choices give it the two apart.
    """
    return any(getattr(part, "reads_next_apart", False) for part in network.modules())


def need_patches(query_set: QuerySet, network: str, smallest: int = 1) -> PatchGrid:
    """The patches that the queries are, if they are any and their images have sides of at least `smallest` pixels."""
    if query_set.patches is None:
        raise ValueError(f"{network} networks look at image patches, not at {query_set}: use MLP or SetNetwork.")
    _, height, width = query_set.patches.image_shape
    if min(height, width) < smallest:
        raise ValueError(
            f"{network} needs images of at least {smallest}x{smallest} pixels, not {height}x{width}: use Conv or MLP."
        )
    return query_set.patches


def pooled_linear(n_channels: int, n_outputs: int) -> nn.Module:
    """A head that reads the mean of a map: (B, channels, height, width) to (B, outputs)."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_channels, n_outputs))
