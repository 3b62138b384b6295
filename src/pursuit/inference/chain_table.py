"""Chains as a table: what each answer of each row made the pursuer believe."""

import math

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pursuit.inference.predictions import Predictions, answer_texts
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import StoppingRule

STEP = "step"
"""The column that numbers what is asked of a row; 0 is the belief before the first question."""


def chain_table(
    pursuer: Pursuer,
    x: Tensor,
    available: Tensor,
    stop: StoppingRule | None = None,
    initially_known: Tensor | None = None,
    index: pd.Index | None = None,
) -> pd.DataFrame:
    """The chains of N rows, one after the other, with a row for each step: what was asked, the answer in words, which
    is missing where there was none, the bits that were `expected` of it, missing where nobody knows, and those
    `gained`, and what is believed then. The first step of a chain is the belief before anything is asked."""
    steps = list(pursue_in_batches(pursuer, x, available, stop, initially_known, with_bits=True))
    rows, place = torch.cat([step.rows for step in steps]), torch.cat([step.n_asked for step in steps])
    order = torch.from_numpy(np.lexsort((place.numpy(), rows.numpy())))
    rows, place = rows[order], place[order]
    posterior = torch.cat([step.log_posterior for step in steps])[order].exp().float()
    is_first = place == 0
    # What is asked in one step is answered in the next.
    query = _moved(torch.cat([step.query for step in steps])[order], is_first, -1)
    answered = _moved(torch.cat([step.answered for step in steps])[order], is_first, False)
    unknown = [torch.full((len(step.rows),), math.nan) if step.bits is None else step.bits for step in steps]
    expected = _moved(torch.cat(unknown)[order], is_first, math.nan)
    doubt = torch.special.entr(posterior.double()).sum(dim=1) / math.log(2)
    gained = torch.where(is_first, math.nan, doubt.roll(1) - doubt)
    names = np.array([*(query.name for query in pursuer.query_set.queries), None], dtype=object)
    columns = {
        STEP: place.numpy(),
        "question": names[query.numpy()],
        "answer": answer_texts(pursuer.query_set, x[rows], query[:, None], answered[:, None])[:, 0],
        "expected": expected.double().numpy(),
        "gained": gained.numpy(),
        **Predictions(posterior, query[:, None], answered[:, None]).believed(pursuer),
    }
    return pd.DataFrame(columns, index=pd.Index(rows.numpy()) if index is None else index[rows.numpy()])


def _moved(of_step: Tensor, is_first: Tensor, before: float) -> Tensor:
    """What belongs to each step, beside the next step of the same chain."""
    return torch.where(is_first, torch.as_tensor(before, dtype=of_step.dtype), of_step.roll(1))
