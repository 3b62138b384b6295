"""A comparison as a table and figures of all methods."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pursuit.evaluation.curves import AtStop, Evaluation
from pursuit.evaluation.figures import accuracy_curve
from pursuit.inference import html
from pursuit.research.experiments.results import (
    BUDGETS,
    NOTHING,
    Beside,
    Failure,
    Result,
    Results,
    StopSummary,
    asked_and_answered,
    mean_and_spread,
    mean_only,
    three_digits,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL_ANSWERS = "all-answers"
"""The method that predicts nothing before it has all answers: it has no curve worth showing."""
FEW_ROWS = 2000
"""Up to this many test rows, an accuracy is shown with its interval."""
INTERVAL = "the 95 % interval over seeds and test rows (over rows alone where there is one seed)"
ERROR_WIDTH = 160


def in_brief(outcome: Result | Failure) -> str:
    """The key numbers of one method and seed, or why there are none."""
    if isinstance(outcome, Failure):
        return f"failed: {_on_one_line(outcome.error)}"
    evaluation, stop = outcome.evaluation, outcome.evaluation.at_stop
    parts = [
        f"{evaluation.accuracy_all_answers:.3f} right with all",
        f"trained in {outcome.training_seconds:.0f} s",
    ]
    if outcome.method != ALL_ANSWERS:
        at_stop = [f"{stop.accuracy:.3f} right after {stop_length(stop, 1, ' queries')}"] if stop else []
        parts = [f"area {evaluation.area:.3f}", *at_stop, *parts]
    return ", ".join(parts)


def header(results: Results, in_full: bool = True) -> list[str]:
    """The titles of the columns, in full or short enough for narrow columns."""
    reach = next((summary.reach for _, summary in results.worked.values()), None)
    return [
        "method",
        *(f"after {n}" for n in BUDGETS),
        f"area {reach}" if reach else "area",
        *(["area by answers"] if _lacks_answers(results) else []),
        *(["area by cost"] if _has_costs(results) else []),
        "stops after",
        *(["cost there"] if _has_costs(results) else []),
        *(("accuracy there", "all answers", "training") if in_full else ("right there", "with all", "s to train")),
        "ms a step",
        "seeds",
    ]


def cells(results: Results, name: str, in_full: bool = True) -> list[str]:
    """The row of a method: in full with deviations, and with an interval if there are few rows, or means alone."""
    method, titles = results.methods[name], header(results, in_full)
    summary, failed = method.summary, method.failed
    why = "; ".join(dict.fromkeys(_on_one_line(failure.error) for failure in failed))
    if summary is None:
        return [method.title, f"failed: {why}", *[NOTHING] * (len(titles) - 3), "0"]
    show = mean_and_spread if in_full else mean_only
    n_seeds = f"{summary.n_seeds} of {summary.n_seeds + len(failed)}" if failed else str(summary.n_seeds)
    n_seeds += f" (failed: {why})" if failed and in_full else ""
    resumed = ", resumed" if any(seed.resumed for seed in method.seeds) else ""
    unit = f" s{resumed}" if in_full else ""
    timed = [three_digits(summary.training_seconds) + unit, three_digits(summary.step_milliseconds)]
    ending = [show(summary.accuracy_all_answers), *timed, n_seeds]
    if name == ALL_ANSWERS:
        return [method.title, *[NOTHING] * (len(titles) - 1 - len(ending)), *ending]
    at_stop, has_few_rows = [NOTHING, *[NOTHING] * _has_costs(results), NOTHING], method.seeds[0].n_test <= FEW_ROWS
    if stop := summary.at_stop:
        interval = stop.accuracy.interval if in_full and has_few_rows else None
        between = f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
        cost = [three_digits(stop.mean_cost)] if _has_costs(results) else []
        at_stop = [stop_length(stop), *cost, show(stop.accuracy) + between]
    after = [show(summary.accuracy_after.get(n)) for n in BUDGETS]
    by_answered = [show(summary.area_by_answered)] if _lacks_answers(results) else []
    by_cost = [show(summary.area_by_cost)] if _has_costs(results) else []
    return [method.title, *after, show(summary.area), *by_answered, *by_cost, *at_stop, *ending]


def stop_length(stop: AtStop | StopSummary, digits: int = 2, noun: str = "") -> str:
    """The mean number of queries asked before a rule stops, and of queries answered."""
    if isinstance(stop, AtStop):
        return asked_and_answered(stop.mean_asked, stop.mean_answered, digits, noun)
    return asked_and_answered(stop.mean_asked.mean, stop.mean_answered.mean, digits, noun)


def _lacks_answers(results: Results) -> bool:
    """Whether some queries could not be answered, so that queries asked and answered differ."""
    seeds = (seed.evaluation for method, _ in results.worked.values() for seed in method.seeds)
    return any(one.accuracy_by_asked != one.accuracy_by_answered for one in seeds)


def _has_costs(results: Results) -> bool:
    """Whether queries do not all cost 1."""
    return any(summary.area_by_cost for _, summary in results.worked.values())


def markdown_table(results: Results) -> str:
    """All methods, a row each, and below them how to read it."""
    titles = header(results)
    rows = [titles, ["---"] * len(titles)]
    rows += [[cell.replace("|", r"\|") for cell in cells(results, name)] for name in results.methods]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    measured = [seed for method, _ in results.worked.values() for seed in method.seeds]
    if len({seed.seed for seed in measured}) > 1:
        lines += ["", "After ±: the sample standard deviation over seeds."]
    if any(seed.n_test <= FEW_ROWS for seed in measured):
        lines += ["", f"In brackets: {INTERVAL}."]
    return "\n".join([*lines, "", remark(results), ""])


def remark(results: Results) -> str:
    """A legend of the table, with the origin of its numbers."""
    worked, task = results.worked, results.run["task"]
    if not worked:
        return f"{task}: no method worked."
    places: dict[str, dict[str, None]] = {}
    for method, _ in worked.values():
        for origin in (seed.provenance for seed in method.seeds):
            place = f"{origin['device']} ({origin['machine']}), commit {origin['commit']}"
            places.setdefault(place, {})[method.title] = None
    where = "; ".join(place + (f": {', '.join(titles)}" if len(places) > 1 else "") for place, titles in places.items())
    first, summary = next(iter(worked.values()))
    one = first.seeds[0]
    rule = f", the stopping rule {summary.at_stop.rule}" if summary.at_stop else ""
    return (
        f"{task}: accuracy on {one.n_test:,} {results.run['measured_on']}, learnt from {one.n_train:,}. "
        f"The area is the mean accuracy over 1 {summary.reach} queries asked{rule}. "
        f"A step is timed one row at a time on the CPU. Measured on {where}."
    )


def html_table(results: Results) -> str:
    """All methods, a row each, as a notebook shows them."""
    rows = [cells(results, name, in_full=False) for name in results.methods]
    return html.block(
        str(results.run["task"]), html.table(header(results, in_full=False), rows), html.paragraph(remark(results))
    )


def draw_curves(results: Results, path: Path | None) -> "Figure | None":
    """The accuracy of all methods against queries asked and, where costs differ, in a second file against cost; None if
    no method has a curve."""
    worked = results.worked
    curves = [found for name, found in worked.items() if name != ALL_ANSWERS]
    if not curves:
        return None
    all_answers = worked.get(ALL_ANSWERS) or worked.get("vip")
    return draw_accuracy(
        {method.title: [seed.evaluation for seed in method.seeds] for method, _ in curves},
        {method.title: summary.at_stop for method, summary in curves if summary.at_stop},
        path,
        title=f"{results.run['task']}: accuracy on {curves[0][0].seeds[0].n_test:,} {results.run['measured_on']}",
        all_answers=all_answers[1].accuracy_all_answers.mean if all_answers else None,
    )


def draw_accuracy(
    measured: Mapping[str, Sequence[Evaluation | Beside]],
    stops: Mapping[str, StopSummary],
    path: Path | None,
    title: str,
    all_answers: float | None,
) -> "Figure":
    """The accuracy of all seeds by title, against queries asked; where queries do not all cost 1, a second figure,
    NAME-by-cost, shows it against cost."""
    asked = {name: [one.accuracy_by_asked or [] for one in seeds] for name, seeds in measured.items()}
    points = {name: (stop.mean_asked.mean, stop.accuracy.mean) for name, stop in stops.items()}
    figure = accuracy_curve(asked, path, title, points, all_answers)
    costs = [[cost for cost, _ in one.accuracy_by_cost] for seeds in measured.values() for one in seeds]
    if all(costs) and path is not None:
        spent = {
            name: [[accuracy for _, accuracy in one.accuracy_by_cost] for one in seeds]
            for name, seeds in measured.items()
        }
        points = {name: (stop.mean_cost.mean, stop.accuracy.mean) for name, stop in stops.items()}
        beside = path.with_name(f"{path.stem}-by-cost{path.suffix}")
        accuracy_curve(spent, beside, title, points, all_answers, costs=costs[0])
    return figure


def _on_one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= ERROR_WIDTH else text[: ERROR_WIDTH - 1] + "…"
