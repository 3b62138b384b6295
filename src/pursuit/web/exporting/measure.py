"""In how many bits weights are written: as few as leave beliefs and questions what they are."""

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pursuit.inference.history import History
from pursuit.queries import Number, Query, QuerySet
from pursuit.queries.query import NOT_GIVEN_TEXT
from pursuit.vip import VIP
from pursuit.web.exporting.networks import belief_weights, question_weights
from pursuit.web.exporting.weights import WIDTHS, rounded

N_HISTORIES = 256
N_ANSWERS = 8
"""How many answers of each query random histories are made of."""
BELIEF_ERROR = 6e-5
"""The most that rounding may change a probability."""
QUESTION_ERROR = 3e-3
"""The most that it may change the bits expected of a query, or its share where scores are not bits."""


class Widths(NamedTuple):
    """The bits of weights by the id of the parameter, and what rounding changes at most on random histories."""

    bits: dict[int, int]
    belief_error: float
    question_error: float


@torch.no_grad()
def suitable_widths(model: VIP) -> Widths:
    """The fewest bits for the classifier that leave beliefs as they are, then the fewest for all else."""
    histories = random_histories(model.query_set, N_HISTORIES)
    beliefs, questions = model.log_posterior(histories).exp(), _questions(model, histories)
    in_few_bits = copy.deepcopy(model)
    for belief_bits in WIDTHS:
        _round(belief_weights(model), belief_weights(in_few_bits), belief_bits)
        belief_error = _largest(in_few_bits.log_posterior(histories).exp() - beliefs)
        if belief_error <= BELIEF_ERROR:
            break
    for question_bits in WIDTHS:
        _round(question_weights(model), question_weights(in_few_bits), question_bits)
        found = _questions(in_few_bits, histories)
        question_error = max(_largest(part - exact) for part, exact in zip(found, questions, strict=True))
        if question_error <= QUESTION_ERROR:
            break
    bits = {id(weight): belief_bits for weight in belief_weights(model)}
    bits |= {id(weight): question_bits for weight in question_weights(model)}
    return Widths(bits, belief_error, question_error)


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


def _largest(difference: Tensor) -> float:
    return float(difference.abs().max()) if difference.numel() else 0.0
