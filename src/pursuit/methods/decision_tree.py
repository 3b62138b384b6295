"""A decision tree: it asks the tests of the nodes on a row's path from the root, and that path is the whole chain.

scikit-learn grows the tree on all answers. Splits that save too few bits are pruned; by default cross-validation
chooses how few. A query without an answer sends a row where missing answers went in training.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from pursuit.estimators import MethodClassifier, method
from pursuit.exact import TINY
from pursuit.inference.history import History
from pursuit.inference.pursuer import Labels
from pursuit.queries import QuerySet
from pursuit.registry import register
from pursuit.training import TrainingRun
from pursuit.training.rows import Rows, RowSource, rows_in_memory

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeClassifier

GROWING_ROWS = 200_000
"""The most rows a tree is grown on where they are not in memory."""
PRUNINGS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Bits that a split must save to stay, of which cross-validation chooses."""
FOLDED_ROWS, FOLDS = 10_000, 5
"""Up to this many rows are cross-validated in folds; of more, a fifth is held out once."""


@register
@dataclass(frozen=True)
class TreeSettings:
    pruning: float | None = None
    """Bits of the training labels that a split must save to stay. By default chosen by cross-validation."""

    def __post_init__(self) -> None:
        if self.pruning is not None and not self.pruning >= 0:
            raise ValueError(f"pruning is the number of bits that a split must save, at least 0, not {self.pruning}.")


@dataclass(frozen=True)
class _Nodes:
    """A tree as arrays, parents before their children; a leaf is its own child."""

    left: np.ndarray  # (n,)
    right: np.ndarray
    missing: np.ndarray  # the child of rows without an answer
    feature: np.ndarray
    threshold: np.ndarray  # up to it a row goes left
    n_rows: np.ndarray
    posterior: np.ndarray  # (n, C)

    def __len__(self) -> int:
        return len(self.left)

    @property
    def is_leaf(self) -> np.ndarray:
        return self.left == np.arange(len(self))


def grow(
    X: np.ndarray, y: np.ndarray, n_classes: int, pruning: float, seed: int, weight: np.ndarray | None = None
) -> _Nodes:
    """A tree without the splits that save fewer than `pruning` bits of the labels; NaN is a missing answer. Rows may
    have a `weight`: as how many each of them counts."""
    fitted = _untrained(pruning, _total(y, weight), seed).fit(X, y, weight)
    tree, own = fitted.tree_, np.arange(fitted.tree_.node_count)
    is_leaf = tree.children_left < 0
    left, right = (np.where(is_leaf, own, child) for child in (tree.children_left, tree.children_right))
    n_rows = tree.weighted_n_node_samples
    counts = np.zeros((len(own), n_classes))
    counted = tree.value[:, 0] * n_rows[:, None]
    counts[:, fitted.classes_] = np.rint(counted) if weight is None else counted
    posterior = (counts + 1) / (n_rows[:, None] + n_classes)
    for node in np.flatnonzero(~is_leaf):  # one row more, spread as in the parent
        for child in (left[node], right[node]):
            posterior[child] = (counts[child] + posterior[node]) / (n_rows[child] + 1)
    missing = np.where(tree.missing_go_to_left, left, right)
    feature = np.where(is_leaf, 0, tree.feature)
    return _Nodes(left, right, missing, feature, tree.threshold, n_rows, posterior)


def _total(y: np.ndarray, weight: np.ndarray | None) -> float:
    return len(y) if weight is None else float(weight.sum())


def _untrained(pruning: float, n_rows: float, seed: int) -> "DecisionTreeClassifier":
    from sklearn.tree import DecisionTreeClassifier  # takes a second to import

    return DecisionTreeClassifier(criterion="entropy", ccp_alpha=pruning / n_rows, random_state=seed)


