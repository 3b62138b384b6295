"""Growth is measured point by point, and exponents are those of the figures."""

import json
from pathlib import Path
from typing import Any

import pytest

import growth
from report import RESULTS

pytestmark = pytest.mark.programs


def point(axis: str, value: int, cost: float, **others: Any) -> dict[str, Any]:
    """A measured point all of whose costs are `cost`."""
    found = {
        "histories_per_second": 1 / cost,
        "start_seconds": cost,
        "rows_per_second": 1 / cost,
        "all_steps_us": cost,
        "p50_ms": cost,
        "p99_ms": 2 * cost,
        "peak_of_training_mb": cost,
        "peak_mb": cost,
    }
    return {"axis": axis, "value": value, **found, **others}


def measured(*points: dict[str, Any]) -> dict[str, Any]:
    return {"where": {"torch": "2"}, "imports_mb": 300.0, "points": list(points)}


def test_exponents_are_slopes_on_logarithmic_scales() -> None:
    points = [point("n_queries", 10, 1.0), point("n_queries", 1000, 10.0), point("n_queries", 2000, 40.0)]
    first, second = growth.exponents(points)
    assert set(first) == {"training", "start", "evaluation", "all_steps", "session", "peak_of_training_mb", "peak_mb"}
    assert list(first.values()) == pytest.approx([0.5] * 7)
    assert list(second.values()) == pytest.approx([2.0] * 7)


def test_what_was_not_measured_has_no_exponent() -> None:
    (powers,) = growth.exponents([point("n_queries", 10, 1.0), point("n_queries", 100, 1.0, all_steps_us=None)])
    assert "all_steps" not in powers


def test_the_page_names_what_is_steeper_than_linear() -> None:
    calm = [point("n_classes", 2, 1.0), point("n_classes", 20, 9.0)]
    steep = [point("n_queries", 10, 1.0), point("n_queries", 100, 10.0, p50_ms=40.0, all_steps_us=None)]
    text = growth.page(measured(*calm, *steep))
    assert "Steeper than linear (above 1.1): session from 10 to 100 queries (1.60)." in text
    assert "| 100 | 0.1 | 1.00 | 10 | 1.00 | 0.1 | 1.00 | – |  | 40 | 1.60 |" in text
    assert "(above 1.1): nothing." in growth.page(measured(*calm))


def test_a_point_is_measured(tmp_path: Path) -> None:
    found = growth.measure_point(growth.QUICK[0])
    assert found["value"] == 4
    assert all(found[key] > 0 for key in ("histories_per_second", "rows_per_second", "all_steps_us", "p50_ms"))
    assert 0 < found["peak_of_rows"] <= found["peak_of_training"] <= found["peak"]
    peaks = {f"{key}_mb": found[key] / 1e6 for key in ("peak_of_training", "peak")}
    growth.plot(measured({**found, **peaks}), tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000


def test_peak_memory_is_seen() -> None:
    before = growth.peak_bytes()
    block = bytearray(80_000_000)
    block[::4096] = b"x" * len(block[::4096])
    assert growth.peak_bytes() >= before
    assert growth.peak_bytes() > 80_000_000


def test_points_run_in_processes_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert growth.in_own_process(growth.BASELINE)["peak"] > 10_000_000
    program = tmp_path / "point.py"
    program.write_text("raise SystemExit('out of memory')")
    monkeypatch.setattr(growth, "__file__", str(program))
    with pytest.raises(RuntimeError, match="out of memory"):
        growth.in_own_process("{}")


def test_the_ranges_are_those_that_were_promised() -> None:
    ranges: dict[str, list[int]] = {}
    for each in growth.POINTS:
        ranges.setdefault(each.axis, []).append(each.value)
    assert ranges == {
        "n_queries": [32, 320, 3_200, 32_000],
        "n_rows": [10**4, 10**5, 10**6, 10**7],
        "n_classes": [2, 10, 100, 1_000],
    }


def test_the_page_shows_what_was_measured() -> None:
    if not (RESULTS / "growth.json").exists():
        pytest.skip("growth was not measured yet")
    found = json.loads((RESULTS / "growth.json").read_text())
    assert growth.page(found) == (RESULTS / "growth.md").read_text(encoding="utf-8")
