"""What the API says of models, and asks without keeping anything."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from pursuit.web.serving import schemas
from pursuit.web.serving.parameters import ALWAYS, NOT_FOUND, Model, Parts, PngResponse
from pursuit.web.serving.pictures import Picture
from pursuit.web.serving.problems import NotFound, NotYet
from pursuit.web.serving.security import REPORT_POLICY

router = APIRouter(prefix="/api/models", tags=["models"], responses=ALWAYS)


@router.get("", summary="All models")
def list_models(parts: Parts) -> schemas.Models:
    """What is served. The quality of a model is measured when the server starts, and null until then."""
    return schemas.Models(models=[model.summary() for model in parts.models.values()])


@router.get("/{model_id}", summary="All about one model", responses=NOT_FOUND)
def show_model(model: Model) -> schemas.ModelDetails:
    """Quality, calibration, the tree of the first questions and which of them matter, where there are rows to measure
    on, once that is done."""
    return model.details()


@router.get("/{model_id}/questions", summary="All questions of a model", responses=NOT_FOUND)
def list_questions(model: Model) -> schemas.Questions:
    """What may be told unasked, and how."""
    return model.questions


@router.get(
    "/{model_id}/report", summary="The report on a model, as a page", responses=NOT_FOUND, response_class=HTMLResponse
)
def show_report(model: Model) -> HTMLResponse:
    """One page that is whole by itself, to be read or printed."""
    report = model.report
    if report is None and not model.is_measured:
        raise NotYet("This model is being measured. Look again in a minute.")
    if report is None:
        raise NotFound("This model was not measured: the rows that it was trained on are not here.")
    return HTMLResponse(report.html(), headers={"Content-Security-Policy": REPORT_POLICY})


@router.post("/{model_id}/next", summary="The next question, given all answers so far", responses=NOT_FOUND)
def ask_next(parts: Parts, model: Model, evidence: schemas.Evidence) -> schemas.Next:
    """All evidence at once, and nothing is kept: the next question, the belief, and why this is asked."""
    return parts.next(model.id, evidence)


@router.get("/{model_id}/samples", summary="Pictures to try a model with", responses=NOT_FOUND, tags=["pictures"])
def list_samples(model: Model) -> schemas.Samples:
    """Of models that look at pictures and whose data are on the machine; an empty list for others."""
    labels = () if model.samples is None else model.samples.labels
    return schemas.Samples(
        samples=[
            schemas.Sample(n=n, label=label, url=f"/api/models/{model.id}/samples/{n}.png")
            for n, label in enumerate(labels)
        ]
    )


@router.get(
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
