"""`pursuit export`: a model as one HTML file that asks people without a server, or as a form of other programs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.console import print_json, show
from pursuit.cli.options import AsJson, Model
from pursuit.files import write_whole
from pursuit.options import Option, Stop
from pursuit.web.bundle import LANGUAGES


def export(
    model: Model,
    page: Annotated[Path, typer.Argument(help="The file to write.", metavar="PAGE.html|FILE")],
    stop: Stop = None,
    title: Annotated[str | None, Option("What stands at the top of the page; by default the target.")] = None,
    language: Annotated[
        str | None,
        Option("The page's own words; by default as the browser prefers.", metavar="|".join(LANGUAGES)),
    ] = None,
    fhir: Annotated[
        bool, Option("Write everything that may be asked as a Questionnaire of HL7 FHIR R4 (JSON) instead.", "--fhir")
    ] = False,
    url: Annotated[
        str | None, Option("With --fhir: the canonical address of the Questionnaire; by default one of its own.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as one HTML file that asks people in any browser, without a server."""
    if url is not None and not fhir:
        raise ValueError("--url is the address of a Questionnaire: it goes with --fhir.")
    if fhir:
        _export_fhir(model, page, title, url)
        return
    from pursuit.public import export as export_page

    exported = export_page(model, page, stop=stop, title=title, language=language)
    if as_json:
        print_json(exported.to_dict())
        return
    show(f"{exported}. Open it in any browser; it works without a network.")


def _export_fhir(model: Path, path: Path, title: str | None, url: str | None) -> None:
    from pursuit.connect.fhir import Form
    from pursuit.estimators import fingerprint
    from pursuit.public import load
    from pursuit.web.bundle import title_of

    estimator = load(model)
    target = str(estimator.notes_.get("task", {}).get("target") or "result")
    query_set = estimator.model_.query_set
    form = Form.of(query_set, title or title_of(estimator, model.name), url, fingerprint(model), target)
    _write(path, json.dumps(form.questionnaire(), ensure_ascii=False, indent=2).encode())
    show(f"{path}: a Questionnaire of FHIR R4 with {len(query_set)} items.")


def _write(path: Path, content: bytes) -> None:
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"Nothing can be written to {path}: give a file in a folder that exists.")
    write_whole(path, content)
