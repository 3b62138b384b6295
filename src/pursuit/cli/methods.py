"""`pursuit methods`: the names for `pursuit train --method` and `pursuit compare --methods`."""

from rich.table import Column

from pursuit.cli.console import escaped, out, plain_table, print_json, show
from pursuit.cli.listing import listing
from pursuit.cli.options import AsJson


def methods(as_json: AsJson = False) -> None:
    """List the methods: their names, and their titles in tables and figures."""
    known = listing()["methods"]
    if as_json:
        print_json({"methods": known})
        return
    table = plain_table(Column("method", no_wrap=True), "title", gap=2)
    for method in known:
        table.add_row(escaped(method["method"]), escaped(method["title"]))
    out.print(table)
    show("Train one with: pursuit train TASK_OR_FILE --method NAME")
    show("Compare some with: pursuit compare TASK_OR_FILE --methods NAME,NAME")
