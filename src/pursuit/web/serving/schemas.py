"""What the server and its clients send each other, as typed JSON: OpenAPI describes it from here."""

import datetime
import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MOST_CHARACTERS = 500
"""Of an answer or a name."""
MOST_ANSWERS = 5000
"""In one request."""


def checked_text(text: str) -> str:
    """Refuse what no person types and no database keeps: control characters and halves of surrogate pairs."""
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise ValueError("a text must not hold control characters")
    return text


Text = Annotated[str, Field(max_length=MOST_CHARACTERS), AfterValidator(checked_text)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
Pixels = Annotated[list[Finite], Field(max_length=20_000)]
Answer = Annotated[bool | Whole | Finite | Text | Pixels | None, Field(union_mode="smart")]
"""A choice in words, a number, a date as text, or the pixels of a patch; null: don't know."""


class Reply(BaseModel):
    """What the server sends."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


class Request(BaseModel):
    """What a client sends; what is not known is refused, so that a slip of the pen shows."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True, extra="forbid")


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


class Result(Reply):
    label: str
    probability: float | None
    """null where a number is predicted: the belief has its range."""
    runner_up: LabelShare | None
    n_asked: int
    reasons: Reasons
    what_if: WhatIf | None
    """A single answer that would have changed the result."""
    accepted: bool


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
    kind: Literal["beforehand", "again", "last", "bits", "cost", "prefers", "share"]
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


# ---- models


class Quality(Reply):
    n_rows: int
    """On how many cases with a known result it was measured."""
    accuracy: float | None
    mean_asked: float | None
    sentences: list[str]


class ModelSummary(Reply):
    id: str
    title: str
    n_labels: int
    n_questions: int
    is_number: bool
    is_image: bool
    facts: list[str]
    is_measured: bool
    """Whether `quality` is known by now, if it can be."""
    quality: Quality | None


class Models(Reply):
    models: list[ModelSummary]


class ModelDetails(ModelSummary):
    labels: list[str]
    report: dict[str, Any] | None
    """What was measured, the tree of the first questions and which of them matter, as report-1.json says."""
    report_url: str | None


class Questions(Reply):
    questions: list[Question]


class Sample(Reply):
    n: int
    label: str
    url: str


class Samples(Reply):
    samples: list[Sample]


class Told(Request):
    query: Text
    answer: Answer = None
    volunteered: bool = False
    """Whether the person said so unasked."""
    confirmed: bool = False
    """Whether a number far out of the usual range is meant."""


class Evidence(Request):
    """All that is known of a case."""

    known: dict[Text, Answer] = Field(default={}, max_length=MOST_ANSWERS)
    """By the name of the question: what is known before anything is asked."""
    answers: list[Told] = Field(default=[], max_length=MOST_ANSWERS)
    """What was asked, in this order."""
    rejected: list[Text] = Field(default=[], max_length=MOST_ANSWERS)
    """Guesses that are wrong."""
    go_on: bool = False
    """Whether to ask on although the model is sure."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"answers": [{"query": "Does it live in water?", "answer": "no"}], "rejected": ["cat"]}]
        },
    )


class Next(Reply):
    state: State
    why: Why | None


# ---- sessions


class NewSession(Request):
    model: Text
    known: dict[Text, Answer] = Field(default={}, max_length=MOST_ANSWERS)
    sample: int | None = Field(default=None, ge=0)
    """Of a model that looks at pictures: the sample to look at."""
    title: Text = ""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "animals"}]},
    )


MoveName = Literal[
    "tell",
    "dont_know",
    "skip",
    "undo",
    "change",
    "reject",
    "take_back_rejection",
    "go_on",
    "accept",
    "reveal",
]


class Move(Request):
    """What a person does."""

    move: MoveName
    revision: int = Field(ge=0)
    """The revision of the session that the client has seen: another one means that somebody else moved meanwhile."""
    query: Text | None = None
    """tell: what is told unasked; change: what is changed."""
    answer: Answer = None
    label: Text | None = None
    """reject: another label than the one that is believed most; take_back_rejection: which."""
    confirmed: bool = False

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"move": "tell", "answer": "yes", "revision": 0}]},
    )


class SessionSummary(Reply):
    id: str
    model: str
    title: str
    revision: int
    created: datetime.datetime
    updated: datetime.datetime
    done: bool
    outcome: str | None
    probability: float | None
    n_asked: int
    accepted: bool
    truth: str | None
    right: bool | None
    """Whether the first guess was right; null where nobody knows."""
    has_picture: bool


class Session(SessionSummary):
    model_changed: bool
    """Whether the model was trained again since the last move."""
    state: State


class Sessions(Reply):
    total: int
    sessions: list[SessionSummary]


class Truth(Request):
    label: Text | None
    """What it really was; null: nobody knows after all."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"label": "dolphin"}]},
    )


class DayOfAccuracy(Reply):
    date: datetime.date
    n: int
    n_right: int
    so_far_n: int
    so_far_right: int
    so_far_accuracy: float


class Accuracy(Reply):
    n: int
    """Sessions whose true result is known."""
    n_right: int
    accuracy: float | None
    interval: tuple[float, float] | None
    """The 95 % interval of the accuracy."""
    points: list[DayOfAccuracy]


class Doubt(Reply):
    query: str
    text: str
    answer: str
    usual: str
    suggestions: list[str]


class Problem(Reply):
    """What is wrong, as a sentence."""

    message: str
    doubt: Doubt | None = None
    """Where a number is hardly meant: what may have been."""
    session: Session | None = None
    """Where somebody else moved: the session as it is now."""
