"""`pursuit tune`: search settings on held-out training rows, and say how to train with the best."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Column, Table

from pursuit.cli.console import out, print_json, remark_on_task, say, show, stoppable, training_bar
from pursuit.cli.options import AsJson, EngineOptions, Regress, Source, TableOptions, words_of
from pursuit.cli.train import find_method, folder_name
from pursuit.options import Option
from pursuit.research.experiments.options import SearchOptions

if TYPE_CHECKING:
    from pursuit.research.experiments.tune import Trial, Tuning

MOST_LISTED = 5
"""Number of the best trials that are listed."""


def tune(
    source: Source,
    *,
    options: SearchOptions,
    trials: Annotated[int, Option("How many settings to try, the usual ones included.", min=1)] = 30,
    to: Annotated[Path | None, Option("The folder to write; by default runs/tune-NAME.", "--out")] = None,
    regress: Regress = False,
    table: TableOptions,
    where: EngineOptions,
    as_json: AsJson = False,
) -> None:
    """Search settings of a method, such as learning rate and width, and say how to train with the best of them.

    Each trial trains on a part of the training rows and is judged on the others by its accuracy over all numbers of
    questions; test rows have no say. The folder gets trials.csv and best.json. The same command again continues where
    it stopped.
    """
    from pursuit.research.experiments.tune import Search
    from pursuit.research.experiments.tune import tune as run_search

    chosen = find_method(options.method, regress)
    search = Search(
        source,
        costs=table.costs(),
        cost_aware=table.cost_aware,
        table_options={"regress": chosen.predicts_numbers, **table.reading()},
        **{**vars(options), "method": chosen.name},
    )
    folder = to or Path("runs") / f"tune-{folder_name(search.name, chosen)}"
    remark_on_task(search.load()[0])
    with stoppable():
        found = run_search(search, folder, trials, training_bar, say, where.find_engine())
    chosen_words = [*words_of(options), *(["--regress"] if regress else []), *words_of(table)]
    tuned = ["--tuned", str(folder)] if found.settings else []
    command = shlex.join(["pursuit", "train", source, *chosen_words, *tuned])
    if as_json:
        print_json({**found.to_dict(), "folder": str(folder), "train": command})
        return
    _print(found, chosen.predicts_numbers)
    show(f"Written into {folder}. Train on all training rows, and measure on test rows, by\n  {command}")


def _print(found: "Tuning", regress: bool) -> None:
    """The best trials beside the default settings, and how far to trust them."""
    from pursuit.research.experiments.tune import FACTORS, TRIALS

    best, default = found.best, found.default
    assert best.judged
    names = list(best.values)
    what = "R²" if regress else "accuracy"
    title = (
        f"{found.search['task']}: mean {what} over 1 to {best.judged.longest} questions on {best.judged.n_judged:,} "
        "held-out training rows"
    )
    factors = "Factors on what is usual: 1 changes nothing." if set(names) & set(FACTORS) else None
    table = Table("trial", *(Column(name, justify="right") for name in (what, *names)), title=title, caption=factors)
    for trial in found.ranked[:MOST_LISTED]:
        table.add_row(*_cells(trial))
    if default and not any(trial.number == 0 for trial in found.ranked[:MOST_LISTED]):
        table.add_row(*_cells(found.trials[0]))
    out.print(table)
    if n_failed := sum(trial.judged is None for trial in found.trials):
        say(f"{n_failed} of {len(found.trials)} trials failed, as {TRIALS} says.")
    if best.number == 0:
        lines = "No trial was better than the usual settings: leave them as they are."
    else:
        usual = "failed" if default is None else f"{default.area:.4f}"
        lines = (
            f"The best of {len(found.trials)} trials: {best.judged.area:.4f}; the usual settings: {usual}. The best of "
            "many looks better than it is, because it was chosen by this very figure: on new rows, expect less."
        )
    show(lines)


def _cells(trial: "Trial") -> list[str]:
    assert trial.judged
    return [
        str(trial.number or "usual"),
        f"{trial.judged.area:.4f}",
        *(f"{value:.3g}" for value in trial.values.values()),
    ]
