"""`animals`: guess the animal a person thinks of, from yes/no questions a person can answer.

The table `animals.csv` says yes, no or nothing (nobody could say) for every animal and question. People are not tables:
the rows of this task are players who think of an animal and answer like the table, but now and then wrongly or not at
all.
"""

from importlib.resources import files

import numpy as np
import pandas as pd
import torch

from pursuit.exact import IndependentIP
from pursuit.queries import Choice, ColumnQueries
from pursuit.tasks.task import Task, TaskInfo

WRONG, UNSURE = 0.02, 0.05
"""How often a player errs, and how often one does not know, on a question that has an answer."""
TRAIN_PLAYERS, TEST_PLAYERS = 60, 10
"""Players for every animal."""


def table() -> pd.DataFrame:
    """Animals by questions: "yes", "no", or missing where nobody could say."""
    with (files("pursuit.tasks") / "animals.csv").open() as file:
        return pd.read_csv(file, index_col=0)


def query_set() -> ColumnQueries:
    return ColumnQueries([Choice(question, question, ("no", "yes")) for question in table().columns])


def load(seed: int = 0) -> Task:
    """Fresh players: those to learn from and those to measure on are drawn independently."""
    train, test = np.random.SeedSequence(seed).spawn(2)
    return Task(
        "animals",
        query_set(),
        *_players(TRAIN_PLAYERS, train),
        *_players(TEST_PLAYERS, test),
        notes={"seed": seed},
        exact=exact,
    )


def exact() -> IndependentIP:
    """The pursuer that knows how players answer: the best greedy player there can be."""
    answers = table().sort_index()  # as labels are numbered
    # A question without an answer for an animal tells nothing of it: its players never answer.
    yes = torch.tensor((answers == "yes").to_numpy() * (1 - 2 * WRONG) + WRONG)
    yes[torch.tensor(answers.isna().to_numpy())] = 0.5
    names = answers.index.to_numpy(dtype=str)
    return IndependentIP.from_yes(query_set(), names, torch.full((len(names),), 1 / len(names)), yes)


def _players(per_animal: int, seed: np.random.SeedSequence) -> tuple[pd.DataFrame, np.ndarray]:
    answers = table()
    randomness = np.random.default_rng(seed)
    animal = np.repeat(np.arange(len(answers)), per_animal)
    told = answers.to_numpy(dtype=object)[animal]
    wrong = randomness.random(told.shape) < WRONG
    told = np.where(wrong & (told == "yes"), "no", np.where(wrong & (told == "no"), "yes", told))
    told[randomness.random(told.shape) < UNSURE] = None
    return pd.DataFrame(told, columns=answers.columns), answers.index.to_numpy(dtype=str)[animal]


INFO = TaskInfo("animals", "guess an animal", load, 72, 187, 187 * TRAIN_PLAYERS, 187 * TEST_PLAYERS)
