"""`pursuit show`: what a model predicts, what it asks and how, and when it stops."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Column, Table

from pursuit.cli.console import escaped, out, plain_table, print_json
from pursuit.cli.console import show as print_text
from pursuit.cli.options import AsJson, Model
from pursuit.registry import Option

if TYPE_CHECKING:
    from pursuit.queries import Order, Query

MOST_LISTED = 20
"""The most labels, and the most choices of a question, that are printed."""


def show(
    model: Model,
    questions: Annotated[
        bool, Option("Print the questions as a file for `pursuit train --questions`.", "--questions")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a model predicts, what it asks and how, and when it stops."""
    from pursuit import load
    from pursuit.inference.pursuer import label_list
    from pursuit.methods import method_of
    from pursuit.queries import Order, Questions
    from pursuit.queries.column import listed
    from pursuit.report.facts import quality
    from pursuit.report.measured import kept

    classifier = load(model)
    query_set = classifier.model_.query_set
    if questions:
        asked_as = replace(Questions.of(query_set), presentation=Questions.presented(classifier.notes_))
        print_text(asked_as.to_toml(), end="")
        return
    method, order, trained = method_of(classifier), query_set.order or Order(), classifier.notes_.get("task", {})
    asked = [_question(query, order) for query in query_set.queries]
    labels = label_list(classifier.model_.classes)
    if as_json:
        about = {
            "method": method.name,
            "title": method.title,
            "labels": labels,
            "stop": str(classifier.stopping_rule()),
        }
        groups = {group.name: list(group.queries) for group in order.groups}
        print_json({"model": str(model), **about, "questions": asked, "groups": groups, "task": trained})
        return
    of = "bins of a number" if method.predicts_numbers else "labels"
    print_text(
        f"{method.title} ({method.name}), which predicts one of {len(labels)} {of}: {listed(labels, MOST_LISTED)}."
    )
    if trained:
        rows = f", {trained['n_rows']:,} rows with a label" if "n_rows" in trained else ""
        target = f", column '{trained['target']}'" if trained.get("target") else ""
        print_text(f"Trained on {trained.get('file', trained.get('name'))}{target}{rows}.")
    print_text(f"It stops asking at {classifier.stopping_rule()}.")
    measured = kept(model, classifier)
    for sentence in () if measured is None else quality(measured.evaluation, measured.name):
        print_text(sentence)
    out.print(_table(asked))


def _question(query: "Query", order: "Order") -> dict[str, Any]:
    """A question as JSON values."""
    return {
        "query": query.name,
        "text": query.text,
        "help": query.help,
        "choices": list(query.offered),
        "unit": query.unit,
        "expected": query.expected,
        "cost": query.cost,
        "when": _when(query.name, order),
    }


def _when(name: str, order: "Order") -> str:
    """When a question may be asked, in words; empty if at any time."""
    if name in order.beforehand:
        return "known beforehand"
    conditions = [
        f"after {condition.after}" + (f" = {' or '.join(condition.answers)}" if condition.answers else "")
        for condition in order.only_after
        if condition.query == name
    ]
    together = [f"together with {', '.join(sorted({*g.queries} - {name}))}" for g in order.groups if name in g.queries]
    return "; ".join([*([f"only {' and '.join(conditions)}"] if conditions else []), *together])


def _table(asked: list[dict[str, Any]]) -> Table:
    """The questions as a table; columns that are the same for all questions are left out."""
    from pursuit.queries.column import listed

    titles = {
        "query": "column",
        "text": "question",
        "help": "help",
        "expected": "answers",
        "cost": "cost",
        "when": "when",
    }
    is_plain = {"help": "", "cost": 1, "when": ""}  # of every question: then the column says nothing
    visible = [key for key in titles if key not in is_plain or any(one[key] != is_plain[key] for one in asked)]
    columns = [Column(titles[key], overflow="fold") for key in visible]
    table = plain_table(*columns, gap=2)
    for one in asked:
        answers = listed(one["choices"], MOST_LISTED) if one["choices"] else one["expected"]
        cells = {**one, "expected": answers, "cost": f"{one['cost']:g}"}
        table.add_row(*(escaped(str(cells[key])) for key in visible))
    return table
