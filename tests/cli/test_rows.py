"""Rows for a model are its own kind, and not those it was trained on."""

from pathlib import Path

import pytest

from pursuit import load
from pursuit.cli.rows import open_rows, unseen_rows
from pursuit.methods.naive_bayes import NaiveBayesIPClassifier
from pursuit.research.tasks import load_task


def test_rows_of_another_task_are_refused(workspace: Path) -> None:
    model = load(workspace / "model")
    with pytest.raises(ValueError, match="trained on patients and asks other queries than those of digits"):
        unseen_rows(model, "digits")


def test_of_the_file_trained_on_only_held_out_rows_are_given(workspace: Path) -> None:
    rows = unseen_rows(load(workspace / "model"), str(workspace / "patients.csv"))
    assert (rows.name, len(rows.X)) == ("patients", 60)
    assert rows.y is not None
    assert set(rows.y) == {"flu", "gastritis", "migraine"}


def test_codes_stay_as_they_are_written_whatever_a_file_holds(tmp_path: Path) -> None:
    rows = [("007", "01A"), ("123", "002"), ("450", "123")] * 20
    training, new = tmp_path / "training.csv", tmp_path / "new.csv"
    training.write_text("ward,size,y\n" + "".join(f"{ward},{i % 7},{y}\n" for i, (ward, y) in enumerate(rows)))
    task = load_task(training, target="y")
    model = NaiveBayesIPClassifier(query_set=task.query_set).fit(task.X_train, task.y_train)
    model.notes_["task"] = {"name": task.name, **task.notes}
    new.write_text("ward,size,y\n007,1.5,002\n12,,2\n")  # which would be the numbers 7 and 12, 2 and 2
    (part,) = open_rows(model, str(new))
    assert part.X["ward"].tolist() == ["007", "12"]
    assert part.X["size"].tolist()[:1] == [1.5]
    assert part.labels is not None
    assert part.labels.tolist() == ["002", "2"]
