"""Models that a fuzzed server serves, and what its answers must be."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pursuit import MLP, Stage, VIPClassifier
from pursuit.methods import METHODS
from pursuit.research.tasks import load_task
from pursuit.web.serving.models import SamplePictures, ServedModels, load_models
from pursuit.web.serving.security import HEADERS

INSIDE = re.compile(r"Traceback|File \"|site-packages|/tmp/|/usr/|/home/|/root/|\.py\b|sqlite|psycopg|sqlalchemy", re.I)
"""What would tell of the machine or the program."""


class Finding(Exception):
    """What is wrong with an answer."""


def small_models(folder: Path) -> ServedModels:
    """Models that are learnt in a moment: labels by numbers, choices and dates, and pictures."""
    randomness, n = np.random.default_rng(0), 300
    y = randomness.choice(["cold", "flu", "hay fever"], n)
    frame = pd.DataFrame(
        {
            "temperature": np.round(randomness.normal(37 + 2 * (y == "flu"), 0.4, n), 1),
            "sneezing": np.where((y != "flu") == (randomness.random(n) < 0.85), "yes", "no"),
            "season": np.where(y == "hay fever", "spring", randomness.choice(["autumn", "winter"], n)),
            "since": pd.to_datetime("2024-01-01") + pd.to_timedelta(randomness.integers(0, 300, n), "D"),
        }
    )
    illness = METHODS["naive-bayes"].build(None, random_state=0, column_types={"since": "date"}, stop="confidence=0.97")
    illness.fit(frame, y).save(folder / "illness")
    task = load_task("digits")
    digits = VIPClassifier(task.query_set, random_state=0, stages=(Stage(2),), network=MLP((16,)), stop="budget=6")
    digits.fit(task.X_train[:300], task.y_train[:300]).save(folder / "digits")
    samples = SamplePictures(task.X_test[:3].astype(np.float32), tuple(map(str, task.y_test[:3])))
    return load_models([folder / "illness", folder / "digits"], find_samples=lambda _: samples)


def judge(status: int, headers: Any, content: bytes) -> None:
    """Raise Finding if an answer is not as every answer should be."""
    present = {name.lower() for name in headers}
    if missing := [name for name in HEADERS if name.lower() not in present]:
        raise Finding(f"an answer without {', '.join(missing)}")
    kind = "".join(headers["content-type"]) if "content-type" in present else ""
    text = content.decode(errors="replace")
    if ("json" in kind or status >= 400) and (found := INSIDE.search(text)):
        raise Finding(f"it tells of the inside: {found[0]}")
    if "json" in kind and text:  # an answer to HEAD has none
        said = json.loads(text, parse_constant=_refuse)
        if status >= 400 and not str(said.get("message", "")).strip():
            raise Finding("a refusal without a sentence")


def _refuse(constant: str) -> None:
    raise Finding(f"{constant} is not a number")
