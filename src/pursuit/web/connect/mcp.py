"""Models as tools of a language model, by the Model Context Protocol: it talks, and a calibrated model decides what to
ask and what to believe."""

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult, ToolAnnotations
from starlette.types import ASGIApp

from pursuit.queries import DoubtfulAnswer
from pursuit.sessions.session import Session
from pursuit.sessions.state import (
    Belief,
    GivenAnswer,
    OpenQuestion,
    Question,
    QuestionsLeft,
    Rejection,
    Result,
    TargetState,
)
from pursuit.version import __version__
from pursuit.web.serving.auth import Authentication, Limits, Rates, Token
from pursuit.web.serving.models import ServedModel, ServedModels
from pursuit.web.serving.problems import Problem
from pursuit.web.serving.schemas import Answer, Models, Questions
from pursuit.web.serving.security import Guard

MOST_SESSIONS = 1000
"""Sessions kept in memory; the one used longest ago is forgotten first."""
MOST_AT_ONCE = 8
"""Questions that one call asks a person. Clients end a call after ten rounds."""
STATELESS_SINCE = "2026-07-28"
"""The version of the protocol since which a server asks the person by its result, and not by a request of its own."""
PATH = "/mcp"
ANSWER, DONT_KNOW = "answer", "dont_know"
INSTRUCTIONS = """\
These tools interview a person and predict one of a list of labels, or a number. A trained model chooses every question
and computes every probability from data. Do not guess probabilities yourself, do not change those that a tool gives,
and do not answer for the person: use only what the person said. Begin with list_models, then start an interview with
what the person said already as `known`. Ask the person the question of each reply, in your own words if that helps,
and pass on the answer; null means that the person does not know. Once `done` is true, tell the result with its
probability and its reasons. ask_person lets the client ask the person itself, if it can."""
R = TypeVar("R")


@dataclass(frozen=True)
class Interview:
    """Where an interview stands."""

    session: str
    """What to name in further calls."""
    model: str
    done: bool
    question: Question | None
    """What to ask the person next; null once the interview is done."""
    questions_left: QuestionsLeft | None
    belief: Belief
    """Calibrated probabilities, given the answers so far."""
    answers: tuple[GivenAnswer | Rejection, ...]
    result: Result | None
    can_skip: bool
    can_go_on: bool
    also: tuple[TargetState, ...]
    """What is believed about further targets, if there are any."""


@dataclass(frozen=True)
class Prediction:
    """What follows from some answers."""

    belief: Belief
    answers: tuple[GivenAnswer | Rejection, ...]
    next_question: Question | None
    """What the model would ask next; null where it is sure enough."""
    result: Result | None
    also: tuple[TargetState, ...]


@dataclass(frozen=True)
class Reason:
    """Why a question is asked."""

    text: str
    """In words, for the person."""
    bits: float | None
    """How much the answer is expected to tell about the result."""
    next_best: tuple[OpenQuestion, ...]


