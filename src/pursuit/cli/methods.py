"""`pursuit methods`: what `pursuit train --method` and `pursuit compare --methods` can name."""

from rich.table import Column, Table

from pursuit.cli.app import AsJson
from pursuit.cli.console import escaped, out, print_json
from pursuit.experiments.compare import vip_first
from pursuit.methods import METHODS


def methods(as_json: AsJson = False) -> None:
    """List the methods: their names, and their titles in tables and figures."""
    names = vip_first(METHODS)
    if as_json:
        print_json({"methods": [{"method": name, "title": METHODS[name].title} for name in names]})
        return
    table = Table(Column("method", no_wrap=True), "title", box=None, padding=(0, 2, 0, 0), header_style="underline")
    for name in names:
        table.add_row(escaped(name), escaped(METHODS[name].title))
    out.print(table)
    out.print("Train one with: pursuit train TASK_OR_FILE --method NAME", highlight=False, soft_wrap=True)
    out.print("Compare some with: pursuit compare TASK_OR_FILE --methods NAME,NAME", highlight=False, soft_wrap=True)
