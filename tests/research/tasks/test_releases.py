"""SymCAT, MuZhi and Dxy in the formats they are published in: small made files, damaged ones, and dangerous ones."""

import json
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pursuit.research.tasks import TASKS, Task, dialogues, files, symcat
from pursuit.research.tasks.dialogues import CANNOT_SAY, in_english
from pursuit.research.tasks.files import MissingData, get, locate, read_json, read_npz, read_plain_pickle

pytestmark = pytest.mark.xdist_group("real data")  # they share what is loaded or trained


def goal(disease: str, explicit: dict[str, Any], implicit: dict[str, Any]) -> dict[str, Any]:
    slots = {"explicit_inform_slots": explicit, "implicit_inform_slots": implicit, "request_slots": {"disease": "UNK"}}
    return {"consult_id": "1", "disease_tag": disease, "goal": slots}


GOALS = {
    "train": [
        goal("小儿腹泻", {"呕吐": True}, {"咳嗽": False, "发热": "UNK"}),
        goal("小儿支气管炎", {"咳嗽": True, "呕吐": False}, {"发热": True, "呕吐": True}),
        goal("an unknown disease", {}, {"an unknown symptom": True}),
    ],
    "test": [goal("小儿腹泻", {"发热": True}, {})],
}


def write_goals(folder: Path, task: str, file: str, content: Any, protocol: int = 4) -> None:
    (folder / task).mkdir()
    (folder / task / file).write_bytes(pickle.dumps(content, protocol))


# MuZhi and Dxy


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    ("name", "file"),
    [("muzhi", "acl2018-mds.p"), ("dxy", "dxy_dialog_data_dialog_v2.pickle"), ("dxy", "goal_set.p")],
)
def test_goal_sets_are_read(data: Path, name: str, file: str, protocol: int) -> None:
    write_goals(data, name, file, GOALS, protocol)
    task = dialogues.load(name)
    assert [query.name for query in task.query_set.queries] == ["an unknown symptom", "fever", "vomiting", "cough"]
    assert task.X_train.tolist() == [
        [CANNOT_SAY, CANNOT_SAY, "yes", "no"],
        [CANNOT_SAY, "yes", "no", "yes"],  # what was reported unasked counts
        ["yes", CANNOT_SAY, CANNOT_SAY, CANNOT_SAY],
    ]
    assert task.y_train.tolist() == ["pediatric diarrhea", "pediatric bronchitis", "an unknown disease"]
    assert task.initially_known_train is not None
    assert task.initially_known_test is not None
    assert task.initially_known_train.tolist() == [[False, False, True, False], [False, False, True, True], [False] * 4]
    assert task.initially_known_test.tolist() == [[False, True, False, False]]


@pytest.mark.parametrize("content", [[], {"train": []}, {"train": [{"goal": {}}], "test": []}, {**GOALS, "test": 3}])
def test_goal_sets_of_another_form_are_reported(data: Path, content: Any) -> None:
    write_goals(data, "muzhi", "acl2018-mds.p", content)
    with pytest.raises(
        ValueError, match=r"acl2018-mds.p is damaged: .* expected .*\. Remove it: `pursuit data get` then"
    ):
        dialogues.load("muzhi")
    (data / "muzhi" / "acl2018-mds.p").unlink()
    with pytest.raises(MissingData, match=r"Put acl2018-mds.p, from data/muzhi_dataset of jymChen/Diaformer"):
        get(dialogues.FILES["muzhi"], "muzhi")


@pytest.mark.parametrize("name", ["muzhi", "dxy"])
def test_the_real_conversations_are_the_same_as_a_goal_set(
    real_task: Callable[[str], Task], data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.undo()
    ours, found = real_task(name), locate(dialogues.FILES[name])
    assert found is not None
    content = read_json(found.path)
    goals = {
        part: [goal(*(p[k] for k in ("disease", "explicit", "implicit"))) for p in content[part]] for part in GOALS
    }
    monkeypatch.setenv("PURSUIT_DATA", str(data))
    write_goals(data, name, "goal_set.p", goals)
    task = dialogues.load(name)
    for attribute in ("X_train", "y_train", "X_test", "y_test", "initially_known_train", "initially_known_test"):
        assert np.array_equal(getattr(task, attribute), getattr(ours, attribute))
    assert set(content["symptoms"]) <= set(in_english("symptom"))
    assert set(content["diseases"]) <= set(in_english("disease"))
    assert len({query.name for query in task.query_set.queries}) == len(task.query_set)


# Pickles


class Dangerous:
    """Unpickling it would call a function of the file's choice."""

    def __init__(self, function: Any, *arguments: Any):
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def test_plain_values_are_unpickled(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, True, "ü", b"x", (3,)], "b": OrderedDict(c={1, 2})}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        plain = {**value, "a": [item for item in value["a"] if protocol > 2 or item != b"x"]}
        (tmp_path / "file").write_bytes(pickle.dumps(plain, protocol))
        assert read_plain_pickle(tmp_path / "file") == plain


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_call_something_is_refused(tmp_path: Path, protocol: int) -> None:
    trace = tmp_path / "trace"
    calls = (
        (os.system, f"touch {trace}"),
        (eval, f"open({str(trace)!r}, 'w')"),
        (open, str(trace), "w"),
        (getattr, "text", "upper"),
        (np.array, [1]),
    )
    for call in calls:
        (tmp_path / "file").write_bytes(pickle.dumps({"train": [Dangerous(*call)]}, protocol))
        with pytest.raises(ValueError, match=r"file is damaged: .* it asks for|it asks for"):
            read_plain_pickle(tmp_path / "file")
    assert not trace.exists()


