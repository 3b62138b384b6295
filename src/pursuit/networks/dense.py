"""Networks for tables: a masked multilayer perceptron and the set network."""

import math
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pursuit.networks.settings import TrunkAndHeads, check_sizes
from pursuit.queries import QuerySet
from pursuit.registry import register

Norm = Literal["layer", "batch"]
AT_ONCE = 2**24
"""How many embedded answers a set network makes at once where it takes their maximum."""
POOL = 2**21
"""Length of the pool of masks for dropout."""
IS_ARM = platform.machine().lower() in ("aarch64", "arm64")
NORMS: dict[str, type[nn.Module]] = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d}


@register
@dataclass(frozen=True)
class MLP(TrunkAndHeads):
    """A masked multilayer perceptron: fixed-size input in which unknown answers are zero."""

    hidden: tuple[int, ...] = (256, 256)
    dropout: float = 0.0
    direct: bool = False
    """Whether the heads also read the input itself. What answers say of the label one by one is then learnt at once:
    where they are independent given the label, nothing else is needed for the posterior."""

    def __post_init__(self) -> None:
        check_sizes(self, "hidden")

    def trunk(self, query_set: QuerySet) -> nn.Module:
        n_inputs = math.prod(query_set.input_shape)
        body = nn.Sequential(nn.Flatten(), *dense_layers(n_inputs, self.hidden, self.dropout))
        return BesideInput(body) if self.direct else body

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        n_inputs = math.prod(query_set.input_shape)
        n_read = (self.hidden[-1] if self.hidden else n_inputs) + n_inputs * self.direct
        return nn.Linear(n_read, len(query_set)), nn.Linear(n_read, n_classes)


@register
@dataclass(frozen=True)
class SetNetwork(TrunkAndHeads):
    """The set network of the medical tasks: every known answer is embedded, and the embeddings are added or maximised.

    A feature f of query j with answer a gives W [a, a e_f, b_j]: linear in a. A sum over answers is therefore two
    matrix products, whatever the number of answers. The maximum includes zero, so that it is never below and an empty
    history is all zeros under either aggregate. By default it is the paper's: the maximum, and BatchNorm.

    The answer to a query that is only being chosen is the mixture of all answers by the weights of their queries, and
    is one member of the set (`SetEncoder`). A maximum over single answers would have no slope for those not chosen.
    """

    embedding: int = 400
    aggregate: Literal["sum", "max"] = "max"
    """A sum takes less time and memory. In docs/results/known-world.md its querier is better, its classifier worse."""
    width: int = 100
    hidden: tuple[int, ...] = (2000, 500)
    dropout: float = 0.0
    norm: Norm = "batch"
    """What normalises the hidden layers; "batch" needs at least two rows in every training batch."""

    def __post_init__(self) -> None:
        check_sizes(self, "embedding", "width", "hidden")
        if self.aggregate not in ("sum", "max"):
            raise ValueError(f"SetNetwork aggregates by 'sum' or 'max', not by {self.aggregate!r}.")
        if self.norm not in NORMS:
            raise ValueError(f"SetNetwork normalises by 'layer' or 'batch', not by {self.norm!r}.")

    def trunk(self, query_set: QuerySet) -> nn.Module:
        if query_set.own_inputs is None or not query_set.mask:
            raise ValueError("SetNetwork needs column queries with mask=True, to tell which answers are known.")
        encoder = SetEncoder(query_set, self.embedding, self.width, self.aggregate)
        return nn.Sequential(encoder, *dense_layers(self.width, self.hidden, self.dropout, self.norm))

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        n_inputs = self.hidden[-1] if self.hidden else self.width
        return nn.Linear(n_inputs, len(query_set)), nn.Linear(n_inputs, n_classes)


class BesideInput(nn.Module):
    """What a body makes of the input, and the input itself: (B, outputs + inputs)."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body

    def forward(self, encoded: Tensor) -> Tensor:
        return torch.cat([self.body(encoded), encoded.flatten(1)], dim=1)


class Dropout(nn.Dropout):
    """Dropout whose masks on a CPU are slices of a fixed random pool, at random offsets. Drawing every mask afresh
    takes a fifth of a training step."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or x.device.type != "cpu" or x.numel() > POOL // 4 or self.p == 1:
            return super().forward(x)
        start = int(torch.randint(POOL - x.numel(), ()))
        return x * _mask_pool(self.p)[start : start + x.numel()].view_as(x)


@lru_cache(maxsize=4)
def _mask_pool(p: float) -> Tensor:
    """The pool (POOL,) of dropout masks: 0 with probability p, otherwise 1 / (1 - p). It is the same in every process,
    so that resuming a training needs only the state of torch's generator."""
    return torch.empty(POOL).bernoulli_(1 - p, generator=torch.Generator().manual_seed(0)).div_(1 - p)


