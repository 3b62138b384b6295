"""How speed is measured, on clocks that say what a test wants."""

import itertools
import time

import pytest

import timing
from pursuit.sessions.session import Session
from pursuit.training import RandomHistories, Stage
from worlds import YesNoRows


def test_ratios_are_taken_round_by_round_and_say_how_much_better_the_library_is() -> None:
    rates = iter([10.0, 1.0, 20.0, 4.0, 30.0, 2.0])  # by turns: 10, 5 and 15 times
    found = timing.by_turns(lambda: next(rates), lambda: next(rates), rounds=3)
    assert found == {"library": 20.0, "per_row": 2.0, "ratio": 10.0, "ratios": [5.0, 10.0, 15.0]}
    times = iter([2.0, 8.0])
    assert timing.by_turns(lambda: next(times), lambda: next(times), 1, more_is_better=False)["ratio"] == 4.0


def test_quantiles() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert timing.quantile(values, 0.5) == 51.0
    assert timing.quantile(values, 0.99) == 100.0
    assert timing.quantile([3.0], 0.99) == 3.0


def test_the_pace_of_training_is_that_of_steps_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by one second at every look, and training that looks at it once a step."""
    ticks = itertools.count()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(ticks)))
    rows = YesNoRows.random(2, 3, n_rows=64)
    pace = timing.training_pace(rows.build((4,)), rows, Stage(1, RandomHistories(), batch_size=16), 6, warmup=2)
    assert pace.histories_per_second == pytest.approx(16)
    assert pace.typical_per_second == pytest.approx(16)
    assert pace.start_seconds == 0.0  # the first report comes one second after the call, as long as a step takes


def test_a_moment_without_cores_does_not_show_in_the_typical_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 2.0, 3.0, 93.0, 94.0, 95.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(times))
    rows = YesNoRows.random(2, 3, n_rows=64)
    pace = timing.training_pace(rows.build((4,)), rows, Stage(1, RandomHistories(), batch_size=16), 5, warmup=1)
    assert pace.typical_per_second == pytest.approx(16)
    assert pace.histories_per_second == pytest.approx(5 * 16 / 94)


def test_a_stage_too_short_to_measure_is_refused() -> None:
    rows = YesNoRows.random(2, 3, n_rows=64)
    with pytest.raises(ValueError, match="use more steps"):
        timing.training_pace(rows.build((4,)), rows, Stage(1, RandomHistories(), batch_size=16), 0, warmup=2)


def test_steps_and_repetitions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    steps = itertools.count()
    assert timing.steps_per_second(steps, 5) == 5.0
    assert next(steps) == 5
    done: list[int] = []
    assert timing.median_seconds(lambda: done.append(1), at_least=2.5, most=10) == 1.0
    assert len(done) == 3
    assert timing.median_seconds(lambda: done.append(1), at_least=100, most=4) == 1.0
    assert len(done) == 7


def test_session_steps_are_asked_and_answered() -> None:
    rows = YesNoRows.random(2, 5, n_rows=8)
    session = Session(rows.build((4,)).eval())
    assert len(timing.session_steps(session, [1, 0, 1, 0, 1], 4)) == 4
    assert len(session.chain) == 4
