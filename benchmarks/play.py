"""Plays every animal through a session, as a person would. A person thinks of an animal and answers as the table
`animals.csv` does; where the table has no answer, the person does not know either. Once the stopping rule is satisfied
the model guesses; a wrong guess is rejected, and play goes on until 20 questions were asked; then the best counts.
"""

import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import means
from benchmarks.report import Record, grid, grouped, met, origins
from benchmarks.study import Study
from pursuit import Session, VIPClassifier
from pursuit.research.tasks import animals, find_recipe

MOST_QUESTIONS = 20
MANNERS = {
    "as the table does": (0.0, 0.0, 0.95),
    "one in ten withheld": (0.1, 0.0, 0.88),
    "one in twenty wrong": (0.0, 0.05, 0.80),
}
"""How often people say that they don't know and how often the opposite, and the share of animals to be guessed."""


def play(session: Session, animal: str, answers: Mapping[str, str | None]) -> Record:
    """Play one animal; `answers` says yes, no or nothing to the question of a name."""
    guesses: list[tuple[str, int]] = []
    while True:
        n_asked = session.position.n_asked
        if not session.done and n_asked < MOST_QUESTIONS:
            answer = answers[session.ask().name]
            session.dont_know() if answer is None else session.tell(answer)
            continue
        guesses.append((str(session.prediction), n_asked))
        is_guessed = guesses[-1][0] == animal
        if is_guessed or n_asked >= MOST_QUESTIONS or not session.can_go_on:
            first = {"first_guess_right": guesses[0][0] == animal, "asked_at_first_guess": guesses[0][1]}
            return {**first, "guessed": is_guessed, "asked": n_asked, "guesses": len(guesses)}
        session.reject()


def play_all(model: Any, rows: pd.DataFrame, withheld: float, wrong: float, seed: int) -> dict[str, Record]:
    """The game of every animal of a table. What is withheld or wrong is drawn for every animal and question beforehand,
    so that it does not depend on what a model asks."""
    is_withheld, is_wrong = np.random.default_rng([seed, 7]).random((2, *rows.shape)) < [[[withheld]], [[wrong]]]
    given = rows.to_numpy(dtype=object)
    other = np.where(given == "yes", "no", np.where(given == "no", "yes", None))
    given = np.where(is_wrong, other, given)
    given = np.where(is_withheld | pd.isna(given), None, given)
    answers = (dict(zip(rows.columns, row, strict=True)) for row in given)
    return {str(name): play(model.session(), str(name), own) for name, own in zip(rows.index, answers, strict=True)}


def measure(manner: str, model: int, seed: int, effort: float = 1.0, most: int | None = None) -> Record:
    """A model of the recipe `fast`, by the seed of its training, and a seed of what is withheld and wrong."""
    task, recipe = animals.load(model), find_recipe("animals", "fast").scaled(effort)
    trained = VIPClassifier(task.query_set, random_state=model, **recipe.settings()).fit(task.X_train, task.y_train)
    withheld, wrong, _ = MANNERS[manner]
    games = play_all(trained, animals.table()[:most], withheld, wrong, seed)
    missed = sorted(animal for animal, game in games.items() if not game["guessed"])
    return {"recipe": str(recipe), "games": len(games), **means(list(games.values())), "missed": missed}


def page(records: list[Record]) -> dict[str, str]:
    by_manner = grouped(records, "manner")
    columns = {
        "guessed": "guessed|.1%",
        "worst run": lambda each: f"{min(one['guessed'] for one in each):.1%}",
        "goal": lambda each: f"{MANNERS[each[0]['manner']][2]:.0%}",
        "": lambda each: met(statistics.fmean(one["guessed"] for one in each), least=MANNERS[each[0]["manner"]][2]),
        "first guess right": "first_guess_right|.1%",
        "asked until then": "asked_at_first_guess|.2f",
        "asked in all": "asked|.2f",
        "runs": len,
    }
    missed = sorted({animal for one in by_manner.get("as the table does", []) for animal in one["missed"]})
    said = f"at least one model did not guess {', '.join(missed)}" if missed else "every model guessed every animal"
    text = grid(by_manner, columns, "answers") + f"\nWith the table's own answers, {said}."
    return {"figures": text, "origins": origins(records, "manner")}


STUDY = Study(
    name="play",
    runs=[
        {"manner": manner, "model": model, "seed": seed}
        for manner, (withheld, wrong, _) in MANNERS.items()
        for model in (0, 1)
        for seed in ((10, 11, 12) if withheld or wrong else (10,))
    ],
    measure=measure,
    page=page,
    quick={"effort": 0.01, "most": 3},
)
