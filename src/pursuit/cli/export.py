"""`pursuit export`: a model as one HTML file that asks people without a server."""

from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.console import print_json, show
from pursuit.cli.options import AsJson, Model
from pursuit.options import Option, Stop
from pursuit.web.bundle import LANGUAGES


def export(
    model: Model,
    page: Annotated[Path, typer.Argument(help="The HTML file to write.", metavar="PAGE.html")],
    stop: Stop = None,
    title: Annotated[str | None, Option("What stands at the top of the page; by default the target.")] = None,
    language: Annotated[
        str | None,
        Option("The page's own words; by default as the browser prefers.", metavar="|".join(LANGUAGES)),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as one HTML file that asks people in any browser, without a server."""
    from pursuit.public import export as export_page

    exported = export_page(model, page, stop=stop, title=title, language=language)
    if as_json:
        print_json(exported.to_dict())
        return
    show(f"{exported}. Open it in any browser; it works without a network.")
