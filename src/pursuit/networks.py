"""Querier and classifier networks, sized by small frozen settings that a saved model can carry."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.queries import ColumnQueries, PatchQueries, QuerySet


@dataclass(frozen=True)
class NetworkSettings(ABC):
    """How to build the two networks of V-IP for any query set that suits them."""

    @abstractmethod
    def trunk(self, query_set: QuerySet) -> nn.Module:
        """The part from network input (B, *input_shape) to what the heads read."""

    @abstractmethod
    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        """From the trunk's output to query scores (B, Q), and to label logits (B, C)."""

    def build(self, query_set: QuerySet, n_classes: int, shared: bool) -> tuple[nn.Module, nn.Module]:
        """Querier and classifier; `shared` puts both on one trunk."""
        querier_head, classifier_head = self.heads(query_set, n_classes)
        trunk = self.trunk(query_set)
        other = trunk if shared else self.trunk(query_set)
        return nn.Sequential(trunk, querier_head), nn.Sequential(other, classifier_head)


@dataclass(frozen=True)
class MLP(NetworkSettings):
    """A masked multilayer perceptron: fixed-size input in which unknown answers are zero."""

    hidden: tuple[int, ...] = (256, 256)
    dropout: float = 0.0

    def trunk(self, query_set: QuerySet) -> nn.Module:
        n_inputs = int(torch.Size(query_set.input_shape).numel())
        return nn.Sequential(nn.Flatten(), *_dense(n_inputs, self.hidden, self.dropout))

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        n_inputs = self.hidden[-1] if self.hidden else int(torch.Size(query_set.input_shape).numel())
        return nn.Linear(n_inputs, len(query_set)), nn.Linear(n_inputs, n_classes)


