"""The server as an application: routes, errors as sentences, and what guards them."""

import logging
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import TypeAdapter
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match, Route

from pursuit.version import __version__
from pursuit.web.serving.auth import SECONDS_AT_ONCE, Authentication, Limits, Rates, Token
from pursuit.web.serving.batches import MoveBatches
from pursuit.web.serving.interviews import Interviews
from pursuit.web.serving.models import ServedModels
from pursuit.web.serving.options import ServingOptions
from pursuit.web.serving.pages import ASSETS, FOLDER, Assets, of_pages, read_frame
from pursuit.web.serving.pictures import MOST_BYTES
from pursuit.web.serving.problems import Problem
from pursuit.web.serving.routes import of_models, of_sessions
from pursuit.web.serving.security import BROKEN, Guard
from pursuit.web.serving.store import RetentionLoop, Store, first_line
from pursuit.web.serving.webhook import Webhook

ROUTERS = (of_sessions, of_models, of_pages)
N_THREADS = 16
"""How many requests of sessions are worked on at once, of which one computes."""
SECONDS_TO_END = 5.0
"""For the measurement of a model that is under way, and as long again for whatever else does not end by itself."""
ROOM_FOR_FORM = 100_000
"""Bytes of a form beside its picture."""
logger = logging.getLogger("pursuit.serving")


class Api(FastAPI):
    """FastAPI, whose description of itself is put right in one place."""

    def openapi(self) -> dict[str, Any]:
        """The description. FastAPI takes a refusal for whatever else the route gives, a picture for instance, and a
        picture for text. What the server sends has all of its fields, those with a default, too."""
        if self.openapi_schema is not None:
            return self.openapi_schema
        described = super().openapi()
        for name, schema in described["components"]["schemas"].items():
            is_received = schema.get("additionalProperties") is False or name.startswith("Body_")  # or a form
            if "properties" in schema and not is_received and name != "Problem":
                schema["required"] = list(schema["properties"])
        for operation in [one for path in described["paths"].values() for one in path.values()]:
            for status, response in operation["responses"].items():
                if status >= "400" and "content" in response:
                    response["content"] = {"application/json": next(iter(response["content"].values()))}
                for kind in set(response.get("content", ())) & {"image/png"}:
                    response["content"][kind]["schema"]["format"] = "binary"
        return described


def make_app(
    models: ServedModels,
    store: Store,
    options: ServingOptions | None = None,
    *,
    routers: Sequence[APIRouter] = (),
    rates: Rates | None = None,
    token: str | None = None,
    operator_token: str | None = None,
    api_keys: Mapping[str, str] | None = None,
    webhook_secret: str | None = None,
    ends_process: bool = False,
) -> Guard:
    """The application that asks with these models and keeps sessions in this store.

    It answers to addresses, to localhost and to the hosts in `options`; pages of other origins may use it only if they
    are named. With a `token`, it answers to those who know it; who knows the `operator_token` may list the sessions of
    all; `api_keys` are tokens of programs, by name, and `webhook_secret` signs what a webhook is told. `routers` are
    further addresses. `rates` are by default those of the options. With `ends_process`, the process ends for certain
    once the server was told to stop.
    """
    options = options or ServingOptions()
    origins, lists_sessions = options.origins or [], options.lists_sessions
    rates = rates or Rates(options.rate, SECONDS_AT_ONCE * options.rate, options.new_sessions)
    webhook = None if options.webhook is None else Webhook(options.webhook, webhook_secret)
    retaining = RetentionLoop(store, options.keep_days, options.most_sessions)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        app.state.interviews.threads = anyio.CapacityLimiter(N_THREADS)
        ends = threading.Event()
        measuring = threading.Thread(target=models.measure_all, args=(ends,), daemon=True)
        measuring.start()
        threading.Thread(target=retaining.run, args=(ends,), daemon=True).start()
        if webhook is not None:
            threading.Thread(target=webhook.run, args=(ends,), daemon=True).start()
        yield
        ends.set()
        if ends_process:
            _end_after(2 * SECONDS_TO_END)
        measuring.join(SECONDS_TO_END)  # a process that ends while torch computes may end with an abort
        store.close()

    app = Api(
        title="pursuit",
        version=__version__,
        summary="Predictions that explain themselves by the questions they ask.",
        openapi_url="/api/openapi.json",
        generate_unique_id_function=lambda route: route.endpoint.__name__,  # names of functions in generated clients
        docs_url=None,  # these pages would be fetched from other hosts
        redoc_url=None,
        openapi_tags=[
            {"name": "models", "description": "What is served, how good it is, and the next question."},
            {"name": "sessions", "description": "Interviews that are kept: moves, reports, truth, accuracy over time."},
            {"name": "pictures", "description": "Models that look at a picture patch by patch."},
        ],
        lifespan=lifespan,
        exception_handlers={
            Problem: _explain_problem,
            RequestValidationError: _explain_request,
            HTTPException: _explain_status,
            SQLAlchemyError: _explain_database,
            Exception: _explain_nothing,
        },
    )
    app.state.interviews = Interviews(models, store, retaining, lists_sessions)
    app.state.batches = MoveBatches(app.state.interviews)
    app.state.interviews.on_end = None if webhook is None else webhook.note_end
    app.state.embedders = tuple(options.embed or ())
    app.state.frame = read_frame(lists_sessions, options.keep_days, options.words)
    app.mount(ASSETS, Assets(directory=FOLDER))
    visitors, operator = (None if secret is None else Token(secret) for secret in (token, operator_token))
    app.state.operator = operator
    app.add_middleware(
        Authentication,
        limits=Limits(rates),
        token=visitors,
        operator=operator,
        frame=app.state.frame,
        keys={name: Token(key) for name, key in (api_keys or {}).items()},
    )
    app.state.routers = (*ROUTERS, *routers)
    for router in app.state.routers:
        app.include_router(router)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["authorization", "content-type"],
            expose_headers=["retry-after"],
        )
    # Around all of it, since what fails inside is answered from further out than any middleware.
    limit = MOST_BYTES + ROOM_FOR_FORM
    return Guard(app, options.hosts or (), origins, picture_bytes=limit, embedders=options.embed or ())


