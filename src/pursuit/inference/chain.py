"""The chain of queries, answers and posteriors that is left of a rollout: the whole explanation of a prediction."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from pursuit.inference import html
from pursuit.inference.pursuer import Pursuer, label_list
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target_bins import COVERAGE, TargetBins, target_of
from pursuit.queries import QuerySet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_SURE = "Not sure, a person must decide; most probable: "
"""What a chain's text says before the prediction if its stopping rule does not vouch for it."""
UNKNOWN = "unknown"
"""What a chain's text says for a query that could not be answered."""
MOST_IN_NOTEBOOKS = 10
"""How many chains a notebook shows."""
CHAINS_SCHEMA = "pursuit/chains/1"
"""The version of the JSON that chains are written as: docs/schemas/chains-1.json describes it."""


@dataclass(frozen=True)
class ChainStep:
    """One query of a chain, its answer, and the belief after it."""

    query: int
    name: str
    text: str
    answer: str | None
    """In words; None where the query was asked and could not be answered."""
    posterior: Tensor  # (C,)
    bits: float | None = None
    """How much its answer was expected to tell about the label, given the answers before it; None where the pursuer
    does not know that, and for answers that nobody asked for."""
    gained: float = 0.0
    """How much the answer did tell: the entropy of the belief before it minus that after it, in bits. Negative where an
    answer leaves more in doubt than before: what is expected is never negative, but single answers may surprise."""
    volunteered: bool = False
    """Whether a person gave the answer without being asked."""


