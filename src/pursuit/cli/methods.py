"""`pursuit methods`: what `pursuit train --method` and `pursuit compare --methods` can name."""

from rich.table import Column, Table

from pursuit.cli.app import AsJson
from pursuit.cli.console import escaped, out, print_json
from pursuit.cli.listing import listing


def methods(as_json: AsJson = False) -> None:
    """List the methods: their names, and their titles in tables and figures."""
    known = listing()["methods"]
    if as_json:
        print_json({"methods": known})
        return
    table = Table(Column("method", no_wrap=True), "title", box=None, padding=(0, 2, 0, 0), header_style="underline")
    for method in known:
        table.add_row(escaped(method["method"]), escaped(method["title"]))
    out.print(table)
    out.print("Train one with: pursuit train TASK_OR_FILE --method NAME", highlight=False, soft_wrap=True)
    out.print("Compare some with: pursuit compare TASK_OR_FILE --methods NAME,NAME", highlight=False, soft_wrap=True)
