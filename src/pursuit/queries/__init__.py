"""Query sets: what may be asked, how it is worded, and how answers become network input."""

from pursuit.queries.columns import Choice, ColumnQueries, NotAQuestion, Number, yes_no
from pursuit.queries.concepts import ConceptQueries
from pursuit.queries.patches import PatchQueries
from pursuit.queries.queryset import Answers, Query, QuerySet
from pursuit.queries.words import WordQueries

KINDS: tuple[type[QuerySet], ...] = (ColumnQueries, ConceptQueries, PatchQueries, WordQueries)
"""The kinds of query sets there are, for reading saved ones."""

__all__ = [
    "KINDS",
    "Answers",
    "Choice",
    "ColumnQueries",
    "ConceptQueries",
    "NotAQuestion",
    "Number",
    "PatchQueries",
    "Query",
    "QuerySet",
    "WordQueries",
    "yes_no",
]
