"""Write docs/results/paper.md: every number of the paper's tables beside ours, with a verdict.

    python benchmarks/paper.py

What stands there is what the JSON files in docs/results/paper and docs/results/tasks say; a test holds the two equal.
`pursuit reproduce paper --next MINUTES` measures what is missing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from paper_cells import TABLES, Cell, PaperTable, length
from pursuit.experiments.paper import records
from pursuit.experiments.paper.runs import PLAN, PaperRun
from pursuit.experiments.results import NOTHING, Result, mean_and_sd, mean_and_spread
from report import RESULTS, table

FOLDER, PAGE = RESULTS / "paper", RESULTS / "paper.md"
AHEAD, LEVEL, BEHIND = "ahead", "level", "behind"
ABOUT = """\
# The paper, cell by cell

Every number in the tables of the V-IP paper (ICLR 2023), in its layout. A cell reads

> printed | ours ± sample standard deviation over seeds | seeds | verdict

**Verdicts** are computed. *Level* is within two standard errors of the printed number, *ahead* above, *behind* below.
The standard error is that of our mean over seeds and over test rows together, sqrt(s²/n + p(1 - p)/N) for n seeds
with standard deviation s and N test rows; with one seed, that of the rows alone. *Not comparable* and *not run* say
why.

**V-IP** asks by the paper's querier, straight-through, or by ours, information; both are trained by our recipes
(`gpu`, for MuZhi and Dxy `fast`), unless the column or row says `paper`. [The tasks](../tasks.md) says how each
follows the paper.
"""
REMARKS = """\
- **Table 2.** Our area is the mean accuracy over 1 to |Q| queries asked. The paper normalises by |Q| curves that are
  drawn by varying the stopping rule, and does not say how far their axis runs, so that areas can only be compared
  within a definition. Random is the classifier of straight-through V-IP on queries in random order, as in the paper.
  Its table has .680 for V-IP on HuffingtonNews, the extended one in its appendix .664.
- **Table 3.** SymCAT's patients are drawn from a public table, and the printed .681 is more than exact Information
  Pursuit has on them: the paper's patients differ. MuZhi and Dxy are another release of the same talks (Diaformer's,
  with its split). The paper quotes BSODA and REFUEL from other work.
- **Rivals on MuZhi and Dxy** learn ten times as long as `fast` says. That was decided after their test
  accuracies by `fast` itself were seen, which were lower: Partial VAE .639 and .670 (3 seeds), REFUEL .690 and .745
  (2 seeds). V-IP's plan is as it was.
- **Table 5.** Ours stops where chains are as long as the printed ones: at a confidence chosen on held-out training
  rows, for the images of MNIST's kind by the protocol of the released code (at most 21 queries, the last one not
  answered); on CUB after 19 queries. CUB's answers come from other concept networks than the paper's. A black box
  given X learns from the photos or texts themselves, not from answers; the paper trains one for CIFAR-10 and quotes
  the others.
"""


def verdict(printed: float, values: Sequence[float], n_test: int) -> str:
    """Whether the mean over seeds is ahead of a printed accuracy, level with it or behind."""
    found = mean_and_sd(values)
    by_seeds, by_rows = found.sd**2 / len(values), found.mean * (1 - found.mean) / n_test
    gap = found.mean - printed
    if abs(gap) <= 2 * math.sqrt(by_seeds + by_rows):
        return LEVEL
    return AHEAD if gap > 0 else BEHIND


def cell_text(cell: Cell, done: Mapping[PaperRun, Result]) -> str:
    """Printed, ours, seeds and verdict."""
    printed = f"{cell.printed:.3f}" if cell.printed < 1 else f"{cell.printed:.2f}"
    printed += "" if cell.spread is None else f" ± {cell.spread:.3f}"
    results = [result for run, result in done.items() if run.way == cell.way]
    values = [value for result in results if (value := cell.read(result)) is not None]
    if not values:
        return _joined(printed, NOTHING, "0", f"not run ({cell.not_run})")
    if cell.read is length:
        return _joined(printed, f"{mean_and_sd(values).mean:.2f}", str(len(values)))
    judged = verdict(cell.printed, values, results[0].n_test)
    if cell.not_comparable:
        judged = f"not comparable ({cell.not_comparable})"
    return _joined(printed, mean_and_spread(mean_and_sd(values)), str(len(values)), judged)


def _joined(*parts: str) -> str:
    return r" \| ".join(parts)


def table_text(one: PaperTable, done: Mapping[PaperRun, Result]) -> str:
    rows = [[cell if isinstance(cell, str) else cell_text(cell, done) for cell in row] for row in one.rows]
    return f"## {one.title}\n\n{table(one.columns, rows)}"


def origin(done: Mapping[PaperRun, Result]) -> str:
    """Commit, device and time of the runs that the tables show."""
    shown = dict.fromkeys(cell.way for one in TABLES for row in one.rows for cell in row if isinstance(cell, Cell))
    rows = []
    for way in shown:
        results = [result for run, result in done.items() if run.way == way]
        if way and results:
            minutes = mean_and_sd([result.training_seconds for result in results]).mean / 60
            commits, devices = (_distinct(result.provenance[key] for result in results) for key in ("commit", "device"))
            rows.append([way.name.removesuffix("-seed-0"), len(results), devices, f"{minutes:.1f}", commits])
    return "## Runs\n\n" + table(["run", "seeds", "device", "minutes of training", "commit"], rows)


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))


def page() -> str:
    done = records.read(FOLDER)
    n_done = sum(run in done for run in PLAN)
    left = (
        f"{n_done} of the {len(PLAN)} runs behind the paper's tables and figures are done. `pursuit reproduce paper` "
        "lists them,\nand with `--next MINUTES` does the next.\n"
    )
    return "\n".join([ABOUT, left, *(table_text(one, done) for one in TABLES), REMARKS, origin(done)])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Written: {PAGE}")
