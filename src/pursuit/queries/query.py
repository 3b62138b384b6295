"""A query: a question with a clear meaning."""

import math
from dataclasses import dataclass, field

NOT_GIVEN_TEXT = "not given"
"""The answer, in words, that a value is missing, to a query that may be answered so."""


FREE = 1e-9
"""In bits per cost, the cost of what costs nothing: free answers come first, the most informative of them before the
others, and scores stay finite."""


@dataclass(frozen=True)
class Query:
    """A question with a clear meaning."""

    name: str
    text: str
    """The wording a person reads."""
    choices: tuple[str, ...] = ()
    """What may be answered; empty where the answer is not one of a list."""
    cost: float = 1.0
    """What it takes to get the answer, in any unit; 0 if it is free."""
    help: str = field(default="", kw_only=True)
    """What a person may want to know to answer it."""
    unit: str = field(default="", kw_only=True)
    """What a number is measured in."""
    may_be_missing: bool = field(default=False, kw_only=True)
    """Whether it is an answer of its own, "not given", that data have no value. It is not "don't know", which is no
    answer."""

    words: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), kw_only=True)
    """Words that people use for a choice, by the choice; those without one mean yes, or what a number measures."""
    checked: bool = field(default=False, kw_only=True)
    """Whether the answer is checked, by a document or a measurement, so that nobody can change it on purpose."""
    column: str = field(default="", kw_only=True)
    """The column of a table that answers are read from, where that has not the name of the query."""

    @property
    def source(self) -> str:
        """The name of the column that answers are read from."""
        return self.column or self.name

    @property
    def offered(self) -> tuple[str, ...]:
        """The choices that a person may pick, "not given" last where it is an answer; empty without choices."""
        is_more = self.may_be_missing and self.choices and NOT_GIVEN_TEXT not in self.choices
        return (*self.choices, NOT_GIVEN_TEXT) if is_more else self.choices

    @property
    def expected(self) -> str:
        """What may be answered, in a few words; empty where that cannot be said."""
        return "/".join(self.offered)

    def __post_init__(self) -> None:
        if not 0 <= self.cost < math.inf:
            raise ValueError(f"The cost of '{self.name}' is a number of at least 0, not {self.cost}.")