class Interviews:
    """The tools, and the sessions that they move. They may be called from any thread, and one computes at a time."""

    def __init__(self, models: ServedModels):
        self.models = models
        self._sessions: OrderedDict[str, tuple[ServedModel, Session]] = OrderedDict()
        self._lock = threading.Lock()

    def list_models(self) -> Models:
        """List the models: what each predicts, how many questions it has, and how often it was right when measured."""
        return Models(models=[model.summary() for model in self.models.values()])

    def list_questions(self, model: str) -> Questions:
        """List everything a model may ask, with the answers that are allowed: what may be told unasked as `known`."""
        return self._found(model).questions

    def start(self, model: str, known: dict[str, Answer] | None = None, confirmed: bool = False) -> Interview:
        """Begin an interview with a model. `known` are answers that the person gave already, by the name of the
        question. Set `confirmed` only if the person confirms a number that was doubted."""
        served = self._found(model)
        with self._lock:
            session, name = _checked(_begun, served, known or {}, confirmed), secrets.token_urlsafe(12)
            self._sessions[name] = served, session
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
            return _interview(name, served, session)

    def answer(self, session: str, answer: Answer, question: str | None = None, confirmed: bool = False) -> Interview:
        """Pass on the person's answer to the question asked, or to another `question` by its name: one that nobody
        asked yet, or one whose answer the person corrects. null: the person does not know. Set `confirmed` only if the
        person confirms a number that was doubted."""

        def move(own: Session) -> None:
            if question is not None and own.place_of(question) in {own.place_of(name) for name in own.answers}:
                own.change(question, answer, confirmed=confirmed)
            elif answer is None and (question is None or own.ask().query == own.place_of(question)):
                own.dont_know()
            elif answer is None:
                raise ValueError(f"“{question}” is not what is asked now: leave out what nobody knows.")
            else:
                own.tell(answer, question, confirmed=confirmed)

        return self._moved(session, move)

    def skip(self, session: str) -> Interview:
        """Put the question off: another one is asked now, and this one comes back if nothing else is left."""
        return self._moved(session, Session.skip)

    def undo(self, session: str) -> Interview:
        """Take back the last answer, or whatever else was done last."""
        return self._moved(session, Session.undo)

    def reject(self, session: str, label: str | None = None) -> Interview:
        """Note that the person says the result, or another label, is wrong: it is excluded, and the interview goes
        on."""
        return self._moved(session, lambda own: own.reject(*([] if label is None else [label])))

    def go_on(self, session: str) -> Interview:
        """Ask on, although the model is sure enough."""
        return self._moved(session, Session.go_on)

    def why(self, session: str) -> Reason:
        """Explain why the question is asked: what it is expected to tell, and what each answer would change."""
        with self._lock:
            why = _checked(self._session(session)[1].why)
        others = tuple(OpenQuestion(other.name, other.text) for other in why.next_best)
        return Reason(str(why), why.question.bits, others)

    def predict(self, model: str, answers: dict[str, Answer], confirmed: bool = False) -> Prediction:
        """Predict from any subset of the answers, without an interview: calibrated probabilities, and what the model
        would ask next. Set `confirmed` only if the person confirms a number that was doubted."""
        served = self._found(model)
        with self._lock:
            state = _checked(_begun, served, answers, confirmed).state(served.title, served.experience)
        return Prediction(state.belief, state.answers, state.question, state.result, state.also)

    async def ask_person(self, session: str, context: Context) -> Interview | InputRequiredResult:
        """Let the client ask the person the next questions itself, up to eight of them, and return where the interview
        stands. Call it again while `done` is false. To decline a question is to skip it; to cancel ends the asking."""
        capabilities = context.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            raise ToolError("This client cannot ask the person itself: ask the question, and pass on what is answered.")
        if (context.protocol_version or "") >= STATELESS_SINCE:
            return await self._ask_by_result(session, context)
        for _ in range(MOST_AT_ONCE):
            question = self._open_question(session)
            if question is None:
                break
            request = _form(question)
            replied = await context.session.elicit_form(request.message, request.requested_schema, context.request_id)
            if not await anyio.to_thread.run_sync(self._take, session, replied):
                break
        return self._moved(session)

    async def _ask_by_result(self, session: str, context: Context) -> Interview | InputRequiredResult:
        """Ask one question a round. The state that the client brings back says what was asked, and how many were."""
        asked = json.loads(context.request_state or '{"n": 0, "question": ""}')
        question = self._open_question(session)
        replied = (context.input_responses or {}).get(ANSWER)
        if isinstance(replied, ElicitResult) and question is not None and question.name == asked["question"]:
            goes_on = await anyio.to_thread.run_sync(self._take, session, replied)
            question = self._open_question(session) if goes_on else None
        if question is None or asked["n"] >= MOST_AT_ONCE:
            return self._moved(session)
        return InputRequiredResult(
            input_requests={ANSWER: ElicitRequest(params=_form(question))},
            request_state=json.dumps({"n": asked["n"] + 1, "question": question.name}),
        )

    def _take(self, session: str, replied: ElicitResult) -> bool:
        """Take what a person replied; false: the person has had enough."""
        if replied.action == "cancel":
            return False
        content = replied.content or {}
        answer = content.get(ANSWER)

        def move(own: Session) -> None:
            if replied.action == "decline" and own.can_skip:
                own.skip()
            elif replied.action == "decline" or content.get(DONT_KNOW) or answer in (None, ""):
                own.dont_know()
            else:
                own.tell(answer, confirmed=True)  # the form has said which numbers are usual

        self._moved(session, move)
        return True

    def _open_question(self, session: str) -> Question | None:
        return self._moved(session).question

    def _moved(self, name: str, move: Callable[[Session], None] = lambda _: None) -> Interview:
        with self._lock:
            served, session = self._session(name)
            _checked(move, session)
            return _interview(name, served, session)

    def _session(self, name: str) -> tuple[ServedModel, Session]:
        if name not in self._sessions:
            raise ToolError("There is no such session. It may have been too long ago: start a new one.")
        self._sessions.move_to_end(name)
        return self._sessions[name]

    def _found(self, model: str) -> ServedModel:
        return _checked(self.models.find, model)


