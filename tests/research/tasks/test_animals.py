"""The table of animals, and the players who answer like it."""

import numpy as np
import torch

from pursuit.inference.history import History
from pursuit.research.tasks import animals


def test_table_is_large_and_tells_every_two_animals_apart() -> None:
    table = animals.table()
    assert len(table) >= 100
    assert len(table.columns) >= 60
    assert table.index.is_unique
    assert set(np.unique(table.fillna("?").to_numpy().astype(str))) == {"yes", "no", "?"}
    codes = table.replace({"yes": 1, "no": -1}).fillna(0).to_numpy(dtype=int)
    differ = (codes[:, None] * codes[None] == -1).sum(axis=2)
    assert differ[~np.eye(len(table), dtype=bool)].min() >= 3


def test_players_answer_like_the_table_with_few_slips() -> None:
    task = animals.load(seed=0)
    table = animals.table().loc[task.y_test]
    given, truth = task.X_test.to_numpy(), table.to_numpy()
    has_answer = table.notna().to_numpy()
    assert not task.X_test.notna().to_numpy()[~has_answer].any()
    unsure = task.X_test.isna().to_numpy()[has_answer].mean()
    answered = has_answer & task.X_test.notna().to_numpy()
    wrong = (given[answered] != truth[answered]).mean()
    assert abs(unsure - animals.UNSURE) < 0.005
    assert abs(wrong - animals.WRONG) < 0.005


def test_test_players_are_others() -> None:
    a, b = animals.load(seed=0), animals.load(seed=1)
    rows = {tuple(row) for row in a.X_train.fillna("?").to_numpy()}
    seen = [tuple(row) in rows for row in a.X_test.fillna("?").to_numpy()]
    assert np.mean(seen) < 0.2  # two players of one animal rarely slip alike
    assert not a.X_train.equals(b.X_train)
    assert a.X_train.equals(animals.load(seed=0).X_train)


def test_exact_pursuer_finds_an_animal_that_answers_like_its_row() -> None:
    pursuer = animals.exact()
    x, available = pursuer.query_set.answers(animals.table())
    believed = pursuer.log_posterior(History(x, available, available)).argmax(dim=1)
    assert torch.equal(believed, torch.arange(len(x)))
