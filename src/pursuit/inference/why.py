"""Why a question is asked: what it is expected to tell, what else could be asked, and what each answer would change."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from pursuit.inference.chain import bits_text, percent
from pursuit.inference.exclusion import answers_without, without
from pursuit.inference.history import History
from pursuit.inference.pursuer import PossibleAnswer, Pursuer, choose, label_list, score_unit
from pursuit.inference.target import target_of

N_NEXT_BEST, N_LEADING = 3, 3
"""How many queries that come next are named, and how many labels that lead after an answer."""
MOST_ANSWERS = 8
"""How many answers the text shows, the most probable first."""
LITTLE = 1 / 3
"""A query tells little by itself if its bits are below this share of the most that another one promises."""


@dataclass(frozen=True)
class Candidate:
    """A query that might be asked now, and what speaks for it."""

    query: int
    name: str
    text: str
    bits: float | None
    """How much its answer is expected to tell about the label; None where the pursuer does not know that."""
    share: float | None
    """For a pursuer that does not know the bits: how strongly it prefers this query, as its share of a softmax over all
    that are left."""
    cost: float

    @property
    def bits_per_cost(self) -> float | None:
        """None for a query that is free, too."""
        return self.bits / self.cost if self.bits is not None and self.cost else None

    def to_dict(self) -> dict[str, Any]:
        worth = {"bits": self.bits, "share": self.share, "cost": self.cost, "bits_per_cost": self.bits_per_cost}
        return {"query": self.name, "text": self.text, **worth}


@dataclass(frozen=True)
class Shift:
    """What an answer would do to the probability of one label."""

    label: Any
    before: float
    after: float


@dataclass(frozen=True)
class AnswerEffect:
    """What would be believed after one of the possible answers."""

    text: str
    probability: float | None
    """None where the pursuer has no model of the answers."""
    shifts: tuple[Shift, ...]
    """The labels that lead after it; none where a number is predicted."""
    number: tuple[float, float] | None = None
    """Where a number is predicted: what is expected before and after it."""
    text_of_number: str = ""
    """The same in words."""


@dataclass(frozen=True)
class Why:
    """Why a question is asked. Prints as text for the person who is asked."""

    question: Candidate
    next_best: tuple[Candidate, ...]
    answers: tuple[AnswerEffect, ...]
    """The most probable first; empty where the answers cannot be listed."""
    doubt: float
    """The entropy of the belief now, in bits: how much there is still to be told."""
    bits_gained: float
    """How much the answers so far told."""
    is_cost_aware: bool = False
    """Whether queries are chosen by bits per unit of cost."""
    promises_most: bool = True
    """Whether no other query that may be asked promises more bits; a querier that was not trained on these may prefer
    another one."""
    tells_little: bool = False
    """Whether its bits are below `LITTLE` of the most that another query promises: it is asked for what comes after it,
    because its answer decides which query tells most then."""
    is_beforehand: bool = False
    """Whether it is known beforehand, so that nobody chose to ask it."""
    is_restricted: bool = False
    """Whether the order of queries closes others at this point."""
    n_skipped: int = 0
    """How many queries the person put off, so that others come before them."""
    is_again: bool = False
    """Whether the question itself was put off, and nothing else is left to ask."""

    def __str__(self) -> str:
        lines = [f'"{self.question.text}" {self._reason()}', f"{self._so_far()} (The toss of a coin tells 1 bit.)"]
        if self.next_best:
            worth = [self._worth(candidate) for candidate in self.next_best]
            width = max(map(len, worth))
            lines.append("Next best:")
            lines += [f"  {w:>{width}}  {other.text}" for w, other in zip(worth, self.next_best, strict=True)]
        return "\n".join([*lines, *self._effects()])

    def _reason(self) -> str:
        question = self.question
        if self.is_beforehand:
            return "is known beforehand: the model chooses its questions once it has the answer."
        if self.is_again:
            return f"was skipped, and comes back because nothing else is left to ask.{self._worth_again()}"
        others = "no other question that may be asked now" if self.is_restricted else "no other question"
        others = f"{others}, besides those you skipped," if self.n_skipped else others
        if question.bits is None:
            share = "" if question.share is None else f" ({percent(question.share)} of its preference)"
            return (
                f"is what the model would rather ask than anything else{share}; it does not know how much that tells."
            )
        if not self.is_cost_aware:
            if self.tells_little:
                return (
                    f"is expected to tell {bits_text(question.bits)} about the result. It tells little by itself; it "
                    "decides what to ask next."
                )
            most = (
                f"{others} promises more"
                if self.promises_most
                else "others promise more, but the model learnt to prefer this one"
            )
            return f"is expected to tell {bits_text(question.bits)} about the result; {most}."
        if question.bits_per_cost is None:
            return f"is expected to tell {bits_text(question.bits)} about the result, and costs nothing."
        return (
            f"is expected to tell {bits_text(question.bits)} about the result at a cost of {question.cost:g}: "
            f"{_rate(question.bits_per_cost)}; {others} promises more."
        )

    def _worth_again(self) -> str:
        bits = self.question.bits
        return "" if bits is None else f" It is expected to tell {bits_text(bits)} about the result."

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
        shown, rest = self.answers[:MOST_ANSWERS], self.answers[MOST_ANSWERS:]
        names = [
            answer.text if answer.probability is None else f"{answer.text} ({percent(answer.probability)})"
            for answer in shown
        ]
        width = max(map(len, names))
        lines = ["What an answer would change:"]
        for name, answer in zip(names, shown, strict=True):
            shifts = [f"{shift.label} {percent(shift.before)} -> {percent(shift.after)}" for shift in answer.shifts]
            lines.append(f"  {name:<{width}}  {answer.text_of_number or ', '.join(shifts)}")
        return [*lines, f"  and {len(rest)} more"] if rest else lines

    def to_dict(self) -> dict[str, Any]:
        """The reasons as JSON values."""
        return {
            "question": self.question.to_dict(),
            "next_best": [candidate.to_dict() for candidate in self.next_best],
            "answers": [asdict(answer) for answer in self.answers],
            "doubt": self.doubt,
            "bits_gained": self.bits_gained,
            "is_cost_aware": self.is_cost_aware,
            "promises_most": self.promises_most,
            "tells_little": self.tells_little,
            "is_beforehand": self.is_beforehand,
            "is_restricted": self.is_restricted,
            "n_skipped": self.n_skipped,
            "is_again": self.is_again,
        }

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


def candidates(pursuer: Pursuer, scores: Tensor, asked: Tensor, bits: Tensor | None) -> list[Candidate]:
    """The query that is asked next and those that come after it, by the `scores` (1, Q) of what may be asked; `bits`
    (1, Q) are those expected of each, where they are known."""
    left = scores[0].masked_fill(asked[0], -torch.inf)
    chosen = int(choose(scores, asked))
    shares = left.softmax(dim=0) if bits is None else None
    best = left.topk(min(N_NEXT_BEST + 1, len(left))).indices.tolist()
    others = [i for i in best if i != chosen and left[i] > -torch.inf][:N_NEXT_BEST]
    queries = pursuer.query_set.queries
    return [
        Candidate(
            i,
            queries[i].name,
            queries[i].text,
            None if bits is None else float(bits[0, i]),
            None if shares is None else float(shares[i]),
            queries[i].cost,
        )
        for i in (chosen, *others)
    ]


@dataclass(frozen=True)
class ImaginedAnswer:
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


def bits_told(answers: Sequence[ImaginedAnswer], before: Tensor) -> float:
    """How far answers are expected to move the belief `before` (C,), in bits."""
    moved = (float(torch.special.xlogy(a.posterior, a.posterior / before).nansum()) for a in answers)
    return sum((a.probability or 0) * nats for a, nats in zip(answers, moved, strict=True)) / math.log(2)


def answer_effects(
    pursuer: Pursuer, answers: Sequence[ImaginedAnswer], before: Tensor, excluded: Sequence[int] = ()
) -> tuple[AnswerEffect, ...]:
    """What each of the answers would change in the belief `before` (C,)."""
    return tuple(_effect(pursuer, a.text, a.probability, before, a.posterior, excluded) for a in answers)


def _effect(
    pursuer: Pursuer,
    text: str,
    probability: float | None,
    before: Tensor,
    after: Tensor,
    excluded: Sequence[int],
) -> AnswerEffect:
    target = target_of(pursuer)
    if target is not None:
        expected = float(target.mean(before[None])), float(target.mean(after[None]))
        in_words = f"about {target.text(expected[0])} -> {target.belief(after)}"
        return AnswerEffect(text, probability, (), expected, in_words)
    n_leading = min(N_LEADING, len(after) - len(excluded))
    labels, leading = label_list(pursuer.classes), after.topk(n_leading).indices.tolist()
    shifts = tuple(Shift(labels[i], float(before[i]), float(after[i])) for i in leading)
    return AnswerEffect(text, probability, shifts)


def _rate(bits_per_cost: float) -> str:
    return f"{bits_per_cost:.3g} bits per unit of cost"
