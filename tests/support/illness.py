"""Three illnesses as a table, the questions about them, and what a person with the flu answers."""

import numpy as np
import pandas as pd

QUESTIONS = """
[interview]
title = "What do you have?"
introduction = "A few questions about how you feel."

[questions.temperature]
text = "How high is your temperature?"
help = "Measured under the tongue."
unit = "°C"
range = [30, 45]

[questions.sneezing]
text = "Do you sneeze?"

[questions.itching]
text = "Do your eyes itch?"

[questions.season]
text = "Which season is it?"

[questions.since]
text = "When did it begin?"
"""


def table(n: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    """Three illnesses, asked by a number, two yes/no questions, a choice and a date."""
    rng = np.random.default_rng(0)
    y = rng.choice(["cold", "flu", "hay fever"], n)
    is_hot = np.where(y == "flu", rng.random(n) < 0.9, rng.random(n) < 0.15)
    seasons = np.where(y == "hay fever", rng.choice(["spring", "summer"], n), rng.choice(["autumn", "winter"], n))
    frame = pd.DataFrame(
        {
            "temperature": np.round(np.where(is_hot, rng.normal(39, 0.4, n), rng.normal(36.8, 0.3, n)), 1),
            "sneezing": np.where((y != "flu") == (rng.random(n) < 0.85), "yes", "no"),
            "itching": np.where((y == "hay fever") == (rng.random(n) < 0.9), "yes", "no"),
            "season": seasons,
            "since": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        }
    )
    return frame, y


ILL = {"temperature": 39.2, "sneezing": "no", "itching": "no", "season": "winter", "since": "2024-02-03"}
"""What somebody with the flu answers."""
