"""A decision tree: its queries are those on a row's way from the root, and the way is the whole chain.

scikit-learn grows the tree on all answers; splits that save too few bits are taken back, how few being chosen by
cross-validation. A query without an answer sends a row where missing answers went in training.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_score
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor, nn

from pursuit.estimators import PursuitClassifier
from pursuit.estimators.classifier import Fit
from pursuit.exact import TINY
from pursuit.history import History
from pursuit.pursuer import Labels
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet
from pursuit.rows import Rows, RowSource, rows_in_memory
from pursuit.stopping import StoppingRule

GROWING_ROWS = 200_000
"""How many of the rows that are not in memory a tree is grown on."""
PRUNINGS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Bits that a split must save to stay, of which cross-validation chooses."""
FOLDED_ROWS, FOLDS = 10_000, 5
"""Up to so many rows are cross-validated in folds; of more, a fifth is held out once."""


@dataclass(frozen=True)
class _Nodes:
    """A tree as arrays, parents before their children; a leaf is its own child."""

    left: np.ndarray  # (n,)
    right: np.ndarray
    missing: np.ndarray  # the child of rows without an answer
    feature: np.ndarray
    threshold: np.ndarray  # up to it a row goes left
    n_rows: np.ndarray
    belief: np.ndarray  # (n, C)

    def __len__(self) -> int:
        return len(self.left)

    @property
    def is_leaf(self) -> np.ndarray:
        return self.left == np.arange(len(self))


def grow(X: np.ndarray, y: np.ndarray, n_classes: int, pruning: float, seed: int) -> _Nodes:
    """A tree without the splits that save fewer than `pruning` bits of labels each; NaN is a missing answer."""
    fitted = _untrained(pruning, len(y), seed).fit(X, y)
    tree, own = fitted.tree_, np.arange(fitted.tree_.node_count)
    is_leaf = tree.children_left < 0
    left, right = (np.where(is_leaf, own, child) for child in (tree.children_left, tree.children_right))
    n_rows = tree.weighted_n_node_samples
    counts = np.zeros((len(own), n_classes))
    counts[:, fitted.classes_] = np.rint(tree.value[:, 0] * n_rows[:, None])
    belief = (counts + 1) / (n_rows[:, None] + n_classes)
    for node in np.flatnonzero(~is_leaf):  # one row more, spread as the parent believes
        for child in (left[node], right[node]):
            belief[child] = (counts[child] + belief[node]) / (n_rows[child] + 1)
    missing = np.where(tree.missing_go_to_left, left, right)
    feature = np.where(is_leaf, 0, tree.feature)
    return _Nodes(left, right, missing, feature, tree.threshold, n_rows, belief)


def _untrained(pruning: float, n_rows: int, seed: int) -> DecisionTreeClassifier:
    return DecisionTreeClassifier(criterion="entropy", ccp_alpha=pruning / n_rows, random_state=seed)


