"""The models of `pursuit serve`: those of the demonstration by default, with rows to measure them on and pictures to
try them with, where these are on the machine."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pursuit.cli.console import say
from pursuit.cli.rows import measurable, unseen_rows
from pursuit.estimators import Method, PursuitEstimator
from pursuit.estimators.saving import DESCRIPTION, fingerprint
from pursuit.files import DamagedFile
from pursuit.inference.stopping import StoppingRule
from pursuit.registry import find
from pursuit.report.measured import Measured
from pursuit.research.tasks import EMBEDDED, TASKS, load_task
from pursuit.research.tasks.files import cache_folder, locate
from pursuit.research.tasks.task import take_rows
from pursuit.tables.source import MemorySource
from pursuit.web.serving.models import SamplePictures, id_of
from pursuit.web.serving.store import Search, Store, StoredSession, default_database

DEMO = Path("demo")
QUICK_METHOD = "naive-bayes"
"""Learns the animals in seconds, and guesses them about as well as V-IP does: their answers are independent."""
MOST_ROWS = 500
"""Most rows that a model is measured on, so that the server has time for people."""
SAMPLES_A_LABEL, MOST_SAMPLES = 2, 24


def default_models() -> list[Path]:
    """The models of the demonstration or, if it was not run, one that is trained now and saved."""
    found = [DEMO / name for name in EMBEDDED if (DEMO / name / DESCRIPTION).is_file()]
    return found or [_quick_model()]


def models_in(folders: Sequence[Path]) -> list[Path]:
    """The folders of models that are meant: those given, and of a folder that is none itself, all in it by name."""
    found: list[Path] = []
    for folder in folders:
        inside = (
            [] if (folder / DESCRIPTION).exists() else sorted(one.parent for one in folder.glob(f"*/{DESCRIPTION}"))
        )
        found += inside or [folder]
    return found


def kept_sessions(model: Path, database: str | None) -> Iterator[StoredSession]:
    """The sessions with a model, the oldest first, in a database by its address, or in an SQLite file by its path;
    raises ValueError where none are kept."""
    address = database or default_database([str(model.resolve())])
    if "://" not in address:
        address = f"sqlite:///{address}"
    file = address.removeprefix("sqlite:///")
    if file != address and not Path(file).expanduser().is_file():
        raise ValueError(
            f"No sessions are kept in {file}: serve the model first, or say by --database where its sessions are."
        )
    store, own = Store(address), id_of(model)
    if store.find(Search(), 1, 0)[0] and not store.find(Search(model=own), 1, 0)[0]:
        raise ValueError(f"The database has sessions with other models, and none with “{own}”: check --database.")
    return store.each(Search(model=own))


def _quick_model() -> Path:
    name = EMBEDDED[0]
    folder = cache_folder() / "models" / name
    try:
        fingerprint(folder)
    except (FileNotFoundError, DamagedFile):
        say(f"There is no model in {DEMO}/ yet, so one of {name} is trained first, which takes a few seconds.")
        task, method = load_task(name), find(Method.registry_kind, QUICK_METHOD)
        model = method.build(task.query_set, **task.settings, random_state=0)
        task.fit(model)
        model.save(folder, {"task": {"name": task.name, **task.notes}})
    return folder


def measure(estimator: PursuitEstimator, stop: StoppingRule) -> Measured | None:
    """Measurements of a model that asks by a rule, on rows that it was not trained on; None if there are none."""
    rows = rows_of(estimator)
    if rows is None or rows.y is None:
        return None
    chosen = np.unique(np.linspace(0, len(rows.y) - 1, MOST_ROWS).astype(int))
    some = rows.take(chosen)
    return Measured.of(estimator, some.X, some.y, stop, initially_known=some.initially_known, name=rows.name)


def rows_of(estimator: PursuitEstimator) -> MemorySource | None:
    """Rows of the task or file that a model was trained on, if they are on this machine; nothing is fetched."""
    trained = estimator.notes_.get("task", {})
    name, file = str(trained.get("name", "")), str(trained.get("file", ""))
    if name in TASKS and all(locate(needed) for needed in TASKS[name].files):
        data = name
    elif file and Path(file).is_file():
        data = file
    else:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = unseen_rows(estimator, data)
            return rows if rows.y is None else measurable(estimator, rows)
    except (ValueError, OSError):
        return None  # the data are others than those of training


def find_samples(estimator: PursuitEstimator) -> SamplePictures | None:
    """A few pictures of each label that a model was not trained on; None where there are none."""
    rows, patches = rows_of(estimator), estimator.model_.query_set.patches
    if rows is None or rows.y is None or patches is None:
        return None
    labels = [str(label) for label in rows.y]
    nth = pd.Series(labels).groupby(labels).cumcount().tolist()
    of_each = (i for i in range(len(labels)) if nth[i] < SAMPLES_A_LABEL)
    chosen = sorted(of_each, key=lambda i: (nth[i], labels[i]))[:MOST_SAMPLES]
    pixels = np.asarray(take_rows(rows.X, np.array(chosen)), dtype=np.float32).reshape(-1, *patches.image_shape)
    return SamplePictures(pixels, tuple(labels[i] for i in chosen))
