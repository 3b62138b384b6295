"""The comparison of methods: pages say what the JSON files say, and the judge knows exact pursuit when it sees it."""

from typing import Any

import pytest

import known_world
import methods
from pursuit.methods import METHODS


def test_the_pages_say_what_the_files_say() -> None:
    assert methods.PAGE.read_text(encoding="utf-8") == methods.page()
    assert methods.areas() in methods.METHODS_PAGE.read_text(encoding="utf-8")


def test_every_method_is_compared_somewhere() -> None:
    compared = {name for results in methods.kept().values() for name in results["methods"]}
    assert compared >= set(METHODS)


def test_results_have_three_seeds_and_name_their_commit() -> None:
    for task, results in methods.kept().items():
        for name, found in results["methods"].items():
            assert found["failed"] == [], (task, name)
            assert all(seed["provenance"]["commit"] for seed in found["seeds"])
        assert len(results["methods"]["vip"]["seeds"]) >= 3, task


def test_exact_pursuit_is_judged_exact() -> None:
    found = methods.judge(known_world.EXACT, known_world.draw(40, seed=0))
    assert found["correlation"] == pytest.approx(1)
    assert found["divergence"] == pytest.approx(0, abs=1e-9)
    assert found["share"] == pytest.approx(1)


def test_the_known_world_is_a_task_with_exact_pursuit() -> None:
    task = methods.known_task()
    assert task.exact is not None
    assert task.exact() is known_world.EXACT
    assert len(task.X_train) == methods.KNOWN_ROWS


def test_the_gap_to_exact_pursuit_is_told() -> None:
    def found(area: float, accuracy: float) -> dict[str, Any]:
        return {"summary": {"area": {"mean": area}, "accuracy_after_5": {"mean": accuracy}}}

    told = methods.gap_to_exact({"methods": {"vip": found(0.5, 0.4), "exact": found(0.55, 0.43)}})
    assert told == "V-IP's gap to exact IP: +0.030 after 5 answers, +0.050 in area.\n"
    assert methods.gap_to_exact({"methods": {"vip": found(0.5, 0.4)}}) == ""