@pytest.mark.parametrize("content", [b"no pickle", pickle.dumps(GOALS)[:-20], b"\x80\x04}"])
def test_damaged_pickles_are_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match="file is damaged: it is not a pickle of plain values"):
        read_plain_pickle(tmp_path / "file")


# SymCAT

PAGES = {
    "flu--2": [["Fever", 0.9], ["Cough ", 0.53]],
    "athlete-s-foot": [["Itch", 0.07], ["Cough", 0]],
    "not-in-the-task": [["Rash", 0.5]],
}


def write_pages(folder: Path, pages: Any = PAGES, listed: str = "athlete-s-foot\nflu--2\n") -> None:
    (folder / "symcat").mkdir()
    (folder / "symcat" / "SymCAT.json").write_text(json.dumps(pages))
    (folder / "symcat" / "disease200_SymCAT.txt").write_text(listed)


def test_the_published_table_is_read(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symcat, "TEST_PATIENTS", 30)
    write_pages(data)
    classes, symptoms, yes = symcat.table(200)
    assert classes.tolist() == ["Athlete s foot", "Flu"]
    assert symptoms == ["Cough", "Fever", "Itch"]
    assert torch.equal(yes, torch.tensor([[0, 0, 7], [53, 90, 0]]) / 100)
    task = symcat.load(200)
    assert task.X_test.shape == (30, 3)
    with pytest.raises(MissingData, match=r"disease300_SymCAT\.txt"):
        symcat.table(300)


@pytest.mark.parametrize("pages", [[], {"flu--2": []}, {**PAGES, "flu--2": [["Fever"]]}, {**PAGES, "flu--2": 3}])
def test_published_tables_of_another_form_are_reported(data: Path, pages: Any) -> None:
    write_pages(data, pages)
    with pytest.raises(ValueError, match=r"SymCAT\.json is damaged"):
        symcat.table(200)


@pytest.mark.parametrize("n", symcat.N_SYMPTOMS)
def test_the_real_table_is_the_same_as_the_published_one(
    real_task: Callable[[str], Task], data: Path, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    monkeypatch.undo()
    real_task(f"symcat-{n}")
    _, symptoms, yes = symcat.table(n)
    table, names = (locate(file) for file in (symcat.TABLE, symcat.NAMES))
    if table is None or names is None:
        pytest.skip("our own files are not here")
    arrays, named = read_npz(table.path), read_json(names.path)
    pages = {
        page: [[named["symptom_names"][i], int(own[i]) / 100] for i in own.nonzero()[0]]
        for page, own in zip(named["disease_slugs"], arrays["P_percent"], strict=True)
    }
    listed = [named["disease_slugs"][i] for i in arrays[f"idx{n}"]]
    monkeypatch.setenv("PURSUIT_DATA", str(data))
    monkeypatch.setattr(symcat, "RELEASED", {n: symcat.RELEASED[n]})
    write_pages(data, pages)
    (data / "symcat" / f"disease{n}_SymCAT.txt").write_text("\n".join(listed))
    classes, asked, probability = symcat.table(n)
    assert len(set(classes)) == n
    assert asked == symptoms
    assert torch.equal(probability, yes)


# Where they come from


def test_every_task_is_fetched_or_says_which_file_goes_where() -> None:
    for name, info in TASKS.items():
        for file in info.files:
            assert files.is_published(file) or file.origin, name
    for name in ("muzhi", "dxy", "symcat-300"):
        for file in TASKS[name].files:
            folder, file_name = Path(file.path).parts
            assert file_name.replace("disease300", "disease200") in file.origin  # one sentence for all three
            assert f"into the folder {folder}" in file.origin
            assert "on GitHub" in file.origin
