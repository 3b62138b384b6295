"""What people say in their own words, as proposals of answers: sentences of three domains, which were written before
anything was tuned, each with the answers that it states (`benchmarks/words/`). A person who has a case of the label in
mind says the sentence, confirms what is true of the case, and is then asked as usual."""

import csv
import statistics
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.report import Column, Record, grid, grouped, origins
from benchmarks.study import Study, every
from pursuit import ColumnQueries, PursuitEstimator, Questions
from pursuit.methods import METHODS
from pursuit.queries.own_words import Suggestion
from pursuit.queries.questions import QuestionSettings
from pursuit.research.tasks import animals

FOLDER = Path(__file__).parent / "words"
DOMAINS = ("washing", "symptoms", "animals")
N_ROWS, WRONG, UNKNOWN = 100, 0.03, 0.05
"""Training rows of each label, and how often they say the opposite of what is usual, and nothing."""
STOP = "confidence=0.9,budget=20"


def sentences(domain: str) -> list[dict[str, Any]]:
    with (FOLDER / "sentences.tsv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["domain"] == domain]
    return [{**row, "answers": dict(part.rsplit("=", 1) for part in row["answers"].split("; "))} for row in rows]


def usual(domain: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The questions of a domain, and the usual answers for each label; None where nobody could say."""
    if domain == "animals":
        table = animals.table()
        rows = table.astype(object).where(table.notna(), None).to_dict("index")
        return {str(name): str(name) for name in table.columns}, {str(label): row for label, row in rows.items()}
    described = tomllib.loads((FOLDER / f"{domain}.toml").read_text(encoding="utf-8"))
    questions, found = described["questions"], {}
    for label, own in described["labels"].items():
        answers = {}
        for name, question in questions.items():
            if isinstance(question, str):
                answers[name] = "yes" if name in own["yes"] else "no"
            else:
                answers[name] = own.get(name, question["choices"][0] if "choices" in question else None)
        found[label] = answers
    return questions, found


def model_of(domain: str, seed: int, n_rows: int = N_ROWS) -> PursuitEstimator:
    """Naive Bayes, which learns these tables in a moment: their answers are independent given the label."""
    questions, rows = usual(domain)
    rng = np.random.default_rng([seed, 5])
    frame = pd.DataFrame([answers for answers in rows.values() for _ in range(n_rows)])
    labels = np.repeat(list(rows), n_rows)
    for name in frame:
        own = np.array([None if pd.isna(value) else value for value in frame[name]], dtype=object)
        values = sorted({value for value in own if value is not None}, key=str)
        if isinstance(values[0], str):
            own = np.where(rng.random(len(own)) < WRONG, rng.choice(np.array(values, dtype=object), len(own)), own)
        else:
            mean, (low, high) = own.astype(float), questions[str(name)]["range"]
            own = np.round(np.clip(mean + rng.normal(0, 0.15 * mean.std() + 0.2, len(own)), low, high), 1)
        frame[name] = np.where(rng.random(len(own)) < UNKNOWN, None, own)
    described = {name: {"text": one} if isinstance(one, str) else one for name, one in questions.items()}
    ends = {name: one.get("range", (None, None)) for name, one in described.items()}
    settings = [
        QuestionSettings(name, one["text"], unit=one.get("unit"), low=ends[name][0], high=ends[name][1])
        for name, one in described.items()
    ]
    queries = Questions(tuple(settings)).apply(ColumnQueries.from_data(frame.infer_objects()))
    return METHODS["naive-bayes"].build(queries, random_state=seed, stop=STOP).fit(frame.infer_objects(), labels)


def asked(model: PursuitEstimator, case: dict[str, Any], told: dict[str, Any]) -> tuple[int, str]:
    """How many questions a person is asked who has told something, and what comes of it."""
    session = model.session(known=told)
    while not session.done:
        answer = case.get(session.ask().name)
        session.dont_know() if answer is None else session.tell(answer)
    return session.position.n_asked, str(session.prediction)


def is_right(suggestion: Suggestion, answers: dict[str, Any]) -> bool:
    if (wanted := answers.get(suggestion.name)) is None:
        return False
    try:
        return float(suggestion.answer) == float(wanted)
    except ValueError:
        return suggestion.answer == wanted


def measure(domain: str, seed: int, n_rows: int = N_ROWS, most: int | None = None) -> Record:
    model, (_, rows) = model_of(domain, seed, n_rows), usual(domain)
    keys = ("first", "within 3", "right", "true", "saved", "plain", "hit", "plain hit")
    counts: dict[str, list[float]] = {key: [] for key in keys}
    for one in sentences(domain)[:most]:
        found = model.session().suggest(one["sentence"])
        case = {**rows[one["label"]], **one["answers"]}
        for name in one["answers"]:
            places = [other.place for other in found if other.name == name and is_right(other, one["answers"])]
            counts["first"].append(1 in places)
            counts["within 3"].append(bool(places))
        best = [other for other in found if other.place == 1]
        counts["right"] += [is_right(other, one["answers"]) for other in best]
        counts["true"] += [is_right(other, case) for other in best]
        confirmed = {other.name: other.answer for other in found if is_right(other, case)}
        plain, spoken = asked(model, case, {}), asked(model, case, confirmed)
        counts["plain"].append(plain[0])
        counts["saved"].append(plain[0] - spoken[0])
        counts["plain hit"].append(plain[1] == one["label"])
        counts["hit"].append(spoken[1] == one["label"])
    means = {key: statistics.fmean(map(float, own)) if own else 0.0 for key, own in counts.items()}
    return {
        **means,
        "sentences": len(counts["plain"]),
        "answers": len(counts["first"]),
        "proposals": len(counts["right"]),
    }


def page(records: list[Record]) -> dict[str, str]:
    def total(key: str) -> Callable[[list[Record]], object]:
        """Over the domains, of the first seed."""
        return lambda each: sum(one[key] for one in each if one["seed"] == each[0]["seed"])

    def mean(key: str, of: str, form: str = ".1%") -> Callable[[list[Record]], object]:
        """Over what is counted, such as sentences."""
        return lambda each: format(sum(one[key] * one[of] for one in each) / sum(one[of] for one in each), form)

    columns: dict[str, Column] = {
        "sentences": total("sentences"),
        "answers in them": total("answers"),
        "right at place 1": mean("first", "answers"),
        "within 3": mean("within 3", "answers"),
        "first proposals that are meant": mean("right", "proposals"),
        "or true": mean("true", "proposals"),
        "questions without": mean("plain", "sentences", ".2f"),
        "saved by a sentence": mean("saved", "sentences", ".2f"),
        "right result without": mean("plain hit", "sentences"),
        "and with it": mean("hit", "sentences"),
    }
    by_domain = {**grouped(records, "domain"), "all": records}
    return {"figures": grid(by_domain, columns, "domain"), "origins": origins(records, "domain")}


STUDY = Study(
    name="own-words",
    runs=every(domain=DOMAINS, seed=(0, 1, 2)),
    measure=measure,
    page=page,
    quick={"n_rows": 5, "most": 3},
)
