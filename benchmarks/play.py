"""Plays every animal through a session, as a person would: `python benchmarks/play.py` writes docs/results/play.md.

A person thinks of an animal and answers as the table `animals.csv` does; where the table has no answer, the person
does not know either. Once the stopping rule is satisfied the model guesses. A wrong guess is rejected, and play goes on
until MOST_QUESTIONS were asked; then the best guess counts. Models are trained by the recipe `fast`, as in `pursuit
demo`, on players drawn from the very same table, who answer wrongly or not at all now and then.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from pursuit import Session, VIPClassifier
from pursuit.tasks import animals, find_recipe
from report import RESULTS, origin, save, table, where

MOST_QUESTIONS = 20
MODELS = (0, 1)
"""Seeds of training."""
SEEDS = (10, 11, 12)
"""Of what is withheld and what is wrong; no setting was chosen by these."""


AVERAGED = ("first_guess_right", "guessed", "asked_at_first_guess", "asked", "guesses")


@dataclass(frozen=True)
class Manner:
    """How people answer."""

    title: str
    withheld: float = 0.0
    """How often they say that they don't know."""
    wrong: float = 0.0
    """How often they say yes for no, or no for yes."""
    goal: float = 0.0
    """The share of animals that should be guessed."""
    most_asked: float | None = None
    """How many questions should be asked on average, at most."""


MANNERS = (
    Manner("as the table does", goal=0.95, most_asked=10),
    Manner("one in ten withheld", withheld=0.1, goal=0.88),
    Manner("one in twenty wrong", wrong=0.05, goal=0.80),
)


@dataclass(frozen=True)
class Game:
    """How one animal was guessed."""

    animal: str
    first_guess: str
    asked_at_first_guess: int
    is_guessed: bool
    """Whether the animal was guessed in the end, within MOST_QUESTIONS."""
    n_asked: int
    n_guesses: int


def play(session: Session, animal: str, answer: Callable[[str], str | None]) -> Game:
    """Play one animal; `answer` says yes, no or nothing to the question of a name."""
    first: tuple[str, int] | None = None
    n_guesses = 0
    while True:
        n_asked = session.position.n_asked
        if not session.done and n_asked < MOST_QUESTIONS:
            given = answer(session.ask().name)
            if given is None:
                session.dont_know()
            else:
                session.tell(given)
            continue
        guess, n_guesses = str(session.prediction), n_guesses + 1
        first = first or (guess, n_asked)
        if guess == animal or n_asked >= MOST_QUESTIONS or not session.can_go_on:
            return Game(animal, *first, guess == animal, n_asked, n_guesses)
        session.reject()


def play_all(model: Any, rows: pd.DataFrame, manner: Manner, seed: int) -> list[Game]:
    """Play every animal of a table once. What is withheld or wrong is drawn for every animal and question beforehand,
    so that it does not depend on what a model asks."""
    randomness = np.random.default_rng([seed, 7])
    withheld, wrong = randomness.random((2, *rows.shape))
    given = rows.to_numpy(dtype=object)
    other = np.where(given == "yes", "no", np.where(given == "no", "yes", None))
    given = np.where(wrong < manner.wrong, other, given)
    given = np.where((withheld < manner.withheld) | pd.isna(given), None, given)
    return [
        play(model.session(), str(animal), dict(zip(rows.columns, row, strict=True)).__getitem__)
        for animal, row in zip(rows.index, given, strict=True)
    ]


def summary(games: Sequence[Game]) -> dict[str, Any]:
    """What came out of games, with the animals that were not guessed."""
    return {
        "games": len(games),
        "first_guess_right": statistics.mean(game.first_guess == game.animal for game in games),
        "guessed": statistics.mean(game.is_guessed for game in games),
        "asked_at_first_guess": statistics.mean(game.asked_at_first_guess for game in games),
        "asked": statistics.mean(game.n_asked for game in games),
        "guesses": statistics.mean(game.n_guesses for game in games),
        "missed": sorted({game.animal for game in games if not game.is_guessed}),
    }


