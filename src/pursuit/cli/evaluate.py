"""`pursuit evaluate`: how good a model is after each query and at a stopping rule, by class, and by which questions."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pursuit.cli.app import Address, AsJson, Data, Device, EngineName, Keep, MaxQueries, Model, Stop, Target
from pursuit.cli.console import escaped, out, print_json
from pursuit.cli.table_options import ReadingOptions, spread
from pursuit.files import write_whole

if TYPE_CHECKING:
    from pursuit.evaluation import Evaluation, RegressionEvaluation

ENDINGS = (".json", ".csv")


@spread
def evaluate(
    model: Model,
    *,
    data: Data,
    target: Target = None,
    file: ReadingOptions,
    stop: Stop = None,
    max_queries: MaxQueries = None,
    device: Device = "cpu",
    to: Annotated[
        Path | None,
        typer.Option("--out", help="Write all that was measured as .json, or the table of questions as .csv."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Draw accuracy, confusion matrix and reliability into this folder.", metavar="FOLDER"),
    ] = None,
    engine: EngineName = None,
    address: Address = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy by the number of queries asked and at a stopping rule, by class, and which questions matter."""
    if to is not None and (to.suffix.lower() not in ENDINGS or not to.parent.is_dir()):
        raise ValueError(f"{to} cannot be written: give a file that ends in .json or .csv, in a folder that exists.")
    from pursuit.cli.measurements import print_classes, print_evaluation, print_questions
    from pursuit.cli.rows import is_by_shares, kept_measurement, measured_on_all_rows, model_and_labelled_rows
    from pursuit.evaluation import Evaluation

    if not is_by_shares(engine, address, keep):
        classifier, rows = model_and_labelled_rows(model, data, target, device, max_queries, **file.reading())
        name = rows.name
        before, known = kept_measurement(model, classifier, rows, stop), rows.initially_known
        if before is not None:
            evaluation = before.evaluation
        else:
            evaluation = classifier.evaluate(rows.X, rows.y, stop, initially_known=known, with_bits=True)
    else:
        _, every, evaluation = measured_on_all_rows(
            model, data, target, stop, max_queries, device, engine, address, keep, file.reading()
        )
        name = every.name
    written = []
    if to is not None:
        _write(to, name, evaluation)
        written.append(to)
    if figures is not None:
        written += _draw(figures, name, evaluation)
    if as_json:
        print_json({"task": name, **evaluation.to_dict()})
        return
    print_evaluation(name, evaluation)
    if isinstance(evaluation, Evaluation):
        print_classes(evaluation)
    print_questions(evaluation)
    if written:
        out.print(escaped(f"Written: {', '.join(map(str, written))}"), highlight=False, soft_wrap=True)


def _write(path: Path, name: str, evaluation: "Evaluation | RegressionEvaluation") -> None:
    if path.suffix.lower() == ".csv":
        assert evaluation.questions is not None
        text = evaluation.questions.frame().to_csv(index=False)
    else:
        text = json.dumps({"task": name, **evaluation.to_dict()}, ensure_ascii=False, indent=1)
    write_whole(path, text.encode())


def _draw(folder: Path, name: str, evaluation: "Evaluation | RegressionEvaluation") -> list[Path]:
    from pursuit.evaluation import RegressionEvaluation

    if isinstance(evaluation, RegressionEvaluation) or evaluation.by_class is None:
        raise ValueError("--figures draws how classes are told apart, but this model predicts a number: leave it out.")
    curve, confusion, trust = (folder / f"{what}.png" for what in ("curve", "confusion", "reliability"))
    evaluation.plot(curve, name=name)
    evaluation.by_class.plot(confusion, name)
    evaluation.plot_reliability(trust, name)
    return [curve, confusion, trust]
