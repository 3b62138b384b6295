"""What the API does with models and with sessions."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Annotated, Any, ParamSpec, TypeVar, cast

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, File, Form, Path, Query, Request, UploadFile
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from pursuit.queries.own_words import MOST_CHARACTERS, Suggestion
from pursuit.queries.questions import Presentation
from pursuit.sessions.why import Why
from pursuit.web.serving import schemas
from pursuit.web.serving.batches import MoveBatches
from pursuit.web.serving.browser import Browser
from pursuit.web.serving.interviews import Interviews, accuracy_of, csv_lines
from pursuit.web.serving.models import ServedModel
from pursuit.web.serving.pictures import MOST_BYTES, Picture
from pursuit.web.serving.problems import NotFound, NotYet, Refused
from pursuit.web.serving.security import REPORT_POLICY, too_large
from pursuit.web.serving.store import Search


async def interviews(request: Request) -> Interviews:
    found: Interviews = request.app.state.interviews
    return found


Parts = Annotated[Interviews, Depends(interviews)]
SessionId = Annotated[schemas.Text, Path(description="The id of a session.", examples=["Zb1nV0b8vQ4hR2xk9sT3uw"])]


async def _model(
    parts: Parts, model_id: Annotated[schemas.Text, Path(description="The id of a model.", examples=["animals"])]
) -> ServedModel:
    return parts.models.find(model_id)


Model = Annotated[ServedModel, Depends(_model)]
SearchText = Annotated[
    schemas.Text, Query(alias="query", description="Words that the model, the result or an answer must hold.")
]
OfModel = Annotated[schemas.Text | None, Query(alias="model", description="Only sessions with this model.")]


IsAll = Annotated[bool, Query(alias="all", description="Those of everybody, which only the operator may see.")]


async def _browser(request: Request, response: Response) -> Browser:
    return Browser(request, response)


Own = Annotated[Browser, Depends(_browser)]


async def _search(browser: Own, text: SearchText = "", model: OfModel = None, is_all: IsAll = False) -> Search:
    return browser.search(text, model, is_all)


OwnSearch = Annotated[Search, Depends(_search)]


Given = ParamSpec("Given")
Found = TypeVar("Found")


def in_session(function: Callable[Given, Found]) -> Callable[Given, Awaitable[Found]]:
    """Run it in one of the threads for sessions, which may wait for the database: pages and models have others."""

    @wraps(function)
    async def run(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        parts = cast(Interviews, kwargs["parts"])
        return await run_sync(partial(function, *args, **kwargs), limiter=parts.threads)

    return run


class PngResponse(Response):
    media_type = "image/png"


Responses = dict[int | str, dict[str, Any]]


def _problems(**texts: str) -> Responses:
    return {int(code[1:]): {"model": schemas.Problem, "description": text} for code, text in texts.items()}


ALWAYS = _problems(
    _400="The request cannot be read.",
    _401="The server asks for a token, and this is not it.",
    _403="A page of another site may not do that.",
    _413="That is too much at once.",
    _421="The server does not go by that name.",
    _422="What was sent cannot be used; the message says why.",
    _429="That was too often: Retry-After says in how many seconds to come again.",
    _500="Something went wrong on the server.",
    _503="The sessions cannot be reached, or what is asked for is still being made.",
)
"""What any request may be answered."""
NOT_FOUND = _problems(_404="There is no such thing.")
FULL = NOT_FOUND | _problems(_507="There is no room for another session.")
MOVED = NOT_FOUND | _problems(_409="Somebody else moved meanwhile, or the model asks other questions now.")


of_models = APIRouter(prefix="/api/models", tags=["models"], responses=ALWAYS)


@of_models.get("", summary="All models")
def list_models(parts: Parts) -> schemas.Models:
    """What is served. The quality of a model is measured when the server starts, and null until then."""
    return schemas.Models(models=[model.summary() for model in parts.models.values()])


@of_models.get("/{model_id}", summary="All about one model", responses=NOT_FOUND)
def show_model(model: Model) -> schemas.ModelDetails:
    """Quality, calibration, the tree of the first questions and which of them matter, where there are rows to measure
    on, once that is done."""
    return model.details()


@of_models.get("/{model_id}/questions", summary="All questions of a model", responses=NOT_FOUND)
def list_questions(model: Model) -> schemas.Questions:
    """What may be told unasked, and how."""
    return model.questions


@of_models.get("/{model_id}/interview", summary="How the interview is presented", responses=NOT_FOUND)
def show_interview(model: Model) -> Presentation:
    """Title, introduction, consent, contact, colour, logo, and what to say and do for each result."""
    return model.presentation


@of_models.get(
    "/{model_id}/report",
    name="show_report",
    summary="The report on a model, as a page",
    responses=NOT_FOUND,
    response_class=HTMLResponse,
)
def show_model_report(model: Model) -> HTMLResponse:
    """One page that is whole by itself, to be read or printed."""
    report = model.report
    if report is None and not model.is_measured:
        raise NotYet("This model is being measured. Look again in a minute.")
    if report is None:
        raise NotFound("This model was not measured: the rows that it was trained on are not here.")
    return HTMLResponse(report.html(), headers={"Content-Security-Policy": REPORT_POLICY})


@of_models.post("/{model_id}/next", summary="The next question, given all answers so far", responses=NOT_FOUND)
@in_session
def ask_next(parts: Parts, model: Model, evidence: schemas.Evidence) -> schemas.Next:
    """All evidence at once, and nothing is kept: the next question, the belief, and why this is asked."""
    return parts.next(model.id, evidence)


@of_models.get("/{model_id}/samples", summary="Pictures to try a model with", responses=NOT_FOUND, tags=["pictures"])
def list_samples(model: Model) -> schemas.Samples:
    """Of models that look at pictures and whose data are on the machine; an empty list for others."""
    labels = () if model.samples is None else model.samples.labels
    return schemas.Samples(
        samples=[
            schemas.Sample(n=n, label=label, url=f"/api/models/{model.id}/samples/{n}.png")
            for n, label in enumerate(labels)
        ]
    )


@of_models.get(
    "/{model_id}/samples/{n}.png",
    summary="One of these pictures",
    responses=NOT_FOUND,
    response_class=PngResponse,
    tags=["pictures"],
)
def show_sample(model: Model, n: Annotated[int, Path(description="Its number.", ge=0, le=10**6)]) -> PngResponse:
    return PngResponse(sample_picture(model, n).revealed(model.estimator.model_.query_set))


def sample_picture(model: Model, n: int) -> Picture:
    """The sample of this number; raises NotFound."""
    samples = model.samples
    if samples is None or not 0 <= n < len(samples.labels):
        raise NotFound(f"There is no sample picture {n} of this model.")
    return Picture(samples.pixels[n])


def check_consent(model: ServedModel, consented: bool) -> None:
    """Raise Refused where a person has not agreed to what the interview asks consent to."""
    if model.presentation.consent and not consented:
        raise Refused('This interview begins once the person agrees: send "consented": true.')


class CsvResponse(StreamingResponse):
    media_type = "text/csv"


of_sessions = APIRouter(prefix="/api", tags=["sessions"], responses=ALWAYS)
# Addresses are tried in their order, so what is asked for most comes first.


@of_sessions.post("/sessions/{session_id}/moves", summary="Answer, or do something else", responses=MOVED)
async def make_move(request: Request, session_id: SessionId, move: schemas.Move) -> schemas.Session:
    """One move at a time: it counts only if the session is still at the `revision` that the client has seen."""
    batches: MoveBatches = request.app.state.batches
    return await batches.move(session_id, move)


@of_sessions.post("/sessions", summary="Begin a session", status_code=201, responses=FULL)
@in_session
def begin_session(parts: Parts, browser: Own, new: schemas.NewSession) -> schemas.Session:
    """With a model, and perhaps with answers that are known already, or with one of its sample pictures. A browser gets
    a cookie, by which it finds its own sessions again."""
    model = parts.models.find(new.model)
    picture = None if new.sample is None else sample_picture(model, new.sample)
    check_consent(model, new.consented)
    return parts.begin(new.model, new.known, picture, new.title, browser.owner())


@of_sessions.post(
    "/sessions/picture",
    summary="Begin a session with a picture",
    status_code=201,
    responses=FULL,
    tags=["pictures"],
)
async def begin_with_picture(
    parts: Parts,
    browser: Own,
    model: Annotated[schemas.Text, Form(description="The id of the model.")],
    picture: Annotated[UploadFile, File(description="A PNG or JPEG file of at most 5 MB.")],
    title: Annotated[schemas.Text, Form()] = "",
    consented: Annotated[bool, Form()] = False,
) -> schemas.Session:
    """The picture answers the questions: the move `reveal` shows the model the patch that it asks for."""
    served = parts.models.find(model)
    check_consent(served, consented)
    data = await picture.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Refused(too_large(MOST_BYTES))
    query_set = served.estimator.model_.query_set
    samples = None if query_set.patches is None else await run_sync(lambda: served.samples)
    read = await Picture.decode(data, query_set, None if samples is None else samples.pixels)
    begin = partial(parts.begin, model, None, read, title, browser.owner())
    return await run_sync(begin, limiter=parts.threads)


@of_sessions.get("/sessions", summary="Past sessions", responses=NOT_FOUND)
@in_session
def find_sessions(
    parts: Parts,
    search: OwnSearch,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> schemas.Sessions:
    """Those that this browser began, the newest first; `all`: those of everybody, for the operator."""
    return parts.find(search, limit, offset)


@of_sessions.get("/sessions.csv", summary="Past sessions as a table", response_class=CsvResponse, responses=NOT_FOUND)
@in_session
def export_sessions(parts: Parts, search: OwnSearch) -> CsvResponse:
    """All that the same search finds, the oldest first. Texts that a spreadsheet would take for formulas get an
    apostrophe."""
    name = {"Content-Disposition": 'attachment; filename="sessions.csv"'}
    return CsvResponse(csv_lines(parts.store.each(search)), headers=name)


@of_sessions.get("/accuracy", summary="How often sessions were right, over time", responses=NOT_FOUND)
@in_session
def show_accuracy(parts: Parts, search: OwnSearch) -> schemas.Accuracy:
    """Of those whose true result is known. One in which a guess was called wrong counts as wrong."""
    return accuracy_of(parts.store.judged(search))


@of_sessions.get(
    "/watch/{model_id}",
    summary="What sessions say of a model, as a page for the operator",
    responses=NOT_FOUND,
    response_class=HTMLResponse,
)
@in_session
def show_watch(parts: Parts, browser: Own, model: Model) -> HTMLResponse:
    """Accuracy, calibration, questions and answers over time, and an alarm where a promise is not kept."""
    browser.search("", None, is_all=True)  # which only the operator may
    return HTMLResponse(parts.watch(model).html(model.title), headers={"Content-Security-Policy": REPORT_POLICY})


@of_sessions.get("/sessions/{session_id}", summary="Where a session stands", responses=MOVED)
@in_session
def show_session(parts: Parts, session_id: SessionId) -> schemas.Session:
    return parts.show(session_id)


@of_sessions.get("/sessions/{session_id}/why", summary="Why the question is asked", responses=MOVED)
@in_session
def show_why(parts: Parts, session_id: SessionId) -> Why:
    """What the question is expected to tell, the next best ones, and what each answer would change."""
    return parts.why(session_id)


@of_sessions.put("/sessions/{session_id}/truth", summary="Note what it really was", responses=MOVED)
@in_session
def note_truth(parts: Parts, session_id: SessionId, truth: schemas.Truth) -> schemas.Session:
    """It may be something that the model does not know. null takes it back."""
    return parts.note_truth(session_id, truth.label)


@of_sessions.delete("/sessions/{session_id}", summary="Delete a session", status_code=204, responses=NOT_FOUND)
@in_session
def delete_session(parts: Parts, session_id: SessionId) -> None:
    """With its answers and its picture, for good."""
    parts.delete(session_id)


@of_sessions.get("/sessions/{session_id}/answers.json", summary="All that was said, as a file", responses=MOVED)
@in_session
def save_answers(parts: Parts, session_id: SessionId, response: Response) -> schemas.SavedAnswers:
    """For the person who said it, to take along."""
    response.headers["Content-Disposition"] = 'attachment; filename="answers.json"'
    return parts.answers(session_id)


@of_sessions.get(
    "/sessions/{session_id}/report",
    summary="The report on a session, as a page",
    responses=MOVED,
    response_class=HTMLResponse,
)
@in_session
def show_report(parts: Parts, session_id: SessionId) -> HTMLResponse:
    """One page that is whole by itself, to be read, printed or saved."""
    return HTMLResponse(parts.report(session_id), headers={"Content-Security-Policy": REPORT_POLICY})


@of_sessions.get(
    "/sessions/{session_id}/picture.png",
    summary="What a session has seen of its picture",
    responses=MOVED,
    response_class=PngResponse,
    tags=["pictures"],
)
@in_session
def show_picture(parts: Parts, session_id: SessionId) -> PngResponse:
    """Grey where nothing was looked at."""
    return PngResponse(parts.picture(session_id))


of_words = APIRouter(prefix="/api", tags=["sessions"], responses=ALWAYS)


class Said(schemas.Request):
    text: Annotated[str, schemas.Field(max_length=MOST_CHARACTERS)]
    """In a person's own words."""


class Suggestions(schemas.Reply):
    suggestions: list[Suggestion]
    """In the order of the words that led to them, the best guess at the same words first."""


@of_words.post("/sessions/{session_id}/suggestions", summary="What somebody's words may mean", responses=MOVED)
def suggest_answers(parts: Parts, session_id: SessionId, said: Said) -> Suggestions:
    """Answers that a sentence may mean. Nothing is changed: `tell` those that the person confirms."""
    return Suggestions(suggestions=list(parts.suggest(session_id, said.text)))
