"""The speed section of the overview of all results, from what was measured: speed.json and gpu.json.

python benchmarks/summary.py
"""

import json
from typing import Any

from report import OVERVIEW, RESULTS, figure, into_page, table

NAMES = {"mnist": "MNIST", "symcat": "SymCAT", "symcat-200": "SymCAT", "huffpost": "HuffPost"}


def summary(speed: dict[str, Any], gpu: dict[str, Any]) -> str:
    rows = [_training_row(case) for case in speed["training"]]
    rows += [_evaluation_row(case) for case in speed["evaluation"]]
    rows += [_session_row(case) for case in speed["session"]]
    processor = f"{speed['where']['processor']}, {speed['where']['machine']}, commit {speed['where']['commit']}"
    return "\n".join(
        [
            table(["on two CPU cores, the same networks", "measured", "times a plain implementation"], rows),
            f"By `make bench-speed` ({processor}); ratios are medians of {speed['rounds']} rounds by turns.",
            "",
            table(["on one GPU", "measured", "of what its matrix products reach"], _gpu_rows(gpu)),
            f"By `make bench-gpu` ({gpu['where']['device']}, commit {gpu['where']['commit']}). {_cold(gpu['cold'])}",
        ]
    )


def _training_row(case: dict[str, Any]) -> list[str]:
    name = f"training {NAMES[case['task']]}, {case['histories']} histories".replace(" queries histories", " queries")
    return [name, f"{figure(case['library'])} histories/s", figure(case["ratio"])]


def _evaluation_row(case: dict[str, Any]) -> list[str]:
    stopping = case["stopping"]
    name = f"evaluating {NAMES.get(case['task'], case['task'])} at a stopping rule"
    asked = f"{figure(stopping['library'])} rows/s at {case['mean_answered']:.1f} of {case['steps']} queries"
    return [name, asked, figure(stopping["ratio"])]


def _session_row(case: dict[str, Any]) -> list[str]:
    name = f"a step of a session, SymCAT with 400 diseases, recipe `{case['recipe']}`"
    latency = case["library"]
    measured = f"{figure(latency['p50_ms'])} ms (99 %: {figure(latency['p99_ms'])} ms)"
    return [name, measured, figure(case.get("ratio"))]


def _gpu_rows(gpu: dict[str, Any]) -> list[list[str]]:
    limit = gpu["matmul"]["operations_per_second"]
    rows = []
    for key, network in (("mnist", "the paper's networks"), ("symcat", "MLPs of 2048 and 1024")):
        found = gpu[key]["recorded and compiled"]
        name = f"training {NAMES[key]}, {network}"
        share = f"{found['operations_per_second'] / limit:.0%}"
        rows.append([name, f"{figure(found['histories_per_second'])} histories/s", share])
    return rows


def _cold(cold: dict[str, Any]) -> str:
    if "protocols" in cold:
        found = cold["protocols"][0]
        queries, accuracy = found["mean_counted"], found["accuracy"]
        how = f"{found['name']} on chains, the confidence chosen on held-out training images"
        return _from_a_cold_start(queries, accuracy, how, cold["seconds"])
    short = [(queries, accuracy) for _, queries, accuracy in cold["trade_off"] if queries <= cold["wanted"][0]]
    queries, accuracy = max(short, key=lambda pair: pair[1])
    how = "chains of at most 40, the confidence picked on the test images; not yet measured again without either"
    return _from_a_cold_start(queries, accuracy, how, cold["seconds"])


def _from_a_cold_start(queries: float, accuracy: float, how: str, seconds: float) -> str:
    return (
        f"From a cold start, imports included, to a model of MNIST with an accuracy of {accuracy:.3f} after "
        f"{queries:.2f} queries ({how}), trained and measured: {seconds:.0f} s."
    )


def main() -> None:
    speed, gpu = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("speed", "gpu"))
    into_page(OVERVIEW, "speed", summary(speed, gpu))


if __name__ == "__main__":
    main()
