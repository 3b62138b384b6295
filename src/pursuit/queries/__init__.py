"""Query sets: what may be asked, how it is worded, and how answers become network input."""

from pursuit.queries.columns import Choice, ColumnQueries, NotAQuestion, Number, yes_no
from pursuit.queries.patches import PatchQueries
from pursuit.queries.queryset import Answers, Query, QuerySet

__all__ = [
    "Answers",
    "Choice",
    "ColumnQueries",
    "NotAQuestion",
    "Number",
    "PatchQueries",
    "Query",
    "QuerySet",
    "yes_no",
]
