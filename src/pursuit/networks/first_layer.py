"""Dense networks split after their first layer, where one more answer adds a few rows of a matrix.

Input enters a dense network by one linear map: all that follows reads input @ weight + bias, a state of H numbers for
each row. An answer that becomes known changes a few inputs, and so the state by a few rows of `weight`. In the set
network with aggregate="max" it is the same with the larger of two states in place of their sum.
"""

from dataclasses import dataclass, replace
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.networks.dense import BesideInput, SetEncoder


@dataclass(frozen=True)
class _Trunk:
    """A trunk as rest(input @ weight + bias), followed `n_beside` times by the input itself."""

    weight: Tensor  # (inputs, h); h is 0 without hidden layers
    bias: Tensor  # (h,)
    rest: nn.Module  # from (B, h) to what the head reads of it
    n_beside: int = 0
    encoder: SetEncoder | None = None


class SplitNetworks:
    """A querier and a classifier side by side: they have one state, and a trunk they share is computed once.

    `start` makes a state (B, H) and `reveal` changes it. `features` computes from it what both networks have in common
    (which is the state itself if they share no trunk), and `scores` (B, Q) and `logits` (B, C) what each makes of that.
    """

    def __init__(self, trunks: list[_Trunk], heads: list[nn.Linear]):
        self._trunks, pairs = trunks, [(heads[0], trunks[0]), (heads[1], trunks[-1])]
        direct = [_direct_path(head, trunk) for head, trunk in pairs]
        parts = [*((trunk.weight, trunk.bias) for trunk in trunks), *direct]
        self.weight = torch.cat([weight for weight, _ in parts], dim=1)  # (inputs, H)
        self.bias = torch.cat([bias for _, bias in parts])  # (H,)
        self.is_shared = len(trunks) == 1
        self.max_pooled = any(trunk.encoder and trunk.encoder.aggregate == "max" for trunk in trunks)
        # The state is made of the trunks' parts, then of what each head reads of the input itself.
        self._sizes = [len(bias) for _, bias in parts]
        n_read = [head.in_features - trunk.n_beside * len(self.weight) for head, trunk in pairs]
        self._feature_sizes = [n_read[0], *self._sizes[1:]] if self.is_shared else self._sizes
        # A direct path has the head's bias in the state already.
        self._heads = [
            (head.weight[:, :n].contiguous(), None if trunk.n_beside else head.bias)
            for (head, trunk), n in zip(pairs, n_read, strict=True)
        ]

    def start(self, encoded: Tensor) -> Tensor:
        """The state of network input (B, inputs)."""
        if self.max_pooled:
            state = torch.cat([trunk.encoder(encoded) for trunk in self._trunks if trunk.encoder], dim=1)
        else:
            state = encoded @ self.weight + self.bias
        return state.to(self.bias.dtype)  # sums of many answers are kept exact, however coarse the products are

    def reveal(self, state: Tensor, inputs: Tensor, values: Tensor) -> None:
        """Change the state, in place: `inputs` (B, w), all of one answer a row and zero before, get `values` (B, w)."""
        self._join(state, F.embedding_bag(inputs, self.weight, per_sample_weights=values, mode="sum"))

    def reveal_one(self, state: Tensor, inputs: slice, values: Tensor, known: int | None) -> None:
        """The same for one row (1, H): `inputs` get `values` (1, w), and the input `known`, if any, becomes 1."""
        more = values @ self.weight[inputs]
        self._join(state, more if known is None else more.add_(self.weight[known]))

    def _join(self, state: Tensor, more: Tensor) -> None:
        if self.max_pooled:
            torch.maximum(state, more, out=state)
        else:
            state += more

    def features(self, state: Tensor) -> Tensor:
        if not self.is_shared:
            return state
        trunk = self._trunks[0]
        if not trunk.n_beside:
            return trunk.rest(state)
        hidden, *direct = state.split(self._sizes, dim=1)
        return torch.cat([trunk.rest(hidden), *direct], dim=1)

    def scores(self, features: Tensor) -> Tensor:
        return self._outputs(features, 0)

    def logits(self, features: Tensor) -> Tensor:
        return self._outputs(features, 1)

    def _outputs(self, features: Tensor, network: int) -> Tensor:
        weight, bias = self._heads[network]
        if self.is_shared and bias is not None:  # the features are all that a head reads
            return F.linear(features, weight, bias)
        parts = features.split(self._feature_sizes, dim=1)
        read = parts[0] if self.is_shared else self._trunks[network].rest(parts[network])
        outputs = F.linear(read, weight, bias)
        return outputs if bias is not None else outputs + parts[network - 2]


