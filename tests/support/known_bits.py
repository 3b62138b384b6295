"""A pursuer whose scores are bits by their definition: how much less is in doubt after each answer, on average."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pursuit.exact import IndependentIP, TableIP
from pursuit.inference.chain import doubt
from pursuit.inference.history import History
from pursuit.inference.pursuer import PossibleAnswer, ScoreUnit
from pursuit.queries import ColumnQueries


class InBits:
    """Asks by the bits that the possible answers of an exact pursuer are expected to tell."""

    def __init__(self, pursuer: IndependentIP | TableIP, unit: ScoreUnit = "bits"):
        self.pursuer, self.query_set, self.classes = pursuer, pursuer.query_set, pursuer.classes
        self.score_unit = unit

    def log_posterior(self, history: History) -> Tensor:
        return self.pursuer.log_posterior(history)

    def possible_answers(self, history: History, query: int) -> tuple[PossibleAnswer, ...]:
        return self.pursuer.possible_answers(history, query)

    def scores(self, history: History) -> Tensor:
        rows = [history.rows(torch.tensor([row])) for row in range(len(history))]
        bits = torch.tensor([[self._bits(row, query) for query in range(len(self.query_set))] for row in rows])
        return bits / self.query_set.costs if self.score_unit == "bits per cost" else bits

    def _bits(self, history: History, query: int) -> float:
        answers = self.pursuer.possible_answers(history, query)
        after = sum(answer.probability * doubt(answer.posterior) for answer in answers)
        return doubt(self.log_posterior(history)[0].exp()) - after


def in_bits(pursuer: IndependentIP | TableIP) -> InBits:
    return InBits(pursuer)


def with_costs(pursuer: IndependentIP, costs: dict[str, float], unit: ScoreUnit = "bits per cost") -> InBits:
    """The same world in which queries cost something, others 1."""
    columns: list[Any] = [replace(query, cost=costs.get(query.name, 1.0)) for query in pursuer.query_set.queries]
    return InBits(IndependentIP(ColumnQueries(columns), pursuer.classes, pursuer.prior, pursuer.likelihood), unit)
