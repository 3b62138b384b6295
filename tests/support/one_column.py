"""What tests of columns share: a table of one column, and what it is taken for."""

from typing import Any

import pandas as pd

from pursuit.queries import Choice, ColumnQueries, Number


def column(values: Any, **settings: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(values, **settings)})


def read(frame: pd.DataFrame) -> tuple[Choice | Number, list[Any]]:
    """What a table of one column is taken for, and its answers, None where there is none."""
    query_set = ColumnQueries.from_data(frame, ask_all=True)
    x, available = query_set.answers(frame)
    answers = [query_set.describe(0, row) if there else None for row, there in zip(x, available[:, 0], strict=True)]
    return query_set.queries[0], answers