@torch.no_grad()
def split_first_layer(querier: nn.Module, classifier: nn.Module, n_inputs: int) -> SplitNetworks | None:
    """Both networks split, as their weights are now; None if their input does not enter by one linear map."""
    trunks, heads = [], []
    for network in (querier, classifier):
        if not isinstance(network, nn.Sequential) or len(network) != 2 or not _is_linear(network[1]):
            return None
        trunks.append(network[0])
        heads.append(network[1])
    if trunks[0] is trunks[1]:
        trunks.pop()
    with torch.autocast(heads[0].weight.device.type, enabled=False):
        split = [_split(trunk, heads[0], n_inputs) for trunk in trunks]
        found = [trunk for trunk in split if trunk is not None]
        aggregates = {trunk.encoder.aggregate if trunk.encoder else "sum" for trunk in found}
        return SplitNetworks(found, heads) if len(found) == len(trunks) and len(aggregates) == 1 else None


def _split(trunk: nn.Module, head: nn.Linear, n_inputs: int) -> _Trunk | None:
    if isinstance(trunk, BesideInput):
        body = _split(trunk.body, head, n_inputs)
        return body and replace(body, n_beside=body.n_beside + 1)
    if not isinstance(trunk, nn.Sequential):
        return None
    if isinstance(trunk[0], SetEncoder):
        weight = torch.cat(trunk[0].slope_and_offset())
        return _Trunk(weight, weight.new_zeros(weight.shape[1]), fold_batchnorm(list(trunk)[1:]), encoder=trunk[0])
    if not isinstance(trunk[0], nn.Flatten):
        return None
    if len(trunk) == 1:  # no hidden layers: the head reads the input itself
        return _Trunk(head.weight.new_zeros(n_inputs, 0), head.weight.new_zeros(0), nn.Identity(), n_beside=1)
    return _Trunk(trunk[1].weight.T, trunk[1].bias, fold_batchnorm(list(trunk)[2:])) if _is_linear(trunk[1]) else None


def fold_batchnorm(layers: list[nn.Module]) -> nn.Sequential:
    """The layers with every trained BatchNorm as one product and one sum, which is fast for a single row."""
    return nn.Sequential(
        *(
            _ScaleAndShift(layer)
            if isinstance(layer, nn.BatchNorm1d)
            and layer.affine
            and not layer.training
            and layer.running_var is not None
            else layer
            for layer in layers
        )
    )


class _ScaleAndShift(nn.Module):
    """A trained BatchNorm as a product and a sum."""

    def __init__(self, norm: nn.BatchNorm1d):
        super().__init__()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        self.scale = norm.weight.detach() * (norm.running_var + norm.eps).rsqrt()
        self.shift = norm.bias.detach() - norm.running_mean * self.scale

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.shift, x, self.scale)


def _is_linear(layer: nn.Module) -> TypeGuard[nn.Linear]:
    return isinstance(layer, nn.Linear) and layer.bias is not None


def _direct_path(head: nn.Linear, trunk: _Trunk) -> tuple[Tensor, Tensor]:
    """What a head makes of the input beside the hidden layers: (inputs, outputs) and (outputs,), or nothing."""
    if not trunk.n_beside:
        return trunk.weight[:, :0], trunk.bias[:0]
    n_inputs = len(trunk.weight)
    pieces = head.weight[:, head.in_features - trunk.n_beside * n_inputs :].T.split(n_inputs)
    return torch.stack(pieces).sum(dim=0), head.bias
