"""What the API does with sessions."""

from typing import Annotated

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi.responses import HTMLResponse, StreamingResponse

from pursuit.sessions.why import Why
from pursuit.web.serving import schemas
from pursuit.web.serving.model_routes import sample_picture
from pursuit.web.serving.parameters import (
    ALWAYS,
    FULL,
    MOVED,
    NOT_FOUND,
    OfModel,
    Parts,
    PngResponse,
    SearchText,
    SessionId,
)
from pursuit.web.serving.pictures import MOST_BYTES, Picture
from pursuit.web.serving.problems import Refused
from pursuit.web.serving.security import REPORT_POLICY, too_large
from pursuit.web.serving.table import csv_lines
from pursuit.web.serving.truth import accuracy_of


class CsvResponse(StreamingResponse):
    media_type = "text/csv"


router = APIRouter(prefix="/api", tags=["sessions"], responses=ALWAYS)


@router.post("/sessions", summary="Begin a session", status_code=201, responses=FULL)
def begin_session(parts: Parts, new: schemas.NewSession) -> schemas.Session:
    """With a model, and perhaps with answers that are known already, or with one of its sample pictures."""
    picture = None if new.sample is None else sample_picture(parts.models.find(new.model), new.sample)
    return parts.begin(new.model, new.known, picture, new.title)


@router.post(
    "/sessions/picture",
    summary="Begin a session with a picture",
    status_code=201,
    responses=FULL,
    tags=["pictures"],
)
def begin_with_picture(
    parts: Parts,
    model: Annotated[schemas.Text, Form(description="The id of the model.")],
    picture: Annotated[UploadFile, File(description="A PNG or JPEG file of at most 5 MB.")],
    title: Annotated[schemas.Text, Form()] = "",
) -> schemas.Session:
    """The picture answers the questions: the move `reveal` shows the model the patch that it asks for."""
    served = parts.models.find(model)
    data = picture.file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Refused(too_large(MOST_BYTES))
    query_set = served.estimator.model_.query_set
    samples = None if query_set.patches is None else served.samples
    read = Picture.read(data, query_set, None if samples is None else samples.pixels)
    return parts.begin(model, None, read, title)


@router.get("/sessions", summary="Past sessions", responses=NOT_FOUND)
def find_sessions(
    parts: Parts,
    text: SearchText = "",
    model: OfModel = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> schemas.Sessions:
    """The newest first."""
    parts.check_listed()
    return parts.find(text, model, limit, offset)


@router.get("/sessions.csv", summary="Past sessions as a table", response_class=CsvResponse, responses=NOT_FOUND)
def export_sessions(parts: Parts, text: SearchText = "", model: OfModel = None) -> CsvResponse:
    """All that the same search finds, the oldest first. Texts that a spreadsheet would take for formulas get an
    apostrophe."""
    parts.check_listed()
    name = {"Content-Disposition": 'attachment; filename="sessions.csv"'}
    return CsvResponse(csv_lines(parts.store.each(text, model)), headers=name)


@router.get("/accuracy", summary="How often sessions were right, over time", responses=NOT_FOUND)
def show_accuracy(parts: Parts, model: OfModel = None) -> schemas.Accuracy:
    """Of those whose true result is known. One in which a guess was called wrong counts as wrong."""
    parts.check_listed()
    return accuracy_of(parts.store.each("", model, is_judged=True))


@router.get("/sessions/{session_id}", summary="Where a session stands", responses=MOVED)
def show_session(parts: Parts, session_id: SessionId) -> schemas.Session:
    return parts.show(session_id)


@router.get("/sessions/{session_id}/why", summary="Why the question is asked", responses=MOVED)
def show_why(parts: Parts, session_id: SessionId) -> Why:
    """What the question is expected to tell, the next best ones, and what each answer would change."""
    return parts.why(session_id)


@router.post("/sessions/{session_id}/moves", summary="Answer, or do something else", responses=MOVED)
def make_move(parts: Parts, session_id: SessionId, move: schemas.Move) -> schemas.Session:
    """One move at a time: it counts only if the session is still at the `revision` that the client has seen."""
    return parts.move(session_id, move)


@router.put("/sessions/{session_id}/truth", summary="Note what it really was", responses=MOVED)
def note_truth(parts: Parts, session_id: SessionId, truth: schemas.Truth) -> schemas.Session:
    """It may be something that the model does not know. null takes it back."""
    return parts.note_truth(session_id, truth.label)


@router.delete("/sessions/{session_id}", summary="Delete a session", status_code=204, responses=NOT_FOUND)
def delete_session(parts: Parts, session_id: SessionId) -> None:
    """With its answers and its picture, for good."""
    parts.delete(session_id)


@router.get(
    "/sessions/{session_id}/report",
    summary="The report on a session, as a page",
    responses=MOVED,
    response_class=HTMLResponse,
)
def show_report(parts: Parts, session_id: SessionId) -> HTMLResponse:
    """One page that is whole by itself, to be read, printed or saved."""
    return HTMLResponse(parts.report(session_id), headers={"Content-Security-Policy": REPORT_POLICY})


@router.get(
    "/sessions/{session_id}/picture.png",
    summary="What a session has seen of its picture",
    responses=MOVED,
    response_class=PngResponse,
    tags=["pictures"],
)
def show_picture(parts: Parts, session_id: SessionId) -> PngResponse:
    """Grey where nothing was looked at."""
    return PngResponse(parts.picture(session_id))