def choose_pruning(
    X: np.ndarray, y: np.ndarray, seed: int, weight: np.ndarray | None = None, group: np.ndarray | None = None
) -> float:
    """The pruning whose trees are most accurate on held-out rows; the strongest of equals. Rows of a `group` are held
    out together, if there are several groups."""
    from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, ShuffleSplit

    n_parts = len(y) if group is None else len(np.unique(group))
    if n_parts < 2:
        n_parts, group = len(y), None
    if len(y) <= FOLDED_ROWS:
        KFolds, share = KFold if group is None else GroupKFold, 1 - 1 / FOLDS
        folds = KFolds(min(FOLDS, n_parts), shuffle=True, random_state=seed)
    else:
        Shuffle, share = ShuffleSplit if group is None else GroupShuffleSplit, 0.8
        folds = Shuffle(1, test_size=0.2, random_state=seed)
    total = round(share * _total(y, weight))

    def accuracy(bits: float) -> float:
        scores = []
        for train, test in folds.split(X, groups=group):
            trained, tested = (None if weight is None else weight[part] for part in (train, test))
            tree = _untrained(bits, total, seed).fit(X[train], y[train], trained)
            scores.append(tree.score(X[test], y[test], tested))
        return float(np.mean(scores))

    return max((accuracy(bits), bits) for bits in PRUNINGS)[1]


@register
class DecisionTree(nn.Module):
    """Asks the query of the node that a row has come to, and nothing more at a leaf.

    A node tests a feature and can go on once its unit is known: a column, or a pixel, which any patch on it shows.
    """

    may_be_infinite: ClassVar[tuple[str, ...]] = ("log_posteriors", "threshold")
    """A label without rows in a node has no share there, and every number is above some thresholds."""

    registry_kind: ClassVar[str] = "pursuer"
    branches: Tensor
    missing: Tensor
    feature: Tensor
    threshold: Tensor
    query: Tensor
    log_posteriors: Tensor
    unit_of_feature: Tensor

    def __init__(self, query_set: QuerySet, classes: Labels, n_nodes: int, depth: int, pruning: float):
        super().__init__()
        self.query_set, self.classes, self.n_nodes = query_set, classes, n_nodes
        self.depth, self.pruning = depth, pruning
        for name in ("missing", "feature", "query"):
            self.register_buffer(name, torch.zeros(n_nodes, dtype=torch.long))
        self.register_buffer("branches", torch.zeros(n_nodes, 2, dtype=torch.long))
        self.register_buffer("threshold", torch.zeros(n_nodes, dtype=torch.double))
        self.register_buffer("log_posteriors", torch.zeros(n_nodes, len(classes)))  # in every node
        self.register_buffer("unit_of_feature", query_set.units.of_feature.clone(), persistent=False)  # (F,)

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
        tree.log_posteriors.copy_(torch.from_numpy(np.log(nodes.posterior.clip(min=TINY))))
        unit = tree.unit_of_feature[tree.feature]
        tree.query.copy_(unit if query_set.has_own_units else _queries(query_set, nodes, unit.numpy()))
        return tree

    def check_tensors(self) -> None:
        """Raise ValueError for tensors that are not those of a tree."""
        if not 0 <= self.depth <= self.n_nodes:
            raise ValueError(f"a tree of {self.n_nodes} nodes is not {self.depth} deep")
        places = {"query": len(self.query_set), "feature": len(self.unit_of_feature)}
        for name in ("branches", "missing", *places):
            numbers, most = getattr(self, name), places.get(name, self.n_nodes)
            if (numbers < 0).any() or (numbers >= most).any():
                raise ValueError(f"the tree's {name} point to what is not there")
        shares = self.log_posteriors.exp().sum(dim=1)
        if not torch.isclose(shares, torch.ones_like(shares), atol=1e-3).all():
            raise ValueError("the tree's beliefs are not shares of labels")

    def walk(self, history: History) -> Tensor:
        """The node (B,) that each row comes to by its known answers, and by queries that got no answer."""
        x, units = history.x.flatten(1).float(), self.unit_of_feature[self.feature]
        known, asked = (self.query_set.units.known(queries) for queries in (history.known, history.asked))
        node = torch.zeros(len(history), dtype=torch.long, device=x.device)
        for _ in range(self.depth):
            feature, unit = self.feature[node][:, None], units[node][:, None]
            is_right = x.gather(1, feature)[:, 0] > self.threshold[node]
            child = self.branches[node].gather(1, is_right.long()[:, None])[:, 0]
            further = torch.where(known.gather(1, unit)[:, 0], child, self.missing[node])
            node = torch.where(asked.gather(1, unit)[:, 0], further, node)
        return node

    def scores(self, history: History) -> Tensor:
        node = self.walk(history)
        scores = torch.full(history.asked.shape, -torch.inf, device=node.device)
        own_score = torch.where(self.branches[node, 0] == node, -torch.inf, 1.0)  # a leaf asks nothing
        return scores.scatter_(1, self.query[node][:, None], own_score[:, None])

    def log_posterior(self, history: History) -> Tensor:
        return self.log_posteriors[self.walk(history)]

    def to_config(self) -> dict[str, Any]:
        return {"n_nodes": self.n_nodes, "depth": self.depth, "pruning": self.pruning}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls(query_set, classes, **config)


