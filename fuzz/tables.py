"""Bad tables: CSV and Parquet files, and the questions files that go with them."""

import gzip
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fuzz.judging import Wrong
from fuzz.mutations import NUMBERS, TEXTS, mutated_bytes
from fuzz.workers import Files, Target
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.queries import ColumnQueries, Questions
from pursuit.queries.questions import parse
from pursuit.research.tasks import load_task

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "latin-1", "utf-32", "shift_jis", "cp437")
SEPARATORS = (",", ";", "\t", "|", "  ", ":")
LABEL = "y"


def good_table(n_rows: int = 24, seed: int = 0) -> pd.DataFrame:
    """A table with a column of every kind."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    return pd.DataFrame(
        {
            "fever": np.where(rng.random(n_rows) < 0.3 + 0.2 * y, "yes", "no"),
            "age": rng.integers(0, 90, n_rows),
            "weight": (50 + 10 * y + rng.normal(size=n_rows)).round(1),
            "ward": rng.choice(["north", "south", "east"], n_rows),
            "seen": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n_rows), unit="D"),
            LABEL: np.array(["flu", "cold", "none"])[y],
        }
    )


# ----------------------------------------------------------------------------------------------------------------------
# CSV


def _prepare_csv(folder: Path) -> list[bytes]:
    plain = good_table().to_csv(index=False)
    german = good_table(seed=1).to_csv(index=False, sep=";", decimal=",")
    missing = good_table(seed=2).mask(np.random.default_rng(0).random((24, 6)) < 0.2).to_csv(index=False)
    quoted = good_table(seed=3).assign(note='a "b", c\nd').to_csv(index=False)
    return [text.encode() for text in (plain, german, missing, quoted)]


def _make_csv(rng: random.Random, good: list[bytes]) -> Files:
    data = rng.choice(good) if rng.random() < 0.5 else _written_table(rng)
    if rng.random() < 0.6:
        data = mutated_bytes(rng, data, good)
    if rng.random() < 0.05:
        data = gzip.compress(data)
        data = mutated_bytes(rng, data) if rng.random() < 0.5 else data
    return {"table.csv": data}


def _written_table(rng: random.Random) -> bytes:
    """A table of odd cells, written in an odd way."""
    n_columns, n_rows = rng.randint(1, 6), rng.choice((0, 1, 2, 5, 20, 60))
    names = [rng.choice((*TEXTS, "a", "b", "c", "d")) for _ in range(n_columns - 1)] + [LABEL]
    kinds = [rng.randrange(5) for _ in names]
    lines = [names, *([_cell(rng, kind) for kind in kinds] for _ in range(n_rows))]
    for line in lines[1:]:
        if rng.random() < 0.02:  # a ragged row
            line[:] = line[: rng.randrange(len(line) + 1)] if rng.random() < 0.5 else [*line, "more"]
    separator, quote = rng.choice(SEPARATORS), rng.random() < 0.3
    end = rng.choice(("\n", "\r\n", "\r"))
    text = end.join(separator.join(f'"{cell}"' if quote else cell for cell in line) for line in lines)
    return text.encode(rng.choice(ENCODINGS), errors="replace")


def _cell(rng: random.Random, kind: int) -> str:
    if rng.random() < 0.05:
        return rng.choice(TEXTS)
    match kind:
        case 0:
            return rng.choice(("yes", "no", ""))
        case 1:
            return str(rng.choice((rng.randint(-5, 100), rng.choice(NUMBERS))) if rng.random() < 0.2 else rng.random())
        case 2:
            return rng.choice(("red", "green", "blue", "Red"))
        case 3:
            return f"{rng.randint(1990, 2030)}-{rng.randint(1, 12):02d}-{rng.randint(1, 31):02d}"
        case _:
            return str(rng.randint(0, 5))


def _read_csv(folder: Path, good: list[bytes]) -> None:
    _learn(load_task(folder / "table.csv", target=LABEL))


def _learn(task: Any) -> None:
    """Train on a task, and predict: shares must be shares."""
    X, y = task.X_train, task.y_train
    model = NaiveBayesIPClassifier(task.query_set, random_state=0).fit(X, y)
    check_predictions(model, X if len(task.X_test) == 0 else task.X_test)


def check_predictions(model: Any, X: Any) -> None:
    shares = model.predict_proba(X.iloc[:5] if hasattr(X, "iloc") else X[:5])
    if not np.isfinite(shares).all() or not np.allclose(shares.sum(axis=1), 1, atol=1e-3):
        raise Wrong(f"shares are {shares.tolist()!r:.200}")
    str(model.explain(X.iloc[:2] if hasattr(X, "iloc") else X[:2]))


# ----------------------------------------------------------------------------------------------------------------------
# Parquet


def _prepare_parquet(folder: Path) -> list[bytes]:
    files = []
    for seed, options in enumerate(({}, {"compression": "gzip"}, {"row_group_size": 7}, {"use_dictionary": False})):
        file = io.BytesIO()
        good_table(60, seed).drop(columns="seen").to_parquet(file, **options)
        files.append(file.getvalue())
    return files


def _make_parquet(rng: random.Random, good: list[bytes]) -> Files:
    data = rng.choice(good)
    if rng.random() < 0.5:  # the footer says what is where: most of what can go wrong is there
        place = len(data) - rng.randrange(min(len(data), 3000))
        data = data[:place] + mutated_bytes(rng, data[place:], good)
    else:
        data = mutated_bytes(rng, data, good)
    return {"table.parquet": data}


def _read_parquet(folder: Path, good: list[bytes]) -> None:
    task = load_task(folder / "table.parquet", target=LABEL)
    model = NaiveBayesIPClassifier(task.query_set, random_state=0).fit(task.X_train)
    if len(task.y_test):
        check_predictions(model, task.X_test)


# ----------------------------------------------------------------------------------------------------------------------
# Questions


def _prepare_questions(folder: Path) -> tuple[ColumnQueries, list[bytes]]:
    queries = ColumnQueries.from_data(good_table(200).drop(columns=LABEL), column_types={"seen": "date"})
    draft = Questions.draft(queries)
    written = """
