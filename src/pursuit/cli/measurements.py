"""Evaluations as tables on standard output."""

from collections.abc import Sequence
from typing import TypeVar

from rich.table import Column, Table

from pursuit.cli.console import escaped, out, plain_table, show
from pursuit.evaluation import AtStop, Evaluation, NumberScores, RegressionEvaluation
from pursuit.report.facts import count, no_better_than_guessing
from pursuit.research.experiments.reproduce import DemoResult
from pursuit.research.experiments.results import Results, asked_and_answered, cells, header, remark, stop_length
from pursuit.research.experiments.run import RANDOM_ORDER

T = TypeVar("T")

COST_STEP = 7
"""Every seventh cost of a curve is printed, the first and the last among them."""
MOST_CLASSES, MOST_QUESTIONS = 12, 15
"""The most rows of the tables of classes and of questions."""
DEMO_ROWS = (1, 3, 5, 10, 20)
"""After how many questions the demonstration says how often it is right, beside all of them."""


def print_regression(name: str, evaluation: RegressionEvaluation) -> None:
    title = f"{name}: {evaluation.n_rows:,} rows, {evaluation.n_queries} queries"
    table = Table("queries", "R²", "mean error", "in 90 % interval", "its width", title=title)

    def row(start: str, scores: NumberScores, style: str | None = None) -> None:
        numbers = f"{scores.r2:.3f}", f"{scores.mae:.4g}", f"{scores.coverage:.1%}", f"{scores.width:.4g}"
        table.add_row(start, *numbers, style=style)

    for n, scores in thin(evaluation.by_asked):
        row(str(n), scores)
    row("all", evaluation.all_answers, "dim")
    out.print(table)
    if stop := evaluation.at_stop:
        asked = asked_and_answered(stop.mean_asked, stop.mean_answered, noun=" queries on average")
        show(
            f"Stopping at {stop.rule}: R² {stop.r2:.3f} and a mean error of {stop.mae:.4g} after {asked}; "
            f"{stop.coverage:.1%} lie in their 90 % intervals."
        )


def print_evaluation(name: str, evaluation: Evaluation | RegressionEvaluation) -> None:
    """Print how good a model is; that it is no better than guessing is said first."""
    for sentence in no_better_than_guessing(evaluation):
        show(sentence)
    if isinstance(evaluation, RegressionEvaluation):
        print_regression(name, evaluation)
        return
    by_asked, by_answered = evaluation.accuracy_by_asked, evaluation.accuracy_by_answered
    lacks_answers = by_asked != by_answered
    titles = ["queries", "after as many asked", "after as many answered"] if lacks_answers else ["queries", "accuracy"]
    by_step = evaluation.confidence_by_asked, evaluation.calibration_error_by_asked, evaluation.brier_by_asked
    measured = [values for values in by_step if values]
    titles += ["confidence", "calibration error", "Brier score"] if measured else []
    queries = "1 query" if evaluation.n_queries == 1 else f"{evaluation.n_queries} queries"
    table = Table(*titles, title=f"{name}: {count(evaluation.n_rows, 'row')}, {queries}")
    for n, accuracy in thin(by_asked):
        answered = [f"{by_answered[n]:.3f}"] if lacks_answers else []
        table.add_row(str(n), f"{accuracy:.3f}", *answered, *(f"{values[n]:.3f}" for values in measured))
    table.add_row("all", *[f"{evaluation.accuracy_all_answers:.3f}"] * (1 + lacks_answers), style="dim")
    out.print(table)
    if evaluation.accuracy_by_cost:
        table = Table("cost", "accuracy")
        for spent, accuracy in evaluation.accuracy_by_cost[::COST_STEP]:
            table.add_row(f"{spent:.4g}", f"{accuracy:.3f}")
        out.print(table)
    if stop := evaluation.at_stop:
        low, high = stop.accuracy_interval
        cost = f", which cost {stop.mean_cost:.4g}" if evaluation.accuracy_by_cost else ""
        show(
            f"Stopping at {stop.rule}: accuracy {stop.accuracy:.3f} (95 % interval {low:.3f} to {high:.3f}) "
            f"after {stop_length(stop, noun=' queries on average')}{cost}; "
            f"mean confidence {stop.mean_confidence:.3f}, calibration error {stop.calibration_error:.3f}"
            f"{'' if stop.brier is None else f', Brier score {stop.brier:.3f}'}."
        )
        for sentence in guarantee_sentences(stop):
            show(sentence)


def guarantee_sentences(stop: AtStop) -> list[str]:
    """Sentences that report how well a stopping rule's guarantees held on these rows."""
    found = []
    if stop.decided is not None:
        wrong = "" if stop.wrong_of_decided is None else f", and {stop.wrong_of_decided:.1%} of these are wrong"
        found.append(f"It decides {stop.decided:.1%} of the rows{wrong}; the others are left to a person.")
    if stop.covered is not None and stop.mean_labels is not None:
        found.append(
            f"The right label is among those that remain for {stop.covered:.1%} of the rows; {stop.mean_labels:.2f} "
            "remain on average."
        )
    return found


