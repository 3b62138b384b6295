"""`pursuit export`: a model as one HTML file that asks people without a server."""

from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.app import AsJson, Model, Stop
from pursuit.cli.console import escaped, out, print_json
from pursuit.web.bundle import LANGUAGES


def export(
    model: Model,
    page: Annotated[Path, typer.Argument(help="The HTML file to write.", metavar="PAGE.html")],
    stop: Stop = None,
    title: Annotated[
        str | None, typer.Option(help="What stands at the top of the page; by default the target.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(metavar="|".join(LANGUAGES), help="The page's own words; by default as the browser prefers."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as one HTML file that asks people in any browser, without a server."""
    from pursuit.public import export as export_page

    exported = export_page(model, page, stop=stop, title=title, language=language)
    if as_json:
        print_json(exported.to_dict())
        return
    out.print(escaped(f"{exported}. Open it in any browser; it works without a network."), soft_wrap=True)
