"""Very long and wide tables, at toy sizes."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pursuit.methods
import table_sizes
from pursuit.methods import VIPClassifier
from pursuit.training import Stage

pytestmark = pytest.mark.programs

HERE = {"commit": "abc", "machine": "x", "processor": "Z80"}


def test_what_is_generated_has_words_numbers_and_gaps() -> None:
    X, y = table_sizes.generate(2_000, 20)
    assert X.shape == (2_000, 20)
    assert set(y) == {"a", "b", "c"}
    assert set(X["word 1"].dropna()) == {"north", "east", "south", "west"}
    assert 0.04 < X.isna().to_numpy().mean() < 0.06
    gaps = [X[name][y == "a"].mean() - X[name][y != "a"].mean() for name in ("number 0", "number 18")]
    assert gaps[0] > 0.5
    assert abs(gaps[1]) < 0.2
    again, labels = table_sizes.generate(2_000, 20)
    assert again.equals(X)
    assert np.array_equal(labels, y)


def test_a_size_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pursuit.methods, "VIPClassifier", partial(VIPClassifier, stages=[Stage(2)]))
    found = table_sizes.measure(300, 4)
    assert (found["rows"], found["columns"]) == (300, 4)
    assert found["fit_seconds"] > 0
    assert 0 <= found["accuracy"] <= 1
    # The system counts pages a little late, so that a peak may be read lower than it was just before.
    assert found["peak_of_rows"] <= found["peak_of_fit"] * 1.01
    assert found["peak_of_fit"] <= found["peak"] * 1.01


def test_every_size_has_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_sizes, "SIZES", {"long": (0, 4)})
    table_sizes.measure_all(tmp_path)
    found = table_sizes.read(tmp_path)
    assert found
    assert found["imports"] > 10_000_000
    assert "Error" in found["long"]["not_run"]  # nothing can be learnt from no rows
    assert "| 0 | 4 | not run: " in table_sizes.sizes_section(found)


def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_sizes, "LIMIT_SECONDS", 0.05)
    assert table_sizes.in_own_process("300x4") == {"not_run": "takes more than 0 s"}


def test_nothing_is_read_where_nothing_was_measured(tmp_path: Path) -> None:
    assert table_sizes.read(tmp_path) is None


def test_memory_is_that_above_imports() -> None:
    one: dict[str, Any] = {"rows": 10, "columns": 2, "fit_seconds": 1.5, "predict_seconds": 0.5, "accuracy": 0.75}
    one |= {"peak_of_rows": 350e6, "peak_of_fit": 500e6, "peak": 500e6}
    text = table_sizes.sizes_section({"where": HERE, "imports": 300e6, "long": one, "wide": one})
    assert "| 10 | 2 | 1.5 | 0.5 | 0.750 | 50 | 200 |" in text
    assert "Commit abc, Z80 (x)." in text


def test_the_sizes_are_those_that_were_promised() -> None:
    assert table_sizes.SIZES == {"long": (1_000_000, 20), "wide": (500, 20_000)}
