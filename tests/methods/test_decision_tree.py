"""A decision tree as a pursuer: it walks and prunes as scikit-learn does, query by query."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier

from pursuit.inference.history import History
from pursuit.inference.pursuer import choose, wants_more
from pursuit.methods import decision_tree
from pursuit.methods.decision_tree import TreeClassifier, TreeSettings, choose_pruning, grow
from pursuit.queries import ColumnQueries, PatchQueries, yes_no


def table(n_rows: int = 300, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Yes/no, choices and numbers with missing answers; a cough says enough, and without one the others are needed."""
    randomness = np.random.default_rng(seed)
    heat, where = randomness.normal(size=n_rows), randomness.choice(["head", "chest", "belly"], n_rows)
    cough = randomness.random(n_rows) < 0.5
    y = np.where(cough, "cold", np.where(where == "head", "migraine", np.where(np.abs(heat) > 1, "flu", "none")))
    y = np.where(randomness.random(n_rows) < 0.1, "flu", y)
    X = pd.DataFrame({"heat": heat, "where": where, "cough": cough.astype(float)})
    X.loc[randomness.random(n_rows) < 0.15, "where"] = None
    X.loc[randomness.random(n_rows) < 0.15, "heat"] = np.nan
    return X, y


def as_features(query_set: ColumnQueries, X: Any) -> np.ndarray:
    x, available = query_set.answers(X)
    return x.masked_fill(~available[:, query_set.units.of_feature], torch.nan).numpy()


@pytest.mark.parametrize("pruning", [0.0, 6.0])
def test_with_all_answers_it_walks_as_scikit_learn_does(pruning: float) -> None:
    X, y = table()
    model = TreeClassifier(settings=TreeSettings(pruning), random_state=0).fit(X, y)
    query_set, codes = model.model_.query_set, np.unique(y, return_inverse=True)[1]
    features = as_features(query_set, X)
    seed = int(np.random.RandomState(0).randint(2**31))
    other = DecisionTreeClassifier(criterion="entropy", random_state=seed, ccp_alpha=pruning / len(y)).fit(
        features, codes
    )
    assert model.model_.n_nodes == other.tree_.node_count
    fresh, _ = table(200, seed=1)
    x, available = query_set.answers(fresh)
    node = model.model_.walk(History(x, available, torch.ones_like(available)))
    assert np.array_equal(node.numpy(), other.apply(as_features(query_set, fresh)))


def test_posteriors_are_frequencies_and_one_row_of_the_parents() -> None:
    X, y = np.array([[0.0], [0], [0], [1], [1]]), np.array([0, 0, 1, 2, 2])
    model = TreeClassifier(ColumnQueries([yes_no("q")]), settings=TreeSettings(0)).fit(X, y)
    root = np.array([3, 2, 3]) / 8
    found = model.model_.log_posteriors.exp().numpy()
    assert found[0] == pytest.approx(root)
    assert found[1] == pytest.approx((np.array([2, 1, 0]) + root) / 4)
    assert found[2] == pytest.approx((np.array([0, 0, 2]) + root) / 3)


def test_the_chain_is_the_path_to_a_leaf() -> None:
    X, y = table()
    model = TreeClassifier(stop="confidence=1", settings=TreeSettings(8.0), random_state=0).fit(X, y)
    tree = model.model_
    rows = model.rows(X, y)
    history = rows.start()
    for _ in range(len(tree.query_set)):
        scores = tree.scores(history)
        assert ((scores > -torch.inf).sum(dim=1) <= 1).all()
        going = wants_more(scores, history.asked)
        assert torch.equal(going, scores.max(dim=1).values > -torch.inf)  # what it wants was never asked before
        kept = going.nonzero()[:, 0]
        rows, history = rows.take(kept), history.rows(kept)
        history = history.ask(choose(scores[kept], history.asked), rows.available)
    assert not wants_more(tree.scores(history), history.asked).any()
    chains = model.explain(X)
    assert {step.name for chain in chains for step in chain.steps} == {"heat", "where", "cough"}
    assert len({len(chain) for chain in chains}) > 1


def test_nothing_is_asked_that_is_not_worth_it() -> None:
    randomness = np.random.default_rng(0)
    X, y = randomness.normal(size=(60, 4)), randomness.integers(2, size=60)
    model = TreeClassifier(settings=TreeSettings(64.0)).fit(X, y)
    assert model.model_.n_nodes == 1
    assert all(len(chain) == 0 for chain in model.explain(X[:5]))
    assert (model.predict(X) == np.bincount(y).argmax()).all()


def test_pruning_is_chosen_by_held_out_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    randomness = np.random.default_rng(0)
    X = (randomness.random((400, 6)) < 0.5).astype(np.float32)
    y = np.where(randomness.random(400) < 0.25, 1 - X[:, 0], X[:, 0]).astype(int)
    assert choose_pruning(X, y, seed=0) >= 8
    assert len(grow(X, y, 2, pruning=16.0, seed=0)) == 3
    exact = (X[:, 0] + 2 * X[:, 1]).astype(int)
    monkeypatch.setattr(decision_tree, "FOLDED_ROWS", 100)
    assert len(grow(X, exact, 4, choose_pruning(X, exact, seed=0), seed=0)) == 7