@dataclass(frozen=True)
class Conv(NetworkSettings):
    """A convolutional encoder for patches; the querier decodes it to one score a patch.

    Each pair of `channels` is two 3x3 convolutions followed by pooling; the decoder goes the same way back. The
    querier's scores are the sum of a local term, read off the decoded map at each patch, and a global one.
    """

    channels: tuple[int, ...] = (32, 64, 128, 256)
    hidden: int = 512
    dropout: float = 0.0

    def trunk(self, query_set: QuerySet) -> nn.Module:
        return _Encoder(query_set.input_shape[0], self.channels)

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        if not isinstance(query_set, PatchQueries):
            raise ValueError(f"Conv networks look at image patches, not at {query_set}: use MLP or SetNetwork.")
        _, height, width = query_set.image_shape
        n_poolings = (len(self.channels) + 1) // 2
        smallest = (height // 2**n_poolings) * (width // 2**n_poolings)
        if smallest == 0:
            raise ValueError(
                f"{len(self.channels)} convolutions pool {n_poolings} times, too often for "
                f"{height}x{width} pixels: use fewer channels."
            )
        n_features = self.channels[-1] * smallest

        def dense(n_outputs: int) -> nn.Module:
            return nn.Sequential(
                nn.Flatten(), *_dense(n_features, (self.hidden,), self.dropout), nn.Linear(self.hidden, n_outputs)
            )

        return _PatchScores(query_set, self.channels, dense(len(query_set))), _Last(dense(n_classes))


@dataclass(frozen=True)
class SetNetwork(NetworkSettings):
    """The set network of the medical tasks: every known answer is embedded, and the embeddings are added or maximised.

    A feature f of query j with answer a gives W [a, a e_f, b_j]: linear in a. A sum over answers is therefore two
    matrix products, whatever the number of answers.
    """

    embedding: int = 400
    aggregate: Literal["sum", "max"] = "sum"
    width: int = 100
    hidden: tuple[int, ...] = (2000, 500)
    dropout: float = 0.0

    def trunk(self, query_set: QuerySet) -> nn.Module:
        if not isinstance(query_set, ColumnQueries) or not query_set.mask:
            raise ValueError("SetNetwork needs column queries with mask=True, to tell which answers are known.")
        encoder = _SetEncoder(query_set, self.embedding, self.width, self.aggregate)
        return nn.Sequential(encoder, *_dense(self.width, self.hidden, self.dropout))

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        n_inputs = self.hidden[-1] if self.hidden else self.width
        return nn.Linear(n_inputs, len(query_set)), nn.Linear(n_inputs, n_classes)


def default_network(query_set: QuerySet) -> NetworkSettings:
    """A fair choice where the user makes none: convolutions for images, small dense networks otherwise."""
    if isinstance(query_set, PatchQueries) and min(query_set.image_shape[1:]) >= 16:
        return Conv()
    width = 128 if len(query_set) < 64 else 256
    return MLP(hidden=(width, width), dropout=0.3)


def _dense(n_inputs: int, hidden: tuple[int, ...], dropout: float) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for n_outputs in hidden:
        layers += [nn.Linear(n_inputs, n_outputs), nn.LayerNorm(n_outputs), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        n_inputs = n_outputs
    return layers


def _convolution(n_inputs: int, n_outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(n_inputs, n_outputs, 3, padding=1, bias=False), nn.BatchNorm2d(n_outputs), nn.LeakyReLU(0.3)
    )


class _Encoder(nn.Module):
    """Convolutions with pooling after every second one; gives the maps before each pooling and the last pooled one."""

    def __init__(self, n_inputs: int, channels: tuple[int, ...]):
        super().__init__()
        sizes = [n_inputs, *channels]
        convolutions = [_convolution(a, b) for a, b in pairwise(sizes)]
        self.blocks = nn.ModuleList(nn.Sequential(*convolutions[i : i + 2]) for i in range(0, len(convolutions), 2))

    def forward(self, image: Tensor) -> list[Tensor]:
        maps = []
        for block in self.blocks:
            maps.append(block(image))
            image = F.max_pool2d(maps[-1], 2)
        return [*maps, image]


class _Last(nn.Module):
    """A head that reads the last of the encoder's maps."""

    def __init__(self, head: nn.Module):
        super().__init__()
        self.head = head

    def forward(self, maps: list[Tensor]) -> Tensor:
        return self.head(maps[-1])


class _PatchScores(nn.Module):
    """Decodes the encoder's maps to one score a patch."""

    def __init__(self, query_set: PatchQueries, channels: tuple[int, ...], overall: nn.Module):
        super().__init__()
        deep = [block[-1] for block in (channels[i : i + 2] for i in range(0, len(channels), 2))]
        self.up = nn.ModuleList(_convolution(below + here, here) for here, below in pairwise(deep))
        # A patch's score is read off all the pixels the patch covers.
        self.local = nn.Conv2d(deep[0], 1, query_set.size, stride=query_set.stride)
        self.overall = overall

    def forward(self, maps: list[Tensor]) -> Tensor:
        decoded = maps[-2]
        for skip, convolution in zip(maps[-3::-1], reversed(self.up), strict=True):
            decoded = convolution(torch.cat([F.interpolate(decoded, size=skip.shape[2:], mode="nearest"), skip], dim=1))
        return self.local(decoded).flatten(1) + self.overall(maps[-1])


class _SetEncoder(nn.Module):
    """From [answers, known] to the aggregate of the embedded known answers (B, width)."""

    def __init__(self, query_set: ColumnQueries, embedding: int, width: int, aggregate: Literal["sum", "max"]):
        super().__init__()
        (n_features,) = query_set.answer_shape
        self.n_features, self.aggregate = n_features, aggregate
        self.embedding = nn.Parameter(torch.randn(n_features, embedding) / embedding**0.5)
        self.bias = nn.Parameter(torch.zeros(len(query_set), 1))
        self.linear = nn.Linear(embedding + 2, width)
        self.register_buffer("owner", query_set.owner.clone(), persistent=False)
        self.owner: Tensor

    def forward(self, encoded: Tensor) -> Tensor:
        answers, known = encoded[:, : self.n_features], encoded[:, self.n_features :]  # (B, F), (B, Q)
        answer_weight, embedding_weight, bias_weight = self.linear.weight.split([1, self.embedding.shape[1], 1], dim=1)
        slope = answer_weight.T + self.embedding @ embedding_weight.T  # (F, width): what one unit of answer adds
        offset = self.bias @ bias_weight.T + self.linear.bias  # (Q, width): what knowing an answer adds
        if self.aggregate == "sum":
            return answers @ slope + known @ offset
        by_query = torch.zeros(len(encoded), *offset.shape, dtype=encoded.dtype, device=encoded.device)
        by_query = by_query.index_add(1, self.owner, answers[:, :, None] * slope)  # (B, Q, width)
        return (by_query + known[:, :, None] * offset).amax(dim=1)  # an unknown answer counts as zero
