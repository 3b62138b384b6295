"""Two versions of the package by turns on one machine: the same bits, and the same pace?

    python benchmarks/alternate.py OTHER_SOURCE [--rounds 5] [--json FILE]

OTHER_SOURCE is the `src` folder of another checkout, such as the commit before a refactoring. Every round trains V-IP
on the two embedded tasks, evaluates it and runs sessions, once with each version in a process of its own. What counts
is the ratio of the best rounds, because cores may be taken away or slowed down for moments; the median of the rounds'
ratios says how much. The weights and the posteriors of all test rows are compared by their checksums.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent / "src"
TASKS = ("digits", "animals")
SESSIONS, EVALUATIONS = 100, 6


def measure(task_name: str) -> dict[str, Any]:
    """Train, evaluate and ask with whichever version is imported; only what all versions have is used."""
    import torch

    torch.set_num_threads(1)
    from pursuit import VIPClassifier
    from pursuit.tasks import load_task

    task = load_task(task_name, 0)
    model = VIPClassifier(task.query_set, random_state=0, **task.settings)
    began = time.perf_counter()
    model.fit(task.X_train, task.y_train)
    training = time.perf_counter() - began
    posterior = model.predict_proba(task.X_test)
    evaluation = min(_seconds(lambda: model.evaluate(task.X_test, task.y_test)) for _ in range(EVALUATIONS))
    weights = hashlib.sha256()
    for name, tensor in sorted(model.model_.state_dict().items()):
        weights.update(name.encode())
        weights.update(tensor.contiguous().numpy().tobytes())
    return {
        "training_seconds": training,
        "evaluation_seconds": evaluation,
        "session_step_milliseconds": 1000 * _session_step(model),
        "weights": weights.hexdigest(),
        "posterior": hashlib.sha256(posterior.tobytes()).hexdigest(),
    }


def _seconds(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _session_step(model: Any) -> float:
    """The time of asking one question and taking its answer, at the 10th percentile."""
    times = []
    for number in range(SESSIONS):
        session = model.session("budget=10")
        while not session.done:
            began = time.perf_counter()
            question = session.ask()
            answer = question.choices[number % len(question.choices)] if question.choices else [number % 16] * 4
            session.tell(answer)
            times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 10]


def in_process(source: Path, task: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, __file__, "--worker", task]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd="/")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", choices=TASKS)
    chosen = parser.parse_args()
    if chosen.worker:
        print(json.dumps(measure(chosen.worker)))
        return
    if chosen.other is None:
        parser.error("give the src folder of the other version")
    found: dict[str, Any] = {}
    for task in TASKS:
        pairs = [(in_process(chosen.other.resolve(), task), in_process(HERE, task)) for _ in range(chosen.rounds)]
        same = all(
            one[key] == other[key] == pairs[0][0][key] for one, other in pairs for key in ("weights", "posterior")
        )
        found[task] = {"same_bits": same}
        print(f"{task}: {'the same bits' if same else 'OTHER BITS'}")
        for key in ("training_seconds", "evaluation_seconds", "session_step_milliseconds"):
            ratios = sorted(this[key] / other[key] for other, this in pairs)
            other, this = (min(pair[i][key] for pair in pairs) for i in (0, 1))
            found[task][key] = {"other": other, "this": this, "ratio": this / other, "ratios": ratios}
            print(
                f"  {key:<26} other {other:.3f}, this {this:.3f}, ratio {this / other:.3f}; by rounds "
                f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
            )
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
