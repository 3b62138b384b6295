"""Compare methods on a task: the same rows, budget and kind of network for all, seed after seed, into one table."""

from pursuit.compare.comparing import compare
from pursuit.compare.table import markdown_table, worked
from pursuit.compare.trial import DEFAULT_METHODS, Trial

__all__ = ["DEFAULT_METHODS", "Trial", "compare", "markdown_table", "worked"]
