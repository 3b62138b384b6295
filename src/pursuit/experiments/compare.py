"""Compare methods: train and measure every method of a trial, and write down what came out after each of them.

A results folder holds `results.json`, `table.md` and `curve.png`; in METHOD/seed-K are the model and its result, or
`error.txt` if the method failed. The same trial goes on where it stopped.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pursuit.estimators import Method
from pursuit.experiments.beside import EXACT_IP
from pursuit.experiments.results import Failure, MethodResults, Result, Results
from pursuit.experiments.run import Measurement, MethodRun, Progress, Say, no_progress, say_nothing
from pursuit.experiments.sweep import Sweep, one_by_one
from pursuit.experiments.table import draw_curves, in_brief, markdown_table
from pursuit.experiments.trial import Trial
from pursuit.files import write_whole
from pursuit.methods import METHODS

ALL, EXACT = "all", "exact"


def compare(
    trial: Trial,
    folder: str | Path,
    progress: Progress = no_progress,
    say: Say = say_nothing,
    methods: Mapping[str, Method] = METHODS,
    only_collect: bool = False,
    sweep: Sweep = one_by_one,
) -> Results:
    """Train and measure every method of the trial that is not done yet, and write the results folder.

    `progress` is given a title for every training, and `say` a line for every method as soon as it is measured. A
    method that fails is noted with its error and tried again the next time; the others go on. `only_collect` trains
    nothing: it collects what is measured already, perhaps by several processes with different methods. `sweep` says
    where and in which order methods are measured.
    """
    folder, titles, described = Path(folder), _titles(trial, methods), trial.described()
    runs = [
        MethodRun(
            run={**described, "method_parameters": _as_text(methods[name]) if name in methods else {}},
            name=name,
            title=titles[name],
            method=methods.get(name),
            load=trial.load,
            seed=seed,
            folder=folder / name / f"seed-{seed}",
            device=trial.device,
            measurement=Measurement(trial.last_query, times_steps=True),
        )
        for seed in trial.seeds
        for name in titles
    ]
    found: dict[tuple[str, int], Result | Failure] = {}
    for run in runs:
        if result := run.read():
            found[run.name, run.seed] = result
            say(f"{run.label}: already measured, {in_brief(result)}")
    results = _write(folder, described, titles, found)
    left = [run for run in runs if (run.name, run.seed) not in found and not only_collect]
    for run, outcome in sweep(left, progress):
        found[run.name, run.seed] = outcome
        say(f"{run.label}: {in_brief(outcome)}")
        results = _write(folder, described, titles, found)
    return results


def _titles(trial: Trial, methods: Mapping[str, Method]) -> dict[str, str]:
    """The methods to compare by name, as figures and tables have them; raises ValueError for unknown ones."""
    names, known = list(dict.fromkeys(trial.methods)), [*vip_first(of_classes(methods)), EXACT]
    wanted = known if names == [ALL] else names
    if numeric := [name for name in wanted if name in methods and methods[name].predicts_numbers]:
        raise ValueError(
            f"{numeric[0]} predicts a number, and what is compared is the accuracy of classes: leave it out."
        )
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"'{unknown[0]}' is not a method: choose from {', '.join(known)}, or {ALL}.")
    if EXACT in wanted and trial.load(trial.seeds[0]).exact is None:
        if names != [ALL]:
            raise ValueError(f"Exact Information Pursuit is not available for {trial.name}: leave {EXACT} out.")
        wanted = [name for name in wanted if name != EXACT]
    if trial.cost_aware and not any(name == EXACT or methods[name].accepts("cost_aware") for name in wanted):
        able = ", ".join(name for name in known if name == EXACT or methods[name].accepts("cost_aware"))
        raise ValueError(f"--cost-aware does not apply to {', '.join(wanted)}: leave it out, or compare with {able}.")
    return {name: methods[name].title if name in methods else EXACT_IP for name in wanted}


def of_classes(methods: Mapping[str, Method]) -> list[str]:
    """The names of the methods that predict classes, which can be compared by their accuracy."""
    return [name for name, method in methods.items() if not method.predicts_numbers]


def vip_first(methods: Iterable[str]) -> list[str]:
    """Names of methods in the order of a table: V-IP, then its rivals."""
    return sorted(methods, key=lambda name: name != "vip")


def _as_text(method: Method) -> dict[str, Any]:
    return {key: str(value) for key, value in method.parameters.items()}


def _write(
    folder: Path,
    described: dict[str, Any],
    titles: Mapping[str, str],
    found: Mapping[tuple[str, int], Result | Failure],
) -> Results:
    """Everything found so far, which is also written into the folder."""
    by_method = {name: [one for (method, _), one in found.items() if method == name] for name in titles}
    methods = {name: MethodResults.of(titles[name], seeds) for name, seeds in by_method.items() if seeds}
    results = Results(described, methods)
    if found:
        results.write(folder / "results.json")
        write_whole(folder / "table.md", markdown_table(results).encode())
        draw_curves(results, folder / "curve.png")
    return results
