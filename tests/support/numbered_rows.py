"""Rows of which each can be told from others by its number."""

import numpy as np
import pandas as pd


def numbered(n: int, first: int = 0) -> pd.DataFrame:
    """A table whose column `number` numbers the rows; the label depends on it too."""
    number = np.arange(first, first + n)
    labels = np.array(["ant", "bee", "cat"])[number % 3]
    return pd.DataFrame({"number": number.astype(float), "odd": number % 2 == 1, "label": labels})
