"""`pursuit methods`: what `pursuit train --method` and `pursuit compare --methods` can name."""

from rich.table import Column, Table

from pursuit.cli.app import AsJson
from pursuit.cli.console import escaped, out, print_json
from pursuit.methods import METHODS


def methods(as_json: AsJson = False) -> None:
    """List the methods: their names, and their titles in tables and figures."""
    if as_json:
        print_json({"methods": [{"method": name, "title": method.title} for name, method in METHODS.items()]})
        return
    table = Table(Column("method", no_wrap=True), "title", box=None, padding=(0, 2, 0, 0), header_style="underline")
    for name, method in METHODS.items():
        table.add_row(escaped(name), escaped(method.title))
    out.print(table)
    out.print("To train one: pursuit train TASK_OR_FILE --method NAME. To compare some: pursuit compare TASK_OR_FILE")
