"""`pursuit serve`: models ask people on a web page."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from pursuit.cli.app import Stop
from pursuit.cli.console import escaped, out, say
from pursuit.files import check_model

PACKAGES = ("fastapi", "uvicorn", "sqlalchemy", "multipart", "PIL")
"""What the extra `serve` brings."""


def serve(
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of trained models; by default those of the demonstration.", metavar="[MODEL]…"),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.", min=0, max=65535)] = 8000,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where sessions are kept: sqlite:///FILE or postgresql://USER@HOST/NAME; by default PURSUIT_DATABASE, "
            "or a file in your user data folder.",
        ),
    ] = None,
    stop: Stop = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="A site whose pages may use the API: https://example.org; repeatable."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that the server goes by, besides localhost; repeatable."),
    ] = None,
    workers: Annotated[int, typer.Option(help="How many processes serve.", min=1, max=64)] = 1,
    token: Annotated[
        str | None,
        typer.Option(
            help="A secret of at least 16 characters that people must know; by default PURSUIT_TOKEN, which, unlike "
            "an option, nobody else on this machine can read."
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file that holds the token.")] = None,
    list_sessions: Annotated[
        bool,
        typer.Option(
            "--list/--no-list",
            help="Whether past sessions can be listed; otherwise each is reached by its own address alone.",
        ),
    ] = True,
    keep_days: Annotated[
        float | None,
        typer.Option(help="Delete sessions so many days after their last change; by default never.", min=0.01),
    ] = None,
    most_sessions: Annotated[int, typer.Option(help="How many sessions are kept at most.", min=1)] = 1_000_000,
    rate: Annotated[
        float,
        typer.Option(help="How many requests a second one address may make, over time; 0: any number.", min=0),
    ] = 200,
    new_sessions: Annotated[
        float, typer.Option(help="How many sessions a minute one address may begin; 0: any number.", min=0)
    ] = 600,
    behind_proxy: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="The address of a proxy in front of the server, often 127.0.0.1: it is believed where requests come "
            "from (X-Forwarded-For).",
        ),
    ] = None,
    log: Annotated[
        bool,
        typer.Option(
            "--log/--no-log", help="Write a line for every request; never answers, searched words or whole ids."
        ),
    ] = False,
    open_browser: Annotated[
        bool | None, typer.Option("--open/--no-open", help="Open the page; by default where there is a screen.")
    ] = None,
) -> None:
    """Serve models on a web page, with an API: people are asked, and their sessions are kept."""
    _check_installed()
    for folder in models or ():
        check_model(folder)
    say(f"Loading {', '.join(map(str, models)) if models else 'the models of the demonstration'} …")
    from pursuit.cli.served_models import default_models, find_samples, measure
    from pursuit.web.serving.auth import VARIABLE, read_token
    from pursuit.web.serving.running import Settings, address_of, bound, is_loopback, run, run_workers

    secret = read_token(token or (None if token_file else os.environ.get(VARIABLE) or None), token_file)
    listening = bound(host, port)
    settings = Settings(
        models=tuple(str(folder.resolve()) for folder in models or default_models()),
        database=database,
        stop=stop,
        hosts=tuple(allow_host or ()),
        origins=tuple(allow_origin or ()),
        token=secret,
        rate=rate,
        new_sessions=new_sessions,
        keep_days=keep_days,
        most_sessions=most_sessions,
        lists_sessions=list_sessions,
        proxy=behind_proxy,
        logs_requests=log,
    )
    app, place = settings.make_app(measure, find_samples)
    address = address_of(host, listening.getsockname()[1])
    out.print(escaped(f"Open {address} in your browser. Stop with Ctrl-C."), highlight=False, soft_wrap=True)
    until = "until somebody deletes them" if keep_days is None else f"for {keep_days:g} days after their last change"
    out.print(escaped(f"Sessions are kept in {place}, {until}."), highlight=False, soft_wrap=True)
    if not is_loopback(host):
        out.print(_warning(secret is not None, list_sessions), soft_wrap=True)
    shows = _has_screen() if open_browser is None else open_browser
    if workers == 1:
        run(app, settings, listening, address if shows else None)
    else:
        run_workers(f"{__name__}:app_of_worker", settings, listening, workers)


def _warning(has_token: bool, lists_sessions: bool) -> str:
    """Who may do what, where others can reach the server."""
    if has_token:
        return "Whoever knows the token can use it. Without HTTPS in front, others on the network can read the token."
    if lists_sessions:
        return "Anybody who reaches this machine can read and delete all sessions: --token keeps others out."
    return "Anybody who reaches this machine can begin sessions, and read and delete those whose address is known."


def app_of_worker() -> Any:
    """The application of one of several processes."""
    from pursuit.cli.plugins import load_plugins
    from pursuit.cli.served_models import find_samples, measure
    from pursuit.web.serving.running import Settings, end_with_parent

    end_with_parent()
    load_plugins([])
    app, _ = Settings.from_environment().make_app(measure, find_samples)
    return app


def _check_installed() -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"The server needs packages that are not installed ({', '.join(missing)}): pip install 'pursuit[serve]'"
        )


def _has_screen() -> bool:
    """Whether a browser that is opened would be seen."""
    if not sys.stdout.isatty():
        return False
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
