"""What the server and its clients send each other, as typed JSON: OpenAPI describes it from here."""

import datetime
import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool

from pursuit.queries import Doubt
from pursuit.sessions.state import Question, State
from pursuit.sessions.why import Why

MOST_CHARACTERS = 500
"""Of an answer or a name."""
MOST_ANSWERS = 5000
"""In one request."""


def checked_text(text: str) -> str:
    """Refuse what no person types and no database keeps: control characters and halves of surrogate pairs."""
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise ValueError("a text must not hold control characters")
    return text


NO_CONTROLS = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"
"""The same as a pattern, for those who read the description of the API."""
Text = Annotated[
    str, Field(max_length=MOST_CHARACTERS, json_schema_extra={"pattern": NO_CONTROLS}), AfterValidator(checked_text)
]
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


# ---- models


class Quality(Reply):
    n_rows: int
    """On how many cases with a known result it was measured."""
    accuracy: float | None
    mean_asked: float | None
    beats_guessing: bool
    """Whether it is right more often than somebody who always says the same."""
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
    volunteered: StrictBool = False
    """Whether the person said so unasked."""
    confirmed: StrictBool = False
    """Whether a number far out of the usual range is meant."""


class Evidence(Request):
    """All that is known of a case."""

    known: dict[Text, Answer] = Field(default={}, max_length=MOST_ANSWERS)
    """By the name of the question: what is known before anything is asked."""
    answers: list[Told] = Field(default=[], max_length=MOST_ANSWERS)
    """What was asked, in this order."""
    rejected: list[Text] = Field(default=[], max_length=MOST_ANSWERS)
    """Guesses that are wrong."""
    go_on: StrictBool = False
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
    consented: StrictBool = False
    """Whether the person agreed to what the interview asks consent to; without it, such an interview does not begin."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "animals"}]})


MoveName = Literal[
    "tell", "dont_know", "skip", "undo", "change", "reject", "take_back_rejection", "go_on", "accept", "reveal"
]


class Move(Request):
    """What a person does."""

    move: MoveName
    revision: int = Field(ge=0)
    """The revision of the session that the client has seen: another one means that somebody else moved meanwhile."""
    query: Text | None = None
    """tell: what is answered, where it is not the question asked; change: what is changed."""
    answer: Answer = None
    label: Text | None = None
    """reject: another label than the one that is believed most; take_back_rejection: which."""
    confirmed: StrictBool = False

    model_config = ConfigDict(json_schema_extra={"examples": [{"move": "tell", "answer": "yes", "revision": 0}]})


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
    decided: bool | None = None
    """Whether the model vouches for the outcome; false: not sure, a person must decide; null: it promises nothing."""
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


class SavedAnswer(Reply):
    name: str
    question: str
    answer: str | None
    """null: don't know."""


class SavedAnswers(Reply):
    """What a person said in a session, to take along."""

    title: str
    begun: datetime.datetime
    last_change: datetime.datetime
    answers: list[SavedAnswer]
    wrong_guesses: list[str]
    result: str | None
    probability: float | None
    truth: str | None


class Truth(Request):
    label: Text | None
    """What it really was; null: nobody knows after all."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"label": "dolphin"}]})


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


class Problem(Reply):
    """What is wrong, as a sentence."""

    message: str
    doubt: Doubt | None = None
    """Where a number is hardly meant: what may have been."""
    session: Session | None = None
    """Where somebody else moved: the session as it is now."""
