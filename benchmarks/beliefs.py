"""What a pursuer believes on any answers it is given, and along its own chains when nothing stops them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer, choose

AT_ONCE = 1000
LEAST_PROBABILITY = 1e-12
"""What counts in a log loss where a label is impossible."""


def _batches(rows: Rows) -> Iterator[Tensor]:
    return iter(torch.arange(len(rows)).split(AT_ONCE))


@torch.no_grad()
def beliefs(model: Pursuer, rows: Rows, known: Tensor) -> np.ndarray:
    """The posterior (N, C) given the answers of `known` (N, Q), as far as rows have them."""
    given = known & rows.available
    parts = [model.log_posterior(History(rows.x[i], given[i], given[i])) for i in _batches(rows)]
    return torch.cat(parts).double().exp().numpy()


@dataclass(frozen=True)
class Chains:
    """Chains of N rows that ask one available answer after the other."""

    posterior: np.ndarray  # (S + 1, N, C), after 0 to S answers; a row with fewer keeps its last belief
    query: np.ndarray  # (N, S), -1 where nothing is left


@torch.no_grad()
def ask_everything(model: Pursuer, rows: Rows, longest: int | None = None) -> Chains:
    """Ask every row what the model would, without a stop. A query without an answer is not asked: it would leave the
    belief and the next query as they are."""
    n_steps = min(longest or rows.n_queries, rows.n_queries)
    posterior = torch.zeros(n_steps + 1, len(rows), len(model.classes), dtype=torch.double)
    queries = torch.full((len(rows), n_steps), -1)
    for part in _batches(rows):
        x, available = rows.x[part], rows.available[part]
        history = History(x, torch.zeros_like(available), ~available)
        posterior[0, part] = model.log_posterior(history).double().exp()
        for step in range(n_steps):
            query, is_left = choose(model.scores(history), history.asked), ~history.asked.all(dim=1)
            queries[part, step] = torch.where(is_left, query, -1)
            history = history.ask(query, available)
            posterior[step + 1, part] = model.log_posterior(history).double().exp()
    return Chains(posterior.numpy(), queries.numpy())


def score(posterior: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Accuracy and log loss of beliefs (N, C) about labels y (N,) given as indices."""
    of_label = posterior[np.arange(len(y)), y]
    return {
        "accuracy": float((posterior.argmax(axis=1) == y).mean()),
        "log_loss": float(-np.log(np.maximum(of_label, LEAST_PROBABILITY)).mean()),
    }
