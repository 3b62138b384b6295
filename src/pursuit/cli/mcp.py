"""`pursuit mcp`: models as tools of a language model."""

import os
from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.console import err, escaped
from pursuit.files import check_model
from pursuit.options import Option, Stop
from pursuit.version import require


def mcp(
    models: Annotated[list[Path], typer.Argument(help="Folders of trained models.", metavar="MODEL…")],
    stop: Stop = None,
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
    for folder in models:
        check_model(folder)
    import torch

    from pursuit.connect.mcp import PATH, make_app, make_server
    from pursuit.web.serving.auth import VARIABLE, read_token
    from pursuit.web.serving.models import load_models
    from pursuit.web.serving.running import OPTIONS, address_of, bound, is_loopback

    torch.set_num_threads(1)  # sessions are small
    server = make_server(load_models(models, stop))
    if not http:
        server.run("stdio")
        return
    import uvicorn

    token = read_token(None if token_file else os.environ.get(VARIABLE) or None, token_file)
    if token is None and not is_loopback(host):
        raise ValueError(f"Other machines reach {host}, so clients must know a token: give --token-file.")
    listening = bound(host, port)
    address = f"{address_of(host, listening.getsockname()[1])}{PATH}"
    err.print(escaped(f"Serving {address}. Stop with Ctrl-C."), soft_wrap=True, highlight=False)
    app = make_app(server, token, tuple(hosts or ()))
    uvicorn.Server(uvicorn.Config(app, **OPTIONS)).run(sockets=[listening])
