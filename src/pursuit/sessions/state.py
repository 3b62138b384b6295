"""The state of a session: one tree of values that the terminal, the server, its page and the exported page render.

The fields are those of the JSON that the server sends, so a field may be added here, but none renamed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from typing_extensions import TypedDict  # what pydantic reads before Python 3.12

from pursuit.inference.chain import Chain
from pursuit.inference.pursuer import label_text
from pursuit.inference.stopping import Budget
from pursuit.inference.unusual import Unusual, unusual_of
from pursuit.queries import Date, Number, Query, QuerySet
from pursuit.queries.column import NOT_GIVEN_TEXT
from pursuit.sessions.experience import Experience, Trust, progress
from pursuit.sessions.log import Reject, SessionLog, Tell
from pursuit.sessions.reasons import Reason, WhatIf, reasons_of, what_if
from pursuit.sessions.why import divergence

N_LABELS = 8
"""How many labels a belief names."""
N_REASONS = 8
"""How many reasons for and against a result are given."""
FEW_QUESTIONS = 10
"""Where no more questions than this are open, their number is reported as the most that may follow."""


# ---- a question


@dataclass(frozen=True)
class Choice:
    value: str
    """What to send as the answer."""
    text: str


@dataclass(frozen=True)
class Patch:
    """Where in a picture a question looks, in pixels."""

    row: int
    column: int
    size: int


@dataclass(frozen=True)
class Question:
    """A query as it is put to a person."""

    name: str
    text: str
    help: str
    unit: str
    kind: Literal["choice", "number", "date", "patch"]
    number: int
    """How many questions were asked with it; 0 for what is known beforehand, and for answers given unasked."""
    is_beforehand: bool
    cost: float
    is_yes_no: bool = False
    choices: tuple[Choice, ...] = ()
    """In the order to show; of a number, nothing or "not given" alone."""
    low: float | None = None
    """The least number that is accepted; null: any."""
    high: float | None = None
    seen: tuple[float, float] | None = None
    """The least and the greatest number that the model learnt from."""
    centre: float | None = None
    decimals: int = 0
    has_time: bool = False
    patch: Patch | None = None


@dataclass(frozen=True)
class OpenQuestion:
    name: str
    text: str


def question_of(query_set: QuerySet, index: int, number: int = 0) -> Question:
    """A query as it is put to a person, as the question of this number."""
    query, patches, order = query_set.queries[index], query_set.patches, query_set.order
    is_beforehand = order is not None and query.name in order.beforehand
    options: dict[str, Any] = {}
    kind: Any = "choice"
    if patches is not None:
        kind, options = "patch", {"patch": Patch(*patches.corner(index), patches.size)}
    elif isinstance(query, Number):
        kind = "date" if isinstance(query, Date) else "number"
        options = {name: getattr(query, name) for name in ("low", "high", "seen", "centre", "decimals")}
        options["has_time"] = isinstance(query, Date) and query.has_time
        options["choices"] = _choices([NOT_GIVEN_TEXT] if query.may_be_missing else [])
    else:
        options = {"is_yes_no": is_yes_no(query), "choices": _choices(_in_order(query))}
    shared = (query.name, query.text, query.help, query.unit, kind, number, is_beforehand, query.cost)
    return Question(*shared, **options)


def is_yes_no(query: Query) -> bool:
    return getattr(query, "is_yes_no", False) or query.choices == ("no", "yes")


def _in_order(query: Query) -> Sequence[str]:
    """The choices in the order in which people expect them: yes before no."""
    return (query.choices[1], query.choices[0], *query.offered[2:]) if is_yes_no(query) else query.offered


def _choices(texts: Sequence[str]) -> tuple[Choice, ...]:
    return tuple(Choice(text, text) for text in texts)


_open_questions: WeakKeyDictionary[QuerySet, list[OpenQuestion]] = WeakKeyDictionary()


def open_questions_of(query_set: QuerySet) -> list[OpenQuestion]:
    """All queries as they may be told unasked, made once: every state has many of them."""
    if query_set not in _open_questions:
        _open_questions[query_set] = [OpenQuestion(query.name, query.text) for query in query_set.queries]
    return _open_questions[query_set]


# ---- a state


@dataclass(frozen=True)
class LabelShare:
    label: str
    probability: float


@dataclass(frozen=True)
class NumberBelief:
    expected: float
    low: float
    high: float
    """Between `low` and `high` it lies with 90 % probability."""
    text: str
    decimals: int
    """As many as people want to see."""
    bins: tuple[tuple[str, str], ...]
    """The ends of each of the labels, which are ranges of the number."""


@dataclass(frozen=True)
class Belief:
    labels: tuple[LabelShare, ...]
    """The most probable first."""
    n_others: int
    others: float
    """The probability of all other labels together."""
    number: NumberBelief | None = None


@dataclass(frozen=True)
class GivenAnswer:
    question: Question
    value: str | float | None
    """As a client would send it."""
    shown: str | None
    """In words; null: left open."""
    gained: float | None
    """By how many bits the answer lessened the doubt, or raised it where that is below zero; null: left open."""
    volunteered: bool
    kind: Literal["answer"] = "answer"
    told: float | None = None
    """How far the answer moved the belief, in bits: what is expected of a question is the mean of this over its
    answers. null: left open."""


@dataclass(frozen=True)
class Rejection:
    label: str
    kind: Literal["rejected"] = "rejected"


@dataclass(frozen=True)
class QuestionsLeft:
    kind: Literal["about", "at_most"]
    n: int
    """The most that usually follow, or that may follow."""
    low: int
    """The fewest that usually follow."""


ForAndAgainst = TypedDict("ForAndAgainst", {"for": tuple[Reason, ...], "against": tuple[Reason, ...]})
"""What speaks for a result and what against it, the weightiest first."""


@dataclass(frozen=True)
class Result:
    label: str
    probability: float | None
    """null where a number is predicted: the belief has its range."""
    runner_up: LabelShare | None
    n_asked: int
    reasons: ForAndAgainst
    what_if: WhatIf | None
    """A single answer that would have changed the result."""
    unusual: Unusual | None
    """Where the answers are unlike those that the model learnt from: the least expected of them."""
    accepted: bool
    decided: bool | None
    """Whether the stopping rule vouches for the result; false: not sure, a person must decide; null: it promises
    nothing."""
    label_set: tuple[str, ...] | None
    """The labels that remain, the most probable first; null where the stopping rule does not say."""
    trust: Trust | None
    """How often results such as this one were right when the model was measured; null where that is not known."""


@dataclass(frozen=True)
class Image:
    width: int
    height: int
    n_patches: int
    n_revealed: int
    has_picture: bool
    """Whether the session answers itself, from a picture."""


@dataclass(frozen=True)
class TargetState:
    """What is believed about a further target."""

    name: str
    is_number: bool
    belief: Belief
    is_settled: bool


@dataclass(frozen=True)
class State:
    """All that a page shows of a session."""

    title: str
    n_labels: int
    is_number: bool
    is_image: bool
    progress: float
    """What has been learnt of what there is to know, from 0 to 1."""
    questions_left: QuestionsLeft | None
    question: Question | None
    belief: Belief
    answers: tuple[GivenAnswer | Rejection, ...]
    """What was said, in order."""
    skipped: tuple[str, ...]
    can_undo: bool
    can_skip: bool
    can_go_on: bool
    done: bool
    open: tuple[OpenQuestion, ...]
    """What may still be told unasked."""
    result: Result | None
    expects_reports: bool
    """Whether people usually begin by telling something."""
    image: Image | None
    also: tuple[TargetState, ...] = ()
    """Further targets of the same interview."""

    @property
    def given(self) -> list[GivenAnswer]:
        return [one for one in self.answers if isinstance(one, GivenAnswer)]

    @property
    def rejected(self) -> list[str]:
        """The labels that were called wrong."""
        return [one.label for one in self.answers if isinstance(one, Rejection)]


def state_of(
    log: SessionLog,
    chain: Chain,
    title: str,
    experience: Experience | None,
    also: Mapping[str, Chain],
    *,
    accepted: bool,
    has_picture: bool,
    expects_reports: bool,
) -> State:
    """The state after the moves of a `log`, whose `chain` this is; `also` are those of further targets."""
    query_set, open_queries = log.query_set, log.open_queries()
    done, image, logs = log.is_over, None, (log, *(log.others()[name] for name in also))
    if query_set.patches is not None:
        _, height, width = query_set.patches.image_shape
        n_revealed = sum(tell.answer is not None for tell in log.told.values())
        image = Image(width, height, len(query_set), n_revealed, has_picture)
    return State(
        title=title,
        n_labels=len(chain.classes),
        is_number=chain.target is not None,
        is_image=image is not None,
        progress=progress(
            sum(each.as_now(each.positions[0]).doubt for each in logs),
            sum(each.now.doubt for each in logs),
        ),
        questions_left=None if done else _questions_left(log, None if also else experience),
        question=None if done else question_of(query_set, log.next_query, log.next_number),
        belief=belief_of(chain),
        answers=tuple(_answers(log, chain)),
        skipped=tuple(query_set.queries[query].name for query in log.now.put_off),
        can_undo=bool(log.moves),
        can_skip=log.can_skip,
        can_go_on=log.can_go_on,
        done=done,
        open=() if image is not None else tuple(map(open_questions_of(query_set).__getitem__, open_queries)),
        result=_result(log, chain, experience, accepted) if done else None,
        expects_reports=expects_reports,
        image=image,
        also=tuple(
            TargetState(name, each.target is not None, belief_of(each), log.others()[name].is_settled)
            for name, each in also.items()
        ),
    )


def _questions_left(log: SessionLog, experience: Experience | None) -> QuestionsLeft | None:
    """How many questions usually follow, by experience; without it, how many may follow where these are few."""
    n_open = len(log.open_queries())
    rules = () if log.now.is_free or log.stop is None else log.stop.parts
    budgets = [rule.n - log.now.asked_by_rule for rule in rules if isinstance(rule, Budget)]
    most = min([n_open, *budgets])
    usual = None if experience is None or log.now.is_free else experience.questions_left(log)
    if usual is not None:
        low, high = usual
        return QuestionsLeft("about", min(high, most), min(low, most))
    return QuestionsLeft("at_most", most, 1) if budgets or n_open <= FEW_QUESTIONS else None


def belief_of(chain: Chain, most: int = N_LABELS) -> Belief:
    """What is believed at the end of a chain, in its `most` probable labels."""
    n_left = len(chain.classes) - len(chain.excluded)
    best = chain.posterior.argsort(descending=True, stable=True)[: min(most, n_left)].tolist()
    probabilities = chain.posterior.tolist()
    labels = tuple([LabelShare(label_text(chain.classes[i]), probabilities[i]) for i in best])
    n_others, number = n_left - len(labels), None
    others = max(0.0, 1 - sum(share.probability for share in labels)) if n_others else 0.0
    if chain.target is not None:
        low, high = chain.target.interval(chain.posterior[None])[0].tolist()
        text, bins = chain.target.belief(chain.posterior), tuple(chain.target.ends[i] for i in best)
        number = NumberBelief(chain.prediction, low, high, text, chain.target.decimals, bins)
    return Belief(labels, n_others, others, number)


def _answers(log: SessionLog, chain: Chain) -> Iterator[GivenAnswer | Rejection]:
    steps, number, before = iter(chain.steps), 0, chain.prior
    known, log.shown = log.shown, {}  # the state looked at last has all but the newest of them
    for move in log.moves:
        if isinstance(move, Reject):
            yield from (Rejection(label_text(chain.classes[i])) for i in move.labels)
        if isinstance(move, Tell):
            step = next(steps)
            number += not step.volunteered
            key = id(step), number
            if key not in known:
                question = question_of(log.query_set, step.query, 0 if step.volunteered else number)
                value = _value(log.query_set.queries[step.query], move.answer, step.answer)
                gained, told = (
                    (None, None) if step.answer is None else (step.gained, divergence(before, step.posterior))
                )
                known[key] = step, GivenAnswer(question, value, step.answer, gained, step.volunteered, told=told)
            log.shown[key] = known[key]
            before = step.posterior
            yield known[key][1]


def _value(query: Query, answer: Any, in_words: str | None) -> str | float | None:
    """An answer as a client would send it."""
    if not isinstance(query, Number) or in_words in (None, NOT_GIVEN_TEXT):
        return in_words
    number = query.parse(answer)
    return query.written(number) if isinstance(query, Date) else number


def _result(log: SessionLog, chain: Chain, experience: Experience | None, accepted: bool) -> Result:
    reasons, changes = reasons_of(chain), what_if(log.pursuer, log.x[0], chain)
    best, *others = belief_of(chain, 2).labels
    is_number = chain.target is not None
    measured = None if chain.excluded else experience  # no wrong guess was taken back when it was measured
    return Result(
        label=best.label if chain.target is None else chain.target.text(chain.prediction),
        probability=None if is_number else best.probability,
        runner_up=others[0] if others and not is_number else None,
        n_asked=chain.n_asked,
        reasons={"for": reasons.reasons_for[:N_REASONS], "against": reasons.reasons_against[:N_REASONS]},
        what_if=changes[0] if changes else None,
        unusual=unusual_of(log.pursuer, log.x[0], chain),
        accepted=accepted,
        decided=chain.decided,
        label_set=None if chain.label_set is None else tuple(map(label_text, chain.label_set)),
        trust=None if measured is None else measured.trust(None if is_number else best.probability),
    )
