"""A model as a page knows it: JSON values of what is asked and computed, and weights in as few bits as leave beliefs
and questions as they are."""

import base64
import copy
import zlib
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pursuit.inference.history import History
from pursuit.inference.pursuer import label_list
from pursuit.inference.stopping import NotGuaranteed, StoppingRule, guarantees_of
from pursuit.inference.target_bins import target_of
from pursuit.inference.unusual import NEVER
from pursuit.information import AnswerModel
from pursuit.networks import MLP
from pursuit.networks.dense import BesideInput
from pursuit.queries import Number, Order, Query, QuerySet
from pursuit.queries.answer_values import Interval
from pursuit.queries.column import NOT_GIVEN_TEXT
from pursuit.queries.scaling import compress
from pursuit.sessions.state import question_of
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
    """Bytes as text."""
    return base64.b64encode(zlib.compress(data, level=9)).decode()


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


RULES = ("budget", "confidence", "stability", "bits", "width", "cost", "never", "risk", "conformal")
"""The stopping rules that a page knows, by their keywords."""
TARGET = ("points", "means", "spread", "decimals", "ends")
"""What a page knows of a number that is predicted."""
TEMPERATURE_DIGITS = 4
"""As many as fitted temperatures have."""


def describe_model(model: VIP, stop: StoppingRule, tensors: Tensors) -> dict[str, Any]:
    """What is asked, how it is computed and when it stops; tensors are added to `tensors` and named by their number."""
    asks_by_bits = isinstance(model, InformationVIP)
    target, query_set = target_of(model), model.query_set
    reader = model.querier if asks_by_bits else model.reader
    answers = None
    if model.answer_model is not None and reader is not None:
        answers = {"network": network_layers(reader, tensors), **_answer_model(model.answer_model, tensors)}
    rules = _rules(stop)
    if lacking := [str(guarantee) for guarantee in guarantees_of(stop) if not guarantee.is_kept]:
        raise NotGuaranteed(f"The model does not make the guarantee {lacking[0]} yet: call guarantee(X, y) before.")
    if answers is None and any(rule["rule"] == "bits" for rule in rules):
        raise ValueError(f"{stop} needs to know the bits of queries, which this model does not: export it with stop=….")
    if target is None and any(rule["rule"] == "width" for rule in rules):
        raise ValueError(
            f"{stop} is for models that predict a number, and this one predicts classes: give another stop."
        )
    return {
        "labels": [str(label) for label in label_list(model.classes)],
        "target": target and {name: getattr(target, name) for name in TARGET},
        "queries": [_query(model, i, query) for i, query in enumerate(query_set.queries)],
        "n_inputs": int(query_set.input_shape[0]),
        "order": _order(query_set.order or Order(), query_set.index_of, query_set.queries),
        "stop": rules,
        "log_prior": tensors.add(model.log_prior),
        "temperature": _temperature(model),
        "unusual_from": _unusual_from(model),
        "classifier": network_layers(model.classifier, tensors),
        "querier": None if asks_by_bits else network_layers(model.querier, tensors),
        "answers": answers,
        "cost_aware": bool(asks_by_bits and model.cost_aware),
    }


def _temperature(model: VIP) -> list[float]:
    """By the number of known answers, up to where it stays the same."""
    temperature = [round(value, TEMPERATURE_DIGITS) for value in model.temperature.tolist()]
    while len(temperature) > 1 and temperature[-1] == temperature[-2]:
        temperature.pop()
    return temperature


def _unusual_from(model: VIP) -> list[float | None] | None:
    """From what oddness on answers are unusual, by how many are known; None where nobody knows."""
    limits = model.unusual_from.tolist()
    found = [round(limit, TEMPERATURE_DIGITS) if limit < NEVER else None for limit in limits]
    return None if all(limit is None for limit in found) else found


