"""Decision trees that are judged by what they ask: the distinct columns on a row's way to its leaf.

A question about a column reveals its whole value, so that a column which a tree splits on twice is asked once, and all
indicators of a column of words are one question. A tree does not ask where all leaves below say the same.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 1_000)
"""Where trees are cut off; the last is no limit."""
ALPHAS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
"""Cost-complexity pruning."""
N_FOLDS = 3


@dataclass(frozen=True)
class Ways:
    """The nodes of a tree with the ways to them."""

    left: np.ndarray  # (nodes,) each; -1 at a leaf
    right: np.ndarray
    parent: np.ndarray  # -1 at the root
    depth: np.ndarray
    label: np.ndarray  # the code of the label that a node says
    asked: np.ndarray  # distinct columns on the way

    @classmethod
    def of(cls, tree: DecisionTreeClassifier, column_of: np.ndarray) -> "Ways":
        """Those of a tree, given the column that each of its features belongs to."""
        inner = tree.tree_
        left, right, n_nodes = inner.children_left, inner.children_right, inner.node_count
        parent, depth = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=int)
        columns: list[frozenset[int]] = [frozenset()] * n_nodes
        for node in np.flatnonzero(left >= 0):  # parents come before children
            below = columns[node] | {int(column_of[inner.feature[node]])}
            for child in (left[node], right[node]):
                parent[child], depth[child], columns[child] = node, depth[node] + 1, below
        asked = np.array([len(each) for each in columns])
        return cls(left, right, parent, depth, inner.value[:, 0, :].argmax(axis=1), asked)

    def measure(self, leaves: np.ndarray, y: np.ndarray, depth: int) -> tuple[float, float]:
        """Distinct columns asked on average, and accuracy, of rows that reach these `leaves` if the tree is cut off at
        a depth."""
        is_end, label = (self.left < 0) | (self.depth >= depth), self.label.copy()
        levels = range(min(depth, int(self.depth.max())))
        for level in reversed(levels):  # where both sides end and agree, nothing is asked
            nodes = np.flatnonzero((self.depth == level) & ~is_end)
            one, other = self.left[nodes], self.right[nodes]
            agrees = is_end[one] & is_end[other] & (label[one] == label[other])
            is_end[nodes[agrees]], label[nodes[agrees]] = True, label[one[agrees]]
        end_of = np.arange(len(is_end))  # where a row ends that passes a node
        for level in range(1, int(self.depth.max()) + 1):
            nodes = np.flatnonzero(self.depth == level)
            above = end_of[self.parent[nodes]]
            end_of[nodes] = np.where(is_end[above], above, nodes)
        reached = end_of[leaves]
        return float(self.asked[reached].mean()), float((label[reached] == y).mean())


def measure_trees(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, column_of: np.ndarray, seed: int
) -> list[dict[str, float]]:
    """Trees of all depths and prunings, learnt from X with labels y: for each, `asked` and `accuracy` on the test rows,
    and on rows held out in turn from those to learn from (`cv_asked`, `cv_accuracy`), to choose by."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        shares = list(folds.split(X, y))
    found = []
    for alpha in ALPHAS:
        by_fold = [
            _by_depth((X[train], y[train]), (X[held_out], y[held_out]), column_of, alpha, seed)
            for train, held_out in shares
        ]
        whole = _by_depth((X, y), (X_test, y_test), column_of, alpha, seed)
        for i, depth in enumerate(DEPTHS):
            cv_asked, cv_accuracy = np.mean([fold[i] for fold in by_fold], axis=0).tolist()
            asked, accuracy = whole[i]
            held_out = {"cv_asked": cv_asked, "cv_accuracy": cv_accuracy}
            found.append({"depth": depth, "alpha": alpha, **held_out, "asked": asked, "accuracy": accuracy})
    return found


def _by_depth(
    learnt: tuple[np.ndarray, np.ndarray],
    tested: tuple[np.ndarray, np.ndarray],
    column_of: np.ndarray,
    alpha: float,
    seed: int,
) -> list[tuple[float, float]]:
    """Columns asked and accuracy at every depth, on rows `tested`."""
    tree = DecisionTreeClassifier(ccp_alpha=alpha, random_state=seed).fit(*learnt)
    X, y = tested
    codes = np.where(np.isin(y, tree.classes_), np.searchsorted(tree.classes_, y), -1)  # -1 is never right
    ways, leaves = Ways.of(tree, column_of), tree.apply(X)
    return [ways.measure(leaves, codes, depth) for depth in DEPTHS]


def best_tree(trees: Sequence[dict[str, float]], most_asked: float = np.inf) -> dict[str, float] | None:
    """The tree with the highest accuracy on rows held out from those to learn from, among those that ask at most so
    many columns there; of equals the one that asks least. None if all ask more."""
    allowed = [tree for tree in trees if tree["cv_asked"] <= most_asked]
    return max(allowed, key=lambda tree: (tree["cv_accuracy"], -tree["cv_asked"]), default=None)


def accuracy_at(points: Sequence[Sequence[float]], asked: float) -> float:
    """The accuracy at a mean number of questions, on a line through points (mean asked, accuracy); beyond them it is
    that of the nearest."""
    ordered = sorted((float(n), float(accuracy)) for n, accuracy in points)
    return float(np.interp(asked, *np.array(ordered).T))
