"""What came of bad inputs and of killed trainings, as docs/results/fuzzing.json and its page."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import RESULTS, significant, table, where

from pursuit.files import write_whole

if TYPE_CHECKING:
    from fuzz.__main__ import Count
    from fuzz.kills import Kill
    from fuzz.workers import Target

NAME = "fuzzing"


def record(seed: int, counts: "dict[Target, Count]", into: Path = RESULTS) -> None:
    """Write down what came of the inputs of every target."""
    put("inputs", counted(seed, counts), into)


def counted(seed: int, counts: "dict[Target, Count]") -> dict[str, Any]:
    """What came of the inputs, and where."""
    targets = {
        target.name: {
            "title": target.title,
            "inputs": count.n_inputs,
            "fine": count.outcomes["fine"],
            "refused": count.outcomes["refused"],
            "bad": count.outcomes["bad"],
            "sentences": count.n_sentences,
            "seconds": count.seconds,
            "found": count.bad[:20],
            "seed": seed,
            "commit": where()["commit"],
        }
        for target, count in counts.items()
    }
    return {"where": where(), "targets": targets}


def record_kills(seed: int, kills: "Sequence[Kill]", into: Path = RESULTS) -> None:
    """Write down how trainings ended that were killed."""
    by_plan: dict[str, dict[str, Any]] = {}
    for kill in kills:
        plan = by_plan.setdefault(kill.plan, {"trainings": 0, "kills": 0, "exact": 0, "before the first report": 0})
        plan["trainings"] += 1
        plan["kills"] += kill.n_kills
        plan["exact"] += kill.is_exact and kill.is_log_whole
        plan["before the first report"] += sum(n < 2 for n in kill.n_reports)
    put("kills", {"where": where(), "seed": seed, "plans": by_plan}, into)


def put(part: str, values: dict[str, Any], into: Path = RESULTS) -> None:
    """Replace one part of what is written down, and write the page again."""
    path = into / f"{NAME}.json"
    measured = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if part == "inputs":  # those of other targets stay as they were measured
        values = {**values, "targets": {**measured.get(part, {}).get("targets", {}), **values["targets"]}}
    save({**measured, part: values}, page, NAME, into)


def save(measured: dict[str, Any], page: Callable[[dict[str, Any]], str], name: str, into: Path) -> None:
    """Write what was measured, rounded, as NAME.json and its page as NAME.md."""
    into.mkdir(parents=True, exist_ok=True)
    written = significant(measured)
    text = page(written)  # of what the JSON says, so that the page can be written again from it
    write_whole(into / f"{name}.json", (json.dumps(written, indent=1) + "\n").encode())
    write_whole(into / f"{name}.md", text.encode())


def page(measured: dict[str, Any]) -> str:
    return HEAD + _inputs(measured.get("inputs")) + _kills(measured.get("kills"))


HEAD = """# Bad input and killed trainings

Whatever is read must be read rightly or refused in a sentence that says what is wrong. Here inputs are made bad on
purpose, from good ones: bytes are flipped, cut, repeated and spliced; values are replaced by others of the wrong type,
size or meaning; checksums are made to fit again. Others are made from what is declared: every field of every setting,
every request of the API, every option, with extremes of their types. What counts as **bad** is a traceback, a crash, no
end after 20 seconds of work, more than a gigabyte of memory for one input, a share that is not a number, a file written
elsewhere, and foreign code that is run. The seed of a run makes the same inputs again, and a bad one is kept, to be
tried again by `python -m fuzz --replay`.

This page is written by `python -m fuzz --record` and `python -m fuzz.kills --record`; `make fuzz` runs for some
minutes and `make soak` for an hour, with another seed each time.
"""


def _inputs(part: dict[str, Any] | None) -> str:
    if part is None:
        return ""
    targets = part["targets"].values()
    rows = [
        [one["title"], *(f"{one[key]:,}" for key in ("inputs", "fine", "refused", "bad")), one["seed"], one["commit"]]
        for one in (*targets, {"title": "**all**", **_sums(targets), "seed": "", "commit": ""})
    ]
    found = [f"- {text.splitlines()[0]}" for one in targets for text in one["found"]]
    return (
        "\n## Bad input\n\n"
        + table(("input", "tried", "fine", "refused by a sentence", "bad", "seed", "commit"), rows)
        + ("\nBad:\n\n" + "\n".join(found) + "\n" if found else "")
        + (f"\n{part['note']}\n" if part.get("note") else "")
        + f"\n{_machine(part)}\n"
    )


def _sums(targets: Any) -> dict[str, int]:
    return {key: sum(one[key] for one in targets) for key in ("inputs", "fine", "refused", "bad")}


def _kills(part: dict[str, Any] | None) -> str:
    if part is None:
        return ""
    plans = part["plans"]
    keys = ("trainings", "kills", "before the first report", "exact")
    rows = [[name, *(plan[key] for key in keys)] for name, plan in plans.items()]
    rows.append(["**all**", *(sum(plan[key] for plan in plans.values()) for key in keys)])
    return (
        "\n## Killed trainings\n\nA training is ended by `kill -9` at a random moment, one to three times, and resumed "
        "each time. **Exact** means that its weights are in the end bit for bit those of a training that nobody "
        "killed, and that every line of its log is whole.\n\n"
        + table(("training", "trainings", "kills", "of these before the first report", "exact in the end"), rows)
        + f"\n{_origin(part)}\n"
    )


def _origin(part: dict[str, Any]) -> str:
    return f"Seed {part['seed']}, commit {part['where']['commit']}, {_machine(part)}"


def _machine(part: dict[str, Any]) -> str:
    known = part["where"]
    return f"{known['processor']}, Python {known['python']}, torch {known['torch']}."