@pytest.mark.parametrize("most_folded", [decision_tree.FOLDED_ROWS, 10])
def test_pruning_is_chosen_by_rows_of_other_groups(most_folded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group is recognised by its number, which says nothing of the label of another one."""
    monkeypatch.setattr(decision_tree, "FOLDED_ROWS", most_folded)
    randomness = np.random.default_rng(0)
    group = np.repeat(np.arange(200), 5)
    X = randomness.random((200, 1)).astype(np.float32)[group]
    y = (randomness.random(200)[group] < 0.5).astype(int)
    assert choose_pruning(X, y, 0, group=group) > choose_pruning(X, y, 0)
    assert choose_pruning(X, y, 0, group=np.zeros_like(group)) == choose_pruning(X, y, 0)


def digits(n_rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    images, y = load_digits(return_X_y=True)
    return images[:n_rows].reshape(-1, 1, 8, 8), y[:n_rows]


@pytest.mark.parametrize(("size", "stride"), [(2, 1), (3, 2), (2, 3)])
def test_a_patch_is_asked_that_shows_the_pixel_wanted(size: int, stride: int) -> None:
    X, y = digits()
    query_set = PatchQueries((1, 8, 8), size, stride, low=0, high=16)
    model = TreeClassifier(query_set, settings=TreeSettings(1.0), stop="confidence=1").fit(X, y)
    tree = model.model_
    x, available = query_set.answers(X)
    history = History.start(x, len(query_set))
    everything = tree.walk(History(x, available, available))
    while len(history):
        scores = tree.scores(history)
        going = wants_more(scores, history.asked)
        assert torch.equal(tree.walk(history)[~going], everything[~going])  # at its leaf
        history, scores, everything = history.rows(going), scores[going], everything[going]
        node, query = tree.walk(history), choose(scores, history.asked)
        wanted = torch.zeros(len(node), 64).scatter(1, tree.feature[node][:, None], 1.0).view(-1, 8, 8)
        for shown, number in zip(wanted, query.tolist(), strict=True):
            assert query_set._patch(number, shown[None]).sum() == 1
        history = history.ask(query)
    assert model.score(X, y) > 0.8


def test_among_patches_the_one_is_asked_that_shows_more_of_what_comes() -> None:
    images = np.array([[[a, b, 0]] for a in (0, 1) for b in (0, 1)] * 5, dtype=float)[:, None]
    images = np.concatenate([images, np.zeros_like(images)], axis=2)  # 2 x 3 pixels
    y = (images[:, 0, 0, 0] + 2 * images[:, 0, 0, 1]).astype(int)
    model = TreeClassifier(PatchQueries((1, 2, 3), 2), settings=TreeSettings(0.0), stop="confidence=1").fit(images, y)
    chains = model.explain(images)
    assert all([step.query for step in chain.steps] == [0] for chain in chains)
    assert model.score(images, y) == 1


def test_a_query_without_an_answer_goes_where_missing_answers_went() -> None:
    X, y = table()
    model = TreeClassifier(stop="confidence=1", settings=TreeSettings(2.0), random_state=0).fit(X, y)
    session = model.session()
    while not session.done:
        session.dont_know()
    blank = X.iloc[:1].copy().astype(object)
    blank.iloc[:] = None
    assert session.prediction == model.predict(blank)[0]


def test_saved_and_loaded_it_asks_the_same(tmp_path: Path) -> None:
    X, y = table()
    model = TreeClassifier(random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    again = TreeClassifier.load(tmp_path / "model")
    assert again.settings is None
    assert again.model_.pruning == model.model_.pruning
    assert again.explain(X[:20]).to_dict() == model.explain(X[:20]).to_dict()
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(TreeClassifier(random_state=0).fit(X, y).predict_proba(X), model.predict_proba(X))


def test_queries_of_ones_own_are_asked_for_the_units_they_show(
    pairs: Any, pair_data: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X, y = pair_data
    model = TreeClassifier(pairs, settings=TreeSettings(4.0), stop="confidence=1").fit(X, y)
    tree, rows = model.model_, model.rows(X, y)
    rows = rows.take(rows.available.all(dim=1))
    history = rows.start()
    everything = tree.walk(History(rows.x, rows.available, rows.available))
    for _ in range(len(pairs)):
        scores, node = tree.scores(history), tree.walk(history)
        going = wants_more(scores, history.asked)
        assert torch.equal(node[~going], everything[~going])  # at its leaf
        history, everything, node = history.rows(going), everything[going], node[going]
        query = choose(scores[going], history.asked)
        unit = tree.unit_of_feature[tree.feature[node]]
        assert (pairs.units.of_query[query] == unit[:, None]).any(dim=1).all()
        history = history.ask(query)
    assert not len(history)
    assert model.score(X, y) > 0.85
    model.save(tmp_path)
    assert np.array_equal(TreeClassifier.load(tmp_path).predict_proba(X), model.predict_proba(X))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="bits"):
        TreeSettings(-1.0)
    with pytest.raises(TypeError, match="TreeSettings"):
        TreeClassifier(settings=2.0).fit([[0], [1]], [0, 1])  # type: ignore[arg-type]