def print_classes(evaluation: Evaluation) -> None:
    """Print results by class and the confusion matrix or, with many classes, the most frequent confusions."""
    results = evaluation.by_class
    if results is None:
        return
    frequent = sorted(results.classes, key=lambda result: result.n_rows, reverse=True)[:MOST_CLASSES]
    few = len(results.classes) <= MOST_CLASSES
    table = Table("class", *[Column(t, justify="right") for t in ("rows", "precision", "recall", "F1", "asked")])
    for one in results.classes if few else frequent:
        asked = "" if one.mean_asked is None else f"{one.mean_asked:.2f}"
        scores = (f"{score:.3f}" if one.n_rows else "" for score in (one.precision, one.recall, one.f1))
        table.add_row(escaped(str(one.label)), f"{one.n_rows:,}", *scores, asked)
    out.print(table)
    if not few:
        show(f"{MOST_CLASSES} of {len(results.classes)} classes, the most frequent; --out FILE.json has all.")
    names = [escaped(str(label)) for label in results.labels]
    matrix = Table("true label", *[Column(name, justify="right") for name in names], title="taken for")
    for name, row in zip(names, results.confusion, strict=True):
        matrix.add_row(name, *(str(n) if n else "·" for n in row))
    if few and out.measure(matrix).maximum <= out.width:
        out.print(matrix)
    elif pairs := results.most_confused():
        table = Table("true label", "taken for", Column("rows", justify="right"), title="confused most often")
        for true, taken, n in pairs:
            table.add_row(escaped(str(true)), escaped(str(taken)), f"{n:,}")
        out.print(table)


def print_questions(evaluation: Evaluation | RegressionEvaluation) -> None:
    """The questions that are asked most often."""
    asked = [use for use in evaluation.questions or () if use.share_asked]
    if not asked:
        return
    has_bits = any(use.mean_bits is not None for use in asked)
    titles = ("asked of", "place", *(["bits expected"] if has_bits else []), "bits gained")
    title = f"{len(asked)} of {count(evaluation.n_queries, 'question')} asked"
    table = Table("question", *[Column(name, justify="right") for name in titles], title=title)
    for use in asked[:MOST_QUESTIONS]:
        bits = [use.mean_bits] if has_bits else []
        numbers = (f"{round(number or 0.0, 2) + 0.0:.2f}" for number in (*bits, use.mean_gained))
        table.add_row(escaped(use.name), f"{use.share_asked:.0%}", f"{use.mean_position or 0:.1f}", *numbers)
    out.print(table)
    if len(asked) > MOST_QUESTIONS:
        show(f"{MOST_QUESTIONS} questions, those asked most often; --out FILE.csv has all.")


def print_demo(found: DemoResult) -> None:
    """Print the accuracy after a few questions, beside that of a random order, and at the stopping rule."""
    result = found.result
    evaluation, random = result.evaluation, result.beside[RANDOM_ORDER].accuracy_by_asked or []
    out.print(
        f"[bold]{found.task}[/bold]: {evaluation.n_queries} questions could be asked. How often it is right on "
        f"{result.n_test:,} rows that it has not seen (trained in {result.training_seconds:.0f} s):",
        highlight=False,
        soft_wrap=True,
    )
    table = Table("questions asked", "chosen by V-IP", f"in {RANDOM_ORDER}")
    for n, accuracy in enumerate(evaluation.accuracy_by_asked):
        if n in DEMO_ROWS or n == evaluation.n_queries:
            table.add_row(str(n), f"{accuracy:.1%}", f"{random[n]:.1%}")
    out.print(table)
    if stop := evaluation.at_stop:
        show(
            f"It may stop once it is sure: {stop.accuracy:.1%} right after "
            f"{stop_length(stop, 1, ' questions on average')}."
        )
    out.print(f"Drawn: {escaped(', '.join(map(str, found.figures)))}\n", highlight=False, soft_wrap=True)


def print_comparison(results: Results) -> None:
    """A row a method: means over seeds alone, to fit a terminal; the file beside them says more."""
    name, *titles = header(results, in_full=False)
    columns = [Column(title, justify="right", overflow="fold") for title in titles]
    table = plain_table(Column(name, no_wrap=True), *columns)
    failed = []
    for method, found in results.methods.items():
        if found.summary:
            table.add_row(*map(escaped, cells(results, method, in_full=False)))
        failed += [f"{found.title}, seed {failure.seed} failed: {failure.error}" for failure in found.failed]
    if table.row_count:
        out.print(table)
    for line in (*failed, remark(results)):
        show(line)


def thin(accuracy: Sequence[T]) -> list[tuple[int, T]]:
    """Enough of a long list to see its course: the first ones, then fewer and fewer, and the last."""
    last = len(accuracy) - 1
    wanted = {n for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000) if n <= last} | {last}
    return [(n, accuracy[n]) for n in sorted(wanted)]