def _end_after(seconds: float) -> None:
    """End the process, whatever still runs in it: nothing that was answered is lost by that."""
    timer = threading.Timer(seconds, os._exit, [1])
    timer.daemon = True
    timer.start()


async def _explain_problem(request: Request, problem: Problem) -> Response:
    if problem.status == 404 and _is_looking(request):
        return _nothing_here(request)
    return Response(TypeAdapter(Any).dump_json(problem.body), problem.status, media_type="application/json")


async def _explain_request(_: Request, error: RequestValidationError) -> Response:
    return JSONResponse({"message": request_problem(error)}, 422)


async def _explain_status(request: Request, error: HTTPException) -> Response:
    message = {
        400: "The request cannot be read: it must be JSON, and not nested too deeply.",
        404: "There is nothing at this address. /api/openapi.json says what there is.",
        405: "This address does not take that kind of request. /api/openapi.json says what there is.",
    }
    if error.status_code == 404 and _is_looking(request):
        return _nothing_here(request)
    headers = error.headers
    if error.status_code == 405 and (methods := _methods(request)):  # by itself, only one route would be named
        headers = {"Allow": ", ".join(methods)}
    return JSONResponse({"message": message.get(error.status_code, error.detail)}, error.status_code, headers)


def _is_looking(request: Request) -> bool:
    """Whether a person opened an address in a browser."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def _nothing_here(request: Request) -> Response:
    """The page, which says that there is nothing at its address."""
    frame: bytes = request.app.state.frame
    return HTMLResponse(frame.replace(b"<html ", b'<html data-missing="yes" ', 1), 404)


def _methods(request: Request) -> list[str]:
    """What an address takes."""
    routes = [route for router in request.app.state.routers for route in router.routes if isinstance(route, Route)]
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in matching for method in route.methods or ()})


async def _explain_database(_: Request, error: Exception) -> Response:
    cause = getattr(error, "orig", None) or error
    logger.error("The database failed: %s", first_line(cause) if isinstance(error, OperationalError) else type(cause))
    return JSONResponse({"message": "The sessions cannot be reached at the moment. Try again in a minute."}, 503)


async def _explain_nothing(_: Request, error: Exception) -> Response:
    return JSONResponse({"message": BROKEN}, 500)


def request_problem(error: RequestValidationError) -> str:
    """What is wrong with a request, in a sentence."""
    errors = error.errors()
    told = [one for one in errors if one["type"] in ("value_error", "string_too_long", "too_long")]
    first = (told or errors)[0]
    parts = [str(part) for part in first["loc"][1:]]  # the first says in which part of the request
    where = parts[0] if parts else "body"
    match first["type"]:
        case "json_invalid":
            return "The request is not JSON."
        case "missing" if not parts:
            return "The request has no content: send JSON."
        case "missing":
            return f"“{'.'.join(parts)}” is missing."
        case "extra_forbidden":
            return f"“{'.'.join(parts)}” is not known here: leave it out. /api/openapi.json says what there is."
        case "model_attributes_type" | "dict_type" if not parts:
            return "The request must be a JSON object, sent as application/json."
    if not told and len(errors) > 1 and len({one["loc"][:2] for one in errors}) == 1:  # none of several kinds
        return f"“{where}” cannot be used: it must be a text, a number, yes or no, or null."
    reason = str(first["msg"]).removeprefix("Value error, ")
    return f"“{where}” cannot be used: {reason[:1].lower()}{reason[1:]}."
