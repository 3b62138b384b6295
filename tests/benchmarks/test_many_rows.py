"""The benchmark of many rows: what is drawn, measured and reckoned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import many_rows
import many_rows_page
from pursuit import MLP, Stage, VIPClassifier
from pursuit.scale.engine import Local


def test_rows_are_drawn_once_and_measured_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_rows, "FILE_ROWS", 1500)
    folder = many_rows.drawn(4000, tmp_path)
    files = sorted(folder.iterdir())
    assert [path.name for path in files] == ["0000.parquet", "0001.parquet", "0002.parquet"]
    before = [path.stat().st_mtime_ns for path in files]
    assert many_rows.drawn(4000, tmp_path) == folder
    assert [path.stat().st_mtime_ns for path in files] == before
    few = many_rows.draw(300, 0)
    model = VIPClassifier(network=MLP((8,)), stages=[Stage(2)], stop="confidence=0.9", teachers=None, random_state=0)
    model.fit(few[many_rows.COLUMNS], few["disease"].astype(str))
    found = many_rows.evaluated(model, many_rows.rows_in(folder), Local())
    assert found["rows"] == 4000
    assert 0.2 < found["accuracy"] <= 1


def made_up(fixed: float, each: float, product: float) -> list[dict[str, Any]]:
    sizes = [(q, c) for q in (20, 1000, 10_000) for c in (2, 100)]
    return [
        {"queries": q, "labels": c, "seconds": fixed + each * q + product * q * c, "model_bytes": 1000}
        for q, c in sizes
    ]


def test_what_a_step_is_made_of_is_found_again() -> None:
    sizes = made_up(5e-6, 8e-8, 5e-9)
    assert np.allclose(many_rows_page.fitted(sizes), [5e-6, 8e-8, 5e-9])
    assert many_rows_page.foretold(sizes, 10_000, 1000) == pytest.approx(5e-6 + 8e-4 + 5e-2)


def test_the_page_reckons_with_what_was_measured() -> None:
    where = {"processor": "a processor", "cores": 2, "commit": "abc"}
    one = {"rows": 1000, "seconds": 2.0, "peak_bytes": 5e8, "accuracy": 0.9, "asked": 5.0}
    ways = {"this process": one, "Ray, 1 worker": {**one, "seconds": 3.0}, "plain batches": {**one, "seconds": 20.0}}
    page = many_rows_page.page(
        {
            "engines": {"found": ways, "where": where},
            "rows": {"1000": {**one, "where": where}},
            "nodes": {"found": {"1": one, "2": one}, "where": where},
            "sizes": {"found": made_up(0.0, 0.0, 1e-9), "where": where},
        }
    )
    assert "Ray with one worker takes 1.0 s more" in page
    assert "10.0 times as slowly" in page
    assert "| time of one core | 58,333 hours: 10 ms a step, 21 steps a row |" in page
    assert "1.25 TB to read" in page
