"""What commands that measure do with `--engine`: all rows of files, share by share."""

from pathlib import Path
from typing import Any

from pursuit.cli.console import say, stoppable
from pursuit.cli.progress import rows_bar
from pursuit.cli.rows import rows_of_files
from pursuit.data.storage import place
from pursuit.public import Evaluation, PursuitClassifier, load
from pursuit.scale.engines import find_engine
from pursuit.scale.running import measure_all
from pursuit.tasks.every_row import EveryRow


def is_by_shares(engine: str | None, address: str | None, keep: str | None) -> bool:
    """Whether a command goes through all rows share by share."""
    is_meant = engine is not None or address is not None
    if keep is not None and not is_meant:
        raise ValueError("--keep is for rows that are counted share by share: add --engine local or --engine ray.")
    return is_meant


def measured_on_all_rows(
    model: Path,
    data: str,
    target: str | None,
    stop: str | None,
    max_queries: int | None,
    device: str,
    engine: str | None,
    address: str | None,
    keep: str | None,
    reading: dict[str, Any],
) -> tuple[PursuitClassifier, EveryRow, Evaluation]:
    """A model, the rows of files, and what is measured on all of them that it was not trained on."""
    classifier = load(model)
    if not isinstance(classifier, PursuitClassifier):
        raise ValueError(
            "--engine measures how classes are told apart, but this model predicts a number: leave it out."
        )
    classifier.device = device
    if max_queries is not None:
        classifier.max_queries = max_queries
    does, rows = find_engine(engine, address), rows_of_files(classifier, data, target, **reading)
    hint = "Run the same command again to continue." if keep else "To go on where it stopped, name a folder by --keep."
    with stoppable(hint), rows_bar("Measuring") as on_rows:
        folder = None if keep is None else place(keep)
        measured = measure_all(classifier, rows, stop, does, on_rows, folder, with_bits=True)
    if measured.n_left_out:
        say(f"Left out: {measured.n_left_out:,} rows without a label, or with one that the model does not know.")
    return classifier, rows, measured.evaluation
