"""`muzhi` and `dxy`: children's diseases from doctors' conversations with parents, with symptoms named in English.

What the parent reports unasked is initially known. A symptom that the conversation does not mention is answered "can't
say". They are published as goal sets, which are pickled; JSON files with the same content are read, too. The table
`dialogues.csv` has our own translations of their symptoms and diseases.
"""

from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from pursuit.information import AnswerSettings
from pursuit.networks import MLP
from pursuit.queries import Choice, ColumnQueries
from pursuit.registry import register
from pursuit.research.tasks.files import DataFile, content_of, find, read_json, read_plain_pickle
from pursuit.research.tasks.recipe import PAPER_MEDICAL, Published, Recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.training.samplers import CarriedHistories
from pursuit.training.schedule import AdamW, Stage

CANNOT_SAY = "can't say"
UNKNOWN = "UNK"
"""The value of a symptom in a goal set that nobody knows of."""
ORIGIN = {
    "muzhi": "Put acl2018-mds.p, from data/muzhi_dataset of jymChen/Diaformer on GitHub (first published as "
    "acl2018-mds.zip at www.sdspeople.fudan.edu.cn/zywei/data), into the folder muzhi.",
    "dxy": "Put dxy_dialog_data_dialog_v2.pickle, from the archive that the README of HCPLab-SYSU/Medical_DS on GitHub "
    "links to as the DX dataset, into the folder dxy.",
}
RELEASED = {"muzhi": "acl2018-mds.p", "dxy": "dxy_dialog_data_dialog_v2.pickle"}
GOAL_SET = "goal_set.p"
"""The name that Diaformer's own program gives to a copy."""
SHA256 = {
    "muzhi": "c9ec84536202d0a57f3a750c5b8570000840a1472cb1143d0a3ec4291cb1b480",
    "dxy": "229cb6b13680703167166cdf6b5d89dbf962ca0f67f8b4fa983d6d6bc6edf407",
}
FILES = {
    name: DataFile(
        f"{name}/{file}",
        origin=ORIGIN[name],
        alternatives=(
            DataFile(f"{name}/{name}.json.gz", sha256=SHA256[name]),
            DataFile(f"{name}/{GOAL_SET}"),
        ),
    )
    for name, file in RELEASED.items()
}


def load(name: str, seed: int = 0) -> Task:
    """The official training and test patients, whatever the seed."""
    path = find(FILES[name], name)
    is_goal_set = path.name in (RELEASED[name], GOAL_SET)
    data = read_plain_pickle(path) if is_goal_set else read_json(path)
    with content_of(path):
        return _task(name, from_goal_set(data) if is_goal_set else data, seed)


def in_english(kind: str) -> dict[str, str]:
    """The translations of all symptoms, or of all diseases ("disease")."""
    with (files("pursuit.research.tasks") / "dialogues.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file)
    own = table[table["kind"] == kind]
    return dict(zip(own["published"], own["english"], strict=True))


def from_goal_set(goals: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The same as in our JSON files, from lists of goals under `train` and `test`: each has a `disease_tag`, and in its
    `goal` the `explicit_inform_slots` and `implicit_inform_slots`, from symptom to True, False or "UNK"."""
    parts = {part: [_patient(goal) for goal in goals[part]] for part in ("train", "test")}
    patients = [*parts["train"], *parts["test"]]
    symptoms = sorted({symptom for patient in patients for symptom in {**patient["explicit"], **patient["implicit"]}})
    diseases = sorted({patient["disease"] for patient in patients})
    symptom_names, disease_names = in_english("symptom"), in_english("disease")
    return {
        "symptoms": symptoms,
        "symptoms_en_unofficial": [symptom_names.get(symptom, symptom) for symptom in symptoms],
        "diseases": diseases,
        "diseases_en_unofficial": {disease: disease_names.get(disease, disease) for disease in diseases},
        **parts,
    }


def _patient(goal: dict[str, Any]) -> dict[str, Any]:
    slots = (goal["goal"][f"{way}_inform_slots"].items() for way in ("explicit", "implicit"))
    explicit, implicit = ({symptom: said for symptom, said in own if said != UNKNOWN} for own in slots)
    return {"disease": goal["disease_tag"], "explicit": explicit, "implicit": implicit}


def _task(name: str, data: dict[str, Any], seed: int) -> Task:
    diseases = np.array([data["diseases_en_unofficial"][disease] for disease in data["diseases"]])
    position = {disease: i for i, disease in enumerate(data["diseases"])}

    def rows(patients: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return (
            _answers(patients, data["symptoms"]),
            diseases[[position[patient["disease"]] for patient in patients]],
            np.array([[symptom in patient["explicit"] for symptom in data["symptoms"]] for patient in patients]),
        )

    X_train, y_train, initially_known_train = rows(data["train"])
    X_test, y_test, initially_known_test = rows(data["test"])
    return Task(
        name,
        query_set(data["symptoms_en_unofficial"]),
        X_train,
        y_train,
        X_test,
        y_test,
        {"seed": seed},
        initially_known_train,
        initially_known_test,
    )


def query_set(symptoms: list[str]) -> ColumnQueries:
    choices = ("no", "yes", CANNOT_SAY)
    return ColumnQueries([Choice(name, f"Does the child have this: {name}?", choices) for name in symptoms])


def _answers(patients: list[dict[str, Any]], symptoms: list[str]) -> np.ndarray:
    """Every patient's answer to every query, in words: (N, Q)."""
    given = [{**patient["implicit"], **patient["explicit"]} for patient in patients]
    words = {True: "yes", False: "no", None: CANNOT_SAY}
    return np.array([[words[answers.get(symptom)] for symptom in symptoms] for answers in given], dtype=object)


# A few hundred patients: naive Bayes is hard to beat, so training begins there, with counts smoothed more, and goes in
# small steps.
FAST = Recipe(
    MLP((64,), dropout=0.5, direct=True),
    (Stage(60, CarriedHistories(20, random_share=0.5), AdamW(3e-4, weight_decay=0.05), batch_size=128, average=0.99),),
    "budget=20",
    max_queries=20,
    answers=AnswerSettings(smoothing=15),
)


def _register(name: str, n_queries: int, n_classes: int, n_train: int, n_test: int, after_20: float) -> None:
    register(
        TaskInfo(
            name,
            "children's diseases, from talks with doctors",
            partial(load, name),
            n_queries,
            n_classes,
            n_train,
            n_test,
            files=(FILES[name],),
            recipes={"paper": PAPER_MEDICAL, "fast": FAST},
            published=Published(after_20=after_20),
        )
    )


_register("muzhi", n_queries=66, n_classes=4, n_train=568, n_test=142, after_20=0.706)
_register("dxy", n_queries=41, n_classes=5, n_train=423, n_test=104, after_20=0.806)
