"""What the program shows people: tables on standard output, remarks on standard error."""

import json
import shlex
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from pursuit.compare.table import cells, header, remark
from pursuit.demo import Comparison
from pursuit.evaluation import Evaluation
from pursuit.processes import is_first

# Of several processes that train together, one speaks.
out, err = Console(quiet=not is_first()), Console(stderr=True, quiet=not is_first())


def print_evaluation(name: str, evaluation: Evaluation) -> None:
    table = Table("queries", "accuracy", title=f"{name}: {evaluation.n_rows} rows, {evaluation.n_queries} queries")
    for n, accuracy in some_of(evaluation.accuracy_by_n_queries):
        table.add_row(str(n), f"{accuracy:.3f}")
    table.add_row("all answers", f"{evaluation.accuracy_all_answers:.3f}", style="dim")
    out.print(table)
    if stop := evaluation.stop:
        low, high = stop.accuracy_interval
        asked = "" if stop.mean_asked == stop.mean_queries else f" ({stop.mean_asked:.2f} asked)"
        out.print(
            f"Stopping at {stop.rule}: accuracy {stop.accuracy:.3f} (95 % interval {low:.3f} to {high:.3f}) "
            f"after {stop.mean_queries:.2f} answers on average{asked}; mean confidence {stop.mean_confidence:.3f}.",
            highlight=False,
            soft_wrap=True,
        )


def print_comparison(result: Comparison) -> None:
    vip, random = result.evaluation, result.random_order
    title = f"{result.task}: {vip.n_rows} rows kept apart, {vip.n_queries} queries, trained in {result.seconds:.0f} s"
    table = Table("queries", "V-IP", "random order", title=title)
    for n, accuracy in some_of(vip.accuracy_by_n_queries):
        table.add_row(str(n), f"{accuracy:.3f}", f"{random.accuracy_by_n_queries[n]:.3f}")
    out.print(table)
    if stop := vip.stop:
        out.print(
            f"Stopping at {stop.rule}: accuracy {stop.accuracy:.3f} after {stop.mean_queries:.1f} answers on average; "
            f"with all answers {vip.accuracy_all_answers:.3f}.",
            highlight=False,
            soft_wrap=True,
        )
    out.print(f"Figures and model: {', '.join(str(path) for path in result.files)}\n", highlight=False, soft_wrap=True)


def print_methods(results: dict[str, Any]) -> None:
    """A row a method: means over seeds alone, to fit a terminal; the file beside them says more."""
    name, *titles = header(results, in_full=False)
    columns = [Column(title, justify="right", overflow="fold") for title in titles]
    table = Table(Column(name, no_wrap=True), *columns, box=None, padding=(0, 1, 0, 0), header_style="underline")
    failed = []
    for method, found in results["methods"].items():
        if found["summary"]:
            table.add_row(*map(escaped, cells(method, found, in_full=False)))
        failed += [
            f"{found['title']}, seed {failure['seed']} failed: {failure['error']}" for failure in found["failed"]
        ]
    if table.row_count:
        out.print(table)
    for line in (*failed, remark(results)):
        out.print(escaped(line), highlight=False, soft_wrap=True)


def print_trained(told: dict[str, Any]) -> None:
    model, task = shlex.quote(told["model"]), shlex.quote(told["task"])
    print(f"Saved in {told['model']}. Try next:\n  pursuit explain {model} --data {task}\n  pursuit ask {model}")


def some_of(accuracy: list[float]) -> list[tuple[int, float]]:
    """Enough of a long list to see its course: the first ones, then fewer and fewer, and the last."""
    last = len(accuracy) - 1
    wanted = {n for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000) if n <= last} | {last}
    return [(n, accuracy[n]) for n in sorted(wanted)]


def print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, ensure_ascii=False))


def escaped(text: str) -> str:
    """Text that may hold square brackets, which rich would read as style."""
    return text.replace("[", r"\[")
