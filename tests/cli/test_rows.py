"""Rows for a model are its own kind, and not those it was trained on."""

from pathlib import Path

import pytest

from pursuit import load
from pursuit.cli.rows import unseen_rows


def test_rows_of_another_task_are_refused(workspace: Path) -> None:
    model = load(workspace / "model")
    with pytest.raises(ValueError, match="trained on patients and asks other queries than those of digits"):
        unseen_rows(model, "digits")


def test_of_the_file_trained_on_only_held_out_rows_are_given(workspace: Path) -> None:
    rows = unseen_rows(load(workspace / "model"), str(workspace / "patients.csv"))
    assert (rows.name, len(rows.X)) == ("patients", 60)
    assert rows.y is not None
    assert set(rows.y) == {"flu", "gastritis", "migraine"}
