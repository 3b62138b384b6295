"""Temperatures by the number of known answers."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pursuit import ModelSpec
from pursuit.networks import MLP
from pursuit.queries import Choice, ColumnQueries
from pursuit.training.calibration import (
    TEMPERATURES,
    along_path,
    beliefs,
    best_path,
    centres,
    factor_at_stop,
    fit_temperature,
    group_of,
    surprise,
)
from pursuit.training.learner import ClassifierModel
from pursuit.training.rows import Rows

N_QUERIES, WRONG = 6, 0.2
QUERIES = ColumnQueries([Choice(f"q{i}", f"q{i}", ("no", "yes")) for i in range(N_QUERIES)])


class Counting(ClassifierModel):
    """Two labels, and answers that each are right about the label four times in five: what is believed follows from how
    many say yes. Beliefs are `loudness` (Q + 1,) times what they should be, by the number of answers."""

    loudness = torch.ones(N_QUERIES + 1)

    def log_probabilities(self, logits: Tensor, n_known: Tensor) -> Tensor:
        return super().log_probabilities(logits * self.loudness[n_known][:, None], n_known)


def made(loudness: Tensor) -> Counting:
    model = Counting.build(ModelSpec(QUERIES, ["a", "b"], MLP((4,), direct=True)))
    head = model.classifier[-1]  # type: ignore[index]
    odds = torch.tensor((1 - WRONG) / WRONG).log() / 2
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
        start = head.in_features - model.query_set.input_shape[0]
        head.weight[0, start : start + N_QUERIES], head.weight[1, start : start + N_QUERIES] = -odds, odds
    model.loudness = loudness
    return model.eval()


def rows(n: int, seed: int = 0) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (n,), generator=generator)
    truth = (2 * y - 1)[:, None].float()
    x = torch.where(torch.rand(n, N_QUERIES, generator=generator) < WRONG, -truth, truth)
    return Rows(x, torch.ones(n, N_QUERIES, dtype=torch.bool), y)


def test_beliefs_that_hold_stay_as_they_are() -> None:
    temperature = fit_temperature(made(torch.ones(N_QUERIES + 1)), rows(2000))
    assert temperature.shape == (N_QUERIES + 1,)
    assert temperature.tolist() == pytest.approx([1.0] * (N_QUERIES + 1), rel=0.12)


def test_each_number_of_answers_gets_what_it_needs() -> None:
    loudness = torch.tensor([1.0, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0])
    model, judged = made(loudness), rows(3000)
    temperature = fit_temperature(model, judged)
    assert temperature[1:].tolist() == pytest.approx(loudness[1:].tolist(), rel=0.15)
    # Fitted again, with what was found already set, it is the same: beliefs are judged as they were learnt.
    model.set_temperature(temperature)
    assert torch.equal(fit_temperature(model, judged), temperature)


def test_few_rows_change_little() -> None:
    """Ten rows whose labels are noise: beliefs of three in four are too sure, but ten rows cannot say by how much."""
    data, generator = rows(400), torch.Generator().manual_seed(3)
    noise = Rows(data.x, data.available, torch.randint(2, (400,), generator=generator))
    model = made(torch.ones(N_QUERIES + 1))
    few, many = (float(fit_temperature(model, noise.take(slice(n))).mean()) for n in (10, 400))
    assert 1 < few < many


def test_beliefs_are_made_surer_only_where_many_rows_say_so() -> None:
    model = made(torch.full((N_QUERIES + 1,), 0.6))
    assert fit_temperature(model, rows(3000)).tolist() == pytest.approx([0.6] * (N_QUERIES + 1), rel=0.12)
    assert float(fit_temperature(model, rows(20)).min()) > 0.8


def test_beliefs_hold_where_chains_stop_once_they_are_sure() -> None:
    """Beliefs that are right on average, but some rows too sure and others not enough: those that are too sure stop."""
    data = rows(3000)
    model = made(torch.ones(N_QUERIES + 1))

    class Uneven(Counting):
        def log_probabilities(self, logits: Tensor, n_known: Tensor) -> Tensor:
            # The sign of the first logit's digits, which says nothing of the label, decides how loud a belief is.
            loud = 1 + 0.9 * torch.sin(1000 * logits[:, :1])
            return super().log_probabilities(logits * loud, n_known)

    uneven = made(torch.ones(N_QUERIES + 1))
    uneven.__class__ = Uneven
    assert factor_at_stop(model, data, torch.ones(N_QUERIES + 1)) <= 1.06
    assert factor_at_stop(uneven, data, torch.ones(N_QUERIES + 1)) > 1.1


def test_weights_count() -> None:
    judged = rows(600)
    weighted = Rows(judged.x, judged.available, judged.y, weight=(torch.arange(600) < 200).float())
    model = made(torch.full((N_QUERIES + 1,), 2.0))
    alone = fit_temperature(model, judged.take(torch.arange(200).repeat(3)))  # weights are levelled: they are 600 rows
    assert fit_temperature(model, weighted).tolist() == pytest.approx(alone.tolist(), rel=1e-3)


def test_initially_known_answers_count_as_known() -> None:
    data = rows(50)
    known = torch.zeros(50, N_QUERIES, dtype=torch.bool)
    known[:, :2] = True
    given = Rows(data.x, data.available, data.y, known)
    counts = [n_known for _, n_known, _ in beliefs(made(torch.ones(N_QUERIES + 1)), given)]
    assert [set(count.tolist()) for count in counts] == [{n} for n in range(2, N_QUERIES + 1)]


def test_groups_grow_with_the_number_of_answers() -> None:
    groups = group_of(700)
    assert groups[:9].tolist() == [0, 0, 1, 2, 3, 3, 4, 4, 5]
    assert (groups[1:] >= groups[:-1]).all()
    assert torch.equal(groups.unique(), torch.arange(int(groups.max()) + 1))  # none is empty
    assert (centres(groups)[1:] > centres(groups)[:-1]).all()
    assert group_of(1).tolist() == [0, 0]


def test_the_best_path_is_the_best_of_all() -> None:
    generator = torch.Generator().manual_seed(1)
    losses = 30 * torch.rand(3, len(TEMPERATURES), generator=generator, dtype=torch.double)
    centre = torch.tensor([0.0, 1.0, 1.6], dtype=torch.double)
    losses[:, :6] += 1000  # so that there are few paths to try
    losses[:, 12:] += 1000
    log_t = TEMPERATURES.log()

    def cost(path: tuple[int, ...]) -> float:
        spread = torch.where(log_t < 0, 0.1, 0.7)
        own = sum(float(losses[g, t] + log_t[t] ** 2 / (2 * spread[t] ** 2 * 3)) for g, t in enumerate(path))
        steps = zip(path, path[1:], centre.diff().tolist(), strict=False)
        return own + sum(float(log_t[a] - log_t[b]) ** 2 / (2 * 0.25**2 * gap) for a, b, gap in steps)

    paths = [(a, b, c) for a in range(6, 12) for b in range(6, 12) for c in range(6, 12)]
    assert torch.allclose(best_path(losses, centre), log_t[list(min(paths, key=cost))])


def test_between_groups_temperatures_are_interpolated() -> None:
    centre = centres(group_of(8))
    log_temperature = torch.linspace(0, 1, len(centre), dtype=torch.double)
    found = along_path(log_temperature, centre, 8)
    assert found[0] == found[1] == 1.0
    assert (found[2:] > found[1:-1]).all()
    assert float(found[-1]) == pytest.approx(2.7183, abs=1e-4)
    assert along_path(torch.zeros(1, dtype=torch.double), centres(group_of(1)), 1).tolist() == [1.0, 1.0]


def test_surprise_is_that_of_divided_logits() -> None:
    logits, y = torch.randn(5, 4, generator=torch.Generator().manual_seed(2)) * 20, torch.tensor([0, 1, 2, 3, 0])
    judged = Rows(torch.zeros(5, 1), torch.ones(5, 1, dtype=torch.bool), y)
    target = torch.rand(5, 4, generator=torch.Generator().manual_seed(3)).softmax(dim=1)
    by_label, by_target = surprise(logits, judged), surprise(logits, replace(judged, target=target))
    for t in (0, 12, len(TEMPERATURES) - 1):
        log_posterior = (logits.double() / TEMPERATURES[t]).log_softmax(dim=1)
        expected = -log_posterior.gather(1, y[:, None])[:, 0]
        assert by_label[:, t].tolist() == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-5)
        expected = -(target * log_posterior).sum(dim=1)
        assert by_target[:, t].tolist() == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-5)


def test_targets_fit_beliefs_as_labels_of_their_frequency_do() -> None:
    """Twins of every row, one of each label, weighted as likely as the target says, are the same as the target."""
    judged, model = rows(400), made(torch.full((N_QUERIES + 1,), 2.0))
    p = 0.1 + 0.8 * judged.y.float()
    n = torch.arange(400)
    twins = replace(judged.take(n.repeat(2)), y=torch.cat([torch.zeros(400), torch.ones(400)]).long())
    twins = replace(twins, weight=2 * torch.cat([1 - p, p]))
    taught = replace(judged, y=torch.full((400,), -1), target=torch.stack([1 - p, p], dim=1))
    twice = taught.take(n.repeat(2))
    found = fit_temperature(model, twice)
    assert found.tolist() == pytest.approx(fit_temperature(model, twins).tolist(), rel=1e-3)
    assert found.tolist() != pytest.approx(fit_temperature(model, judged.take(n.repeat(2))).tolist(), rel=1e-2)
