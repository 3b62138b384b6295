"""`muzhi` and `dxy`: children's diseases from doctors' conversations with parents, with symptoms named in English.

What the parent reports by himself opens the history. A symptom that the conversation does not mention is answered
"can't say".
"""

from functools import partial
from typing import Any

import numpy as np

from pursuit.queries import Choice, ColumnQueries
from pursuit.tasks import files
from pursuit.tasks.files import DataFile
from pursuit.tasks.readers import content_of, read_json
from pursuit.tasks.task import Task, TaskInfo

CANNOT_SAY = "can't say"
ORIGIN = (
    "The conversations are published with jymChen/Diaformer on GitHub; {name}.json.gz holds symptoms, diseases, and "
    "the train and test patients with their disease, explicit and implicit symptoms."
)
SHA256 = {
    "muzhi": "c9ec84536202d0a57f3a750c5b8570000840a1472cb1143d0a3ec4291cb1b480",
    "dxy": "229cb6b13680703167166cdf6b5d89dbf962ca0f67f8b4fa983d6d6bc6edf407",
}
FILES = {
    name: DataFile(f"{name}/{name}.json.gz", sha256=sha256, origin=ORIGIN.format(name=name))
    for name, sha256 in SHA256.items()
}


def load(name: str, seed: int = 0) -> Task:
    """The official patients to learn from and to measure on; `seed` plays no part in them."""
    path = files.find(FILES[name], name)
    data = read_json(path)
    with content_of(path):
        return _task(name, data, seed)


def _task(name: str, data: dict[str, Any], seed: int) -> Task:
    diseases = np.array([data["diseases_en_unofficial"][disease] for disease in data["diseases"]])
    position = {disease: i for i, disease in enumerate(data["diseases"])}
    columns = {}
    for part in ("train", "test"):
        patients = data[part]
        columns[part] = (
            _answers(patients, data["symptoms"]),
            diseases[[position[patient["disease"]] for patient in patients]],
            np.array([[symptom in patient["explicit"] for symptom in data["symptoms"]] for patient in patients]),
        )
    (X_train, y_train, opening_train), (X_test, y_test, opening_test) = columns["train"], columns["test"]
    return Task(
        name,
        query_set(data["symptoms_en_unofficial"]),
        X_train,
        y_train,
        X_test,
        y_test,
        {"seed": seed},
        opening_train,
        opening_test,
    )


def query_set(symptoms: list[str]) -> ColumnQueries:
    choices = ("no", "yes", CANNOT_SAY)
    return ColumnQueries([Choice(name, f"Does the child have this: {name}?", choices) for name in symptoms])


def _answers(patients: list[dict[str, Any]], symptoms: list[str]) -> np.ndarray:
    """Every patient's answer to every query, in words: (N, Q)."""
    told = [{**patient["implicit"], **patient["explicit"]} for patient in patients]
    words = {True: "yes", False: "no", None: CANNOT_SAY}
    return np.array([[words[answers.get(symptom)] for symptom in symptoms] for answers in told], dtype=object)


def _info(name: str, title: str, n_queries: int, n_classes: int, n_train: int, n_test: int) -> TaskInfo:
    return TaskInfo(name, title, partial(load, name), n_queries, n_classes, n_train, n_test, (FILES[name],))


INFOS = (
    _info("muzhi", "children's diseases, from talks with doctors", 66, 4, 568, 142),
    _info("dxy", "children's diseases, from talks with doctors", 41, 5, 423, 104),
)
