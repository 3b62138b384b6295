"""Options of the program: the field of a dataclass is the only place that declares the option that sets it.

A field annotated with one of the types below, or with `Annotated[type, Option(...)]`, is an option of every command
that takes its dataclass (`pursuit.cli.options`). Nothing here takes long to import.
"""

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Option:
    """The command-line option that sets a dataclass field."""

    help: str
    name: str = ""
    """The option's name if it differs from the field's, such as "--out" or "--list/--no-list"."""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    parameter: str = ""
    """The parameter of an estimator that the option sets, where only some estimators have it."""


Device = Annotated[str, Option("Where to compute: cpu, cuda, mps or auto.")]
MaxQueries = Annotated[int | None, Option("The most queries to ask of a row.", min=1)]
Network = Annotated[
    str | None,
    Option(
        "A network by name, with its usual sizes: MLP, SetNetwork (the paper's), Conv, or your own.",
        parameter="network",
    ),
]
Querier = Annotated[
    str | None,
    Option(
        "How V-IP learns what to ask: from the information expected of every query, or by the paper's gradient; by "
        "default what suits the data.",
        metavar="auto|information|straight-through",
        parameter="querier",
    ),
]
Seed = Annotated[int, Option("The seed of everything random.", min=0, max=2**32 - 1)]
Also = Annotated[
    list[str] | None,
    Option(
        "The folder of another model, trained on the same columns, whose target the same interview tells about; "
        "repeatable.",
        metavar="MODEL",
    ),
]
Stop = Annotated[
    str | None,
    Option(
        "When to stop asking: confidence=0.99, budget=20, stability=0.001 (the entropy changes by fewer bits; or "
        "0.001nats), bits=0.01 (no query left promises more), cost=20 (never spend more), width=20 (the 90 % interval "
        "of a number); risk=0.05 (at most 5 % of what is decided wrong, else not sure) and conformal=0.1 (a set of "
        "labels with the right one in 90 %), for which training holds rows out; with commas: at the first of several."
    ),
]
Validation = Annotated[bool, Option("Measure on held-out training rows, to choose settings by.")]
