"""`pursuit demo`: train on the embedded tasks, compare with random order, and draw figures."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

from pursuit.cli.console import escaped, out, print_json, say, stoppable, training_bar
from pursuit.cli.options import AsJson
from pursuit.options import Option, Seed


def demo(
    to: Annotated[Path, Option("The folder for models and figures.", "--out")] = Path("demo"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train on two embedded tasks, compare with random order, and draw figures. No data are needed."""
    from pursuit.cli.measurements import print_demo
    from pursuit.research.experiments.demo import run_demo

    results = []
    with stoppable():
        for result in run_demo(to, seed, training_bar, say):
            results.append(result)
            if not as_json:
                print_demo(result)
    if as_json:
        print_json({"tasks": [result.to_dict() for result in results]})
        return
    name, model, pursuit = results[0].task, results[0].folder, _program()
    for what, command in (
        ("What it asked of a few players, and why:", f"{pursuit} explain {model} --data {name}"),
        ("Be asked here, in the terminal:", f"{pursuit} ask {model}"),
        ("A table of your own, every column a question:", f"{pursuit} train yours.csv --target COLUMN"),
        ("Think of an animal, and be asked on a web page:", f"{pursuit} serve {model}"),
    ):
        out.print(f"{what:<48} [bold]{escaped(command)}[/bold]", highlight=False, soft_wrap=True)


def _program() -> str:
    """The command that starts the program: its name, or its path if its environment is not active."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "pursuit" and shutil.which("pursuit") is None else "pursuit"
