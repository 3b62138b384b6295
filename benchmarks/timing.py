"""How speed is measured: through the library's own front doors, by whole steps, two implementations by turns.

Cores may be taken away for moments. Two implementations are therefore measured in short rounds one after the other, and
what counts is the median of the rounds' ratios.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pursuit.data.rows import RowSource
from pursuit.sessions.session import Session
from pursuit.training import Report, Stage, TrainingRun, train
from pursuit.vip import VIP


@dataclass(frozen=True)
class TrainingPace:
    histories_per_second: float
    typical_per_second: float
    """The same by the median time between reports: moments in which the cores were taken away do not show in it."""
    start_seconds: float
    """From the call to the first step: what is made ready, shuffled and copied."""


def training_pace(model: VIP, rows: RowSource, stage: Stage, n_steps: int, warmup: int, **options: Any) -> TrainingPace:
    """How fast `train` is over `n_steps` steps after `warmup` ones, by the times of its reports; trains the model."""
    marks: list[tuple[int, float]] = []

    def mark(report: Report) -> None:
        marks.append((report.step, time.perf_counter()))

    epochs = (warmup + n_steps) * stage.batch_size / len(rows)
    began = time.perf_counter()
    train(model, rows, [replace(stage, epochs=epochs)], run=TrainingRun(on_report=mark), **options)
    warm = [at for at in marks if at[0] >= warmup]
    if len(warm) < 2:
        raise ValueError(
            f"Training reported {len(warm)} times after its {warmup} steps of warm-up, and two are needed to measure "
            "its pace: use more steps."
        )
    paces = [_seconds_a_step(*pair) for pair in itertools.pairwise(warm)]
    pace = _seconds_a_step(warm[0], warm[-1])
    # What precedes the first step is found by taking the steps up to the first report away.
    step, reported = marks[0]
    typical = stage.batch_size / statistics.median(paces)
    return TrainingPace(stage.batch_size / pace, typical, max(0.0, reported - began - step * pace))


def _seconds_a_step(before: tuple[int, float], after: tuple[int, float]) -> float:
    return (after[1] - before[1]) / (after[0] - before[0])


def steps_per_second(steps: Iterator[Any], n: int) -> float:
    """How fast the next `n` of an endless sequence of steps are."""
    began = time.perf_counter()
    for _ in itertools.islice(steps, n):
        pass
    return n / (time.perf_counter() - began)


def seconds(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def median_seconds(action: Callable[[], Any], at_least: float, most: int) -> float:
    """The median time of an action, repeated until `at_least` seconds are over or it was done `most` times."""
    times = [seconds(action)]
    while sum(times) < at_least and len(times) < most:
        times.append(seconds(action))
    return statistics.median(times)


def session_steps(session: Session, answers: Sequence[Any], n_steps: int) -> list[float]:
    """Seconds of each step of a session: asking, and hearing the answer."""
    times = []
    for _ in range(n_steps):
        began = time.perf_counter()
        session.tell(answers[session.ask().query])
        times.append(time.perf_counter() - began)
    return times


def quantile(values: Sequence[float], share: float) -> float:
    """The value that the share `share` of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def by_turns(
    library: Callable[[], float], per_row: Callable[[], float], rounds: int, more_is_better: bool = True
) -> dict[str, Any]:
    """Measure one after the other, round after round. The ratio says how many times better the library is."""
    pairs = [(library(), per_row()) for _ in range(rounds)]
    ratios = [ours / plain if more_is_better else plain / ours for ours, plain in pairs]
    return {
        "library": statistics.median(ours for ours, _ in pairs),
        "per_row": statistics.median(plain for _, plain in pairs),
        "ratio": statistics.median(ratios),
        "ratios": sorted(ratios),
    }
