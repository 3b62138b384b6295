"""The networks of a model as layers that the page can compute, and what is refused."""

from typing import Any

import torch
from torch import Tensor, nn

from pursuit.networks import MLP
from pursuit.networks.dense import BesideInput
from pursuit.vip import VIP, InformationVIP
from pursuit.web.exporting.weights import EXACT, Packed, pack

CAN = (
    "What can be exported is V-IP on the columns of a table, on words or on concepts, with MLP networks "
    "(pursuit train --method vip --network MLP)."
)


def exportable(model: Any) -> VIP:
    """The model, if a page can compute it; raises ValueError with what can be exported otherwise."""
    if type(model) not in (VIP, InformationVIP):
        raise ValueError(f"A {type(model).__name__} cannot be exported. {CAN}")
    if not isinstance(model.network_settings, MLP):
        raise ValueError(f"A model with the network {model.network_settings} cannot be exported. {CAN}")
    query_set = model.query_set
    if query_set.own_inputs is None:
        raise ValueError(f"{query_set} cannot be exported, because a person cannot answer its queries. {CAN}")
    return model


def belief_weights(model: VIP) -> list[nn.Parameter]:
    """The matrices that beliefs are made of."""
    return _matrices(model.classifier)


def question_weights(model: VIP) -> list[nn.Parameter]:
    """The matrices that only the choice of questions, and what is said about them, is made of."""
    others: list[nn.Module | None] = [model.querier, model.reader, model.answer_model]
    found = [weight for module in others if module is not None for weight in _matrices(module)]
    beliefs = {id(weight) for weight in belief_weights(model)}
    return [weight for weight in found if id(weight) not in beliefs]


def _matrices(module: nn.Module) -> list[nn.Parameter]:
    return [weight for weight in module.parameters() if weight.ndim == 2]


class Tensors:
    """The tensors of a page, in the order in which they stand in its bytes; each is named by its number."""

    def __init__(self, widths: dict[int, int]):
        """`widths` says in how many bits a matrix is written, by its id; all others are exact."""
        self._widths, self._numbers = widths, dict[int, int]()
        self.packed: list[Packed] = []
        self._kept: list[Tensor] = []  # an id is only that of a tensor which lives

    def add(self, tensor: Tensor) -> int:
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = len(self.packed)
            self._kept.append(tensor)
            self.packed.append(pack(tensor, self._widths.get(id(tensor), EXACT)))
        return self._numbers[id(tensor)]


def network_layers(network: nn.Module, tensors: Tensors) -> list[dict[str, Any]]:
    """A network (`MLP` built it) as a list of layers; "beside" puts the input beside what was made of it."""
    return [layer for part in network.children() for layer in _layers(part, tensors)]


def _layers(module: nn.Module, tensors: Tensors) -> list[dict[str, Any]]:
    match module:
        case BesideInput():
            return [*_layers(module.body, tensors), {"kind": "beside"}]
        case nn.Sequential():
            return [layer for part in module for layer in _layers(part, tensors)]
        case nn.Linear():
            bias = module.bias if module.bias is not None else torch.zeros(module.out_features)
            return [{"kind": "linear", "weight": tensors.add(module.weight), "bias": tensors.add(bias)}]
        case nn.LayerNorm():
            shape = {"weight": tensors.add(module.weight), "bias": tensors.add(module.bias)}
            return [{"kind": "normalise", **shape, "epsilon": module.eps}]
        case nn.ReLU():
            return [{"kind": "rectify"}]
        case nn.Flatten() | nn.Dropout():
            return []
    raise ValueError(f"A network with a layer {type(module).__name__} cannot be exported. {CAN}")
