"""`pursuit export`: a model as one HTML file that asks people without a server, or as a form of other programs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.console import print_json, show
from pursuit.cli.options import AsJson, Model
from pursuit.files import write_whole
from pursuit.registry import Option, Stop
from pursuit.version import require
from pursuit.web.bundle import LANGUAGES


def export(
    model: Model,
    page: Annotated[Path, typer.Argument(help="The file to write.", metavar="PAGE.html|FILE")],
    stop: Stop = None,
    title: Annotated[str | None, Option("What stands at the top of the page; by default the target.")] = None,
    language: Annotated[
        str | None,
        Option(
            "The page's own words, by default as the browser prefers; those of a form, by default as its questions.",
            metavar="|".join(LANGUAGES),
        ),
    ] = None,
    fhir: Annotated[
        bool, Option("Write everything that may be asked as a Questionnaire of HL7 FHIR R4 (JSON) instead.", "--fhir")
    ] = False,
    url: Annotated[
        str | None, Option("With --fhir: the canonical address of the Questionnaire; by default one of its own.")
    ] = None,
    xlsform: Annotated[
        bool, Option("Write the first questions as an XLSForm (ODK, KoBo) instead: an Excel workbook.", "--xlsform")
    ] = False,
    redcap: Annotated[
        bool, Option("Write the first questions as a data dictionary of REDCap (CSV) instead.", "--redcap")
    ] = False,
    surveyjs: Annotated[
        bool, Option("Write the first questions as a survey of SurveyJS (JSON) instead.", "--surveyjs")
    ] = False,
    script: Annotated[
        bool, Option("Write the first questions as a page of numbered steps that experts read instead.", "--script")
    ] = False,
    depth: Annotated[
        int,
        Option(
            "With --xlsform, --redcap, --surveyjs or --script: how many questions follow each other at most.", min=1
        ),
    ] = 4,
    data: Annotated[
        str | None,
        Option(
            "With these: rows with labels that show what the form loses against the interview; by default those that "
            "the model was trained beside, if they are here.",
            metavar="TASK_OR_FILE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as one HTML file that asks people in any browser, without a server."""
    chosen = {"--fhir": fhir, "--xlsform": xlsform, "--redcap": redcap, "--surveyjs": surveyjs, "--script": script}
    names = [name for name, is_chosen in chosen.items() if is_chosen]
    if len(names) > 1:
        raise ValueError(f"A file is one thing: give {names[0]} or {names[1]}, not both.")
    if url is not None and not fhir:
        raise ValueError("--url is the address of a Questionnaire: it goes with --fhir.")
    if names and language is not None and (script or language not in LANGUAGES):
        raise ValueError(f"Forms speak {' or '.join(LANGUAGES)}, and the page of --script speaks English.")
    if fhir and (stop is not None or data is not None):
        raise ValueError("--fhir writes everything that may be asked: leave out --stop and --data.")
    if fhir:
        _export_fhir(model, page, title, url, language, as_json)
        return
    if names:
        _export_form(names[0], model, page, title, stop, depth, data, language, as_json)
        return
    if data is not None:
        raise ValueError("--data measures a fixed form: it goes with --xlsform, --redcap, --surveyjs or --script.")
    from pursuit import export as export_page
    from pursuit.cli.evaluate import check_page

    check_page(page)
    exported = export_page(model, page, stop=stop, title=title, language=language)
    if as_json:
        print_json(exported.to_dict())
        return
    show(f"{exported}. Open it in any browser; it works without a network.")


def _export_fhir(
    model: Path, path: Path, title: str | None, url: str | None, language: str | None, as_json: bool
) -> None:
    from pursuit import load
    from pursuit.estimators import fingerprint
    from pursuit.web.connect.fhir import Form
    from pursuit.web.titles import title_of

    estimator = load(model)
    target = str(estimator.notes_.get("task", {}).get("target") or "result")
    query_set = estimator.model_.query_set
    form = Form.of(query_set, title or title_of(estimator, model.name), url, fingerprint(model), target, language)
    _write(path, json.dumps(form.questionnaire(), ensure_ascii=False, indent=2).encode())
    if as_json:
        print_json({"file": str(path), "n_items": len(query_set)})
        return
    show(f"{path}: a Questionnaire of FHIR R4 with {len(query_set)} items.")


def _export_form(
    kind: str,
    model: Path,
    path: Path,
    title: str | None,
    stop: str | None,
    depth: int,
    data: str | None,
    language: str | None,
    as_json: bool,
) -> None:
    if kind == "--xlsform":
        require("excel", "An XLSForm, which is an Excel workbook,", "openpyxl")
    from pursuit import load
    from pursuit.cli.rows import measurable, unseen_rows
    from pursuit.cli.served_models import rows_of
    from pursuit.report.facts import ModelFacts
    from pursuit.sessions.script import Script
    from pursuit.web.connect.forms import Form, Lost, redcap, script_page, surveyjs, xlsform
    from pursuit.web.titles import title_of

    estimator = load(model)
    if estimator.model_.query_set.patches is not None:
        raise ValueError("This model looks at pictures, and a form asks no patches of pictures.")
    name = title or title_of(estimator, model.name)
    form = Form(name, Script.of(estimator.session(stop), depth), language)
    rows = rows_of(estimator) if data is None else measurable(estimator, unseen_rows(estimator, data))
    lost = None if rows is None or rows.y is None else Lost.measured(form.script, estimator, rows.X, rows.y, stop)
    match kind:
        case "--xlsform":
            content = xlsform(form)
        case "--redcap":
            content = redcap(form).encode()
        case "--surveyjs":
            content = json.dumps(surveyjs(form), ensure_ascii=False, indent=2).encode()
        case _:
            content = script_page(form, ModelFacts.of(estimator, name, stop), lost).encode()
    _write(path, content)
    n_paths = sum(1 for _ in form.script.paths(with_unknown=False))
    if as_json:
        print_json({"file": str(path), "n_paths": n_paths, "lost": None if lost is None else asdict(lost)})
        return
    show(f"{path}: at most {depth} questions, {n_paths} paths.")
    show(str(lost) if lost else "What it loses against the interview was not measured: give rows with --data.")


def _write(path: Path, content: bytes) -> None:
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"Nothing can be written to {path}: give a file in a folder that exists.")
    write_whole(path, content)