def _checked(function: Callable[..., R], *arguments: Any, **named: Any) -> R:
    """What a function returns. What it refuses is told to the language model as a sentence."""
    try:
        return function(*arguments, **named)
    except DoubtfulAnswer as error:
        raise ToolError(f"{error.doubt} If the person confirms it, call this again with confirmed = true.") from None
    except (ValueError, Problem) as error:
        raise ToolError(str(error)) from None


def _begun(served: ServedModel, known: dict[str, Answer], confirmed: bool) -> Session:
    session = served.session()
    for name, answer in known.items():
        if answer is not None:
            session.tell(answer, name, confirmed=confirmed, unasked=True)
    return session


def _interview(name: str, served: ServedModel, session: Session) -> Interview:
    state = session.state(served.title, served.experience)
    left, result = state.questions_left, state.result
    parts = (state.question, left, state.belief, state.answers, result, state.can_skip, state.can_go_on, state.also)
    return Interview(name, served.id, state.done, *parts)


def _form(question: Question) -> ElicitRequestFormParams:
    """A question as a form with one field, and a box for people who do not know."""
    field: dict[str, Any] = {"title": question.unit or "Answer"}
    if question.kind == "number":
        low, high = question.seen or (None, None)
        usual = "" if low is None else f"Usually between {low:g} and {high:g}."
        ends = {"minimum": question.low, "maximum": question.high}
        field |= {"type": "number", "description": usual} | {k: v for k, v in ends.items() if v is not None}
    elif question.kind == "date":
        field |= {"type": "string", "format": "date-time" if question.has_time else "date"}
    else:
        field |= {"type": "string", "enum": [choice.value for choice in question.choices]}
    unknown = {"type": "boolean", "title": "I don't know", "default": False}
    message = f"{question.text}\n{question.help}" if question.help else question.text
    schema = {"type": "object", "properties": {ANSWER: field, DONT_KNOW: unknown}}
    return ElicitRequestFormParams(message=message, requested_schema=schema)


def card(served: ServedModel) -> str:
    """A model before it is used, as Markdown: what it predicts, how good it is, and what it asks."""
    summary, lines = served.summary(), [f"# {served.title}", ""]
    lines += [*summary.facts, ""]
    unknown = ["It was not measured on rows that it has not seen."]
    quality = unknown if summary.quality is None else summary.quality.sentences
    lines += ["## How good it is", "", *quality, "", "## What it asks", ""]
    for question in served.questions.questions:
        allowed = ", ".join(choice.text for choice in question.choices) or f"{question.kind} {question.unit}".strip()
        lines.append(f"- `{question.name}`: {question.text} ({allowed})")
    if served.labels:
        lines += ["", "## What it may say", "", ", ".join(served.labels)]
    return "\n".join(lines) + "\n"


READS = ("list_models", "list_questions", "why", "predict")
MOVES = ("start", "answer", "skip", "undo", "reject", "go_on", "ask_person")


def make_server(models: ServedModels) -> MCPServer:
    """The server of these models, for any transport."""
    if any(model.estimator.model_.query_set.patches is not None for model in models.values()):
        raise ValueError("A model that looks at pictures has nothing to ask in words: leave it out.")
    server: MCPServer = MCPServer(
        "pursuit",
        title="Interviews by a calibrated model",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
    )
    interviews = Interviews(models)
    for name in (*READS, *MOVES):
        hints = ToolAnnotations(read_only_hint=name in READS, destructive_hint=False, open_world_hint=False)
        server.add_tool(getattr(interviews, name), annotations=hints)
    for model in models.values():
        server.add_resource(
            FunctionResource(
                uri=f"pursuit://models/{model.id}",
                name=model.id,
                title=model.title,
                description="What the model predicts, how good it is, and what it asks.",
                mime_type="text/markdown",
                fn=partial(card, model),
            )
        )
    return server


def make_app(server: MCPServer, token: str | None = None, hosts: tuple[str, ...] = ()) -> ASGIApp:
    """The server as a web application at /mcp, which only those may use who know the token, if there is one."""
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the guard looks at names and origins
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=unchecked)
    known = None if token is None else Token(token)
    guarded = Authentication(app, Limits(Rates()), known, None, b"")
    return Guard(guarded, hosts=hosts, origins=(), picture_bytes=0)
