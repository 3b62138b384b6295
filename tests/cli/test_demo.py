"""`pursuit demo`."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from program import json_of, run
from pursuit import registry
from pursuit.cli import experiments
from pursuit.research.experiments import reproduce as experiment
from pursuit.research.tasks import TASKS


def test_a_table_and_figures_of_each_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = TASKS["digits"]
    short = replace(digits, recipes={"demo": digits.recipes["demo"].scaled(0.01)})
    monkeypatch.setitem(registry._known["task"], "digits", short)
    monkeypatch.setattr(experiment, "EMBEDDED", ("digits",))
    done = run(tmp_path, "demo", "--out", "here")
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "digits: 49 questions could be asked. How often it is right on 300 rows that it has not seen" in words
    assert "Drawn: here/digits/curve.png, here/digits/chain-0.png" in words
    assert "pursuit ask here/digits" in words
    assert done.stdout.splitlines()[-1].split(":  ")[1] == "pursuit serve here/digits"
    (shown,) = json_of(run(tmp_path, "demo", "--out", "here", "--json"))["tasks"]
    assert (shown["task"], shown["model"], shown["method"], shown["n_test"]) == ("digits", "here/digits", "vip", 300)
    assert f"{shown['beside']['random order']['accuracy_by_asked'][3]:.1%}" in words


def test_what_to_type_next_works_where_the_environment_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/pursuit", "demo"])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert experiments._program() == ".venv/bin/pursuit"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert experiments._program() == "pursuit"
