"""`animals`: guess the animal a person thinks of, from yes/no questions a person can answer.

The table `animals.csv` says yes, no or nothing (nobody could say) for every animal and question. People are not tables:
the rows of this task are players who think of an animal and answer as the table does, but sometimes wrongly or not at
all.
"""

from importlib.resources import files

import numpy as np
import pandas as pd
import torch

from pursuit.exact import IndependentIP
from pursuit.information import AnswerSettings
from pursuit.networks import MLP
from pursuit.queries import Choice, ColumnQueries
from pursuit.registry import register
from pursuit.research.tasks.recipe import Recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.training.samplers import CarriedHistories
from pursuit.training.schedule import Stage

WRONG, UNSURE = 0.02, 0.05
"""Probabilities that a player answers a question wrongly, and not at all, if the table has an answer."""
TRAIN_PLAYERS, TEST_PLAYERS = 60, 10
"""Players for every animal."""


def table() -> pd.DataFrame:
    """Animals by questions: "yes", "no", or missing where nobody could say."""
    with (files("pursuit.research.tasks") / "animals.csv").open() as file:
        return pd.read_csv(file, index_col=0)


def query_set() -> ColumnQueries:
    return ColumnQueries([Choice(question, question, ("no", "yes")) for question in table().columns])


def load(seed: int = 0) -> Task:
    """New players for every seed: training and test players are drawn independently."""
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
    """The pursuer that knows how players answer: the best that asks greedily."""
    answers = table().sort_index()  # as labels are numbered
    # A question that has no answer for an animal says nothing about it: its players never answer.
    yes = torch.tensor((answers == "yes").to_numpy() * (1 - 2 * WRONG) + WRONG)
    yes[torch.tensor(answers.isna().to_numpy())] = 0.5
    names = answers.index.to_numpy(dtype=str)
    return IndependentIP.from_yes(query_set(), names, torch.full((len(names),), 1 / len(names)), yes)


def _players(per_animal: int, seed: np.random.SeedSequence) -> tuple[pd.DataFrame, np.ndarray]:
    answers = table()
    randomness = np.random.default_rng(seed)
    animal = np.repeat(np.arange(len(answers)), per_animal)
    given = answers.to_numpy(dtype=object)[animal]  # (players, Q)
    wrong = randomness.random(given.shape) < WRONG
    given = np.where(wrong & (given == "yes"), "no", np.where(wrong & (given == "no"), "yes", given))
    given[randomness.random(given.shape) < UNSURE] = None
    return pd.DataFrame(given, columns=answers.columns), answers.index.to_numpy(dtype=str)[animal]


# Answers of players are independent given the animal: it begins as naive Bayes, which is nearly right.
DEMO = Recipe(
    MLP((128, 128), direct=True),
    (Stage(8, CarriedHistories(20), batch_size=256),),
    "confidence=0.9",
    max_queries=30,
    answers=AnswerSettings(rank=0),
)
FAST = Recipe(MLP((256, 256)), (Stage(40, CarriedHistories(20), batch_size=256),), "confidence=0.9", max_queries=30)

register(
    TaskInfo(
        "animals",
        "guess an animal",
        load,
        n_queries=72,
        n_classes=187,
        n_train=187 * TRAIN_PLAYERS,
        n_test=187 * TEST_PLAYERS,
        recipes={"fast": FAST, "demo": DEMO},
    )
)
