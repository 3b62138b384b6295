"""Why a question is asked: what it is expected to tell, what else could be asked, and what each answer would change."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from pursuit.inference import html
from pursuit.inference.chain import bits_text, percent
from pursuit.inference.history import History
from pursuit.inference.pursuer import PossibleAnswer, Pursuer, label_list, label_text, score_unit
from pursuit.inference.target_bins import target_of
from pursuit.queries import QuerySet
from pursuit.queries.answer_values import Interval
from pursuit.sessions.exclusion import answers_without, without

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_NEXT_BEST, N_LEADING = 3, 3
"""How many queries that come next are named, and how many labels that lead after an answer."""
MOST_ANSWERS = 8
"""How many answers the text lists, the most probable first."""
LEAST_PROBABILITY = 1e-12
"""A probability below this counts as this, so that what an answer told stays finite."""
LITTLE = 1 / 3
"""A query tells little by itself if its bits are below this share of the most that another one promises."""


@dataclass(frozen=True)
class Candidate:
    """A query that might be asked now, and what speaks for it."""

    name: str
    text: str
    bits: float | None
    """How much its answer is expected to tell about the label; null where the model does not know that."""
    share: float | None
    """Where the bits are not known: how strongly the model prefers this query, as its share of a softmax over all that
    are left."""
    cost: float

    @property
    def bits_per_cost(self) -> float | None:
        """None for a query that is free, too."""
        return self.bits / self.cost if self.bits is not None and self.cost else None


@dataclass(frozen=True)
class NextQuestion(Candidate):
    """What a person is asked, and why this."""

    query: int
    number: int
    """From 1; 0 for what is known beforehand, which does not count as asked."""
    choices: tuple[str, ...]
    runners_up: tuple[tuple[str, float | None], ...]
    """The wordings it would have asked otherwise, with their bits."""
    help: str
    """What a person may want to know to answer it."""
    unit: str
    expected: str
    """What may be answered, in a few words: the choices, or the range of a number with its unit."""

    def to_dict(self) -> dict[str, Any]:
        """The question as JSON values."""
        runners_up = [{"text": text, "bits": bits} for text, bits in self.runners_up]
        return {**asdict(self), "choices": list(self.choices), "runners_up": runners_up}


@dataclass(frozen=True)
class LabelShift:
    """What an answer would do to the probability of one label."""

    label: str
    before: float
    probability: float


@dataclass(frozen=True)
class AnswerEffect:
    """What would be believed after one of the possible answers."""

    text: str
    probability: float | None
    """Null where the model does not know how probable answers are."""
    labels: tuple[LabelShift, ...]
    """Those that lead after it; none where a number is predicted."""
    number: tuple[float, float] | None = None
    """Where a number is predicted: what is expected before and after this answer."""
    low: str | None = None
    """The lower end of a range of answers, in words: exclusive, but inclusive for whole numbers with a `high`."""
    high: str | None = None
    text_of_number: str = ""
    """What is believed of the number before and after it, in words."""


WhyKind = Literal["beforehand", "again", "last", "bits", "cost", "group", "decides", "prefers", "share"]
"""Why a question comes now: it is known beforehand; it was put off, and nothing else is left; it is the last one; it
promises most bits, or most bits per cost; it tells little by itself, but decides what to ask next; others promise more,
but the querier learnt to prefer this one; or it is preferred, and nobody knows how much it tells."""


@dataclass(frozen=True)
class WhyReason:
    kind: WhyKind
    n: int
    """How many questions are left."""
    bits: float | None
    cost: float
    is_restricted: bool
    """Whether others may not be asked yet."""
    n_skipped: int
    """How many others were put off, so that they come later."""


@dataclass(frozen=True)
class Why:
    """Why a question is asked. Prints as text for the person who is asked."""

    reason: WhyReason
    candidates: tuple[Candidate, ...]
    """The question asked first."""
    answers: tuple[AnswerEffect, ...]
    """The most probable first; empty where the answers cannot be listed."""
    doubt: float
    """The entropy of the belief now, in bits: how much there is still to be told."""
    bits_gained: float
    """How much the answers so far told."""
    is_cost_aware: bool = False
    """Whether queries are chosen by bits per unit of cost."""

    @property
    def question(self) -> Candidate:
        return self.candidates[0]

    @property
    def next_best(self) -> tuple[Candidate, ...]:
        return self.candidates[1:]

    def __str__(self) -> str:
        lines = [f'"{self.question.text}" {self._reason()}', f"{self._so_far()} (The toss of a coin tells 1 bit.)"]
        if self.next_best:
            worth = [self._worth(candidate) for candidate in self.next_best]
            width = max(map(len, worth))
            lines.append("Next best:")
            lines += [f"  {w:>{width}}  {other.text}" for w, other in zip(worth, self.next_best, strict=True)]
        return "\n".join([*lines, *self._effects()])

    def _reason(self) -> str:
        question, kind = self.question, self.reason.kind
        told = "" if question.bits is None else f"is expected to tell {bits_text(question.bits)} about the result"
        if kind == "beforehand":
            return "is known beforehand: the model chooses its questions once it has the answer."
        if kind == "again":
            again = "was skipped, and comes back because nothing else is left to ask."
            return f"{again} It {told}." if told else again
        if kind == "group":
            return f"{told}, and belongs to a group that is asked together, for what all of it tells."
        others = "no other question that may be asked now" if self.reason.is_restricted else "no other question"
        others = f"{others}, besides those you skipped," if self.reason.n_skipped else others
        if question.bits is None:
            share = "" if question.share is None else f" ({percent(question.share)} of its preference)"
            return (
                f"is what the model would rather ask than anything else{share}; it does not know how much that tells."
            )
        if self.is_cost_aware:
            if question.bits_per_cost is None:
                return f"{told}, and costs nothing."
            return f"{told} at a cost of {question.cost:g}: {_rate(question.bits_per_cost)}; {others} promises more."
        if kind == "decides":
            return f"{told}. It tells little by itself; it decides what to ask next."
        if kind == "prefers":
            return f"{told}; others promise more, but the model learnt to prefer this one."
        return f"{told}; {others} promises more."

    def _so_far(self) -> str:
        if abs(self.bits_gained) < 0.005:  # as before the first answer
            return f"{bits_text(self.doubt)} are in doubt."
        if self.bits_gained < 0:
            return (
                f"What was said so far was surprising: {bits_text(self.doubt)} are in doubt now, "
                f"{bits_text(-self.bits_gained)} more than at first."
            )
        return f"What was said so far told {bits_text(self.bits_gained)}; {bits_text(self.doubt)} are still in doubt."

    def _worth(self, candidate: Candidate) -> str:
        if candidate.bits is None:
            return "" if candidate.share is None else percent(candidate.share)
        if not self.is_cost_aware:
            return bits_text(candidate.bits)
        if candidate.bits_per_cost is None:
            return f"{bits_text(candidate.bits)}, free"
        return f"{bits_text(candidate.bits)}, cost {candidate.cost:g}, {_rate(candidate.bits_per_cost)}"

    def _effects(self) -> list[str]:
        if not self.answers:
            return []
        listed, rest = self.answers[:MOST_ANSWERS], self.answers[MOST_ANSWERS:]
        names = [
            answer.text if answer.probability is None else f"{answer.text} ({percent(answer.probability)})"
            for answer in listed
        ]
        width = max(map(len, names))
        lines = ["What an answer would change:"]
        for name, answer in zip(names, listed, strict=True):
            shifts = [f"{one.label} {percent(one.before)} -> {percent(one.probability)}" for one in answer.labels]
            lines.append(f"  {name:<{width}}  {answer.text_of_number or ', '.join(shifts)}")
        return [*lines, f"  and {len(rest)} more"] if rest else lines

    def _repr_html_(self) -> str:
        """The reasons as a notebook shows them."""
        most = max((one.bits for one in self.candidates if one.bits is not None), default=0.0) or 1.0
        others = [
            [
                html.Bar(self._worth(one), (one.bits or 0.0) / most) if one.bits is not None else self._worth(one),
                one.text,
            ]
            for one in self.candidates
        ]
        effects = [line.strip() for line in self._effects()[1:]]
        parts = [
            html.paragraph(self._reason()),
            html.paragraph(self._so_far()),
            html.table(("worth", "question"), others),
        ]
        if effects:
            parts += [html.paragraph("What an answer would change:"), html.table(("",), [[line] for line in effects])]
        return html.block(f"“{self.question.text}”", *parts)

    def plot(self, path: str | Path | None = None, title: str = "") -> "Figure":
        """How much each of the best questions is expected to tell."""
        figures = import_module("pursuit.evaluation.figures")
        values = [one.bits if one.bits is not None else one.share or 0.0 for one in self.candidates]
        unit = "bits" if self.question.bits is not None else "share of the preference"
        figure: Figure = figures.bars([one.text for one in self.candidates], values, unit, path, title)
        return figure

    def to_dict(self) -> dict[str, Any]:
        """The reasons as JSON values."""
        return asdict(self)

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


def _rate(bits_per_cost: float) -> str:
    return f"{bits_per_cost:.3g} bits per unit of cost"


def candidates(
    query_set: QuerySet, scores: Tensor, asked: Tensor, bits: Tensor | None, chosen: int
) -> tuple[Candidate, ...]:
    """What speaks for the query that is asked next, and for those that come after it by the `scores` (1, Q) of what may
    be asked. `bits` (1, Q) are those expected of each, where they are known."""
    left = scores[0].masked_fill(asked[0], -torch.inf)
    shares = left.softmax(dim=0) if bits is None else None
    best = left.topk(min(N_NEXT_BEST + 1, len(left)))
    ranked = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    others = [i for i, score in ranked if i != chosen and score > -math.inf][:N_NEXT_BEST]

    def candidate(i: int) -> Candidate:
        query = query_set.queries[i]
        expected = None if bits is None else float(bits[0, i])
        return Candidate(query.name, query.text, expected, None if shares is None else float(shares[i]), query.cost)

    return tuple(map(candidate, (chosen, *others)))


class ImaginedAnswer(NamedTuple):
    """An answer that may be given, and the belief (C,) after it."""

    text: str
    probability: float | None
    """None where the pursuer has no model of the answers."""
    posterior: Tensor


@torch.no_grad()
def imagined_answers(
    pursuer: Pursuer, history: History, query: int, excluded: Sequence[int] = ()
) -> list[ImaginedAnswer]:
    """The answers that `query` may get in a history of one row, the most probable first, where some labels may be
    excluded; empty where they cannot be listed.

    Beliefs follow by Bayes for a pursuer that chooses by the information in answers. Any other one says what it would
    believe after each choice of the query.
    """
    foresee = getattr(pursuer, "possible_answers", None)
    answers: tuple[PossibleAnswer, ...] = () if foresee is None else foresee(history, query)
    answers = answers_without(answers, excluded)
    if answers and score_unit(pursuer) is not None:
        after: dict[str, Tensor] = {}
    else:
        after = _after_choices(pursuer, history, query, excluded)
    if not answers:
        return [ImaginedAnswer(text, None, posterior) for text, posterior in after.items()]
    likely = sorted(answers, key=lambda answer: -answer.probability)
    return [ImaginedAnswer(a.text, a.probability, after.get(a.text, a.posterior)) for a in likely]


def _after_choices(pursuer: Pursuer, history: History, query: int, excluded: Sequence[int]) -> dict[str, Tensor]:
    """What is believed (C,) after each choice of a query; empty if it has none."""
    choices = pursuer.query_set.queries[query].offered
    if not choices:
        return {}
    x, known, asked = (
        part.expand(len(choices), *part.shape[1:]).clone() for part in (history.x, history.known, history.asked)
    )
    for row, choice in zip(x, choices, strict=True):
        pursuer.query_set.tell(row, query, choice)
    answered = History(x, known, asked).ask(torch.full((len(choices),), query, device=x.device))
    posteriors = without(pursuer.log_posterior(answered), excluded).exp()
    return dict(zip(choices, posteriors, strict=True))


def divergence(before: Tensor, after: Tensor) -> float:
    """How far a belief (C,) is from the one before it, in bits."""
    before, after = before.double().clamp(min=LEAST_PROBABILITY), after.double()
    return float(torch.special.xlogy(after, after / before).sum()) / math.log(2)


def bits_told(answers: Sequence[ImaginedAnswer], before: Tensor) -> float:
    """How far answers are expected to move the belief `before` (C,), in bits."""
    return sum((one.probability or 0) * divergence(before, one.posterior) for one in answers)


def answer_effects(
    pursuer: Pursuer, answers: Sequence[ImaginedAnswer], before: Tensor, excluded: Sequence[int] = ()
) -> tuple[AnswerEffect, ...]:
    """What each of the answers would change in the belief `before` (C,)."""
    target, labels = target_of(pursuer), label_list(pursuer.classes)
    effects = []
    for answer in answers:
        after, number, in_words, shifts = answer.posterior, None, "", []
        if target is not None:
            number = float(target.mean(before[None])), float(target.mean(after[None]))
            in_words = f"about {target.text(number[0])} -> {target.belief(after)}"
        else:
            leading = after.topk(min(N_LEADING, len(after) - len(excluded))).indices.tolist()
            shifts = [LabelShift(label_text(labels[i]), float(before[i]), float(after[i])) for i in leading]
        ends = (answer.text.low, answer.text.high) if isinstance(answer.text, Interval) else (None, None)
        effects.append(AnswerEffect(answer.text, answer.probability, tuple(shifts), number, *ends, in_words))
    return tuple(effects)
