"""The measurements for a GPU run at toy sizes where there is none."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import gpu
import worlds
from pursuit import registry
from pursuit.networks import MLP
from pursuit.tasks import TASKS, digits, find_recipe
from report import RESULTS


def test_parts_are_measured_and_a_failing_one_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(size: gpu.Size) -> dict[str, Any]:
        raise RuntimeError("out of luck")

    monkeypatch.setitem(gpu.PARTS, "mnist", fails)
    found = gpu.measure(gpu.QUICK, ["matmul", "mnist", "symcat"], tmp_path)
    assert list(found["errors"]) == ["mnist"]
    assert found["symcat"]["recorded"]["operations_per_second"] > 0
    written = json.loads((tmp_path / "gpu.json").read_text())
    assert written.keys() == {"where", "errors", "matmul", "symcat"}
    text = (tmp_path / "gpu.md").read_text()
    assert text == gpu.page(written)
    assert "mnist failed: RuntimeError: out of luck" in text
    assert "| symcat | MLP(hidden=(2048, 1024)" in text


def test_images_are_measured() -> None:
    found = gpu.mnist(replace(gpu.QUICK, image_batch=2))
    assert found["network"] == "PaperConv()"
    assert all(found[how]["histories_per_second"] > 0 for how in gpu.COMPILED)
    measured = {"mnist": found, "matmul": {"operations_per_second": 1e12}, "where": {}, "errors": {}}
    measured["profile"] = {"batch_size": 1000, "products_ms": 3.0, "others_ms": 4.0}
    assert "3.0 ms in convolutions and matrix products" in gpu.page(measured)


def test_operations_are_those_of_the_matrix_products() -> None:
    """Two networks 6 -> 8 -> outputs; going back costs twice as much but for what leads to no weights: the querier's
    input. A multiplication with an addition is two operations."""
    world = worlds.World(worlds.yes_no_queries(3), 2, worlds.YesNoRows.random(2, 3, 16).in_memory(16))
    model = world.build(MLP((8,)))
    first, heads = 6 * 8, (8 * 3, 8 * 2)
    querier, classifier = 2 * first + 3 * heads[0], 3 * first + 3 * heads[1]
    assert gpu.operations_per_history(model, world.rows) == 2 * (querier + classifier)
    assert all(p.grad is None for p in model.parameters())


def test_the_cold_start_trains_and_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    info = replace(TASKS["mnist"], load=digits.load, protocol_length=2.0)
    monkeypatch.setitem(registry._known["task"], "mnist", info)
    monkeypatch.setattr(gpu, "find_recipe", lambda task: find_recipe("digits"))
    found = gpu.train_and_measure("cpu", 1.0, time.time() - 5)
    marks = list(found["marks"].values())
    assert marks == sorted(marks)
    assert marks[0] >= 5
    assert [one["name"] for one in found["protocols"]] == [protocol.name for protocol in info.protocols]
    assert {one["n_held_out"] for one in found["protocols"]} == {144}  # a tenth of the training images
    assert not found["reached"]
    text = gpu.page({"where": {}, "errors": {}, "cold": {**found, "seconds": 9.0}})
    assert "after at most 6.5 queries on average: not reached" in text
    assert "| all | 9 |" in text
    assert "| no cap | " in text
    assert "picked on the test images" not in text
    older = {**found, "trade_off": [["confidence=0.9", 6.0, 0.97]], "seconds": 9.0}
    del older["protocols"]
    text = gpu.page({"where": {}, "errors": {}, "cold": older})
    assert "picked on the test images" in text
    assert "| confidence=0.9 | 6.00 | 0.9700 |" in text


def test_a_cold_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "child.py"
    program.write_text("raise SystemExit('no images here')")
    monkeypatch.setattr(gpu, "__file__", str(program))
    with pytest.raises(RuntimeError, match="no images here"):
        gpu.cold(gpu.QUICK)


def test_without_a_gpu_the_program_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    with pytest.raises(SystemExit):
        gpu.main()
    assert "an NVIDIA GPU" in capsys.readouterr().err


def test_the_page_shows_what_was_measured() -> None:
    if not (RESULTS / "gpu.json").exists():
        pytest.skip("a GPU was not measured yet")
    found = json.loads((RESULTS / "gpu.json").read_text())
    assert gpu.page(found) == (RESULTS / "gpu.md").read_text(encoding="utf-8")
