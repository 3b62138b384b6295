"""What is shown of a session, as typed JSON: its state, and why a question is asked."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Reply(BaseModel):
    """What the server sends."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


# ---- a question


class Choice(Reply):
    value: str
    """What to send as the answer."""
    text: str


class Patch(Reply):
    """Where in a picture a question looks, in pixels."""

    row: int
    column: int
    size: int


class Question(Reply):
    name: str
    text: str
    help: str = ""
    unit: str = ""
    kind: Literal["choice", "number", "date", "patch"]
    is_yes_no: bool = False
    choices: list[Choice] = []
    """In the order to show; of a number, nothing or "not given" alone."""
    number: int = 0
    """How many questions were asked with it; 0 for what is known beforehand, and for answers given unasked."""
    is_beforehand: bool = False
    cost: float = 1.0
    low: float | None = None
    """The least number that is accepted; null: any."""
    high: float | None = None
    seen: tuple[float, float] | None = None
    """The least and the greatest number that the model learnt from."""
    centre: float | None = None
    decimals: int = 0
    has_time: bool = False
    patch: Patch | None = None


# ---- a state


class LabelShare(Reply):
    label: str
    probability: float


class NumberBelief(Reply):
    expected: float
    low: float
    high: float
    """Between `low` and `high` it lies with 90 % probability."""
    text: str


class Belief(Reply):
    labels: list[LabelShare]
    """The most probable first."""
    n_others: int
    others: float
    """The probability of all other labels together."""
    number: NumberBelief | None = None


class GivenAnswer(Reply):
    kind: Literal["answer"] = "answer"
    question: Question
    value: str | float | None
    shown: str | None
    """In words; null: left open."""
    gained: float | None
    """How many bits the answer told; null: left open."""
    volunteered: bool


class Rejection(Reply):
    kind: Literal["rejected"] = "rejected"
    label: str


class OpenQuestion(Reply):
    name: str
    text: str


class QuestionsLeft(Reply):
    kind: Literal["about", "at_most"]
    n: int


class Reason(Reply):
    name: str
    text: str
    answer: str
    before: float
    after: float
    weight: float


class Reasons(Reply):
    model_config = ConfigDict(serialize_by_alias=True)

    speaks_for: list[Reason] = Field(alias="for")
    speaks_against: list[Reason] = Field(alias="against")


class WhatIf(Reply):
    name: str
    text: str
    answer: str
    instead: str
    label: str
    probability: float


class GivenReply(Reply):
    name: str
    text: str
    answer: str


class Result(Reply):
    label: str
    probability: float | None
    """null where a number is predicted: the belief has its range."""
    runner_up: LabelShare | None
    n_asked: int
    reasons: Reasons
    what_if: WhatIf | None
    """A single answer that would have changed the result."""
    unusual: GivenReply | None = None
    """Where the answers are unlike those that the model learnt from: the least expected of them."""
    accepted: bool
    decided: bool | None = None
    """Whether the stopping rule vouches for the result; false: not sure, a person must decide; null: it promises
    nothing."""
    label_set: list[str] | None = None
    """The labels that remain, the most probable first; null where the stopping rule does not say."""


class Image(Reply):
    width: int
    height: int
    n_patches: int
    n_revealed: int
    has_picture: bool
    """Whether the session answers itself, from a picture."""


class State(Reply):
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
    answers: list[GivenAnswer | Rejection]
    skipped: list[str]
    can_undo: bool
    can_skip: bool
    can_go_on: bool
    done: bool
    open: list[OpenQuestion]
    """What may still be told unasked."""
    result: Result | None
    expects_reports: bool = False
    """Whether people usually begin by telling something."""
    image: Image | None = None


# ---- why


class WhyReason(Reply):
    kind: Literal["beforehand", "again", "last", "bits", "cost", "decides", "prefers", "share"]
    n: int
    """How many questions are left."""
    bits: float | None
    cost: float
    is_restricted: bool
    """Whether others may not be asked yet."""
    n_skipped: int


class Candidate(Reply):
    name: str
    text: str
    bits: float | None
    share: float | None


class LabelShift(Reply):
    label: str
    before: float
    probability: float


class AnswerEffect(Reply):
    text: str
    probability: float | None
    labels: list[LabelShift]
    number: tuple[float, float] | None = None
    """Where a number is predicted: what is expected before and after this answer."""
    low: str | None = None
    """Of answers in a range: above what they lie, in words."""
    high: str | None = None


class Why(Reply):
    reason: WhyReason
    candidates: list[Candidate]
    """The question asked first."""
    answers: list[AnswerEffect]
