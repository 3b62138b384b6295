"""The whole program, started as people start it, with bad files."""

import os
import random
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from fuzz import models, tables
from fuzz.judging import Wrong
from fuzz.workers import Files, Target

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LIMIT = 100
"""Seconds that a processor may work for one command."""
NUMBER_OF = {name: number for number, name in enumerate(models.MODELS)}


def _prepare(folder: Path) -> dict[str, Any]:
    good = {target.name: target.prepare(folder / target.name) for target in (*tables.TARGETS, *models.TARGETS)}
    table = folder / "good.csv"
    tables.good_table(60).to_csv(table, index=False)
    saved = good["models"][NUMBER_OF["naive-bayes"]]
    (folder / "model").mkdir()
    models.load(folder / "models" / "naive-bayes").save(folder / "model")
    return {**good, "table": table, "model": folder / "model", "saved": saved}


def _make(rng: random.Random, prepared: dict[str, Any]) -> Files:
    by_name = {target.name: target for target in (*tables.TARGETS, *models.TARGETS)}
    name = rng.choice(("csv", "csv", "questions", "models", "sessions"))
    files = by_name[name].make(rng, prepared[name])
    commands = {
        "csv": ("train", "train", "predict", "explain", "questions", "evaluate"),
        "questions": ("asked",),
        "models": ("show", "predict-model", "ask-model"),
        "sessions": ("session",),
    }
    return {**files, "command": rng.choice(commands[name]).encode()}


def _read(folder: Path, prepared: dict[str, Any]) -> None:
    command = (folder / "command").read_text()
    model, table = str(prepared["model"]), str(prepared["table"])
    bad_model = str(next((place for place in folder.iterdir() if place.is_dir()), folder))
    arguments = {
        "train": ["train", "table.csv", "--target", tables.LABEL, "--method", "tree", "--out", "out"],
        "predict": ["predict", model, "--data", "table.csv"],
        "explain": ["explain", model, "--data", "table.csv"],
        "evaluate": ["evaluate", model, "--data", "table.csv", "--target", tables.LABEL],
        "questions": ["questions", "table.csv", "--target", tables.LABEL],
        "asked": [
            *("train", table, "--target", tables.LABEL, "--method", "tree"),
            *("--questions", "questions.toml", "--out", "out"),
        ],
        "show": ["show", bad_model],
        "predict-model": ["predict", bad_model, "--data", table],
        "ask-model": ["ask", bad_model],
        "session": ["ask", model, "--session", "session.json"],
    }[command]
    done = subprocess.run(
        [sys.executable, "-m", "pursuit", *arguments],
        cwd=folder,
        input=b"yes\n?\nd\n\n",
        capture_output=True,
        timeout=20 * LIMIT,
        preexec_fn=_limit_work,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "TERM": "dumb"},
    )
    said = (done.stdout + done.stderr).decode("utf-8", errors="replace")
    if "Traceback" in said:
        raise Wrong(f"{' '.join(arguments)} ends in a traceback: {said[-600:]}")
    if found := CONTROL.search(said):
        raise Wrong(f"{' '.join(arguments)} prints the control character {found[0]!r}")
    if re.search(r"\bnan\b(?! %)", done.stdout.decode("utf-8", errors="replace")) and command.startswith("predict"):
        raise Wrong(f"{' '.join(arguments)} prints nan as a prediction")
    if done.returncode == 1 and "Error: " in said:
        raise ValueError(said[said.index("Error: ") :])
    if done.returncode == -signal.SIGXCPU:
        raise Wrong(f"{' '.join(arguments)} has no end: it worked for {LIMIT} seconds")
    if done.returncode not in (0, 1, 2):
        raise Wrong(f"{' '.join(arguments)} ends with {done.returncode}: {said[-600:]}")


def _limit_work() -> None:
    """By the time that a processor worked for it: on a busy machine everything takes long."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 1))


TARGETS = (
    Target("program", "the whole program with such files", _prepare, _make, _read, 1, is_slow=True, limit=LIMIT),
)
