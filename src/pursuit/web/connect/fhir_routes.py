"""The server's addresses for FHIR: `/fhir/metadata`, `/fhir/Questionnaire` and `$next-question`."""

import datetime
import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from pursuit.inference.pursuer import label_text
from pursuit.sessions.session import Session
from pursuit.sessions.state import State
from pursuit.version import __version__
from pursuit.web.connect.fhir import Form, Json, NotFhir, Sent, next_question, outcome
from pursuit.web.serving.interviews import Interviews
from pursuit.web.serving.models import ServedModel

BASE = "/fhir"
OPERATION = "http://hl7.org/fhir/uv/sdc/OperationDefinition/Questionnaire-next-question"

of_fhir = APIRouter(prefix=BASE, include_in_schema=False)  # FHIR describes itself, in /fhir/metadata


class FhirResponse(JSONResponse):
    media_type = "application/fhir+json"


def _interviews(request: Request) -> Interviews:
    found: Interviews = request.app.state.interviews
    return found


def _address(request: Request) -> str:
    return f"{str(request.base_url).rstrip('/')}{BASE}"


def _form(request: Request, model: ServedModel) -> Form:
    target = label_text(model.estimator.notes_.get("task", {}).get("target") or "result")
    url = f"{_address(request)}/Questionnaire/{model.id}"
    return Form(model.estimator.model_.query_set, model.title, url, target)


def _forms(request: Request) -> dict[str, Form]:
    models = _interviews(request).models.values()
    return {one.id: _form(request, one) for one in models if one.estimator.model_.query_set.patches is None}


@of_fhir.get("/metadata")
def show_capabilities(request: Request) -> FhirResponse:
    operation = {"name": "next-question", "definition": OPERATION}
    resource = {
        "type": "Questionnaire",
        "interaction": [{"code": "read"}, {"code": "search-type"}],
        "searchParam": [{"name": "url", "type": "uri"}],
        "operation": [operation],
    }
    return FhirResponse(
        {
            "resourceType": "CapabilityStatement",
            "status": "active",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "kind": "instance",
            "software": {"name": "pursuit", "version": __version__},
            "implementation": {"description": "Adaptive questionnaires", "url": _address(request)},
            "fhirVersion": "4.0.1",
            "format": ["json"],
            "rest": [{"mode": "server", "resource": [resource]}],
        }
    )


@of_fhir.get("/Questionnaire")
def list_questionnaires(request: Request, url: str | None = None) -> FhirResponse:
    """Adaptive questionnaires as a registry lists them: where to ask for the next question, without items."""
    forms = [form for form in _forms(request).values() if url in (None, form.url)]
    found = [form.questionnaire(with_items=False, endpoint=_address(request)) for form in forms]
    entries = [{"fullUrl": one["url"], "resource": one, "search": {"mode": "match"}} for one in found]
    return FhirResponse({"resourceType": "Bundle", "type": "searchset", "total": len(entries), "entry": entries})


@of_fhir.get("/Questionnaire/{model_id}")
def show_questionnaire(request: Request, model_id: str) -> FhirResponse:
    """Everything that a model may ask."""
    form = _forms(request).get(model_id)
    if form is None:
        return FhirResponse(outcome(f"There is no Questionnaire “{model_id}” here.", "not-found"), 404)
    return FhirResponse(form.questionnaire())


@of_fhir.post("/Questionnaire/$next-question")
async def ask_next_question(request: Request) -> FhirResponse:
    """The same QuestionnaireResponse with the next question, or completed with the result. Nothing is kept."""
    try:
        body: Any = json.loads(await request.body(), parse_constant=_refuse)
        json.dumps(body, ensure_ascii=False).encode()  # halves of characters cannot be sent back
        return FhirResponse(await run_in_threadpool(_answered, request, body))
    except NotFhir as error:
        return FhirResponse(outcome(str(error)), 400)
    except (ValueError, RecursionError) as error:  # those of JSON and of Unicode are such, too
        is_json = not isinstance(error, json.JSONDecodeError | UnicodeError | RecursionError)
        message = str(error) if is_json else "This is not JSON."
        return FhirResponse(outcome(message, "value"), 422)


def _refuse(constant: str) -> float:
    raise json.JSONDecodeError("not JSON", constant, 0)


def _answered(request: Request, body: Any) -> Json:
    sent, interviews = Sent.read(body), _interviews(request)
    model_id = sent.canonical.rsplit("/", 1)[-1]
    form = _forms(request).get(model_id)
    if form is None:
        raise NotFhir(f"There is no Questionnaire “{sent.canonical}” here: derivedFrom names one of those served.")
    model = interviews.models[model_id]

    def state_of(session: Session) -> State:
        return session.state(model.title, model.experience)

    with interviews.computing:
        return next_question(sent, form, model.session, state_of)


@of_fhir.api_route("/{address:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
def refuse(address: str) -> FhirResponse:
    """Whatever else a client of FHIR may try."""
    return FhirResponse(outcome(f"There is nothing like that at {BASE}/{address}.", "not-supported"), 404)