@dataclass(frozen=True)
class Chain:
    """A finished history with its posteriors: the whole explanation of one prediction."""

    classes: tuple[Any, ...]
    prior: Tensor  # (C,) the belief before the first query, given what is initially known
    steps: tuple[ChainStep, ...]
    initially_known: tuple[ChainStep, ...] = ()
    target: TargetBins | None = None
    """What the classes are bins of, where a number is predicted."""
    excluded: tuple[Any, ...] = ()
    """The classes that a person said are wrong: their probability is zero in every belief of the chain."""
    decided: bool | None = None
    """Whether the stopping rule vouches for the prediction; if not, a person must decide. None where it promises
    nothing."""
    label_set: tuple[Any, ...] | None = None
    """The classes that remain at the end, the most probable first; None where the stopping rule does not say."""

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def n_asked(self) -> int:
        """How many queries were asked, answered or not."""
        return sum(not step.volunteered for step in self.steps)

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
        """The most probable class, or the expected number."""
        if self.target is not None:
            return float(self.target.mean(self.posterior[None]))
        return self.classes[int(self.posterior.argmax())]

    @property
    def bits_gained(self) -> float:
        """How much all answers told, those initially known aside: what all steps gained together, in bits."""
        return doubt(self.prior) - doubt(self.posterior)

    def __str__(self) -> str:
        lines = self._lines()
        cells = zip(*(line[1:4] for line in lines), strict=True)
        width, answer_width, bits_width = (max(map(len, column)) for column in cells)
        texts = [f"{NOT_SURE if self.decided is False else 'Prediction: '}{self._predicted()} after {self._length()}"]
        for start, text, answer, bits, belief in lines:
            start += "." if start.isdigit() else " "
            bits = f"{bits:>{bits_width}}  " if bits_width else ""
            top = "" if belief is None else self._top(belief)
            texts.append(f"  {start:>4} {text:<{width}}  {answer:<{answer_width}}  {bits}{top}".rstrip())
        return "\n".join([*texts, *(f"  {remark}" for remark in self._remarks())])

    def _repr_html_(self) -> str:
        """The chain as a notebook shows it."""
        lines = self._lines()
        with_bits = any(bits for _, _, _, bits, _ in lines)
        header = ["", "question", "answer", *(["expected"] if with_bits else []), "belief"]
        rows = [
            [start, text, answer, *([bits] if with_bits else []), "" if belief is None else self._bar(belief)]
            for start, text, answer, bits, belief in lines
        ]
        title = f"{NOT_SURE if self.decided is False else ''}{self._predicted()} after {self._length()}"
        return html.block(title, html.table(header, rows), *map(html.paragraph, self._remarks()))

    def _lines(self) -> list[tuple[str, str, str, str, Tensor | None]]:
        """A line for each step: its number (+ for an answer that was not asked for), query, answer, expected bits and
        posterior."""
        lines: list[tuple[str, str, str, str, Tensor | None]] = [
            ("+", step.text, step.answer or UNKNOWN, "", None) for step in self.initially_known
        ]
        lines.append(("", "start", "", "", self.prior))
        n_asked = 0
        for step in self.steps:
            n_asked += not step.volunteered
            start, bits = "+" if step.volunteered else str(n_asked), "" if step.bits is None else bits_text(step.bits)
            lines.append((start, step.text, step.answer or UNKNOWN, bits, step.posterior))
        return lines

    def _remarks(self) -> list[str]:
        remarks = {"What remains possible": self.label_set, "Excluded as wrong": self.excluded or None}
        return [f"{what}: {', '.join(map(str, of))}" for what, of in remarks.items() if of is not None]

    def _bar(self, posterior: Tensor) -> str:
        """The belief in words, beside a bar of the label that leads in the end."""
        if self.target is not None:
            return self._top(posterior)
        return html.Bar(self._top(posterior, 2), float(posterior[int(self.posterior.argmax())]))

    def plot(self, path: str | Path | None = None, title: str = "") -> "Figure":
        """Beliefs step by step: as a heat map of labels, or as intervals where a number is predicted."""
        figures = import_module("pursuit.evaluation.figures")  # which draws chains, and so comes after them
        draw = figures.answer_chain if self.target is None else figures.number_chain
        return draw(self, path, title)

    def _predicted(self) -> str:
        if self.target is not None:
            return self.target.belief(self.posterior)
        return f"{self.prediction} ({percent(self.posterior.max())})"

    def _length(self) -> str:
        answers = _count(self.n_answered, "answer")
        if all(step.answer is not None and not step.volunteered for step in self.steps):
            return answers
        return f"{_count(self.n_asked, 'question')} and {answers}"

    def _top(self, posterior: Tensor, most: int = 3) -> str:
        if self.target is not None:
            return self.target.belief(posterior)
        probabilities, best = posterior.topk(min(most, len(self.classes) - len(self.excluded)))
        return ", ".join(f"{self.classes[i]} {percent(p)}" for p, i in zip(probabilities, best.tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The chain as JSON values: every query, answer and posterior, in order."""

        def belief(posterior: Tensor) -> dict[str, float]:
            return dict(zip(map(str, self.classes), posterior.tolist(), strict=True))

        def query_and_answer(step: ChainStep) -> dict[str, Any]:
            return {"query": step.name, "text": step.text, "answer": step.answer}

        def in_full(step: ChainStep) -> dict[str, Any]:
            information = {"volunteered": step.volunteered, "bits": step.bits, "gained": step.gained}
            number = {} if self.target is None else number_of(self.target, step.posterior)
            return {**query_and_answer(step), **information, **number, "posterior": belief(step.posterior)}

        return {
            "prediction": self.prediction,
            "decided": self.decided,
            "label_set": None if self.label_set is None else list(map(str, self.label_set)),
            **({} if self.target is None else number_of(self.target, self.posterior)),
            "n_asked": self.n_asked,
            "n_answered": self.n_answered,
            "bits_gained": self.bits_gained,
            "posterior": belief(self.posterior),
            "initially_known": [query_and_answer(step) for step in self.initially_known],
            "excluded": list(map(str, self.excluded)),
            "prior": belief(self.prior),
            "steps": [in_full(step) for step in self.steps],
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

    def _repr_html_(self) -> str:
        more = len(self) - MOST_IN_NOTEBOOKS
        rest = html.paragraph(f"and {more:,} more") if more > 0 else ""
        return "<br/>".join(chain._repr_html_() for chain in self._chains[:MOST_IN_NOTEBOOKS]) + rest

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
    asked: list[list[tuple[int, bool, float | None]]] = [[] for _ in range(len(x))]
    decided: list[bool | None] = [None] * len(x)
    for step in pursue_in_batches(pursuer, x, available, stop, initially_known, batch_rows, with_bits=True):
        posterior = step.log_posterior.exp().cpu()
        bits: list[Any] = [None] * len(step.rows) if step.bits is None else step.bits.tolist()
        vouched = None if stop is None else stop.decides(step.standing)
        for row, is_vouched in zip(step.rows.tolist(), [] if vouched is None else vouched.tolist(), strict=False):
            decided[row] = is_vouched
        for i, (row, query, answered, expected) in enumerate(
            zip(step.rows.tolist(), step.query.tolist(), step.answered.tolist(), bits, strict=True)
        ):
            beliefs[row].append(posterior[i])
            if query >= 0:
                asked[row].append((query, answered, expected))
    given = torch.zeros_like(available) if initially_known is None else initially_known & available
    classes, query_set = tuple(label_list(pursuer.classes)), pursuer.query_set
    chains = []
    for row in range(len(x)):
        prior = beliefs[row][0]
        steps = tuple(
            chain_step(
                query_set, query, query_set.describe(query, x[row]) if answered else None, before, after, expected
            )
            for (query, answered, expected), (before, after) in zip(asked[row], pairwise(beliefs[row]), strict=True)
        )
        known = given[row].nonzero()[:, 0].tolist()
        initial = tuple(
            chain_step(query_set, query, query_set.describe(query, x[row]), prior, prior) for query in known
        )
        remain = remaining(stop, classes, beliefs[row][-1])
        chains.append(Chain(classes, prior, steps, initial, target_of(pursuer), (), decided[row], remain))
    return Chains(chains)


def remaining(
    stop: StoppingRule | None, classes: Sequence[Any], posterior: Tensor, excluded: Sequence[Any] = ()
) -> tuple[Any, ...] | None:
    """The classes that remain by what is believed at the stop (C,), the most probable first; None where the rule does
    not say."""
    members = None if stop is None else stop.label_set(posterior[None])
    if members is None:
        return None
    order = posterior.argsort(descending=True, stable=True).tolist()
    return tuple(classes[i] for i in order if bool(members[0, i]) and classes[i] not in excluded)


def number_of(target: TargetBins, posterior: Tensor) -> dict[str, Any]:
    """What a belief (C,) says of the number to predict, as JSON values."""
    low, median, high = target.quantiles(posterior[None], [(1 - COVERAGE) / 2, 0.5, (1 + COVERAGE) / 2])[0].tolist()
    return {"mean": float(target.mean(posterior[None])), "median": median, "interval": [low, high]}


def chain_step(
    query_set: QuerySet,
    query: int,
    answer: str | None,
    before: Tensor,
    after: Tensor,
    bits: float | None = None,
) -> ChainStep:
    """A query of a chain in words, with its answer and the beliefs (C,) before and after it."""
    wording = query_set.queries[query]
    return ChainStep(query, wording.name, wording.text, answer, after, bits, doubt(before) - doubt(after))


def doubt(posterior: Tensor) -> float:
    """The entropy of a belief (C,) in bits: how much there is still to be told about the label."""
    return float(torch.special.entr(posterior.double()).sum()) / math.log(2)


def bits_text(bits: float) -> str:
    """Bits as people read them; what rounds to nothing, and is something, is said to be less than that."""
    if 1e-6 < bits < 0.005:
        return "<0.01 bits"
    return f"{round(bits, 2) + 0.0:.2f} bits"  # adding zero makes -0.0 zero


def percent(probability: Tensor | float) -> str:
    # Only certainty itself is written 100%: rounding must not promise it.
    return "100%" if probability == 1 else f"{min(99.9, 100 * float(probability)):.1f}%"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
