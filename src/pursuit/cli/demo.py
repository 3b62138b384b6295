"""`pursuit demo`: train on the embedded tasks, compare with random order, and draw figures."""

from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.app import AsJson, Seed
from pursuit.cli.console import out, print_json, say, stoppable
from pursuit.cli.measurements import print_demo
from pursuit.cli.progress import training_bar
from pursuit.experiments.demo import run_demo


def demo(
    to: Annotated[Path, typer.Option("--out", help="The folder for models and figures.")] = Path("demo"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train on two embedded tasks, compare with random order, and draw figures. No data are needed."""
    results = []
    with stoppable("Run the same command again to continue."):
        for result in run_demo(to, seed, training_bar, say):
            results.append(result)
            if not as_json:
                print_demo(result)
    if as_json:
        print_json({"tasks": [result.to_dict() for result in results]})
        return
    model = results[0].folder
    out.print("Try next:", style="bold")
    for command, what in (
        (f"pursuit ask {model}", "think of an animal and be asked"),
        (f"pursuit explain {model} --data animals", "read the chains of a few players"),
        ("pursuit train yours.csv --target COLUMN", "your own table, every column a question"),
    ):
        out.print(f"  {command:<44} {what}", highlight=False, soft_wrap=True)
