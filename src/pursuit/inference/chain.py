"""The chain of queries, answers and posteriors that is left of a rollout: the whole explanation of a prediction."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor

from pursuit.inference.pursuer import Pursuer, label_list
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import StoppingRule
from pursuit.queries import QuerySet

UNKNOWN = "unknown"
"""What a chain's text says for a query that could not be answered."""


@dataclass(frozen=True)
class ChainStep:
    """One query of a chain, its answer, and the belief after it."""

    query: int
    name: str
    text: str
    answer: str | None
    """In words; None where the query was asked and could not be answered."""
    posterior: Tensor  # (C,)


@dataclass(frozen=True)
class Chain:
    """A finished history with its posteriors: the whole explanation of one prediction."""

    classes: tuple[Any, ...]
    prior: Tensor  # (C,) the belief before the first query, given what is initially known
    steps: tuple[ChainStep, ...]
    initially_known: tuple[ChainStep, ...] = ()

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def n_answered(self) -> int:
        """How many answers were revealed, without those initially known."""
        return sum(step.answer is not None for step in self.steps)

    @property
    def posterior(self) -> Tensor:
        """The belief at the end: (C,)."""
        return self.steps[-1].posterior if self.steps else self.prior

    @property
    def prediction(self) -> Any:
        return self.classes[int(self.posterior.argmax())]

    def __str__(self) -> str:
        shown = (*self.initially_known, *self.steps)
        width = max((len(step.text) for step in shown), default=0)
        answer_width = max((len(step.answer or UNKNOWN) for step in shown), default=0)
        certainty = _percent(self.posterior.max())
        lines = [f"Prediction: {self.prediction} ({certainty}) after {_count(self.n_answered, 'answer')}"]
        lines += [f"    +  {step.text:<{width}}  {step.answer}" for step in self.initially_known]
        lines.append(f"  {'start':<{width + 5}}  {'':<{answer_width}}  {self._top(self.prior)}")
        for i, step in enumerate(self.steps, start=1):
            answer = step.answer or UNKNOWN
            lines.append(f"  {i:>3}. {step.text:<{width}}  {answer:<{answer_width}}  {self._top(step.posterior)}")
        return "\n".join(lines)

    def _top(self, posterior: Tensor, most: int = 3) -> str:
        probabilities, best = posterior.topk(min(most, len(self.classes)))
        return ", ".join(f"{self.classes[i]} {_percent(p)}" for p, i in zip(probabilities, best.tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The chain as JSON values: every query, answer and posterior, in order."""

        def belief(posterior: Tensor) -> dict[str, float]:
            return dict(zip(map(str, self.classes), posterior.tolist(), strict=True))

        def query_and_answer(step: ChainStep) -> dict[str, Any]:
            return {"query": step.name, "text": step.text, "answer": step.answer}

        return {
            "prediction": self.prediction,
            "n_answered": self.n_answered,
            "posterior": belief(self.posterior),
            "initially_known": [query_and_answer(step) for step in self.initially_known],
            "prior": belief(self.prior),
            "steps": [{**query_and_answer(step), "posterior": belief(step.posterior)} for step in self.steps],
        }

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


class Chains(Sequence[Chain]):
    """The chains of several rows; prints as readable text."""

    def __init__(self, chains: Sequence[Chain]):
        self._chains = tuple(chains)

    @overload
    def __getitem__(self, index: int) -> Chain: ...
    @overload
    def __getitem__(self, index: slice) -> "Chains": ...
    def __getitem__(self, index: int | slice) -> "Chain | Chains":
        return Chains(self._chains[index]) if isinstance(index, slice) else self._chains[index]

    def __len__(self) -> int:
        return len(self._chains)

    def __str__(self) -> str:
        return "\n\n".join(str(chain) for chain in self._chains)

    __repr__ = __str__

    def to_dict(self) -> list[dict[str, Any]]:
        return [chain.to_dict() for chain in self._chains]

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


def explain(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor,
    stop: StoppingRule | None = None,
    initially_known: Tensor | None = None,
    batch_rows: int | None = None,
) -> Chains:
    """The chain of every row."""
    beliefs: list[list[Tensor]] = [[] for _ in range(len(x))]
    asked: list[list[tuple[int, bool]]] = [[] for _ in range(len(x))]
    for step in pursue_in_batches(pursuer, x, available, stop, initially_known, batch_rows):
        posterior = step.log_posterior.exp().cpu()
        for i, (row, query, answered) in enumerate(
            zip(step.rows.tolist(), step.query.tolist(), step.answered.tolist(), strict=True)
        ):
            beliefs[row].append(posterior[i])
            if query >= 0:
                asked[row].append((query, answered))
    given = torch.zeros_like(available) if initially_known is None else initially_known & available
    classes, query_set = tuple(label_list(pursuer.classes)), pursuer.query_set
    chains = []
    for row in range(len(x)):
        prior, *after = beliefs[row]
        steps = tuple(
            chain_step(query_set, x[row], query, answered, posterior)
            for (query, answered), posterior in zip(asked[row], after, strict=True)
        )
        known = given[row].nonzero()[:, 0].tolist()
        chains.append(Chain(classes, prior, steps, tuple(chain_step(query_set, x[row], q, True, prior) for q in known)))
    return Chains(chains)


def chain_step(query_set: QuerySet, x: Tensor, query: int, answered: bool, posterior: Tensor) -> ChainStep:
    """A query of a chain in words, from one row `x` (*answer_shape)."""
    wording = query_set.queries[query]
    answer = query_set.describe(query, x) if answered else None
    return ChainStep(query, wording.name, wording.text, answer, posterior)


def _percent(probability: Tensor) -> str:
    # Only certainty itself is written 100%: rounding must not promise it.
    return "100%" if probability == 1 else f"{min(99.9, 100 * float(probability)):.1f}%"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
