"""What a comparison shows: a table and a figure of all methods."""

from pathlib import Path

from pursuit.evaluation.figures import accuracy_curve
from pursuit.experiments.results import (
    NOTHING,
    SHOWN_BUDGETS,
    Failure,
    MethodResults,
    Result,
    Results,
    mean_and_spread,
    mean_only,
    three_digits,
)

ALL_ANSWERS = "all-answers"
"""The method that predicts nothing before it has all answers: it has no curve worth showing."""
FEW_ROWS = 2000
"""Up to this many test rows, an accuracy is shown with its interval."""
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
        at_stop = [f"{stop.accuracy:.3f} right after {stop.mean_answered:.1f} answers"] if stop else []
        parts = [f"area {evaluation.area:.3f}", *at_stop, *parts]
    return ", ".join(parts)


def header(results: Results, in_full: bool = True) -> list[str]:
    """The titles of the columns, in full or short enough for narrow columns."""
    longest = next((summary.longest for _, summary in results.worked.values()), None)
    return [
        "method",
        *(f"after {n}" for n in SHOWN_BUDGETS),
        f"area to {longest}" if longest else "area",
        "stops after",
        *(("accuracy there", "all answers", "training") if in_full else ("right there", "with all", "s to train")),
        "ms a step",
        "seeds",
    ]


def cells(name: str, method: MethodResults, in_full: bool = True) -> list[str]:
    """The row of a method: in full with deviations, and with an interval if there are few rows, or means alone."""
    summary, failed = method.summary, method.failed
    why = "; ".join(dict.fromkeys(_on_one_line(failure.error) for failure in failed))
    if summary is None:
        return [method.title, f"failed: {why}", *[NOTHING] * (len(SHOWN_BUDGETS) + 5), "0"]
    show = mean_and_spread if in_full else mean_only
    n_seeds = f"{summary.n_seeds} of {summary.n_seeds + len(failed)}" if failed else str(summary.n_seeds)
    n_seeds += f" (failed: {why})" if failed and in_full else ""
    resumed = ", resumed" if any(seed.resumed for seed in method.seeds) else ""
    unit = f" s{resumed}" if in_full else ""
    timed = [three_digits(summary.training_seconds) + unit, three_digits(summary.step_milliseconds)]
    all_answers = show(summary.accuracy_all_answers)
    if name == ALL_ANSWERS:
        return [method.title, *[NOTHING] * (len(SHOWN_BUDGETS) + 3), all_answers, *timed, n_seeds]
    at_stop, has_few_rows = [NOTHING, NOTHING], method.seeds[0].n_test <= FEW_ROWS
    if stop := summary.at_stop:
        interval = stop.accuracy.interval if in_full and has_few_rows else None
        shown = f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
        at_stop = [f"{stop.mean_answered.mean:.2f}", show(stop.accuracy) + shown]
    after = [show(summary.accuracy_after.get(n)) for n in SHOWN_BUDGETS]
    return [method.title, *after, show(summary.area), *at_stop, all_answers, *timed, n_seeds]


def markdown_table(results: Results) -> str:
    """All methods, a row each, and below them how to read it."""
    titles = header(results)
    rows = [titles, ["---"] * len(titles)]
    rows += [[cell.replace("|", r"\|") for cell in cells(*item)] for item in results.methods.items()]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    measured = [seed for method, _ in results.worked.values() for seed in method.seeds]
    if len({seed.seed for seed in measured}) > 1:
        lines += ["", "After ±: the standard deviation over seeds."]
    if any(seed.n_test <= FEW_ROWS for seed in measured):
        lines += ["", "In brackets: where the accuracy on fresh rows lies with 95 % confidence (Wilson)."]
    return "\n".join([*lines, "", remark(results), ""])


def remark(results: Results) -> str:
    """What the numbers of the table mean and where they come from."""
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
        f"The area is the mean accuracy over 1 to {summary.longest} answers{rule}. "
        f"A step is timed one row at a time on the CPU. Measured on {where}."
    )


def draw_curves(results: Results, path: Path) -> None:
    """The accuracy of all methods against the number of answers; no figure if no method has a curve."""
    worked = results.worked
    shown = [found for name, found in worked.items() if name != ALL_ANSWERS]
    if not shown:
        return
    all_answers = worked.get(ALL_ANSWERS) or worked.get("vip")
    accuracy_curve(
        {method.title: [seed.evaluation.accuracy_by_answered for seed in method.seeds] for method, _ in shown},
        path,
        title=f"{results.run['task']}: accuracy on {shown[0][0].seeds[0].n_test:,} {results.run['measured_on']}",
        stops={
            method.title: (summary.at_stop.mean_answered.mean, summary.at_stop.accuracy.mean)
            for method, summary in shown
            if summary.at_stop
        },
        all_answers=all_answers[1].accuracy_all_answers.mean if all_answers else None,
    )


def _on_one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= ERROR_WIDTH else text[: ERROR_WIDTH - 1] + "…"
