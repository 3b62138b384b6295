"""A model as JSON values: all that the page must know besides its weights."""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from pursuit.inference.guarantees import NotGuaranteed, guarantees_of
from pursuit.inference.pursuer import label_list
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target_bins import target_of
from pursuit.inference.unusual import NEVER
from pursuit.information import AnswerModel
from pursuit.queries import Number, Order, Query
from pursuit.queries.answer_values import Interval
from pursuit.queries.column import NOT_GIVEN_TEXT
from pursuit.queries.scaling import compress
from pursuit.sessions.state import question_of
from pursuit.vip import VIP, InformationVIP
from pursuit.web.exporting.weights import Tensors, network_layers

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