def _queries(query_set: QuerySet, nodes: _Nodes, unit: np.ndarray) -> Tensor:
    """The query (n,) that each node asks to see its `unit` (n,).

    Of those that show it, the one that also shows most of what the nodes below test, counted by the rows that come to
    them; the most central patch of equals.
    """
    covers = query_set.units.known(torch.eye(len(query_set), dtype=torch.bool)).numpy()  # (Q, U)
    inner = np.flatnonzero(~nodes.is_leaf)
    wanted = np.zeros((len(nodes), len(query_set.units)), dtype=np.float32)  # rows that will need to know each unit
    for node in inner[::-1]:
        wanted[node] = wanted[nodes.left[node]] + wanted[nodes.right[node]]
        wanted[node, unit[node]] += nodes.n_rows[node]
    seen = np.zeros(wanted.shape, dtype=bool)
    query = np.zeros(len(nodes), dtype=np.int64)
    for node in inner:
        here = np.flatnonzero(covers[:, unit[node]])
        further = covers[here] @ (wanted[node] * ~seen[node])
        best = np.lexsort((_distances(query_set, here, int(nodes.feature[node])), -further))[0]
        query[node] = here[best]
        asks = not seen[node, unit[node]]
        seen[[nodes.left[node], nodes.right[node]]] = seen[node] | (covers[here[best]] & asks)
    return torch.from_numpy(query)


def _distances(query_set: QuerySet, queries: np.ndarray, feature: int) -> np.ndarray:
    """Squared distances of the centres of these patches from the pixel of a feature; zero without patches."""
    patches = query_set.patches
    if patches is None:
        return np.zeros(len(queries))
    _, height, width = patches.image_shape
    centres = np.array([patches.corner(int(query)) for query in queries]) + (patches.size - 1) / 2
    return ((centres - np.divmod(feature % (height * width), width)) ** 2).sum(axis=1)


def _table(query_set: QuerySet, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The features (N, f) that some query shows, NaN where there is no answer, and their numbers (f,)."""
    unit_of_feature = query_set.units.of_feature
    can_be_asked = query_set.units.known(torch.ones(1, len(query_set), dtype=torch.bool))[0]
    features = can_be_asked[unit_of_feature].nonzero()[:, 0]
    there = query_set.units.known(rows.available)[:, unit_of_feature[features]]
    x = rows.x.flatten(1)[:, features].float()
    return x.masked_fill_(~there, torch.nan).numpy(), features.numpy()


@method("tree", "decision tree")
@dataclass(kw_only=True, eq=False, repr=False)
class TreeClassifier(MethodClassifier):
    """A decision tree that asks its way down. At a leaf nothing more is asked, whatever the stopping rule."""

    uses_weights = True

    Settings = TreeSettings
    settings: TreeSettings | None = None
    """Strength of pruning; by default chosen by cross-validation."""

    def learn(self, query_set: QuerySet, rows: RowSource, seed: int, run: TrainingRun) -> DecisionTree:
        rows, n_classes = rows_in_memory(rows, GROWING_ROWS, seed), len(self.classes_)
        X, features = _table(query_set, rows)
        y, pruning = rows.y.numpy(), self.chosen_settings.pruning
        weight = None if rows.weight is None else rows.weight.double().numpy()
        group = None if rows.group is None else rows.group.numpy()
        pruning = choose_pruning(X, y, seed, weight, group) if pruning is None else float(pruning)
        nodes = grow(X, y, n_classes, pruning, seed, weight)
        nodes = replace(nodes, feature=features[nodes.feature])
        return DecisionTree.of_nodes(query_set, self.classes_, nodes, pruning)
