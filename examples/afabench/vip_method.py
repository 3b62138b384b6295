"""V-IP as a method of AFABench (github.com/Linusaronsson/AFA-Benchmark): its `AFAMethod` protocol around a
`VIPClassifier`, or around any other estimator of pursuit."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import pursuit
from pursuit import ColumnQueries, History, VIPClassifier
from pursuit.inference.pursuer import by_groups, choose, highest_left, leave_out
from pursuit.queries import Group, Order

STOP = 0
"""The action that ends a row; selections are numbered from 1."""


def frame_of(features: Tensor, mask: Tensor | None = None) -> pd.DataFrame:
    """Features (B, F) as a table, empty where they are not observed."""
    values = features.flatten(1).double().cpu().numpy()
    if mask is not None:
        values = np.where(mask.flatten(1).cpu().numpy(), values, np.nan)
    return pd.DataFrame(values, columns=[f"feature {i}" for i in range(values.shape[1])])


class VIPMethod:
    """Selects what an estimator of pursuit would ask next, and predicts what it believes.

    A selection reveals one feature, or those that `selections` lists. With a `cost_param` it stops where no selection
    is expected to tell that many bits; otherwise it never stops by itself, and the benchmark's budget ends rows.
    """

    has_builtin_classifier = True

    def __init__(self, estimator: Any, selections: Sequence[Sequence[int]], n_classes: int | None = None):
        self.estimator, self.selections = estimator, [list(features) for features in selections]
        self.n_classes = n_classes or len(self.model.classes)
        self.cost_param: float | None = None
        selection_of = {f"feature {i}": place for place, features in enumerate(self.selections) for i in features}
        self._selection_of_query = torch.tensor([selection_of[query.name] for query in self.model.query_set.queries])

    @classmethod
    def train(
        cls,
        features: Tensor,
        labels: Tensor,
        selections: Sequence[Sequence[int]] | None = None,
        costs: Sequence[float] | None = None,
        **parameters: Any,
    ) -> Self:
        """Learn from features (N, F) and labels, class indices (N,) or one-hot (N, C). Features may have `costs`;
        `parameters` are those of `VIPClassifier`."""
        frame = frame_of(features)
        y = (labels.argmax(dim=-1) if labels.dim() > 1 else labels).long().cpu().numpy()
        n_classes = labels.shape[-1] if labels.dim() > 1 else int(y.max()) + 1
        selections = [[i] for i in range(frame.shape[1])] if selections is None else selections
        named = {} if costs is None else dict(zip(frame.columns, costs, strict=True))
        query_set = ColumnQueries.from_data(frame, costs=named, column_types=dict.fromkeys(frame.columns, "number"))
        groups = [
            Group(f"selection {i}", tuple(frame.columns[own])) for i, own in enumerate(selections) if len(own) > 1
        ]
        query_set.set_order(Order(groups=tuple(groups)))
        return cls(VIPClassifier(query_set, **parameters).fit(frame, y), selections, n_classes)

    @property
    def model(self) -> Any:
        return self.estimator.model_

    @torch.no_grad()
    def act(
        self,
        masked_features: Tensor,
        feature_mask: Tensor,
        selection_mask: Tensor | None = None,
        label: Tensor | None = None,
        feature_shape: torch.Size | None = None,
    ) -> Tensor:
        """The next selection (..., 1), from 1, or 0 to stop."""
        history, batch_shape = self._history(masked_features, feature_mask, selection_mask, feature_shape)
        model, asked = self.model, history.asked
        scores = leave_out(model.scores(history), model.query_set.allowed(history.x, history.known, asked))
        action = self._selection_of_query.to(scores.device)[choose(by_groups(model, scores, asked), asked)] + 1
        is_over = asked.all(dim=1)
        if self.cost_param is not None:
            bits = model.expected_information(history)
            if bits is None:
                raise ValueError("Without an answer model nobody knows what a selection tells: leave cost_param out.")
            is_over |= highest_left(bits, asked) <= self.cost_param
        return action.masked_fill(is_over, STOP).view(*batch_shape, 1)

    @torch.no_grad()
    def predict(
        self,
        masked_features: Tensor,
        feature_mask: Tensor,
        label: Tensor | None = None,
        feature_shape: torch.Size | None = None,
    ) -> Tensor:
        """The probabilities of the classes (..., C), 0 for one without training rows."""
        history, batch_shape = self._history(masked_features, feature_mask, None, feature_shape)
        posterior = self.model.log_posterior(history).exp()
        probabilities = posterior.new_zeros(len(posterior), self.n_classes)
        probabilities[:, torch.as_tensor(self.model.classes)] = posterior
        return probabilities.view(*batch_shape, -1)

    def _history(
        self, features: Tensor, mask: Tensor, selected: Tensor | None, shape: torch.Size | None
    ) -> tuple[History, torch.Size]:
        n_dims = 1 if shape is None else len(shape)
        batch_shape = features.shape[: features.dim() - n_dims]
        features, mask = (part.reshape(-1, int(np.prod(part.shape[-n_dims:]))) for part in (features, mask.bool()))
        x, available = (part.to(self.device) for part in self.model.query_set.answers(frame_of(features, mask)))
        asked = available.clone()
        if selected is not None:
            asked |= selected.reshape(len(asked), -1).bool().to(self.device)[:, self._selection_of_query]
        return History(x, available, asked), batch_shape

    def save(self, path: Path) -> None:
        self.estimator.save(path, notes={"selections": self.selections, "n_classes": self.n_classes})

    @classmethod
    def load(cls, path: Path, device: torch.device) -> Self:
        estimator = pursuit.load(path)
        return cls(estimator, estimator.notes_["selections"], estimator.notes_["n_classes"]).to(device)

    def to(self, device: torch.device) -> Self:
        self.model.to(device)
        self._selection_of_query = self._selection_of_query.to(device)
        return self

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def set_cost_param(self, cost_param: float) -> None:
        """Stop where no selection is expected to tell that many bits."""
        self.cost_param = cost_param

    def set_seed(self, seed: int | None) -> None:
        """It selects and predicts without randomness."""
