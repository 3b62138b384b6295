"""What routes share: the parts of the server, and parameters of addresses."""

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response

from pursuit.web.serving import schemas
from pursuit.web.serving.models import ServedModel
from pursuit.web.serving.sessions import Interviews


def interviews(request: Request) -> Interviews:
    found: Interviews = request.app.state.interviews
    return found


Parts = Annotated[Interviews, Depends(interviews)]
SessionId = Annotated[schemas.Text, Path(description="The id of a session.", examples=["Zb1nV0b8vQ4hR2xk9sT3uw"])]


def _model(
    parts: Parts, model_id: Annotated[schemas.Text, Path(description="The id of a model.", examples=["animals"])]
) -> ServedModel:
    return parts.models.find(model_id)


Model = Annotated[ServedModel, Depends(_model)]
SearchText = Annotated[
    schemas.Text, Query(alias="query", description="Words that the model, the result or an answer must hold.")
]
OfModel = Annotated[schemas.Text | None, Query(alias="model", description="Only sessions with this model.")]


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
