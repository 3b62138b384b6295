"""Ordinary tables, without a setting: docs/results/tables.md, with a JSON file of every run beside it.

    python benchmarks/tables.py                                   # everything that is not measured yet, and the page
    python benchmarks/tables.py --tables heart,credit --seeds 0,1 --methods vip,hgb
    python benchmarks/tables.py --validation --methods vip        # on rows held out from those to learn from
    python benchmarks/tables.py --page                            # only the page, from what is measured
    python benchmarks/tables.py --sizes                           # only time and memory on very long and wide tables

Tables are read from --data, $PURSUIT_DATA/tables or ../shared/data/tables. A run is one method on one table with one
seed: `TABLE/METHOD-SEED.json`. It is not measured again, but for methods of ours whose code has changed. What stands on
the page is what the JSON files say. With --validation, runs are written into results/tables-validation and there is no
page: settings are chosen there, and test rows have no say in it.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import table_overview
import table_page
import table_sizes
from pursuit.methods import METHODS
from readme import write_readme
from report import OVERVIEW, RESULTS, into_page
from runs import Run, check_names, measure_runs, names, parser_of_runs
from table_data import TARGETS, default_folder, read, split
from table_methods import TITLES, available, is_own, measure

FOLDER, PAGE, VALIDATION_FOLDER = RESULTS / "tables", RESULTS / "tables.md", Path("results") / "tables-validation"
SEEDS = (0, 1, 2, 3, 4)
OTHERS_LIMIT_SECONDS = 900.0
"""The most computing for a run of a method that is not ours."""


@dataclass(frozen=True, kw_only=True)
class TableRun(Run):
    """One method on one table with one seed."""

    table: str
    method: str
    is_validation: bool = False

    @property
    def names(self) -> dict[str, str]:
        return {"table": self.table, "method": self.method}

    @property
    def path(self) -> Path:
        return self.folder / self.table / f"{self.method}-{self.seed}.json"

    @property
    def is_own(self) -> bool:  # type: ignore[override]
        return is_own(self.method)

    @property
    def limit_seconds(self) -> float:  # type: ignore[override]
        return Run.limit_seconds if self.is_own else OTHERS_LIMIT_SECONDS

    @property
    def not_available(self) -> str:  # type: ignore[override]
        return "" if available(self.method) else "interpret is not installed (pip install interpret-core)"

    def measure(self) -> dict[str, Any]:
        X, y = read(self.table, self.data)
        rows = split(X, y, self.seed, self.is_validation)
        return {"shape": rows.shape, **measure(self.method, rows, self.seed)}


def main(arguments: Sequence[str]) -> None:
    parser = parser_of_runs("Measure V-IP and others on ordinary tables, without a setting.", SEEDS)
    parser.add_argument("--tables", type=names, default=list(TARGETS), help="as in heart,credit; by default all")
    parser.add_argument("--methods", type=names, default=list(TITLES), help=f"as in vip,hgb; of {', '.join(TITLES)}")
    parser.add_argument("--sizes", action="store_true", help="only measure very long and very wide tables")
    given = parser.parse_args(arguments)
    check_names(parser, "table", given.tables, TARGETS)
    check_names(parser, "method", given.methods, {**TITLES, **METHODS})
    folder = given.folder or (VALIDATION_FOLDER if given.validation else FOLDER)
    if given.sizes:
        table_sizes.measure_all(folder)
    elif not given.page:
        shared = {"folder": folder, "data": given.data or default_folder(), "is_validation": given.validation}
        runs = [
            TableRun(table=table, method=method, seed=seed, **shared)
            for table in given.tables
            for method in given.methods
            for seed in given.seeds
        ]
        measure_runs(runs, given.jobs, given.seconds, given.keep)
    found = table_page.read_runs(folder)
    print(table_page.summary(found, given.tables))
    if not given.validation:
        page = PAGE if folder == FOLDER else folder / "tables.md"
        page.write_text(table_page.page(found, table_sizes.read(folder)), encoding="utf-8")
        if folder == FOLDER:
            into_page(OVERVIEW, "tables", table_overview.overview_section(found))
            write_readme()
        print(f"Written: {page}")


if __name__ == "__main__":
    main(sys.argv[1:])
