"""What routes share: the parts of the server, and parameters of addresses."""

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request

from pursuit.web.serving import schemas
from pursuit.web.serving.interviews import Interviews
from pursuit.web.serving.models import ServedModel


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

_PROBLEM: dict[str, Any] = {"model": schemas.Problem}
NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {**_PROBLEM, "description": "There is no such thing."}}
REFUSED: dict[int | str, dict[str, Any]] = {
    **NOT_FOUND,
    422: {**_PROBLEM, "description": "What was sent cannot be used; the message says why."},
}
MOVED: dict[int | str, dict[str, Any]] = {
    **REFUSED,
    409: {**_PROBLEM, "description": "Somebody else moved meanwhile, or the model asks other questions now."},
}
