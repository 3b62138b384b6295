"""The first questions as a tree."""

import numpy as np
import pandas as pd
import pytest

from pursuit.evaluation.tree import question_tree
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.training.rows import Rows


@pytest.fixture(scope="module")
def fitted() -> tuple[NaiveBayesIPClassifier, Rows]:
    randomness = np.random.default_rng(0)
    n = 300
    side, age = randomness.choice(["left", "right"], n), randomness.integers(0, 100, n)
    y = np.where(side == "left", "a", np.where(age >= 60, "b", "c"))
    X = pd.DataFrame({"side": side, "age": age})
    X.loc[:9, "side"] = None
    model = NaiveBayesIPClassifier(stop="confidence=0.95").fit(X, y)
    return model, model.rows(X, y)


def test_rows_are_neither_lost_nor_counted_twice(fitted: tuple[NaiveBayesIPClassifier, Rows]) -> None:
    model, rows = fitted
    tree = question_tree(model.model_, rows, model.stopping_rule(), depth=2)
    assert tree.n_rows == 300
    for node in tree:
        asked = sum(question.n_rows for question in node.questions) + node.n_other
        assert not node.questions or asked + node.n_stopped == node.n_rows
        for question in node.questions:
            assert sum(branch.node.n_rows for branch in question.branches) == question.n_rows


def test_the_tree_agrees_with_the_chains(fitted: tuple[NaiveBayesIPClassifier, Rows]) -> None:
    model, rows = fitted
    tree = question_tree(model.model_, rows, model.stopping_rule(), depth=1)
    shares = rows.y.bincount(minlength=3) / 300
    assert tree.leading[0].label == model.classes_[int(shares.argmax())]
    assert tree.leading[0].probability == pytest.approx(float(shares.max()), abs=0.02)
    (question,) = tree.questions
    assert question.mean_bits is not None
    for branch in question.branches:
        assert branch.node.questions == ()
    unknown = [branch for branch in question.branches if branch.answer == "no answer"]
    assert [branch.node.n_rows for branch in unknown] == ([10] if question.name == "side" else [])
    for branch in unknown:  # no answer changes nothing
        assert branch.node.leading[0].label == tree.leading[0].label
        assert branch.node.leading[0].probability == pytest.approx(tree.leading[0].probability, abs=1e-5)


def test_numbers_are_cut_where_beliefs_differ(fitted: tuple[NaiveBayesIPClassifier, Rows]) -> None:
    model, rows = fitted
    right = rows.take((rows.x[:, 0] > 0).nonzero()[:, 0])
    tree = question_tree(model.model_, right, None, depth=2)
    ages = [
        branch.answer
        for node in tree
        for question in node.questions
        if question.name == "age"
        for branch in question.branches
    ]
    assert any(age.startswith("up to ") for age in ages)
    assert any(age.startswith("above ") for age in ages)


def test_ends_of_a_range_that_is_not_cut_are_not_those_of_two_rows() -> None:
    randomness = np.random.default_rng(0)
    X = pd.DataFrame({"income": randomness.integers(1200, 7000, 200)})
    y = np.array(["a", "b"] * 100)
    model = NaiveBayesIPClassifier(stop="budget=1").fit(X, y)
    (question,) = question_tree(model.model_, model.rows(X[:3], y[:3]), depth=1).questions
    texts = " ".join(branch.answer for branch in question.branches)
    assert len(question.branches) == 1
    assert not any(str(end) in texts for end in (X["income"][:3].min(), X["income"][:3].max()))
    assert texts == "0 to 8000"


def test_a_tree_without_rows_or_levels_is_refused(fitted: tuple[NaiveBayesIPClassifier, Rows]) -> None:
    model, rows = fitted
    with pytest.raises(ValueError, match="at least 1 level"):
        question_tree(model.model_, rows, depth=0)
    with pytest.raises(ValueError, match="no rows to ask"):
        question_tree(model.model_, rows.take(rows.y[:0]))
