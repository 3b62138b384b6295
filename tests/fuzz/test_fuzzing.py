"""A few bad inputs of every kind in seconds, and that the fuzzer finds what it looks for."""

import faulthandler
import importlib
import json
import os
import random
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.__main__ import TARGETS, Count, fuzz, main
from fuzz.judging import BAD, FINE, REFUSED, Watch, Wrong, judged
from fuzz.kills import PLANS, Kill
from fuzz.page import record, record_kills
from fuzz.schemas import Generator, _for_a_while
from fuzz.workers import Target, Worker, input_of

from pursuit.inference.stopping import StoppingRule
from pursuit.networks import MLP

pytestmark = pytest.mark.programs

SEED = 0


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if not target.is_slow])
def test_bad_input_is_read_rightly_or_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    n_inputs = {"csv": 40, "parquet": 40, "models": 40, "descriptions": 40, "settings": 12, "options": 20}.get(
        name, 150
    )
    count = fuzz(TARGETS[name], SEED, lambda count: count.n_inputs >= n_inputs, found=tmp_path)
    assert not count.bad
    assert count.outcomes[REFUSED]
    assert count.outcomes[FINE] or name == "parquet"  # input must not be hopeless from the start


def test_inputs_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    target = TARGETS["questions"]
    prepared = target.prepare(tmp_path)
    first = [input_of(target, prepared, 7, number) for number in range(20)]
    assert first == [input_of(target, prepared, 7, number) for number in range(20)]
    assert first != [input_of(target, prepared, 8, number) for number in range(20)]


def test_learning_is_not_cut_off_in_the_midst_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that are half there, such as torch._dynamo, would spoil all inputs that follow."""
    text = "import time\nend = time.process_time() + 0.1\nwhile time.process_time() < end:\n    pass\n"
    (tmp_path / "slow_to_import.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("fuzz.schemas.SECONDS_TO_LEARN", 0.01)
    with _for_a_while():
        importlib.import_module("slow_to_import")
        while True:
            pass
    assert sys.modules.pop("slow_to_import").end


def _read(folder: Path, _: Any) -> None:
    """What each of the inputs does."""
    match (folder / "deed").read_text():
        case "fine":
            return
        case "refuse":
            raise ValueError("This is a sentence.")
        case "mumble":
            raise ValueError("x")
        case "number":
            raise OSError(28, "No space left on device")
        case "traceback":
            raise KeyError("a")
        case "nan":
            raise Wrong("not a number")
        case "crash":
            faulthandler.disable()  # its report would fill the log
            os.abort()
        case "exit":
            raise SystemExit(3)
        case "memory":
            np.ones(10**10)
        case "write":
            Path("/var/tmp/pursuit-fuzz-test").write_text("x")
        case "run":
            os.system("true")
        case "hang":
            while True:
                time.sleep(0)


DEEDS = {
    "fine": FINE,
    "refuse": REFUSED,
    **dict.fromkeys(("mumble", "number", "traceback", "nan", "crash", "exit", "memory", "write", "run", "hang"), BAD),
}


def test_whatever_is_bad_is_found_and_kept(tmp_path: Path) -> None:
    names = list(DEEDS)
    order: list[str] = []

    def make(rng: Any, _: Any) -> dict[str, bytes]:
        return {"deed": names[int(rng.random() * len(names))].encode()}

    target = Target("deeds", "deeds", lambda folder: None, make, _read, limit=0.3)
    order = [input_of(target, None, 3, number)["deed"].decode() for number in range(60)]
    assert set(order) == set(DEEDS)
    first = {name: order.index(name) for name in names}
    worker = Worker(target, 3)
    try:
        found = {name: worker.try_input(number) for name, number in first.items()}
        assert [one.kind for one in worker.try_inputs(0, 8)] == [DEEDS[name] for name in order[:8]]
    finally:
        worker.end()
    Path("/var/tmp/pursuit-fuzz-test").unlink(missing_ok=True)
    assert {name: outcome.kind for name, outcome in found.items()} == DEEDS
    assert found["hang"].what.startswith("hangs")
    assert found["crash"].what.startswith("crashes")
    assert "outside" in found["write"].what
    assert "os.system" in found["run"].what
    number = first["traceback"]
    slow = replace(target, is_slow=True)  # one by one
    count = fuzz(slow, 3, lambda count: count.n_inputs > 0, number, found=tmp_path)
    assert count.bad == [f"{number}: traceback: KeyError: 'a'"]
    assert (tmp_path / f"deeds-3-{number}" / "deed").read_text() == "traceback"


def test_a_kept_input_is_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "questions-1-2"
    folder.mkdir()
    (folder / "questions.toml").write_text("nonsense")
    assert main(["--replay", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("refused: ")


def test_what_was_found_is_written_down(tmp_path: Path) -> None:
    counts = {TARGETS["csv"]: Count(), TARGETS["models"]: Count()}
    counts[TARGETS["csv"]].outcomes.update({FINE: 1000, REFUSED: 234})
    counts[TARGETS["models"]].outcomes.update({FINE: 5, BAD: 1})
    counts[TARGETS["models"]].bad.append("17: hangs")
    record(4, counts, tmp_path)
    plan = next(iter(PLANS))
    record_kills(5, [Kill(plan, 2, (0.1, 0.5), (0, 7), True, True), Kill(plan, 1, (0.2,), (5,), False, True)], tmp_path)
    page = (tmp_path / "fuzzing.md").read_text()
    assert "| CSV tables, read, trained on and predicted | 1,234 | 1,000 | 234 | 0 | 4 |" in page
    assert "| **all** | 1,240 | 1,005 | 234 | 1 |" in page
    assert "- 17: hangs" in page
    assert f"| {plan} | 2 | 3 | 1 | 1 |" in page
    assert json.loads((tmp_path / "fuzzing.json").read_text())["inputs"]["targets"]["csv"]["seed"] == 4


def test_an_input_is_judged_by_what_it_raises(tmp_path: Path) -> None:
    (tmp_path / "deed").write_text("refuse")
    assert judged(lambda folder: _read(folder, None), tmp_path, Watch()) == (REFUSED, "This is a sentence.")


def test_several_processes_try_other_inputs_and_are_added_up(tmp_path: Path) -> None:
    out = tmp_path / "counts.json"
    code = main(
        [
            "--seed",
            "5",
            "--inputs",
            "80",
            "--jobs",
            "2",
            "--targets",
            "rules",
            "--out",
            str(out),
            "--found",
            str(tmp_path),
        ]
    )
    counts = json.loads(out.read_text())
    assert code == 0
    assert counts["targets"]["rules"]["inputs"] == 80
    assert counts["targets"]["rules"]["bad"] == 0


@pytest.mark.parametrize(
    "hint", [int, float, bool, str, tuple[int, ...], dict[str, float], MLP, StoppingRule, int | None]
)
def test_values_are_made_of_every_declared_type_and_of_others(hint: Any) -> None:
    rng = random.Random(0)
    right = [Generator(rng, wrong=0.0).of_type(hint) for _ in range(200)]
    wrong = [Generator(rng, wrong=1.0).of_type(hint) for _ in range(200)]
    assert len({json.dumps(value) for value in right}) > 1
    assert {type(value) for value in wrong} > {str, int, float}
    if hint is MLP:
        assert all(
            value["type"] == "MLP" and set(value) <= {"type", *(one.name for one in fields(MLP))} for value in right
        )