def dense_layers(n_inputs: int, hidden: tuple[int, ...], dropout: float, norm: Norm = "layer") -> list[nn.Module]:
    """Linear, normalised, ReLU and dropout, once for each size in `hidden`."""
    layers: list[nn.Module] = []
    for n_outputs in hidden:
        layers += [nn.Linear(n_inputs, n_outputs), NORMS[norm](n_outputs), nn.ReLU()]
        if dropout:
            layers.append(Dropout(dropout))
        n_inputs = n_outputs
    return layers


class SetEncoder(nn.Module):
    """From [answers, known] to the aggregate of the embedded known answers (B, width).

    Input (B, 2, inputs) is that of histories, and that of what comes next: the answers to all queries, each as far as
    its query is chosen. The mixture is embedded as one answer and joins those of the history. So every query has a
    slope wherever the answer to the chosen one is the largest, which is what the authors' network does. For a query
    that is chosen altogether it is the same as its answer in the history.
    """

    def __init__(self, query_set: QuerySet, embedding: int, width: int, aggregate: Literal["sum", "max"]):
        super().__init__()
        assert query_set.own_inputs is not None
        owner = query_set.own_inputs.of_query
        n_features = len(owner)
        self.n_features, self.aggregate = n_features, aggregate
        self.reads_next_apart = aggregate == "max"  # a sum is the same either way
        self.has_one_feature_each = n_features == len(query_set)
        self.embedding = nn.Parameter(torch.randn(n_features, embedding) / embedding**0.5)
        self.bias = nn.Parameter(torch.zeros(len(query_set), 1))
        self.linear = nn.Linear(embedding + 2, width)
        self.register_buffer("owner", owner.clone(), persistent=False)
        self.owner: Tensor

    def slope_and_offset(self) -> tuple[Tensor, Tensor]:
        """What one unit of an answer adds (F, width), and what it adds that an answer is known (Q, width)."""
        answer_weight, embedding_weight, bias_weight = self.linear.weight.split([1, self.embedding.shape[1], 1], dim=1)
        slope = answer_weight.T + self.embedding @ embedding_weight.T
        return slope, self.bias @ bias_weight.T + self.linear.bias

    def forward(self, encoded: Tensor) -> Tensor:
        slope, offset = self.slope_and_offset()
        if self.aggregate == "sum":
            return self._sum(encoded.sum(dim=1) if encoded.ndim == 3 else encoded, slope, offset)
        history = encoded[:, 0] if encoded.ndim == 3 else encoded
        # Where no gradient needs them all at once, (B, F, width) numbers are made a few rows at a time.
        n_rows = len(history) if torch.is_grad_enabled() else max(1, AT_ONCE // max(1, slope.numel()))
        largest = torch.cat([self._largest(part, slope, offset) for part in history.split(max(1, n_rows))])
        if encoded.ndim == 3:
            largest = torch.maximum(largest, self._sum(encoded[:, 1], slope, offset))
        return largest.relu()

    def _sum(self, encoded: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
        return encoded[:, : self.n_features] @ slope + encoded[:, self.n_features :] @ offset

    def _largest(self, encoded: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
        answers, known = encoded[:, : self.n_features], encoded[:, self.n_features :]  # (B, F), (B, Q)
        by_query = answers[:, :, None] * slope  # (B, F, width)
        if not self.has_one_feature_each:
            empty = by_query.new_zeros(len(encoded), *offset.shape)
            by_query = empty.index_add(1, self.owner, by_query)  # (B, Q, width)
        return (by_query + known[:, :, None] * offset).amax(dim=1)


def has_only_dense_layers(network: object) -> bool:
    """Whether it is a network without convolutions."""
    return isinstance(network, nn.Module) and not any(isinstance(part, nn.Conv2d) for part in network.modules())


def widest_layer(network: Any) -> int:
    """The number of weights of its largest layer, which are multiplications for each row."""
    return max((weights.numel() for weights in network.parameters()), default=0)


@contextmanager
def fast_products(wanted: bool = True) -> Iterator[None]:
    """On ARM processors, compute matrix products by BLAS instead of oneDNN within this context.

    On Neoverse-N1 cores a call of oneDNN takes some 100 microseconds more, whatever its size: small networks are
    faster without it, large ones no slower. Convolutions need it.
    """
    if not (IS_ARM and wanted):
        yield
        return
    onednn: Any = torch.backends.mkldnn
    before, onednn.enabled = onednn.enabled, False
    try:
        yield
    finally:
        onednn.enabled = before


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Compute by one thread within this context, which gives the same bits on every machine.

    Threads that wait for each other spin. Where other programs share the cores, that makes small networks many times
    slower than they are with one thread; where none do, more threads make them little faster.
    """
    if not wanted:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
