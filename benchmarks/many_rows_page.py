"""The page of `many_rows.py`: what was measured, and what far more rows, queries and labels would cost by it."""

from typing import Any

import numpy as np
from scipy.optimize import nnls

from report import figure, table

ROWS, QUERIES, LABELS, ASKED = 10**9, 10**4, 10**3, 20
"""What is reckoned, with so many questions a row on average."""
PRICE = 0.04
"""Assumed for an hour of a core in a cloud, in US dollars."""
HOUR, TERABYTE, GIGABYTE = 3600, 1e12, 1e9


def terms(queries: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What a step of a chain is made of: something fixed, something for every query, and for every query and label."""
    return np.stack([np.ones_like(queries), queries, queries * labels], axis=1).astype(float)


def fitted(sizes: list[dict[str, Any]]) -> np.ndarray:
    """Seconds for each of the terms (3,), by least squares of the relative error, none below 0."""
    queries, labels, seconds = (np.array([one[key] for one in sizes]) for key in ("queries", "labels", "seconds"))
    parts, _ = nnls(terms(queries, labels) / seconds[:, None], np.ones(len(sizes)))
    return parts


def foretold(sizes: list[dict[str, Any]], queries: float, labels: float) -> float:
    return float((terms(np.array([queries]), np.array([labels])) @ fitted(sizes))[0])


def _origin(part: dict[str, Any]) -> str:
    place = part["where"]
    return f"{place['processor']}, {place['cores']} cores, commit {place['commit']}"


def _engines(part: dict[str, Any]) -> str:
    found = part["found"]
    own = found["this process"]
    rows = []
    for name, one in found.items():
        rate = one["rows"] / one["seconds"]
        peak = f"{one['peak_bytes'] / GIGABYTE:.2f} GB" if "peak_bytes" in one else "–"
        rows.append([name, f"{one['rows']:,}", f"{one['seconds']:.1f}", f"{rate:,.0f}", peak])
    one_worker = found["Ray, 1 worker"]
    more = one_worker["seconds"] - own["seconds"]
    merged = own["rows"] / own["seconds"] / (found["plain batches"]["rows"] / found["plain batches"]["seconds"])
    return f"""## By engine

`pursuit evaluate` with all defaults on rows of 20 yes/no columns and one of five labels: the whole curve from 0 to 20
questions, what each question told, calibration by step. Every way gave the same figures, bit for bit.

{table(["way", "rows", "seconds", "rows a second", "peak memory of all processes"], rows)}
Ray with one worker takes {more:.1f} s more than this process; how long 100,000 rows take, below, is mostly its start.
Shares of a million rows have many histories in common, each of which is computed once; in plain batches,
where every row is computed, rows go {merged:.1f} times as slowly. {_origin(part)}.
"""


def _rows(part: dict[str, Any]) -> str:
    lines = []
    for n_rows, one in sorted(part.items(), key=lambda item: int(item[0])):
        rate = one["rows"] / one["seconds"]
        peak = one["peak_bytes"] / GIGABYTE
        cells = [f"{int(n_rows):,}", f"{one['seconds']:,.0f}", f"{rate:,.0f}", f"{peak:.2f} GB"]
        lines.append([*cells, f"{one['accuracy']:.4f} after {one['asked']:.2f}", _origin(one)])
    columns = ["rows", "seconds", "rows a second", "peak memory of all processes", "measured", "where"]
    return f"""## By number of rows

The same by Ray on all cores of one machine, its start included.

{table(columns, lines)}"""


def _nodes(part: dict[str, Any]) -> str:
    lines = [[n, f"{one['seconds']:.1f}", f"{one['rows'] / one['seconds']:,.0f}"] for n, one in part["found"].items()]
    return f"""## By number of nodes

Clusters whose nodes have one core each, as processes of one machine with {part["where"]["cores"]} cores; the start of
the cluster, some 20 seconds, is included. {_origin(part)}.

{table(["nodes", "seconds", "rows a second"], lines)}"""


def _sizes(part: dict[str, Any]) -> str:
    sizes = part["found"]
    known = [one for one in sizes if one["queries"] < QUERIES]
    lines = []
    for one in sizes:
        by_all = foretold(sizes, one["queries"], one["labels"]) / one["seconds"]
        by_smaller = foretold(known, one["queries"], one["labels"]) / one["seconds"]
        shown = "–" if one["queries"] < QUERIES else f"{by_smaller:.2f}"
        cells = [f"{one['queries']:,}", f"{one['labels']:,}", figure(one["seconds"] * 1e6)]
        lines.append([*cells, f"{one['model_bytes'] / 1e6:,.0f} MB", f"{by_all:.2f}", shown])
    fixed, each, product = fitted(sizes) * 1e9
    columns = ["queries", "labels", "microseconds", "model", "foretold / measured", "foretold by smaller / measured"]
    return f"""## By number of queries and labels

A row and a step of its chain, of which nothing is equal to another, on one core: which of all queries would tell most,
and what to believe now. Seconds are foretold as {fixed:,.0f} ns + {each:,.0f} ns x queries + {product:.2f} ns x queries
x labels; the last column foretells the sizes with {QUERIES:,} queries by the smaller ones alone.
{_origin(part)}.

{table(columns, lines)}
{_costs(sizes)}"""


def _costs(sizes: list[dict[str, Any]]) -> str:
    measured = [one["seconds"] for one in sizes if (one["queries"], one["labels"]) == (QUERIES, LABELS)]
    step = measured[0] if measured else foretold(sizes, QUERIES, LABELS)
    core_hours = step * (ASKED + 1) * ROWS / HOUR
    model = max(one["model_bytes"] for one in sizes)
    lines = [
        ["time of one core", f"{core_hours:,.0f} hours: {step * 1e3:.0f} ms a step, {ASKED + 1} steps a row"],
        ["on 1,000 cores", f"{core_hours / 1000 / 24:,.1f} days"],
        ["money", f"{core_hours * PRICE:,.0f} $, at {PRICE} $ for an hour of a core"],
        ["rows, a bit for each answer", f"{ROWS * QUERIES / 8 / TERABYTE:.2f} TB to read, once"],
        ["predictions, 8 bytes for each label", f"{ROWS * LABELS * 8 / TERABYTE:.0f} TB to write, before packing"],
        ["sums of an evaluation", f"{(LABELS**2 + 6 * QUERIES) * 8 / 1e6:.0f} MB a share to send"],
        ["memory of a worker", f"{(model + 2**28 + 2**30) / GIGABYTE:.1f} GB: model, batch, and a share's rows"],
    ]
    return f"""### A billion rows, ten thousand queries, a thousand labels

By the rates above, chains of {ASKED} questions, and rows that are all different:

{table(["", ""], lines)}"""


def page(measured: dict[str, Any]) -> str:
    parts = {"engines": _engines, "rows": _rows, "nodes": _nodes, "sizes": _sizes}
    sections = [write(measured[name]) for name, write in parts.items() if measured.get(name)]
    title = """# Many rows

Written by `python benchmarks/many_rows.py`; all figures are in `many_rows.json` beside this page. What they mean for a
cluster is told in [More than one machine](../scale.md).
"""
    return "\n".join([title, *sections])