def trained(seed: int) -> VIPClassifier:
    """The model of the recipe `fast`."""
    task, recipe = animals.load(seed), find_recipe("animals", "fast")
    return VIPClassifier(task.query_set, random_state=seed, **recipe.settings()).fit(task.X_train, task.y_train)


def measure(models: Sequence[int] = MODELS, seeds: Sequence[int] = SEEDS) -> dict[str, Any]:
    """All manners, each with every model and, where chance is in it, with every seed."""
    rows = animals.table()
    found: dict[str, list[dict[str, Any]]] = {manner.title: [] for manner in MANNERS}
    for number in models:
        model = trained(number)
        for manner in MANNERS:
            has_chance = manner.withheld or manner.wrong
            for seed in seeds if has_chance else seeds[:1]:
                games = play_all(model, rows, manner, seed)
                found[manner.title].append({"model": number, "seed": seed, **summary(games)})
                print(number, seed, manner.title, summary(games), flush=True)
    return collected(where(), found, models, seeds)


def collected(
    here: dict[str, Any], found: dict[str, list[dict[str, Any]]], models: Sequence[int], seeds: Sequence[int]
) -> dict[str, Any]:
    """What was found by the titles of manners, with its origin."""
    return {
        "where": {**here, "seeds of models": list(models), "seeds of answers": list(seeds)},
        "recipe": str(find_recipe("animals", "fast")),
        "n_animals": len(animals.table()),
        "manners": [{**asdict(manner), "runs": found[manner.title]} for manner in MANNERS],
    }


def page(measured: dict[str, Any]) -> str:
    """The results as Markdown."""
    columns = ["answers", "guessed", "worst run", "goal", "first guess right", "asked until then", "asked in all"]
    lines = []
    for manner in measured["manners"]:
        runs = manner["runs"]
        mean = {name: statistics.mean(run[name] for run in runs) for name in AVERAGED}
        goal = f"{manner['goal']:.0%}" + (f", at most {manner['most_asked']} asked" if manner["most_asked"] else "")
        shares = [mean["guessed"], min(run["guessed"] for run in runs)]
        counts = [mean["asked_at_first_guess"], mean["asked"]]
        lines.append(
            [
                manner["title"],
                *(f"{share:.1%}" for share in shares),
                goal,
                f"{mean['first_guess_right']:.1%}",
                *(f"{count:.2f}" for count in counts),
            ]
        )
    missed = sorted({animal for run in measured["manners"][0]["runs"] for animal in run["missed"]})
    own = (
        f"With the table's own answers, at least one model did not guess {', '.join(missed)}."
        if missed
        else "With the table's own answers, every model guessed every animal."
    )
    n_models, n_seeds = len(measured["where"]["seeds of models"]), len(measured["where"]["seeds of answers"])
    return f"""# Playing animals

Written by `python benchmarks/play.py`; the single runs are in `play.json` beside this page.

{origin(measured)}
{"One model" if n_models == 1 else f"{n_models} models"}, trained by the recipe `fast` as in `pursuit demo`, played
each of the {measured["n_animals"]} animals of `animals.csv` through `Session`: once with the answers of the table,
and {n_seeds} times each with answers withheld or wrong at random, drawn for every animal and question. A question
that the table leaves open is answered by "don't know" in all of them, and counts as asked. The model guesses once
its stopping rule (confidence 0.9) is satisfied, or after {MOST_QUESTIONS} questions. A wrong guess is rejected
(`Session.reject`), and play goes on until {MOST_QUESTIONS} questions were asked in all; "guessed" counts animals
that were guessed by then.

{table(columns, lines)}
{own}

What this says, and what not: there is one row for each animal, and the players that models learn from were drawn from
the same table, with 2 % of the answers wrong and 5 % withheld. So this measures whether a model finds an animal that it
knows, with people who see it as the table does. People who disagree with the table are what the last two lines stand
for; an animal that is not in the table cannot be guessed at all. Nothing was chosen by these games.
"""


def main(words: Sequence[str]) -> None:
    """Seeds of models and of answers may be given, as in `play.py 0,1 10,11,12`."""
    measured = measure(*([int(number) for number in word.split(",")] for word in words))
    print(save(measured, page, "play", RESULTS))


if __name__ == "__main__":
    main(sys.argv[1:])
