"""`pursuit evaluate`: how good a model is, and which questions matter; `pursuit report`: the same as a page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pursuit.cli.console import print_json, show
from pursuit.cli.options import AsJson, MeasuringOptions, Model
from pursuit.files import write_whole
from pursuit.registry import Option

if TYPE_CHECKING:
    from pursuit.evaluation import Evaluation, RegressionEvaluation


ENDINGS = (".json", ".csv")


def evaluate(
    model: Model,
    *,
    rows: MeasuringOptions,
    to: Annotated[
        Path | None,
        Option("Write all that was measured as .json, or the table of questions as .csv.", "--out"),
    ] = None,
    figures: Annotated[
        Path | None,
        Option("Draw accuracy, confusion matrix and reliability into this folder.", metavar="FOLDER"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy by the number of queries asked and at a stopping rule, by class, and which questions matter."""
    if to is not None and (to.suffix.lower() not in ENDINGS or not to.parent.is_dir()):
        raise ValueError(f"{to} cannot be written: give a file that ends in .json or .csv, in a folder that exists.")
    from pursuit.cli.measurements import print_classes, print_evaluation, print_questions
    from pursuit.cli.rows import is_by_shares, measured_before, measured_on_all_rows, model_and_labelled_rows
    from pursuit.estimators import PursuitRegressor
    from pursuit.evaluation import Evaluation, RegressionEvaluation

    evaluation: Evaluation | RegressionEvaluation
    if is_by_shares(rows):
        _, source, evaluation = measured_on_all_rows(model, rows)
        name = source.name
    else:
        classifier, unseen = model_and_labelled_rows(model, rows)
        if figures is not None and isinstance(classifier, PursuitRegressor):
            raise ValueError(
                "--figures draws how classes are told apart, but this model predicts a number: leave it out."
            )
        name, known = unseen.name, unseen.initially_known
        before = measured_before(model, classifier, unseen, rows.stop)
        evaluation = (
            classifier.evaluate(unseen.X, unseen.y, rows.stop, initially_known=known, with_bits=True)
            if before is None
            else before.evaluation
        )
    written = []
    if to is not None:
        _write(to, name, evaluation)
        written.append(to)
    if figures is not None:
        assert isinstance(evaluation, Evaluation)
        written += _draw(figures, name, evaluation)
    if as_json:
        print_json({"task": name, **evaluation.to_dict()})
        return
    print_evaluation(name, evaluation)
    if isinstance(evaluation, Evaluation):
        print_classes(evaluation)
    print_questions(evaluation)
    if written:
        show(f"Written: {', '.join(map(str, written))}")


def _write(path: Path, name: str, evaluation: "Evaluation | RegressionEvaluation") -> None:
    if path.suffix.lower() == ".csv":
        assert evaluation.questions is not None
        text = evaluation.questions.frame().to_csv(index=False)
    else:
        text = json.dumps({"task": name, **evaluation.to_dict()}, ensure_ascii=False, indent=1)
    write_whole(path, text.encode())


def _draw(folder: Path, name: str, evaluation: "Evaluation") -> list[Path]:
    assert evaluation.by_class is not None
    curve, confusion, trust = (folder / f"{what}.png" for what in ("curve", "confusion", "reliability"))
    evaluation.plot(curve, name=name)
    evaluation.by_class.plot(confusion, name)
    evaluation.plot_reliability(trust, name)
    return [curve, confusion, trust]


TREE_ROWS = 20_000
"""Number of rows in the tree of questions when a model is measured on all rows of files."""


def report(
    model: Model,
    *,
    rows: MeasuringOptions,
    to: Annotated[Path, Option("Write the page into this file.", "--out")] = Path("report.html"),
    depth: Annotated[int, Option("How many levels of questions the tree shows.", min=1, max=8)] = 3,
    as_json: AsJson = False,
) -> None:
    """Write a page about a model: how good it is, how far to trust it, what it asks, the tree of its questions, and how
    far answers that are changed on purpose move results.

    It is one file that loads nothing from anywhere, to be read in a browser or printed.
    """
    check_page(to)
    from pursuit.cli.rows import (
        is_by_shares,
        measurable,
        measured_before,
        measured_on_all_rows,
        model_and_labelled_rows,
    )
    from pursuit.report import ModelReport
    from pursuit.report.measured import DEPTH, Measured, kept

    def measured_on(estimator: Any, some: Any, evaluation: Any = None) -> Measured:
        options = {"initially_known": some.initially_known, "depth": depth, "name": some.name}
        return Measured.of(estimator, some.X, some.y, rows.stop, **options, evaluation=evaluation)

    measured: Measured | None
    if is_by_shares(rows):
        estimator, source, evaluation = measured_on_all_rows(model, rows)
        measured = measured_on(estimator, measurable(estimator, source.unseen(TREE_ROWS)), evaluation)
    else:
        estimator, unseen = model_and_labelled_rows(model, rows)
        measured = measured_before(model, estimator, unseen, rows.stop) if depth == DEPTH else None
        if measured is None:
            measured = measured_on(estimator, unseen)
            is_usual = rows.stop is None and rows.max_queries is None and depth == DEPTH
            if is_usual and kept(model, estimator) is None:
                measured.keep(model, estimator)  # for all who show the model to people
    found = ModelReport.from_measured(estimator, measured, rows.stop)
    found.save(to)
    if as_json:
        print_json({**found.to_dict(), "page": str(to)})
        return
    show(f"Written: {to}")


def check_page(path: Path) -> None:
    """Refuse a file that a page cannot be written to, before anything is computed."""
    if path.suffix.lower() not in (".html", ".htm") or not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: give a file that ends in .html, in a folder that exists.")
