"""Answers unlike those that were learnt from."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit import MLP, Stage, VIPClassifier
from pursuit.inference.unusual import FALSE_ALARMS, LEAST_LIMIT, NEVER, alarm_limits, oddness, unusual_rows
from pursuit.training.calibration import group_of

N_QUERIES = 16


def people(n: int, seed: int, flip: float = 0.08) -> tuple[pd.DataFrame, np.ndarray]:
    """Sixteen yes-or-no answers that nearly follow from the label: half of them are yes for a, the others for b."""
    randomness = np.random.default_rng(seed)
    y = randomness.integers(2, size=n)
    typical = (np.arange(N_QUERIES) % 2)[None] == y[:, None]
    answers = np.where(randomness.random((n, N_QUERIES)) < flip, ~typical, typical)
    return pd.DataFrame(np.where(answers, "yes", "no"), columns=[f"q{i}" for i in range(N_QUERIES)]), np.array(
        list("ab")
    )[y]


@pytest.fixture(scope="module")
def model() -> VIPClassifier:
    with torch.enable_grad():
        plan: dict[str, Any] = {"network": MLP((16,)), "stages": [Stage(15, batch_size=64)], "teachers": None}
        return VIPClassifier(random_state=0, stop="never", calibration=0.5, **plan).fit(*people(1200, 0))


def test_rows_like_those_of_training_are_hardly_ever_unusual(model: VIPClassifier) -> None:
    table = model.predict_table(people(3000, 1)[0])
    assert table["unusual"].dtype == bool
    assert table["unusual"].mean() <= 5 * FALSE_ALARMS


@pytest.mark.full_training
def test_few_rows_that_were_all_learnt_make_few_others_unusual() -> None:
    """Without rows held out, limits come from rows whose answers the model has learnt."""

    def table(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
        """Twelve choices, of which a fifth follow from the label."""
        randomness = np.random.default_rng(seed)
        y = randomness.integers(2, size=n)
        answers = randomness.integers(4, size=(n, 12))
        answers = np.where(randomness.random(answers.shape) < 0.2, y[:, None], answers)
        return pd.DataFrame(np.array(list("abcd"))[answers], columns=[f"q{i}" for i in range(12)]), y

    with torch.enable_grad():
        model = VIPClassifier(random_state=0, stop="never").fit(*table(80, 0))
    assert model.predict_table(table(2000, 1)[0])["unusual"].mean() <= 5 * FALSE_ALARMS


def test_answers_at_random_are_unusual(model: VIPClassifier) -> None:
    assert model.predict_table(people(300, 2, flip=0.5)[0])["unusual"].mean() > 0.3


def test_a_session_says_so_and_names_the_least_expected_answer(model: VIPClassifier) -> None:
    strange = people(300, 2, flip=0.5)[0]
    is_unusual = model.predict_table(strange)["unusual"].to_numpy()
    for row, expected in ((int(is_unusual.argmax()), True), (int((~is_unusual).argmax()), False)):
        session = model.session()
        assert session.unusual is None
        while not session.done:
            session.tell(strange.loc[row, session.ask().name])
        found = session.unusual
        assert (found is not None) == expected
        if found is not None:
            assert session.answers[found.name] == found.answer
            assert found.sentence.startswith("These answers are unusual:")
            assert f"“{found.answer}” to “{found.text}”" in found.sentence
    # What nobody knows is not unusual.
    blank = model.session()
    while not blank.done:
        blank.dont_know()
    assert blank.unusual is None


def test_it_is_saved_with_the_model(model: VIPClassifier, tmp_path: Any) -> None:
    model.save(tmp_path / "model")
    again = VIPClassifier.load(tmp_path / "model")
    odd = people(50, 3, flip=0.5)[0]
    assert again.predict_table(odd)["unusual"].tolist() == model.predict_table(odd)["unusual"].tolist()


def test_surprise_is_that_of_the_possible_answers(model: VIPClassifier) -> None:
    rows = model.rows(*people(5, 4))
    history = rows.start()
    query = torch.tensor([0, 3, 5, 7, 15])
    found = model.model_.answer_surprise(history, query)
    for row in range(5):
        possible = model.model_.possible_answers(history.rows(torch.tensor([row])), int(query[row]))
        p = torch.tensor([answer.probability for answer in possible])
        text = model.model_.query_set.describe(int(query[row]), rows.x[row])
        (own,) = [answer.probability for answer in possible if answer.text == text]
        assert found[row].tolist() == pytest.approx(
            [-np.log(own), float(-(p * p.log()).sum()), float((p * p.log() ** 2).sum() - (p * p.log()).sum() ** 2)],
            abs=1e-4,
        )


def test_chains_of_nothing_are_usual(model: VIPClassifier) -> None:
    rows = model.rows(*people(3, 5))
    none = torch.empty(3, 0)
    assert not unusual_rows(model.model_, rows.x, None, none.long(), none.bool())[0].any()
    asked = torch.tensor([[0, 1]] * 3)
    odd, n_known, _ = oddness(model.model_, rows.x, None, asked, torch.tensor([[True, False]] * 3))
    assert n_known.tolist() == [[1, 0]] * 3
    assert (odd[:, 1] == 0).all()


def test_limits_let_through_all_but_one_in_a_thousand_whole_chains() -> None:
    """Oddness that is a random walk: looking at each of twenty steps raises more alarms than looking at one."""
    generator = torch.Generator().manual_seed(0)
    n = torch.arange(1, 21).expand(4000, 20)

    def chains(seed: int) -> torch.Tensor:
        steps = torch.randn(4000, 20, generator=generator.manual_seed(seed)).cumsum(dim=1)
        return steps / n.sqrt()

    limits = alarm_limits(chains(1), n.clone(), group_of(20))
    alarms = [(chains(seed) > limits[n]).any(dim=1).float().mean() for seed in (2, 3, 4)]
    assert 0.0002 < float(torch.stack(alarms).mean()) < 0.003
    assert (alarm_limits(chains(1)[:20], n[:20].clone(), group_of(20)) == NEVER).all()  # too few rows to tell


@pytest.mark.parametrize("n_rows", [150, 4000])
def test_of_few_rows_with_long_tails_hardly_more_are_called_unusual(n_rows: int) -> None:
    """Oddness with exponential tails, as that of a few surprising answers has: limits from few rows are cautious."""
    generator = torch.Generator().manual_seed(0)

    def chains(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        odd = torch.empty(n, 4).exponential_(1.0, generator=generator) - 1
        return odd, torch.arange(1, 5).expand(n, 4)

    rates = []
    for _ in range(30):
        odd, n_known = chains(n_rows)
        limits = alarm_limits(odd, n_known.clone(), group_of(4))
        fresh, there = chains(20_000)
        rates.append(float((fresh > limits[there]).any(dim=1).float().mean()))
    assert FALSE_ALARMS / 5 < np.mean(rates) < 3 * FALSE_ALARMS


def test_one_answer_alone_is_not_unusual_by_little() -> None:
    """Oddness that is one of two values: the larger one, of few rows, is no alarm."""
    odd, n_known = torch.full((400, 1), -0.1), torch.ones(400, 1, dtype=torch.long)
    odd[:3] = 2.5
    assert float(alarm_limits(odd, n_known, group_of(1))[1]) >= LEAST_LIMIT
