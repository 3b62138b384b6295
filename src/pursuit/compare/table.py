"""What a comparison shows: numbers summed up over seeds, a table, and a figure of all methods."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pursuit.evaluation import wilson_interval
from pursuit.figures import accuracy_curve
from pursuit.reproduce import SHOWN_BUDGETS, mean_and_sd, mean_and_spread

ALL_ANSWERS = "all-answers"
"""The method that knows nothing until it knows everything: it has no curve worth showing."""
FEW_ROWS = 2000
"""Up to so many rows, chance in the choice of rows is worth telling."""
ERROR_WIDTH = 160
NOTHING = "–"


def summarise(seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, with the standard deviation over seeds, and the interval that so few rows leave."""

    def over_seeds(get: Callable[[dict[str, Any]], float]) -> dict[str, float]:
        return mean_and_sd([get(result) for result in seeds])

    def accuracy(get: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
        share = over_seeds(lambda result: get(result["evaluation"]))
        return {**share, "interval": wilson_interval(share["mean"], seeds[0]["n_test"])}

    longest = len(seeds[0]["evaluation"]["accuracy_by_n_queries"]) - 1
    timed = [result["step_milliseconds"] for result in seeds if result["step_milliseconds"] is not None]
    return {
        "n_seeds": len(seeds),
        "longest": longest,
        "area": over_seeds(lambda result: result["evaluation"]["auc"]),
        "stop": {
            "rule": seeds[0]["evaluation"]["stop"]["rule"],
            "mean_queries": over_seeds(lambda result: result["evaluation"]["stop"]["mean_queries"]),
            "accuracy": accuracy(lambda evaluation: evaluation["stop"]["accuracy"]),
        },
        "accuracy_all_answers": accuracy(lambda evaluation: evaluation["accuracy_all_answers"]),
        "training_seconds": over_seeds(lambda result: result["training_seconds"]),
        "step_milliseconds": mean_and_sd(timed) if timed else None,
        **{
            f"accuracy_after_{n}": accuracy(lambda evaluation, n=n: evaluation["accuracy_by_n_queries"][n])  # type: ignore[misc]
            for n in SHOWN_BUDGETS
            if n <= longest
        },
    }


def worked(results: dict[str, Any]) -> dict[str, Any]:
    """The methods that gave something, by name."""
    return {name: method for name, method in results["methods"].items() if method["summary"]}


def in_brief(result: dict[str, Any]) -> str:
    """The key numbers of one method and seed, or why there are none."""
    if "error" in result:
        return f"failed: {_on_one_line(result['error'])}"
    evaluation = result["evaluation"]
    stop = evaluation["stop"]
    told = [
        f"area {evaluation['auc']:.3f}",
        f"{stop['accuracy']:.3f} right after {stop['mean_queries']:.1f} answers",
        f"{evaluation['accuracy_all_answers']:.3f} right with all",
        f"trained in {result['training_seconds']:.0f} s",
    ]
    return ", ".join(told[2:] if result["run"]["method"] == ALL_ANSWERS else told)


def header(results: dict[str, Any], in_full: bool = True) -> list[str]:
    """The titles of the columns, in full or in words that fit narrow ones."""
    longest = next((method["summary"]["longest"] for method in worked(results).values()), None)
    return [
        "method",
        *(f"after {n}" for n in SHOWN_BUDGETS),
        f"area to {longest}" if longest else "area",
        "stops after",
        *(("accuracy there", "all answers", "training") if in_full else ("right there", "with all", "s to train")),
        "ms a step",
        "seeds",
    ]


def cells(name: str, method: dict[str, Any], in_full: bool = True) -> list[str]:
    """The row of a method: in full with deviations, and of few rows with an interval, or means alone."""
    summary, failed = method["summary"], method["failed"]
    why = "; ".join(dict.fromkeys(_on_one_line(failure["error"]) for failure in failed))
    if summary is None:
        return [method["title"], f"failed: {why}", *[NOTHING] * (len(SHOWN_BUDGETS) + 5), "0"]
    told = mean_and_spread if in_full else _mean
    n_seeds = f"{summary['n_seeds']} of {summary['n_seeds'] + len(failed)}" if failed else str(summary["n_seeds"])
    n_seeds += f" (failed: {why})" if failed and in_full else ""
    resumed = ", resumed" if any(seed["resumed"] for seed in method["seeds"]) else ""
    unit = f" s{resumed}" if in_full else ""
    timed = [_rounded(summary["training_seconds"]) + unit, _rounded(summary["step_milliseconds"])]
    everything = told(summary["accuracy_all_answers"])
    if name == ALL_ANSWERS:
        return [method["title"], *[NOTHING] * (len(SHOWN_BUDGETS) + 3), everything, *timed, n_seeds]
    stop, is_sure = summary["stop"], method["seeds"][0]["n_test"] > FEW_ROWS
    low, high = stop["accuracy"]["interval"]
    return [
        method["title"],
        *(told(summary.get(f"accuracy_after_{n}")) for n in SHOWN_BUDGETS),
        told(summary["area"]),
        f"{stop['mean_queries']['mean']:.2f}",
        told(stop["accuracy"]) + (f" ({low:.3f} to {high:.3f})" if in_full and not is_sure else ""),
        everything,
        *timed,
        n_seeds,
    ]


def markdown_table(results: dict[str, Any]) -> str:
    """All methods, a row each, and below them how to read it."""
    titles = header(results)
    rows = [titles, ["---"] * len(titles)]
    rows += [[cell.replace("|", r"\|") for cell in cells(*item)] for item in results["methods"].items()]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    measured = [seed for method in worked(results).values() for seed in method["seeds"]]
    if len({seed["seed"] for seed in measured}) > 1:
        lines += ["", "Behind ±: the standard deviation over seeds."]
    if any(seed["n_test"] <= FEW_ROWS for seed in measured):
        lines += ["", "In brackets: where the accuracy on fresh rows lies with 95 % confidence (Wilson)."]
    return "\n".join([*lines, "", remark(results), ""])


def remark(results: dict[str, Any]) -> str:
    """What the numbers of the table mean and where they come from."""
    methods = worked(results)
    if not methods:
        return f"{results['task']}: no method worked."
    places: dict[str, dict[str, None]] = {}
    for method in methods.values():
        for origin in (seed["provenance"] for seed in method["seeds"]):
            place = f"{origin['device']} ({origin['machine']}), commit {origin['commit']}"
            places.setdefault(place, {})[method["title"]] = None
    where = "; ".join(place + (f": {', '.join(titles)}" if len(places) > 1 else "") for place, titles in places.items())
    first = next(iter(methods.values()))
    one, summary = first["seeds"][0], first["summary"]
    return (
        f"{results['task']}: accuracy on {one['n_test']:,} {results['measured_on']}, learnt from {one['n_train']:,}. "
        f"The area is the mean accuracy over 1 to {summary['longest']} answers, the stopping rule "
        f"{summary['stop']['rule']}. A step is timed one row at a time on the CPU. Measured on {where}."
    )


def draw_curves(results: dict[str, Any], path: Path) -> None:
    """The accuracy of all methods against the number of answers; nothing where there is nothing to draw."""
    methods = worked(results)
    everything = methods.get(ALL_ANSWERS) or methods.get("vip")
    shown = {method["title"]: method for name, method in methods.items() if name != ALL_ANSWERS}
    if not shown:
        return
    n_rows = next(iter(shown.values()))["seeds"][0]["n_test"]
    accuracy_curve(
        {
            title: [seed["evaluation"]["accuracy_by_n_queries"] for seed in method["seeds"]]
            for title, method in shown.items()
        },
        path,
        title=f"{results['task']}: accuracy on {n_rows:,} {results['measured_on']}",
        stops={title: _stop_of(method["summary"]) for title, method in shown.items()},
        all_answers=everything and everything["summary"]["accuracy_all_answers"]["mean"],
    )


def _stop_of(summary: dict[str, Any]) -> tuple[float, float]:
    return summary["stop"]["mean_queries"]["mean"], summary["stop"]["accuracy"]["mean"]


def _mean(value: dict[str, float] | None) -> str:
    return NOTHING if value is None else f"{value['mean']:.3f}"


def _rounded(value: dict[str, float] | None) -> str:
    """A number that need not be exact: three digits."""
    return NOTHING if value is None else f"{value['mean']:.3g}" if value["mean"] < 1000 else f"{value['mean']:.0f}"


def _on_one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= ERROR_WIDTH else text[: ERROR_WIDTH - 1] + "…"
