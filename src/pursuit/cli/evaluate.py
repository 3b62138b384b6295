"""`pursuit evaluate`: how good a model is after each query, and at a stopping rule."""

from pursuit.cli.app import AsJson, Data, Device, MaxQueries, Missing, Model, Stop, Target
from pursuit.cli.console import print_json
from pursuit.cli.measurements import print_evaluation
from pursuit.cli.rows import unseen_rows
from pursuit.estimators import load


def evaluate(
    model: Model,
    data: Data,
    target: Target = None,
    missing: Missing = None,
    stop: Stop = None,
    max_queries: MaxQueries = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Measure accuracy against the number of queries asked, and at a stopping rule."""
    classifier = load(model)
    classifier.device = device
    if max_queries is not None:
        classifier.max_queries = max_queries
    rows = unseen_rows(classifier, data, target, missing)
    if rows.y is None:
        raise ValueError(f"{data} has no labels to measure by: name their column with --target.")
    evaluation = classifier.evaluate(rows.X, rows.y, stop, initially_known=rows.initially_known)
    if as_json:
        print_json({"task": rows.name, **evaluation.to_dict()})
    else:
        print_evaluation(rows.name, evaluation)
