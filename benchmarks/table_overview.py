"""What V-IP asks on ordinary tables, beside those that see all columns: a part of the overview of all results."""

import statistics
import textwrap

from report import table
from table_methods import TITLES
from table_page import NOTHING, VIP, Runs, best_other, goals, measured, trees_within

HEADER = ("table", "rows x columns, labels", "asked", "accuracy", "best on all columns", "best tree that asks no more")
PAGE = "[tables.md](tables.md)"


def overview_section(runs: Runs) -> str:
    """A row a table, and how many goals were met."""
    rows = [_row(runs, name) for name in runs if measured(runs, name, VIP)]
    seeds = {len(measured(runs, name, VIP)) for name in runs if measured(runs, name, VIP)}
    found = goals(runs)
    n_met = sum(goal.is_met is True for goal in found)
    text = (
        f"Nothing but the seed was set. Means over {' or '.join(map(str, sorted(seeds)))} seeds, each with its own "
        "fifth of the rows to test on. The best on all columns is the best, on these rows, of logistic regression, "
        "gradient boosting, a random forest and EBM, as far as they were run. Of the "
        f"{len(found)} goals that were set, {n_met} were met: {PAGE} has them all, with deviations, calibration, times "
        "and commits. Written by `make bench-tables`."
    )
    return "\n".join([table(HEADER, rows).rstrip(), "", *textwrap.wrap(text, 118)])


def _row(runs: Runs, name: str) -> list[str]:
    own = measured(runs, name, VIP)
    shape, best, tree = own[0]["shape"], best_other(runs, name), trees_within(runs, name)
    asked, accuracy = (statistics.fmean(one[key] for one in own) for key in ("asked", "at_stop"))
    return [
        name,
        f"{shape['rows']:,} x {shape['columns']}, {shape['labels']}",
        f"{asked:.1f}",
        f"{accuracy:.3f}",
        f"{best[1]:.3f} ({TITLES[best[0]]})" if best else NOTHING,
        f"{statistics.fmean(tree.tree):.3f} ({statistics.fmean(tree.asked):.1f})" if tree else NOTHING,
    ]
