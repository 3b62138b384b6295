"""Which answers belong together."""

import numpy as np
import pandas as pd
import torch

from pursuit.evaluation.tree import MOST_CHOICES, OTHERS, branches
from pursuit.queries import ColumnQueries


def test_numbers_are_cut_where_the_belief_changes_and_nowhere_else() -> None:
    X = pd.DataFrame({"age": np.arange(1, 101)})
    queries = ColumnQueries.from_data(X, ask_all=True)
    x, available = queries.answers(X)
    belief = torch.eye(2)[(x[:, 0] > x[39, 0]).long()]
    found = branches(queries, 0, x, available[:, 0].numpy(), belief)
    assert [text for text, _ in found] == ["up to 40", "above 40"]
    assert [rows.tolist() for _, rows in found] == [list(range(40)), list(range(40, 100))]
    same = branches(queries, 0, x, available[:, 0].numpy(), torch.full((100, 2), 0.5))
    assert [text for text, _ in same] == ["0 to 100"], "the ends of the column are rounded outward"


def test_no_range_is_smaller_than_a_twentieth_of_the_rows() -> None:
    X = pd.DataFrame({"age": np.arange(1, 101)})
    queries = ColumnQueries.from_data(X, ask_all=True)
    x, available = queries.answers(X)
    belief = torch.eye(2)[(torch.arange(100) > 97).long()]  # two rows that differ
    sizes = [len(rows) for _, rows in branches(queries, 0, x, available[:, 0].numpy(), belief)]
    assert min(sizes) >= 5
    assert sum(sizes) == 100


def test_rare_choices_are_put_together_and_no_answer_stands_apart() -> None:
    wards = [f"ward {i}" for i in range(10) for _ in range(12 - i)]
    X = pd.DataFrame({"ward": [*wards, None]})
    queries = ColumnQueries.from_data(X)
    x, available = queries.answers(X)
    found = branches(queries, 0, x, available[:, 0].numpy(), torch.full((len(X), 2), 0.5))
    assert len(found) == MOST_CHOICES + 1
    assert [text for text, _ in found[-2:]] == [OTHERS, "no answer"]
    assert [len(rows) for _, rows in found] == [12, 11, 10, 9, 8, 25, 1]
    assert sorted(np.concatenate([rows for _, rows in found]).tolist()) == list(range(len(X)))
