"""MuZhi and Dxy: what parents reported unasked, what they were asked, and what was not mentioned."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pursuit.queries import Choice
from pursuit.research.tasks import Task, dialogues
from pursuit.research.tasks.dialogues import CANNOT_SAY
from pursuit.research.tasks.files import MissingData, locate, read_json

pytestmark = pytest.mark.xdist_group("real data")  # they share what is loaded or trained

CONVERSATIONS = {
    "symptoms": ["ke", "re", "tu"],
    "symptoms_en_unofficial": ["cough", "fever", "vomiting"],
    "diseases": ["gan", "fu"],
    "diseases_en_unofficial": {"gan": "a cold", "fu": "diarrhoea", "xu": "spoken of by nobody"},
    "train": [
        {"disease": "gan", "explicit": {"ke": True}, "implicit": {"re": False}},
        {"disease": "fu", "explicit": {"tu": True, "ke": False}, "implicit": {"ke": True}},
        {"disease": "fu", "explicit": {}, "implicit": {"tu": True}},
    ],
    "test": [{"disease": "gan", "explicit": {"re": True}, "implicit": {}}],
}


def write(folder: Path, name: str, content: Any) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))


@pytest.mark.parametrize("name", ["muzhi", "dxy"])
def test_made_conversations_are_read(data: Path, name: str) -> None:
    write(data, name, CONVERSATIONS)
    task = dialogues.load(name)
    assert task.name == name
    assert task.X_train.tolist() == [
        ["yes", "no", CANNOT_SAY],
        ["no", CANNOT_SAY, "yes"],  # what was reported unasked counts
        [CANNOT_SAY, CANNOT_SAY, "yes"],
    ]
    assert task.y_train.tolist() == ["a cold", "diarrhoea", "diarrhoea"]
    assert task.initially_known_train is not None
    assert task.initially_known_test is not None
    assert task.initially_known_train.tolist() == [[True, False, False], [True, False, True], [False] * 3]
    assert task.X_test.tolist() == [[CANNOT_SAY, "yes", CANNOT_SAY]]
    assert task.initially_known_test.tolist() == [[False, True, False]]
    x, available = task.query_set.answers(task.X_train)
    assert available.all()  # "can't say" is an answer
    assert x.shape == (3, 9)
    assert np.array_equal(dialogues.load(name, seed=4).X_test, task.X_test)


def test_missing_conversations_are_reported_with_their_origin_and_the_task(data: Path) -> None:
    with pytest.raises(MissingData, match=r"Medical_DS on GitHub.*pursuit data get dxy"):
        dialogues.load("dxy")


@pytest.mark.parametrize(
    ("name", "n_queries", "n_classes", "n_train", "n_test"), [("muzhi", 66, 4, 568, 142), ("dxy", 41, 5, 423, 104)]
)
def test_real_conversations(
    real_task: Callable[[str], Task], name: str, n_queries: int, n_classes: int, n_train: int, n_test: int
) -> None:
    task = real_task(name)
    assert len(task.query_set) == n_queries
    assert len({query.name for query in task.query_set.queries}) == n_queries
    assert all(
        isinstance(query, Choice) and query.choices == ("no", "yes", CANNOT_SAY) for query in task.query_set.queries
    )
    assert task.X_train.shape == (n_train, n_queries)
    assert task.X_test.shape == (n_test, n_queries)
    assert len(set(task.y_train)) == len(set(task.y_test)) == n_classes
    assert task.initially_known_train is not None
    assert task.initially_known_test is not None
    # What is initially known was said, be it yes or no.
    assert not (task.X_train[task.initially_known_train] == CANNOT_SAY).any()
    assert not (task.X_test[task.initially_known_test] == CANNOT_SAY).any()


@pytest.mark.parametrize("name", ["muzhi", "dxy"])
def test_real_explicit_symptoms_are_initially_known(real_task: Callable[[str], Task], name: str) -> None:
    task = real_task(name)
    found = locate(dialogues.FILES[name])
    assert found is not None
    content = read_json(found.path)
    words = {True: "yes", False: "no"}
    for part, X, initially_known in (
        ("train", task.X_train, task.initially_known_train),
        ("test", task.X_test, task.initially_known_test),
    ):
        assert initially_known is not None
        for patient, answers, known in zip(content[part], X, initially_known, strict=True):
            given = dict(zip(content["symptoms"], answers, strict=True))
            assert {content["symptoms"][i] for i in np.flatnonzero(known)} == set(patient["explicit"])
            assert all(given[symptom] == words[value] for symptom, value in patient["explicit"].items())
            spoken_of = set(patient["explicit"]) | set(patient["implicit"])
            assert {symptom for symptom, answer in given.items() if answer != CANNOT_SAY} == spoken_of


def test_real_answers_go_into_the_networks(real_task: Callable[[str], Task]) -> None:
    task = real_task("dxy")
    x, available = task.query_set.answers(task.X_test)
    assert x.shape == (104, 3 * 41)
    assert available.all()
    assert torch.equal(x.view(104, 41, 3).sum(dim=2), torch.ones(104, 41))  # one of three choices each


@pytest.mark.parametrize("content", [{}, [], {**CONVERSATIONS, "train": [{"disease": "gan"}]}, {"diseases": 3}])
def test_conversations_of_another_form_are_reported(data: Path, content: Any) -> None:
    write(data, "dxy", content)
    with pytest.raises(ValueError, match=r"dxy.json.gz is damaged: it does not contain what is expected"):
        dialogues.load("dxy")
