"""The example for AFABench: its protocol, played on made sets."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pursuit.networks import MLP
from pursuit.training import AdamW, CarriedHistories, Stage

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "afabench"))
from vip_method import STOP, VIPMethod

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")
QUICK: dict[str, Any] = {
    "network": MLP((64,)),
    "teachers": None,
    "held_out": 0.0,
    "random_state": 0,
    "stages": [Stage(20, CarriedHistories(6, random_share=0.5), AdamW(1e-2), batch_size=128)],
}


def cube(n_rows: int, seed: int, deviation: float = 0.1) -> tuple[Tensor, Tensor]:
    """CUBE: of 20 features, three that depend on the class have its bits, and the others are noise."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(8, (n_rows,), generator=generator)
    x = 0.5 + 0.3 * torch.randn(n_rows, 20, generator=generator)
    for place in range(3):
        bit = (y >> place & 1).float()
        x[torch.arange(n_rows), y + place] = bit + deviation * torch.randn(n_rows, generator=generator)
    return x, y


def play(method: VIPMethod, x: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    """What is predicted after a budget of selections, and how many each row had."""
    n_rows, n_selections = len(x), len(method.selections)
    mask, selected = torch.zeros_like(x, dtype=torch.bool), torch.zeros(n_rows, n_selections, dtype=torch.bool)
    over = torch.zeros(n_rows, dtype=torch.bool)
    for _ in range(budget):
        action = method.act(x * mask, mask, selected, feature_shape=x.shape[1:])[:, 0]
        over |= action == STOP
        for row in (~over).nonzero()[:, 0].tolist():
            selection = int(action[row]) - 1
            assert not selected[row, selection]
            selected[row, selection] = True
            mask[row, method.selections[selection]] = True
    return method.predict(x * mask, mask, feature_shape=x.shape[1:]), selected.sum(dim=1)


@pytest.fixture(scope="module")
def method() -> VIPMethod:
    x, y = cube(1000, seed=0)
    return VIPMethod.train(x, torch.nn.functional.one_hot(y, 8), **QUICK)


def test_more_selections_predict_better(method: VIPMethod) -> None:
    x, y = cube(300, seed=1)
    accuracy = {}
    for budget in (1, 10, 30):
        probabilities, n_selected = play(method, x, budget)
        assert probabilities.shape == (300, 8)
        torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(300))
        assert (n_selected == min(budget, 20)).all()  # once all are selected, it stops
        accuracy[budget] = float((probabilities.argmax(dim=1) == y).float().mean())
    assert accuracy[1] < accuracy[10] < accuracy[30] + 0.05
    assert accuracy[30] > 0.6


def test_a_cost_parameter_ends_rows(method: VIPMethod, tmp_path: Path) -> None:
    x, _ = cube(60, seed=2)
    method.save(tmp_path / "method")
    again = VIPMethod.load(tmp_path / "method", CPU)
    assert again.device == CPU
    every, _ = play(again, x, 6)
    torch.testing.assert_close(every, play(method, x, 6)[0])
    again.set_cost_param(0.2)
    _, n_selected = play(again, x, 20)
    assert n_selected.float().mean() < 15
    again.set_cost_param(100.0)
    assert (again.act(x * 0, torch.zeros_like(x, dtype=torch.bool)) == STOP).all()


def test_any_batch_and_feature_shape(method: VIPMethod) -> None:
    x, _ = cube(12, seed=3)
    mask = torch.rand(12, 20) < 0.4
    flat = method.act(x * mask, mask)
    shaped = method.act((x * mask).view(3, 4, 4, 5), mask.view(3, 4, 4, 5), feature_shape=torch.Size([4, 5]))
    assert torch.equal(shaped.flatten(), flat.flatten())
    assert shaped.shape == (3, 4, 1)
    assert method.predict((x * mask).view(3, 4, 20), mask.view(3, 4, 20)).shape == (3, 4, 8)


def test_a_selection_may_reveal_several_features() -> None:
    generator = torch.Generator().manual_seed(4)
    y = torch.randint(2, (400,), generator=generator)
    x = torch.randn(400, 5, generator=generator) * 0.3
    x[:, 2] += y
    selections = [[0], [2, 3, 4], [1]]
    method = VIPMethod.train(x, y, selections, costs=[1, 1, 0.2, 0.2, 0.2], **QUICK)
    mask, selected = torch.zeros(400, 5, dtype=torch.bool), torch.zeros(400, 3, dtype=torch.bool)
    action = method.act(x * mask, mask, selected)
    assert (action == 2).all()
    probabilities, n_selected = play(method, x, 1)
    assert (n_selected == 1).all()
    assert (probabilities.argmax(dim=1) == y).float().mean() > 0.9


def test_a_class_without_training_rows_keeps_its_place(tmp_path: Path) -> None:
    x, y = cube(300, seed=5)
    is_kept = y != 3
    brief = QUICK | {"stages": [Stage(1, CarriedHistories(6, random_share=0.5), AdamW(1e-2), batch_size=128)]}
    method = VIPMethod.train(x[is_kept], torch.nn.functional.one_hot(y[is_kept], 8), **brief)
    method.save(tmp_path / "method")
    probabilities = VIPMethod.load(tmp_path / "method", CPU).predict(x, torch.ones_like(x, dtype=torch.bool))
    assert probabilities.shape == (300, 8)
    assert (probabilities[:, 3] == 0).all()
    assert (probabilities[:, [0, 7]] > 0).all()
