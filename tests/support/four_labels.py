"""A world of four labels in which twelve yes/no queries are independent given the label."""

import numpy as np
import torch
from torch import Tensor

from pursuit.queries import ColumnQueries, yes_no

N_QUERIES = 12
QUERIES = ColumnQueries([yes_no(f"q{i}") for i in range(N_QUERIES)])
YES = torch.rand(4, N_QUERIES, generator=torch.Generator().manual_seed(5)) ** 2  # P(yes | label)


def draw(n_rows: int, seed: int, yes: Tensor = YES) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their labels."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(4, (n_rows,), generator=generator)
    return (torch.rand(n_rows, N_QUERIES, generator=generator) < yes[y]).int().numpy(), y.numpy()