[questions.fever]
text = "Does the patient have a fever?"
help = "Above 38 degrees"
choices = { no = "no", yes = "yes, a fever" }
cost = 2.5
[questions.age]
unit = "years"
range = [0, 120]
only_after = { fever = "yes" }
[questions.weight]
ask = "beforehand"
[questions.ward]
choices = ["north", "south", "east"]
kind = "choice"
[questions.seen]
ask = "never"
[interview]
title = "On the ward"
colour = "#2456c7"
[results.ill]
text = "Rest."
link = "https://example.org"
[groups]
vitals = ["age", "ward"]
"""
    return queries, [draft.encode(), written.encode()]


def _make_questions(rng: random.Random, prepared: tuple[ColumnQueries, list[bytes]]) -> Files:
    good = prepared[1]
    text = rng.choice(good)
    if rng.random() < 0.5:
        lines = text.decode().splitlines()
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(lines))
            key, equals, _ = lines[place].partition("=")
            lines[place] = f"{key}{equals} {_toml(rng)}" if equals else _toml(rng)
        text = "\n".join(lines).encode("utf-8", errors="surrogatepass")
    return {"questions.toml": mutated_bytes(rng, text, good) if rng.random() < 0.6 else text}


def _toml(rng: random.Random) -> str:
    depth = rng.choice((1, 3, 2000))
    return rng.choice(
        (
            repr(rng.choice(TEXTS)),
            str(rng.choice(NUMBERS)),
            "1" + "0" * 5000,
            "[" * depth + "]" * depth,
            "{ a = " * depth + "1" + " }" * depth,
            '{ age = "yes", fever = ["no"] }',
            '["age", "fever", "age"]',
            "[questions.fever]",
            "[[questions]]",
            "true",
            "2024-01-01",
            "0x1F",
            "1e999",
            "[inf, -inf]",
            "[nan, 1]",
        )
    )


def _read_questions(folder: Path, prepared: tuple[ColumnQueries, list[bytes]]) -> None:
    queries = prepared[0]
    questions = Questions.read(folder / "questions.toml")
    if parse(questions.to_toml()) != questions:
        raise Wrong("what is written again reads as something else")
    asked = questions.apply(queries, questions.never_asked)
    for query in asked.queries:
        if not 0 <= query.cost < float("inf"):
            raise Wrong(f"{query.name} costs {query.cost}")


TARGETS = (
    Target("csv", "CSV tables, read, trained on and predicted", _prepare_csv, _make_csv, _read_csv, weight=75),
    Target("parquet", "Parquet files, likewise", _prepare_parquet, _make_parquet, _read_parquet, weight=350),
    Target("questions", "questions files, applied", _prepare_questions, _make_questions, _read_questions, weight=625),
)
