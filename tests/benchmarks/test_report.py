"""What pages of results share."""

import json
from pathlib import Path

import pytest

import report


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.01234, "0.0123"),
        (7.0, "7"),
        (123.4, "123"),
        (45_678.9, "45,679"),
        (2.5e7, "25,000,000"),
    ],
)
def test_figures_have_three_digits(value: float | None, text: str) -> None:
    assert report.figure(value) == text


def test_a_table_is_markdown() -> None:
    assert report.table(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |\n"


def test_what_was_measured_is_written_rounded_with_its_page(tmp_path: Path) -> None:
    measured = {"rates": [1.23456789, 2], "inner": {"p": 0.000123456789}, "name": "a"}
    text = report.save(measured, lambda found: f"# {found['rates'][0]}\n", "x", tmp_path / "new")
    written = json.loads((tmp_path / "new" / "x.json").read_text())
    assert written == {"rates": [1.2346, 2], "inner": {"p": 0.00012346}, "name": "a"}
    assert (tmp_path / "new" / "x.md").read_text() == text == "# 1.2346\n"
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["x.json", "x.md"]


def test_the_processor_has_a_name() -> None:
    assert report.cpu()
    assert report.origin({"where": {"torch": "2", "processor": "Z80"}}) == "- torch: 2\n- processor: Z80\n"
