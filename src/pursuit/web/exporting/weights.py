"""The weights of a model: layers that a page can compute, in as few bits as leave beliefs and questions as they are."""

import base64
import copy
import zlib
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pursuit.inference.history import History
from pursuit.networks import MLP
from pursuit.networks.dense import BesideInput
from pursuit.queries import Number, Query, QuerySet
from pursuit.queries.column import NOT_GIVEN_TEXT
from pursuit.vip import VIP, InformationVIP

WIDTHS = (6, 7, 8, 10, 12, 14, 15, 16, 17, 18, 20, 24, 32)
"""How many bits a weight may have; those of 32 are single precision as they are."""
EXACT = WIDTHS[-1]


class Packed(NamedTuple):
    """A matrix as bytes: the scales of its rows (float32), then the lowest bytes of all its numbers, then those above
    them, and so on, because bytes of one kind are compressed better than a mixture."""

    shape: tuple[int, int]
    bits: int
    data: bytes

    def to_dict(self) -> dict[str, Any]:
        return {"rows": self.shape[0], "columns": self.shape[1], "bits": self.bits}


def pack(weight: Tensor, bits: int) -> Packed:
    """A matrix (rows, columns), or a vector as a single row, in numbers of so many `bits`."""
    values = _matrix(weight)
    shape = (values.shape[0], values.shape[1])
    if bits == EXACT:
        return Packed(shape, bits, values.astype("<f4").tobytes())
    scale, whole = _whole_numbers(values, bits)
    # Whole bytes: compression takes away the bits of a byte that are not used.
    as_bytes = (whole + _largest(bits)).astype("<u4").reshape(-1, 1).view(np.uint8)  # (numbers, 4), lowest first
    return Packed(shape, bits, scale.astype("<f4").tobytes() + as_bytes[:, : -(-bits // 8)].T.tobytes())


def compressed(data: bytes) -> str:
    """Bytes as text: base 85, which is shorter than base 64, without the one character that means something inside of
    a script element."""
    return base64.b85encode(zlib.compress(data, level=9)).decode().replace("<", ",")


def rounded(weight: Tensor, bits: int) -> Tensor:
    """What is left of a weight in so many bits: what the page reads from its bytes."""
    if bits == EXACT:
        return weight.float()
    scale, whole = _whole_numbers(_matrix(weight), bits)
    return torch.from_numpy((whole * scale[:, None]).astype(np.float32)).view(weight.shape)


def _matrix(weight: Tensor) -> np.ndarray:
    values = weight.detach().cpu().float().numpy()
    return values.reshape(1, -1) if values.ndim < 2 else values


def _largest(bits: int) -> int:
    return int(2 ** (bits - 1)) - 1


def _whole_numbers(values: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The scale of each row (rows,), in single precision as the page has it, and how many times it the numbers are."""
    largest = np.abs(values).max(axis=1, initial=0) if values.size else np.zeros(len(values))
    scale = (np.where(largest > 0, largest, 1) / _largest(bits)).astype(np.float32).astype(np.float64)
    whole = np.rint(values / scale[:, None]).clip(-_largest(bits), _largest(bits))
    return scale, whole.astype(np.int64)


CAN = (
    "What can be exported is V-IP on the columns of a table, on words or on concepts, with MLP networks "
    "(pursuit train --method vip --network MLP)."
)


def exportable(model: Any) -> VIP:
    """The model, if a page can compute it; raises ValueError with what can be exported otherwise."""
    if type(model) not in (VIP, InformationVIP):
        raise ValueError(f"A {type(model).__name__} cannot be exported. {CAN}")
    if not isinstance(model.spec.network, MLP):
        raise ValueError(f"A model with the network {model.spec.network} cannot be exported. {CAN}")
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


N_HISTORIES = 256
N_ANSWERS = 8
"""How many answers of each query random histories are made of."""
BELIEF_ERROR = 6e-5
"""The most that rounding may change a probability."""
QUESTION_ERROR = 3e-3
"""The most that it may change the bits expected of a query, or its share where scores are not bits."""


class Widths(NamedTuple):
    """The bits of weights by the id of the parameter, and the largest error of a belief on random histories."""

    bits: dict[int, int]
    belief_error: float


@torch.no_grad()
def suitable_widths(model: VIP) -> Widths:
    """The fewest bits for the classifier that leave beliefs as they are, then the fewest for all else."""
    histories = random_histories(model.query_set, N_HISTORIES)
    beliefs, questions = model.log_posterior(histories).exp(), _questions(model, histories)
    in_few_bits = copy.deepcopy(model)
    for belief_bits in WIDTHS:
        _round(belief_weights(model), belief_weights(in_few_bits), belief_bits)
        belief_error = _most(in_few_bits.log_posterior(histories).exp() - beliefs)
        if belief_error <= BELIEF_ERROR:
            break
    for question_bits in WIDTHS:
        _round(question_weights(model), question_weights(in_few_bits), question_bits)
        found = _questions(in_few_bits, histories)
        if max(_most(part - exact) for part, exact in zip(found, questions, strict=True)) <= QUESTION_ERROR:
            break
    bits = {id(weight): belief_bits for weight in belief_weights(model)}
    bits |= {id(weight): question_bits for weight in question_weights(model)}
    return Widths(bits, belief_error)


def random_histories(query_set: QuerySet, n_rows: int, seed: int = 0) -> History:
    """Histories of any length in which each query has a random one of its answers."""
    generator = torch.Generator().manual_seed(seed)
    n_queries = len(query_set)
    x = query_set.blank(n_rows)
    for i, query in enumerate(query_set.queries):
        told = query_set.blank(N_ANSWERS)
        for row, draw in zip(told, torch.rand(N_ANSWERS, generator=generator).tolist(), strict=True):
            query_set.tell(row, i, _answer_at(query, draw))
        which, features = torch.randint(N_ANSWERS, (n_rows,), generator=generator), query_set.units.features[i]
        x[:, features] = told[which][:, features]
    share = torch.rand(n_rows, 1, generator=generator) ** 2  # more of the short ones
    asked = torch.rand(n_rows, n_queries, generator=generator) < share
    known = asked & (torch.rand(n_rows, n_queries, generator=generator) < 0.9)
    return History(x, known, asked)


def _answer_at(query: Query, share: float) -> str:
    """One of the answers to a query, by a share from 0 to 1 of all there are."""
    if isinstance(query, Number) and not query.choices:
        if query.may_be_missing and share > 0.9:
            return NOT_GIVEN_TEXT
        least, most = query.seen or (query.centre - query.spread, query.centre + query.spread)
        low, high = (least if query.low is None else query.low), (most if query.high is None else query.high)
        return query.written(min(max(low, least + share * (most - least)), high))
    return query.offered[min(int(share * len(query.offered)), len(query.offered) - 1)]


def _questions(model: VIP, histories: History) -> list[Tensor]:
    """What questions are chosen by and what is said of them: bits, and shares of scores that are not bits."""
    parts = []
    if model.answer_model is not None:
        bits = model.expected_information(histories)
        assert bits is not None
        parts.append(bits)
    if getattr(model, "score_unit", None) is None:
        parts.append(model.scores(histories).softmax(dim=1))
    return parts


def _round(exact: list[nn.Parameter], target: list[nn.Parameter], bits: int) -> None:
    for weight, own in zip(exact, target, strict=True):
        own.copy_(rounded(weight, bits))


def _most(difference: Tensor) -> float:
    return float(difference.abs().max()) if difference.numel() else 0.0
