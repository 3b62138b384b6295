"""`pursuit serve`: models ask people on a web page; `pursuit mcp`: they are tools of a language model."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pursuit.cli.console import say, show
from pursuit.files import check_model
from pursuit.registry import Also, Option, Stop
from pursuit.version import require
from pursuit.web.serving.options import ServingOptions


def serve(
    *,
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of trained models, or one that holds several; by default those of the demonstration.",
            metavar="[MODEL]…",
        ),
    ] = None,
    host: Annotated[str, Option("The address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, Option("The port; 0 takes any that is free.", min=0, max=65535)] = 8000,
    serving: ServingOptions,
    workers: Annotated[int, Option("How many processes serve.", min=1, max=64)] = 1,
    token: Annotated[
        str | None,
        Option(
            "A secret of at least 16 characters that people must know; by default PURSUIT_TOKEN, which, unlike "
            "an option, nobody else on this machine can read."
        ),
    ] = None,
    operator_token: Annotated[
        str | None,
        Option(
            "A secret with which the operator lists the sessions of all, at /operator; by default "
            "PURSUIT_OPERATOR_TOKEN. Without one, nobody can list them."
        ),
    ] = None,
    api_keys: Annotated[
        Path | None, Option("A file with a line NAME KEY for each program that may use the API, and no others.")
    ] = None,
    token_file: Annotated[Path | None, Option("A file that holds the token.")] = None,
    open_browser: Annotated[
        bool | None, Option("Open the page; by default where there is a screen.", "--open/--no-open")
    ] = None,
) -> None:
    """Serve models on a web page, with an API: people are asked, and their sessions are kept."""
    require("serve", "The server", "fastapi", "uvicorn", "sqlalchemy", "multipart", "PIL")
    for folder in models or ():
        check_model(folder)
    say(f"Loading {', '.join(map(str, models)) if models else 'the models of the demonstration'} …")
    from pursuit.cli.served_models import default_models, find_samples, measure, models_in
    from pursuit.web.serving.auth import OPERATOR_VARIABLE, VARIABLE, read_keys, read_token
    from pursuit.web.serving.running import Settings, address_of, bound, is_loopback, run, run_workers
    from pursuit.web.serving.webhook import SECRET_VARIABLE

    secret = read_token(token or (None if token_file else os.environ.get(VARIABLE) or None), token_file)
    operators = read_token(operator_token or os.environ.get(OPERATOR_VARIABLE) or None, None)
    if operators is not None and operators == secret:
        raise ValueError("The operator's token must differ from the one that people know: give another.")
    keys = None if api_keys is None else read_keys(api_keys)
    if serving.embed and (secret or keys):
        raise ValueError("Browsers send no token from a frame: leave out --embed, or --token and --api-keys.")
    listening = bound(host, port)
    folders = tuple(str(folder.resolve()) for folder in (models_in(models) if models else default_models()))
    secrets: dict[str, Any] = {"api_keys": keys, "webhook_secret": os.environ.get(SECRET_VARIABLE) or None}
    settings = Settings(models=folders, token=secret, operator_token=operators, **secrets, **vars(serving))
    app, place = settings.make_app(measure, find_samples, _routers(settings))
    address = address_of(host, listening.getsockname()[1])
    show(f"Open {address} in your browser. Stop with Ctrl-C.")
    days = serving.keep_days
    until = "until somebody deletes them" if days is None else f"for {days:g} days after their last change"
    show(f"Sessions are kept in {place}, {until}.")
    if not is_loopback(host):
        show(_warning(secret is not None))
    shows = _has_screen() if open_browser is None else open_browser
    if workers == 1:
        run(app, settings, listening, address if shows else None)
    else:
        run_workers(f"{__name__}:app_of_worker", settings, listening, workers)


def _warning(has_token: bool) -> str:
    """A warning about access, for a server that other machines can reach."""
    if has_token:
        return "Whoever knows the token can use it. Without HTTPS in front, others on the network can read the token."
    return (
        "Anybody who reaches this machine can begin sessions, and read and delete those whose address is known: "
        "--token keeps others out."
    )


def app_of_worker() -> Any:
    """The application of one of several processes."""
    from pursuit.cli.app import load_plugins
    from pursuit.cli.served_models import find_samples, measure
    from pursuit.web.serving.running import Settings, end_with_parent

    end_with_parent()
    load_plugins([])
    settings = Settings.from_environment()
    app, _ = settings.make_app(measure, find_samples, _routers(settings))
    return app


def _routers(options: ServingOptions) -> list[Any]:
    """Addresses that are only there where somebody asks for them."""
    routers: list[Any] = []
    if options.fhir:
        from pursuit.web.connect.fhir_routes import of_fhir

        routers.append(of_fhir)
    if options.words:
        from pursuit.queries.own_words import sentence_vectors
        from pursuit.web.serving.routes import of_words

        sentence_vectors()  # which says what is missing, and is then ready
        routers.append(of_words)
    return routers


def _has_screen() -> bool:
    """Whether a browser that is opened would be seen."""
    if not sys.stdout.isatty():
        return False
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def mcp(
    models: Annotated[list[Path], typer.Argument(help="Folders of trained models.", metavar="MODEL…")],
    stop: Stop = None,
    also: Also = None,
    http: Annotated[
        bool, Option("Serve over HTTP, at /mcp; by default over standard input and output.", "--http")
    ] = False,
    host: Annotated[str, Option("With --http: the address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option("With --http: the port; 0 takes any that is free.", min=0, max=65535)] = 8001,
    hosts: Annotated[
        list[str] | None,
        Option("With --http: a name that the server goes by, besides localhost; repeatable.", "--allow-host"),
    ] = None,
    token_file: Annotated[
        Path | None,
        Option("With --http: a file that holds the token that clients must know; by default PURSUIT_TOKEN."),
    ] = None,
) -> None:
    """Offer models to a language model as tools, by the Model Context Protocol (MCP)."""
    require("mcp", "MCP", "mcp", "fastapi")
    for folder in (*models, *map(Path, also or ())):
        check_model(folder)
    import torch

    from pursuit.web.connect.mcp import PATH, make_app, make_server
    from pursuit.web.serving.auth import VARIABLE, read_token
    from pursuit.web.serving.models import load_models
    from pursuit.web.serving.running import OPTIONS, address_of, bound, is_loopback

    torch.set_num_threads(1)  # sessions are small
    server = make_server(load_models(models, stop, also=also or ()))
    if not http:
        server.run("stdio")
        return
    import uvicorn

    token = read_token(None if token_file else os.environ.get(VARIABLE) or None, token_file)
    if token is None and not is_loopback(host):
        raise ValueError(f"Other machines reach {host}, so clients must know a token: give --token-file.")
    listening = bound(host, port)
    address = f"{address_of(host, listening.getsockname()[1])}{PATH}"
    say(f"Serving {address}. Stop with Ctrl-C.")
    app = make_app(server, token, tuple(hosts or ()))
    uvicorn.Server(uvicorn.Config(app, **OPTIONS)).run(sockets=[listening])