def _query(model: VIP, index: int, query: Query) -> dict[str, Any]:
    choices = [*query.choices, *([NOT_GIVEN_TEXT] if query.may_be_missing else [])]
    return {
        "question": asdict(question_of(model.query_set, index)),
        "choices": choices,
        # what networks see of each choice: pairs of an input and its value
        "inputs": [_inputs(model, index, choice) for choice in choices],
        "number": _number(model, index, query) if isinstance(query, Number) and not query.choices else None,
    }


def _inputs(model: VIP, query: int, answer: Any) -> list[tuple[int, float]]:
    """The inputs that are not zero where this is the only answer known, with their values."""
    x = model.query_set.blank()
    model.query_set.tell(x[0], query, answer)
    known = torch.zeros(1, len(model.query_set))
    known[0, query] = 1
    encoded = model.network_input(x, known)[0]
    inputs = encoded.nonzero()[:, 0]
    return list(zip(inputs.tolist(), encoded[inputs].tolist(), strict=True))


def _number(model: VIP, index: int, query: Number) -> dict[str, Any]:
    """How a number becomes inputs: itself, scaled and compressed; how much of each piece lies below it; and that it is
    known."""
    query_set, which = model.query_set, torch.tensor([index])
    assert query_set.own_inputs is not None
    place = query_set.own_inputs.place(which)
    edges = compress((np.array(query.edges) - query.centre) / query.spread).astype(np.float32).tolist()
    codes = query_set.own_inputs.codes(which, query_set.blank(), torch.tensor([0])) if len(edges) > 1 else None
    return {
        "input": int(place.features[0, 0]),
        "known_input": None if place.known is None else int(place.known[0, 0]),
        "centre": query.centre,
        "spread": query.spread,
        "edges": edges,
        "first_code": None if codes is None else int(codes[0][0, 0]),
    }


def _order(order: Order, index_of: dict[str, int], queries: tuple[Query, ...]) -> dict[str, Any]:
    conditions = []
    for condition in order.only_after:
        after = index_of[condition.after]
        accepted = [queries[after].choices.index(answer) for answer in condition.answers] or None
        conditions.append({"query": index_of[condition.query], "after": after, "accepted": accepted})
    return {
        "beforehand": [index_of[name] for name in order.beforehand],
        "only_after": conditions,
        "groups": [[index_of[name] for name in group.queries] for group in order.groups],
    }


def _rules(stop: StoppingRule) -> list[dict[str, Any]]:
    """The rules of which any stops a chain."""
    if any(rule.keyword_of() not in RULES for rule in stop.parts):
        raise ValueError(f"The stopping rule {stop} cannot be exported: stop by {', '.join(RULES)} or several of them.")
    return [{"rule": rule.keyword_of(), **vars(rule)} for rule in stop.parts]


def _answer_model(answers: AnswerModel, tensors: Tensors) -> dict[str, Any]:
    query_set = answers.outcomes.query_set
    return {
        "query_of": answers.query_of.tolist(),
        "untold_odds": answers.untold_odds.tolist(),
        "is_told": answers.is_told.tolist(),
        "rank": answers.settings.rank,
        "table": tensors.add(answers.table),
        "label_vectors": tensors.add(answers.label_vectors),
        "intervals": [
            [(one.low, one.high, one) for one in texts if isinstance(one, Interval)] or None
            for texts in map(answers.outcomes.describe, range(answers.n_queries))
        ],
        # the upper ends of the intervals of numbers, as networks see these
        "up_to": [_upper_ends(answers, query) for query in range(answers.n_queries)],
        "n_values": answers.outcomes.n_values,
        "n_queries": len(query_set),
    }


def _upper_ends(answers: AnswerModel, query: int) -> list[float | None] | None:
    """Of the answers to a number; None for other queries."""
    outcomes, units = answers.outcomes, answers.outcomes.query_set.units
    if units.feature_types[units.features[query][0]] != "number":
        return None
    ends = outcomes.up_to[outcomes.values_of_query(query)].tolist()
    return [end if np.isfinite(end) else None for end in ends]
