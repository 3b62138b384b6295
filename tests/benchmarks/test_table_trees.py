"""What a decision tree asks is counted by hand on small trees."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import table_trees
from table_trees import Ways, accuracy_at, best_tree, measure_trees

# Two features of one column (indicators) and a number, which is split on twice:
#   number <= 2.5: label 0
#   number > 5.5: label 3
#   between: label 1 or 2, by the indicators
ROWS = [(1, 0, 1, 0), (0, 1, 2, 0), (1, 0, 2, 0), (1, 0, 3, 1), (1, 0, 4, 1), (0, 1, 3, 2), (0, 1, 5, 2)]
ROWS += [(1, 0, 6, 3), (0, 1, 6, 3), (0, 1, 7, 3)]
X, Y = np.array(ROWS, dtype=np.float32)[:, :3], np.array(ROWS)[:, 3]
COLUMN_OF = np.array([0, 0, 1])


def tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(random_state=0).fit(X, Y)


def whole(depth: int, column_of: np.ndarray = COLUMN_OF) -> tuple[float, float]:
    fitted = tree()
    return Ways.of(fitted, column_of).measure(fitted.apply(X), Y, depth)


def test_a_column_that_is_split_on_twice_is_asked_once() -> None:
    fitted = tree()
    assert fitted.get_depth() == 3
    ways = Ways.of(fitted, COLUMN_OF)
    asked = ways.asked[fitted.apply(X)]
    # Every row is asked the number; the four in the middle are asked the indicator as well.
    assert asked.tolist() == [1, 1, 1, 2, 2, 2, 2, 1, 1, 1]
    assert whole(10) == (1.4, 1.0)
    assert whole(10, np.arange(3)) == (1.4, 1.0)
    assert whole(10, np.zeros(3)) == (1.0, 1.0)


def test_a_tree_that_is_cut_off_says_what_most_rows_there_are() -> None:
    assert whole(1) == (1.0, 0.6)  # the three rows of one end, and the three of the other among seven
    assert whole(2) == (1.0, 0.8)


def test_nothing_is_asked_where_all_leaves_say_the_same() -> None:
    X = np.array([[0, 0], [0, 0], [0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32)
    y = np.array([0, 0, 0, 0, 1, 1])
    inner = DecisionTreeClassifier(random_state=0).fit(X, y)
    assert Ways.of(inner, np.arange(2)).measure(inner.apply(X), y, 5) == (1.0, 1.0)
    # A tree that goes on although nothing changes: two levels, whose lower one says 0 twice.
    ways = Ways(
        left=np.array([1, 3, -1, -1, -1]),
        right=np.array([2, 4, -1, -1, -1]),
        parent=np.array([-1, 0, 0, 1, 1]),
        depth=np.array([0, 1, 1, 2, 2]),
        label=np.array([0, 0, 1, 0, 0]),
        asked=np.array([0, 1, 1, 2, 2]),
    )
    assert ways.measure(np.array([3, 4, 2]), np.array([0, 0, 1]), 5) == (1.0, 1.0)
    all_alike = Ways(ways.left, ways.right, ways.parent, ways.depth, np.zeros(5, dtype=int), ways.asked)
    assert all_alike.measure(np.array([3, 4, 2]), np.array([0, 0, 1]), 5) == (0.0, pytest.approx(2 / 3))


def test_cutting_a_tree_off_is_growing_it_no_further() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=300) > 0).astype(int)
    full = DecisionTreeClassifier(random_state=0).fit(X, y)
    ways, leaves = Ways.of(full, np.arange(5)), full.apply(X)
    for depth in (1, 2, 3, 5, 8):
        short = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y)
        asked, accuracy = ways.measure(leaves, y, depth)
        assert accuracy == pytest.approx(short.score(X, y))
        path = short.decision_path(X).toarray() > 0
        features = short.tree_.feature
        by_hand = [len({features[node] for node in np.flatnonzero(row) if features[node] >= 0}) for row in path]
        assert asked <= np.mean(by_hand)  # less where both leaves say the same


def test_trees_of_all_sizes_are_measured_and_chosen_by_held_out_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4)).astype(np.float32)
    y = (X[:, 0] > 0) * 2 + (X[:, 1] > 0)
    found = measure_trees(X[:160], y[:160], X[160:], y[160:], np.arange(4), seed=0)
    assert len(found) == len(table_trees.DEPTHS) * len(table_trees.ALPHAS)
    best = best_tree(found)
    assert best is not None
    assert best["accuracy"] > 0.9
    assert 1.9 < best["asked"] < 2.6
    small = best_tree(found, 1.0)
    assert small is not None
    assert small["cv_asked"] <= 1.0
    assert small["accuracy"] < best["accuracy"]
    assert best_tree(found, -1.0) is None


def test_test_rows_have_no_say_in_the_choice() -> None:
    trees = [
        {"cv_asked": 2.0, "cv_accuracy": 0.8, "asked": 2.1, "accuracy": 0.7},
        {"cv_asked": 3.0, "cv_accuracy": 0.8, "asked": 2.9, "accuracy": 0.9},
        {"cv_asked": 5.0, "cv_accuracy": 0.9, "asked": 4.9, "accuracy": 0.6},
    ]
    assert best_tree(trees) is trees[2]
    assert best_tree(trees, 4.0) is trees[0]  # of equals, the one that asks less


def test_a_label_that_was_not_learnt_is_never_right() -> None:
    X, y = np.array([[0.0], [0], [1], [1], [0], [1]], dtype=np.float32), np.array([0, 0, 2, 2, 0, 2])
    found = measure_trees(X, y, X[:4], np.array([0, 1, 2, 3]), np.arange(1), seed=0)
    assert best_tree(found)["accuracy"] == 0.5  # type: ignore[index]


def test_accuracy_lies_on_a_line_between_points() -> None:
    points = [(4.0, 0.9), (0.0, 0.5), (2.0, 0.7)]
    assert accuracy_at(points, 3.0) == pytest.approx(0.8)
    assert accuracy_at(points, 1.0) == pytest.approx(0.6)
    assert accuracy_at(points, 9.0) == pytest.approx(0.9)
