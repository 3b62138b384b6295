"""Time to a stated quality."""

import pytest
import torch

import quality
from pursuit.networks import MLP
from worlds import digits_in_black_and_white


def test_an_easy_goal_is_reached_and_one_out_of_reach_is_not() -> None:
    found = quality.time_to_quality(most_steps=20, goals=(0.01, 1.01))
    easy, hard = found["goals"]
    assert {run["steps"] for run in easy["by"].values()} == {quality.LOOK_EVERY}
    quickest = min(easy["by"][plan]["seconds"] for plan in quality.PLANS)
    assert easy["ratio"] == pytest.approx(quickest / easy["by"]["library"]["seconds"])
    assert hard == {"accuracy": 1.01, "by": dict.fromkeys(("library", *quality.PLANS)), "ratio": None}


def test_the_clock_stands_still_while_accuracy_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    world, held_out = digits_in_black_and_white()
    now = [0.0]
    monkeypatch.setattr(quality.time, "perf_counter", lambda: now[0])

    class Found:
        accuracy_by_asked = (0.5,) * (quality.N_QUERIES + 1)

    def evaluate(*_: object, **__: object) -> Found:
        now[0] += 100
        return Found()

    monkeypatch.setattr(quality, "evaluate", evaluate)
    judge = quality.Judge(world.build(MLP((4,))), held_out, goals=(0.4, 0.5, 0.6))
    for n_steps in (20, 40, 60):
        now[0] += 2
        assert not judge.look(n_steps)
    assert judge.seconds == 6
    first = {"seconds": 2, "steps": 20}
    assert judge.reached == {0.4: first, 0.5: first}
    assert judge.model.training


def test_the_paper_goes_from_random_to_biased_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "RANDOM_STEPS", 2)
    world, _ = digits_in_black_and_white()
    called: list[str] = []

    class Watched(quality.PerRow):
        def random_masks(self, known: torch.Tensor) -> torch.Tensor:
            called.append("random")
            return known

        def biased_masks(self, x: torch.Tensor, known: torch.Tensor, max_queries: int) -> torch.Tensor:
            called.append("biased")
            return known

    for plan, expected in (("random, then biased", ["random"] * 2 + ["biased"] * 2), ("random only", ["random"] * 4)):
        called.clear()
        steps = quality._steps(Watched(world.build(MLP((4,)))), world.rows, plan)
        for _ in range(4):
            next(steps)
        assert called == expected
