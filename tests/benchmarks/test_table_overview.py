"""The overview of results shows what was measured on ordinary tables."""

import copy

from report import OVERVIEW
from table_overview import overview_section
from table_page import VIP, read_runs
from tables import FOLDER


def test_the_overview_has_the_figures_of_the_runs() -> None:
    runs = read_runs(FOLDER)
    text = OVERVIEW.read_text(encoding="utf-8")
    assert overview_section(runs) in text
    others = copy.deepcopy(runs)
    for run in others["heart"][VIP]:
        run["at_stop"] = 0.5
    changed = overview_section(others)
    assert changed not in text
    assert "| 0.500 |" in changed
