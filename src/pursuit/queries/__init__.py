"""Query sets: what may be asked, how it is worded, and how answers become network input."""

from pursuit.queries.column import NO_AND_YES, Choice, Date, Doubt, DoubtfulAnswer, Number, Query, yes_no
from pursuit.queries.column_types import MAX_CHOICES, ColumnType, NotAQuestion
from pursuit.queries.columns import ColumnQueries
from pursuit.queries.concepts import ConceptQueries
from pursuit.queries.order import Group, OnlyAfter, Order
from pursuit.queries.patches import PatchQueries
from pursuit.queries.query_set import Answers, FeatureType, PatchGrid, QuerySet
from pursuit.queries.questions import Questions
from pursuit.queries.words import WordQueries

__all__ = [
    "MAX_CHOICES",
    "NO_AND_YES",
    "Answers",
    "Choice",
    "ColumnQueries",
    "ColumnType",
    "ConceptQueries",
    "Date",
    "Doubt",
    "DoubtfulAnswer",
    "FeatureType",
    "Group",
    "NotAQuestion",
    "Number",
    "OnlyAfter",
    "Order",
    "PatchGrid",
    "PatchQueries",
    "Query",
    "QuerySet",
    "Questions",
    "WordQueries",
    "yes_no",
]
