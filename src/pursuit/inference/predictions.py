"""Predictions and chains as tables: what is believed of every row, and what was asked for it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pursuit.inference.equal_rows import find_equal
from pursuit.inference.pursuer import Pursuer, label_list
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target_bins import target_of
from pursuit.inference.unusual import knows_unusual, unusual_rows
from pursuit.queries import QuerySet

PROBABILITY = "probability_"
"""Before a label, the name of the column with its probability."""
LOW, HIGH = "low", "high"
"""The columns with the ends of the 90 % interval of a number."""
OUTCOME, DECIDED, NOT_SURE = "outcome", "decided", "not sure"
"""The column that says whether a row is decided or left to a person, and its values."""
UNUSUAL = "unusual"
"""The column that says whether the answers of a row are unlike those that the model learnt from."""
LABELS, BETWEEN = "labels", " | "
"""The column with the labels that remain, and what stands between them."""


@dataclass(frozen=True)
class Predictions:
    """What is believed of N rows once enough was asked, and what was asked for it."""

    posterior: Tensor  # (N, C)
    query: Tensor  # (N, T), in the order of asking, -1 behind the last
    answered: Tensor  # (N, T) bool
    decided: Tensor | None = None  # (N,) bool, whether the stopping rule vouches for it; None where it promises nothing
    label_set: Tensor | None = None  # (N, C) bool, the labels that remain; None where the rule does not say
    unusual: Tensor | None = None  # (N,) bool, whether answers are unlike those learnt from; None where nobody knows

    def take(self, rows: Tensor) -> "Predictions":
        """The same of some rows (n,)."""
        taken: Any = {name: None if part is None else part[rows] for name, part in vars(self).items()}
        return Predictions(**taken)

    def table(self, pursuer: Pursuer, x: Tensor, index: pd.Index | None = None) -> pd.DataFrame:
        """A row for each row of the answers `x` (N, *answer_shape): what is predicted (`believed`), how many queries
        were asked, and each of these with its answer in words, which is missing where it could not be answered."""
        columns = self.believed(pursuer)
        if self.unusual is not None:
            columns[UNUSUAL] = self.unusual.numpy()
        columns["n_asked"] = (self.query >= 0).sum(dim=1).numpy()
        names = [query.name for query in pursuer.query_set.queries]
        name_of = np.array([*names, None], dtype=object)  # the last one is that of -1
        answers = answer_texts(pursuer.query_set, x, self.query, self.answered)
        for place in range(self.query.shape[1]):
            columns[f"question_{place + 1}"] = name_of[self.query[:, place].numpy()]
            columns[f"answer_{place + 1}"] = answers[:, place]
        return pd.DataFrame(columns, index=index)

    def believed(self, pursuer: Pursuer) -> dict[str, np.ndarray]:
        """The label predicted and the probability of every label, or of a number its mean and its 90 % interval."""
        target = target_of(pursuer)
        if target is not None:
            low, high = target.interval(self.posterior).T.numpy()
            return {"prediction": target.mean(self.posterior).numpy(), LOW: low, HIGH: high}
        predicted = np.asarray(pursuer.classes)[self.posterior.argmax(dim=1).numpy()]
        probabilities = zip(label_list(pursuer.classes), self.posterior.double().T.numpy(), strict=True)
        columns = {"prediction": predicted}
        if self.decided is not None:
            columns[OUTCOME] = np.where(self.decided.numpy(), DECIDED, NOT_SURE)
        if self.label_set is not None:
            texts = np.array(list(map(str, label_list(pursuer.classes))), dtype=object)
            columns[LABELS] = np.array([BETWEEN.join(texts[row]) for row in self.label_set.numpy()], dtype=object)
        return {**columns, **{f"{PROBABILITY}{label}": share for label, share in probabilities}}


def predict_rows(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor,
    stop: StoppingRule | None = None,
    initially_known: Tensor | None = None,
) -> Predictions:
    """Ask every row until `stop` says enough. Equal rows are asked once."""
    first, number = find_equal([x, available, *([] if initially_known is None else [initially_known])])
    known = None if initially_known is None else initially_known[first]
    return _predicted(pursuer, x[first], available[first], stop, known).take(number)


def _predicted(
    pursuer: Pursuer, x: Tensor, available: Tensor, stop: StoppingRule | None, initially_known: Tensor | None
) -> Predictions:
    posterior = torch.zeros(len(x), len(pursuer.classes))
    queries: list[Tensor] = []  # (N,) each: what is asked first, second, and so on
    answered: list[Tensor] = []
    decided: Tensor | None = None
    for step in pursue_in_batches(pursuer, x, available, stop, initially_known):
        posterior[step.rows] = step.log_posterior.exp().float()
        vouched = None if stop is None else stop.decides(step.standing)
        if vouched is not None:
            decided = torch.zeros(len(x), dtype=torch.bool) if decided is None else decided
            decided[step.rows] = vouched.cpu()
        if not step.goes_on.any():
            continue
        place = int(step.n_asked[0])  # the same in all rows of a step
        if place == len(queries):
            queries.append(torch.full((len(x),), -1))
            answered.append(torch.zeros(len(x), dtype=torch.bool))
        queries[place][step.rows] = step.query
        answered[place][step.rows] = step.answered
    members = None if stop is None else stop.label_set(posterior)
    if not queries:
        return Predictions(posterior, torch.empty(len(x), 0).long(), torch.empty(len(x), 0).bool(), decided, members)
    query, has_answer = torch.stack(queries, dim=1), torch.stack(answered, dim=1)
    unusual = None
    if knows_unusual(pursuer):
        given = None if initially_known is None else initially_known & available
        unusual, _ = unusual_rows(pursuer, x, given, query, has_answer)
    return Predictions(posterior, query, has_answer, decided, members, unusual)


def answer_texts(query_set: QuerySet, x: Tensor, query: Tensor, answered: Tensor) -> np.ndarray:
    """The answers in words (N, T), None where there is none. Equal answers to a query are put into words once."""
    texts = np.full(tuple(query.shape), None, dtype=object)
    for number in query[answered].unique().tolist():
        rows, places = ((query == number) & answered).nonzero().unbind(dim=1)
        first, same = _distinct(query_set, x[rows], number)
        words = np.array([query_set.describe(number, x[rows[i]]) for i in first], dtype=object)
        texts[rows.numpy(), places.numpy()] = words[same]
    return texts


def _distinct(query_set: QuerySet, x: Tensor, query: int) -> tuple[np.ndarray, np.ndarray]:
    """The first of the rows `x` (n, *answer_shape) with each answer to a query, and for each row (n,) which of these
    has the same."""
    if not query_set.has_own_units:
        return np.arange(len(x)), np.arange(len(x))
    own = (query_set.units.of_feature == query).nonzero()[:, 0]
    _, first, same = np.unique(x[:, own].numpy(), axis=0, return_index=True, return_inverse=True)
    return first, same.reshape(-1)  # of one version of numpy it is (n, 1)


STEP = "step"
"""The column that numbers what is asked of a row; 0 is the belief before the first question."""


def chain_table(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor,
    stop: StoppingRule | None = None,
    initially_known: Tensor | None = None,
    index: pd.Index | None = None,
) -> pd.DataFrame:
    """The chains of N rows, one after the other, with a row for each step: what was asked, the answer in words, which
    is missing where there was none, the bits that were `expected` of it, missing where nobody knows, and those
    `gained`, and what is believed then. The first step of a chain is the belief before anything is asked."""
    steps = list(pursue_in_batches(pursuer, x, available, stop, initially_known, with_bits=True))
    rows, place = torch.cat([step.rows for step in steps]), torch.cat([step.n_asked for step in steps])
    order = torch.from_numpy(np.lexsort((place.numpy(), rows.numpy())))
    rows, place = rows[order], place[order]
    posterior = torch.cat([step.log_posterior for step in steps])[order].exp().float()
    is_first = place == 0
    # What is asked in one step is answered in the next.
    query = _moved(torch.cat([step.query for step in steps])[order], is_first, -1)
    answered = _moved(torch.cat([step.answered for step in steps])[order], is_first, False)
    unknown = [torch.full((len(step.rows),), math.nan) if step.bits is None else step.bits for step in steps]
    expected = _moved(torch.cat(unknown)[order], is_first, math.nan)
    doubt = torch.special.entr(posterior.double()).sum(dim=1) / math.log(2)
    gained = torch.where(is_first, math.nan, doubt.roll(1) - doubt)
    names = np.array([*(query.name for query in pursuer.query_set.queries), None], dtype=object)
    columns = {
        STEP: place.numpy(),
        "question": names[query.numpy()],
        "answer": answer_texts(pursuer.query_set, x[rows], query[:, None], answered[:, None])[:, 0],
        "expected": expected.double().numpy(),
        "gained": gained.numpy(),
        **Predictions(posterior, query[:, None], answered[:, None]).believed(pursuer),
    }
    return pd.DataFrame(columns, index=pd.Index(rows.numpy()) if index is None else index[rows.numpy()])


def _moved(of_step: Tensor, is_first: Tensor, before: float) -> Tensor:
    """What belongs to each step, beside the next step of the same chain."""
    return torch.where(is_first, torch.as_tensor(before, dtype=of_step.dtype), of_step.roll(1))