def choose_pruning(X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """The pruning whose trees are right most often on rows they were not grown on; the strongest of equals."""
    if len(y) <= FOLDED_ROWS:
        folds, share = KFold(min(FOLDS, len(y)), shuffle=True, random_state=seed), 1 - 1 / FOLDS
    else:
        folds, share = ShuffleSplit(1, test_size=0.2, random_state=seed), 0.8
    right = [cross_val_score(_untrained(bits, round(share * len(y)), seed), X, y, cv=folds).mean() for bits in PRUNINGS]
    return max(zip(right, PRUNINGS, strict=True))[1]


class DecisionTree(nn.Module):
    """Asks what the node wants to know that a row has come to, and nothing more at a leaf.

    A node's cell is what its feature belongs to: a column, or a pixel, which is seen in any of the patches on it.
    """

    branches: Tensor
    missing: Tensor
    feature: Tensor
    threshold: Tensor
    query: Tensor
    log_belief: Tensor

    def __init__(self, query_set: QuerySet, classes: Labels, n_nodes: int, depth: int, pruning: float):
        super().__init__()
        self.query_set, self.classes, self.n_nodes = query_set, classes, n_nodes
        self.depth, self.pruning = depth, pruning
        for name in ("missing", "feature", "query"):
            self.register_buffer(name, torch.zeros(n_nodes, dtype=torch.long))
        self.register_buffer("branches", torch.zeros(n_nodes, 2, dtype=torch.long))
        self.register_buffer("threshold", torch.zeros(n_nodes, dtype=torch.double))
        self.register_buffer("log_belief", torch.zeros(n_nodes, len(classes)))

    @classmethod
    def of_nodes(cls, query_set: QuerySet, classes: Labels, nodes: _Nodes, pruning: float) -> Self:
        depth = np.zeros(len(nodes), dtype=int)
        for node in np.flatnonzero(~nodes.is_leaf):
            depth[[nodes.left[node], nodes.right[node]]] = depth[node] + 1
        tree = cls(query_set, classes, len(nodes), int(depth.max()), pruning)
        tree.branches.copy_(torch.from_numpy(np.stack([nodes.left, nodes.right], axis=1)))
        tree.missing.copy_(torch.from_numpy(nodes.missing))
        tree.feature.copy_(torch.from_numpy(nodes.feature))
        tree.threshold.copy_(torch.from_numpy(nodes.threshold))
        tree.log_belief.copy_(torch.from_numpy(np.log(nodes.belief.clip(min=TINY))))
        cell_of = _cell_of(query_set, tree.feature)
        tree.query.copy_(_patches(query_set, nodes) if isinstance(query_set, PatchQueries) else cell_of)
        return tree

    def walk(self, history: History) -> Tensor:
        """The node (B,) that each row comes to with what is known, and what was asked in vain."""
        x, cell_of = history.x.flatten(1).float(), _cell_of(self.query_set, self.feature)
        known, asked = (_cells(self.query_set, queries) for queries in (history.known, history.asked))
        node = torch.zeros(len(history), dtype=torch.long, device=x.device)
        for _ in range(self.depth):
            feature, cell = self.feature[node][:, None], cell_of[node][:, None]
            is_right = x.gather(1, feature)[:, 0] > self.threshold[node]
            child = self.branches[node].gather(1, is_right.long()[:, None])[:, 0]
            further = torch.where(known.gather(1, cell)[:, 0], child, self.missing[node])
            node = torch.where(asked.gather(1, cell)[:, 0], further, node)
        return node

    def scores(self, history: History) -> Tensor:
        node = self.walk(history)
        scores = torch.full(history.asked.shape, -torch.inf, device=node.device)
        wants = torch.where(self.branches[node, 0] == node, -torch.inf, 1.0)
        return scores.scatter_(1, self.query[node][:, None], wants[:, None])

    def log_posterior(self, history: History) -> Tensor:
        return self.log_belief[self.walk(history)]

    def to_config(self) -> dict[str, Any]:
        return {"n_nodes": self.n_nodes, "depth": self.depth, "pruning": self.pruning}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls(query_set, classes, **config)


def _cells(query_set: QuerySet, queries: Tensor) -> Tensor:
    """The cells that some `queries` (B, Q) are about: (B, cells)."""
    return (query_set.pixels(queries.float()) > 0).flatten(1) if isinstance(query_set, PatchQueries) else queries


def _cell_of(query_set: QuerySet, feature: Tensor) -> Tensor:
    """The cell that each feature (n,) belongs to."""
    if isinstance(query_set, ColumnQueries):
        return query_set.owner[feature]
    if isinstance(query_set, PatchQueries):
        return feature % (query_set.image_shape[1] * query_set.image_shape[2])
    raise ValueError(f"A decision tree needs columns, words, concepts or patches, not {query_set}.")


def _patches(query_set: PatchQueries, nodes: _Nodes) -> Tensor:
    """The patch (n,) that each node asks for to see its pixel: the one that also shows most of what the nodes below
    will want to see, counted by the rows that come to them; the most central one of equals."""
    (_, height, width), n_nodes = query_set.image_shape, len(nodes)
    shown = _cells(query_set, torch.eye(len(query_set))).numpy()  # (Q, pixels)
    centres = np.array([query_set.corner(query) for query in range(len(query_set))]) + (query_set.size - 1) / 2
    pixel = nodes.feature % (height * width)
    inner = np.flatnonzero(~nodes.is_leaf)
    wanted = np.zeros((n_nodes, height * width), dtype=np.float32)  # rows that will want to see each pixel
    for node in inner[::-1]:
        wanted[node] = wanted[nodes.left[node]] + wanted[nodes.right[node]]
        wanted[node, pixel[node]] += nodes.n_rows[node]
    seen = np.zeros(wanted.shape, dtype=bool)
    query = np.zeros(n_nodes, dtype=np.int64)
    for node in inner:
        here = np.flatnonzero(shown[:, pixel[node]])
        apart = ((centres[here] - np.divmod(pixel[node], width)) ** 2).sum(axis=1)
        best = np.lexsort((apart, -(shown[here] @ (wanted[node] * ~seen[node]))))[0]
        query[node] = here[best]
        asks = not seen[node, pixel[node]]
        seen[[nodes.left[node], nodes.right[node]]] = seen[node] | (shown[here[best]] & asks)
    return torch.from_numpy(query)


def _table(query_set: QuerySet, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Features (N, f) with NaN where there is no answer, and which of all features these are: those one can ask for."""
    features = torch.arange(int(np.prod(query_set.answer_shape)))
    cell_of = _cell_of(query_set, features)
    can_be_asked = _cells(query_set, torch.ones(1, len(query_set), dtype=torch.bool))[0]
    features = features[can_be_asked[cell_of]]
    there = _cells(query_set, rows.available)[:, cell_of[features]]
    x = rows.x.flatten(1)[:, features].float()
    return x.masked_fill_(~there, torch.nan).numpy(), features.numpy()


class TreeClassifier(PursuitClassifier):
    """A decision tree that asks its way down.

    Parameters
    ----------
    query_set, stop, max_queries, random_state, device
        As for every estimator (`PursuitClassifier`). At a leaf nothing more is asked, whatever the stopping rule.
    pruning : float, optional
        How many bits of the training labels a split must save to stay. By default chosen by cross-validation.
    """

    kind = DecisionTree

    def __init__(
        self,
        query_set: QuerySet | None = None,
        *,
        stop: StoppingRule | str | None = None,
        max_queries: int | None = None,
        pruning: float | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ):
        super().__init__(query_set, stop=stop, max_queries=max_queries, random_state=random_state, device=device)
        self.pruning = pruning

    def _check_settings(self) -> None:
        if self.pruning is not None and not self.pruning >= 0:
            raise ValueError(f"pruning is the bits that a split must save, at least 0, not {self.pruning}.")

    def _learn(self, query_set: QuerySet, rows: RowSource, fit: Fit) -> DecisionTree:
        rows, n_classes, seed = rows_in_memory(rows, GROWING_ROWS, fit.seed), len(self.classes_), fit.seed
        self._warn_if_nothing_will_be_asked(rows.prior(n_classes))
        X, features = _table(query_set, rows)
        y = rows.y.numpy()
        pruning = choose_pruning(X, y, seed) if self.pruning is None else float(self.pruning)
        nodes = grow(X, y, n_classes, pruning, seed)
        nodes = replace(nodes, feature=features[nodes.feature])
        return DecisionTree.of_nodes(query_set, self.classes_, nodes, pruning)

    @classmethod
    def _settings_of(cls, model: DecisionTree) -> dict[str, Any]:
        return {"pruning": model.pruning}
