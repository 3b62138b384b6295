"""Which answers to a query belong together: the same choice, or numbers of one range."""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from pursuit.inference.pursuer import NO_ANSWER
from pursuit.queries import QuerySet
from pursuit.queries.query import NOT_GIVEN_TEXT

MOST_CHOICES = 6
"""How many answers stand for themselves; of more, the rarest are put together."""
MOST_CUTS = 2
"""How often a range of numbers is cut."""
SMALLEST_SHARE = 0.05
"""The least share of the rows that a range may have."""
LEAST_GAIN = 0.02
"""The bits about the label that a cut must tell, on average over the rows that are cut."""
OTHERS = "other answers"

Branches = list[tuple[str, np.ndarray]]
"""Answers in words, with the rows (n,) that gave them."""


def branches(query_set: QuerySet, query: int, x: Tensor, answered: np.ndarray, belief: Tensor) -> Branches:
    """The rows `x` (N, *answer_shape) by their answers to `query`, as far as they `answered` (N,) it.

    Numbers and shades are cut into ranges where the `belief` (N, C) after the answer differs most.
    """
    there, absent = np.flatnonzero(answered), np.flatnonzero(~answered)
    found: Branches = []
    if len(there):
        texts = np.array([query_set.describe(query, x[row]) for row in there], dtype=object)
        given = texts != NOT_GIVEN_TEXT
        values = _values(query_set, query, x[there[given]])
        if values is None:
            found = [(text, there[rows]) for text, rows in _by_text(query_set, query, texts)]
        else:
            ranges = _ranges(values, belief[there[given]].double().numpy())
            own, own_texts = there[given], texts[given]
            found = [(text, own[part]) for text, part in _in_words(query_set, values, own_texts, ranges)]
            if not given.all():
                found.append((NOT_GIVEN_TEXT, there[~given]))
    return [*found, (NO_ANSWER, absent)] if len(absent) else found


def _by_text(query_set: QuerySet, query: int, texts: np.ndarray) -> Branches:
    """The most frequent answers, in the order in which they are offered, and all others together."""
    names, place, counts = np.unique(texts.astype(str), return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable").tolist()
    kept = order if len(order) <= MOST_CHOICES else order[: MOST_CHOICES - 1]
    offered = {text: i for i, text in enumerate(query_set.queries[query].offered)}
    kept.sort(key=lambda i: offered.get(str(names[i]), len(offered)))
    found = [(str(names[i]), np.flatnonzero(place == i)) for i in kept]
    others = np.flatnonzero(~np.isin(place, kept))
    return [*found, (OTHERS, others)] if len(others) else found


def _values(query_set: QuerySet, query: int, x: Tensor) -> np.ndarray | None:
    """What orders the answers (n,): the number itself, or the mean brightness of a patch; None for other answers."""
    if not query_set.has_units:
        return None
    features = torch.isin(query_set.units.of_feature.cpu(), query_set.units.of_query[query].cpu()).nonzero()[:, 0]
    types = {query_set.units.feature_types[feature] for feature in features.tolist()}
    is_ordered = types <= {"number", "share"} or query_set.patches is not None
    return x.flatten(1)[:, features].mean(dim=1).double().numpy() if is_ordered else None


def _ranges(values: np.ndarray, belief: np.ndarray) -> list[np.ndarray]:
    """The rows (n,) of each range, from low to high: cut again and again where the doubt left is least."""
    order = np.argsort(values, kind="stable")
    parts, least = [order], max(1.0, SMALLEST_SHARE * len(values))
    for _ in range(MOST_CUTS):
        cuts = [_best_cut(values[part], belief[part], least) for part in parts]
        gains = [gain for _, gain in cuts]
        best = int(np.argmax(gains))
        if gains[best] <= LEAST_GAIN * len(values):
            break
        place, part = cuts[best][0], parts[best]
        parts[best : best + 1] = [part[:place], part[place:]]
    return parts


def _best_cut(values: np.ndarray, belief: np.ndarray, least: float) -> tuple[int, float]:
    """Where to cut rows in rising order so that the mean beliefs on both sides leave the least doubt, and how much less
    that is, summed over rows; a gain of 0 if nowhere. Equal values stay together."""
    n = len(values)
    below = np.arange(1, n)
    allowed = (values[1:] > values[:-1]) & (below >= least) & (n - below >= least)
    if not allowed.any():
        return 0, 0.0
    total = belief.cumsum(axis=0)
    left = below * _entropy(total[:-1] / below[:, None])
    right = (n - below) * _entropy((total[-1] - total[:-1]) / (n - below)[:, None])
    gain = np.where(allowed, n * _entropy(total[-1:] / n) - left - right, -np.inf)
    best = int(gain.argmax())
    return best + 1, float(gain[best])


def _entropy(belief: np.ndarray) -> np.ndarray:
    """Of beliefs (n, C), in bits: (n,)."""
    p = np.clip(belief, 1e-12, 1)
    return -(p * np.log2(p)).sum(axis=1)


def _in_words(query_set: QuerySet, values: np.ndarray, texts: np.ndarray, ranges: list[np.ndarray]) -> Branches:
    """Ranges by the highest answer of each, as in "up to 37.5", "37.5 to 39", "above 39"."""
    if len(ranges) == 1:
        low, high = _answer(query_set, values, texts, ranges[0][0]), _answer(query_set, values, texts, ranges[0][-1])
        return [(low if low == high else f"{low} to {high}", ranges[0])]
    edges = [_answer(query_set, values, texts, part[-1]) for part in ranges[:-1]]
    between = [f"above {low}, up to {high}" for low, high in pairwise(edges)]
    names = [f"up to {edges[0]}", *between, f"above {edges[-1]}"]
    return list(zip(names, ranges, strict=True))


def _answer(query_set: QuerySet, values: np.ndarray, texts: np.ndarray, row: int) -> str:
    """The answer of a row as an end of a range: of a patch, how bright it is on average."""
    return str(texts[row]) if query_set.patches is None else f"{50 * (values[row] + 1):.0f}% bright"
