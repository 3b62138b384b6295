"""The answer model: its information judged by exact Information Pursuit, by Bayes, and by worlds that it learns."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from answer_models import N_CLASSES, entropy, random_model, trained
from pursuit import ModelSpec, information
from pursuit.exact import IndependentIP, TableIP
from pursuit.inference.history import History
from pursuit.information import AnswerModel, AnswerSettings
from pursuit.methods.naive_bayes import NaiveBayesIP, NaiveBayesSettings
from pursuit.networks import MLP, NetworkSettings, SetNetwork
from pursuit.queries import ColumnQueries, PatchQueries, yes_no
from pursuit.training.rows import Rows
from pursuit.vip import InformationVIP
from untrained import make_columns, make_rows

MIXED = ("yes_no", "choice", "single", "yes_no", "number", "choice")


def likelihood_of(model: AnswerModel) -> Tensor:
    """P(answer | label) by the table alone, where none is missing: (C, V), the answers of one query after the other."""
    log_odds = torch.zeros(len(model.outcomes), model.table.shape[1], dtype=torch.double)
    log_odds[model.further] = model.table.detach().double()
    parts = log_odds.split(model.outcomes.n_values)
    return torch.cat([part.softmax(dim=0) for part in parts]).T


# Independent answers: what exact pursuit says


@pytest.mark.parametrize("types", [("yes_no",) * 5, ("choice",) * 3, ("yes_no", "choice", "single", "choice")])
def test_without_a_rank_it_is_exact_pursuit_of_independent_answers(types: Sequence[str]) -> None:
    query_set = make_columns(types)
    rows = make_rows(query_set, 60, n_classes=N_CLASSES)
    model, outputs, log_posterior = random_model(query_set, rows, AnswerSettings(rank=0), size=0.0)
    exact = IndependentIP(query_set, range(N_CLASSES), torch.full((N_CLASSES,), 0.25), likelihood_of(model))
    wanted = exact.information(log_posterior.double())
    assert wanted.max() > 0.01
    torch.testing.assert_close(model.information(outputs, log_posterior).double(), wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("types", [("yes_no",) * 5, ("yes_no", "choice", "single", "choice")])
def test_the_loss_is_the_mean_surprise_of_the_answers_not_asked_for(types: Sequence[str]) -> None:
    query_set = make_columns(types)
    rows = make_rows(query_set, 60, n_classes=N_CLASSES)
    model, outputs, _ = random_model(query_set, rows, AnswerSettings(rank=0), size=0.0)
    asked = torch.rand(rows.available.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    log_likelihood = likelihood_of(model).log()[rows.y]  # (N, V)
    of_answers = model.outcomes.by_unit(log_likelihood * model.outcomes.holds(rows.x))  # (N, Q)
    loss = model.loss(outputs, rows.x.float(), rows.y, rows.available, asked)
    torch.testing.assert_close(loss.double(), -of_answers[~asked].mean(), atol=1e-5, rtol=1e-5)


def test_counts_are_smoothed_by_the_average_label() -> None:
    query_set = ColumnQueries([yes_no("a")])
    x = torch.tensor([[1.0], [1.0], [1.0], [-1.0], [-1.0], [1.0]])
    rows = Rows(x, torch.ones(6, 1, dtype=torch.bool), torch.tensor([0, 0, 0, 0, 1, 1]))
    model = AnswerModel.count(query_set, 3, rows, AnswerSettings(smoothing=2.0))
    yes, no = 2 * (4 + 1) / 6, 2 * (2 + 1) / 6  # two rows of the average label, with one more of each answer
    counted = [(3, 1), (1, 1), (0, 0)]  # nothing was counted for the last label
    wanted = torch.tensor([(n_yes + yes) / (n_yes + yes + n_no + no) for n_yes, n_no in counted])
    torch.testing.assert_close(model.table[0].sigmoid(), wanted)


def test_frequent_answers_differ_even_where_the_first_of_the_list_never_came() -> None:
    """Among very many rows it is all but impossible, and the odds against it are huge."""
    query_set, n = make_columns(["choice"]), 400_000
    number, y = torch.arange(n) // 2 % 5, torch.arange(n) % 2
    is_second = number < torch.where(y == 0, 1, 3)  # in 1 or 3 of 5 rows; else it is the third
    x = F.one_hot(torch.where(is_second, 1, 2), 3).float()
    rows = Rows(x, torch.ones(n, 1, dtype=torch.bool), y)
    model = AnswerModel.count(query_set, 2, rows, AnswerSettings(rank=0))
    known_label = torch.eye(2).log()
    probability, _ = model.after_answers(torch.zeros(2, model.n_outputs), known_label, 0)
    torch.testing.assert_close(probability, torch.tensor([[0.0, 0.2, 0.8], [0.0, 0.6, 0.4]]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("network", [MLP((8,)), MLP((8,), direct=True), SetNetwork(5, "max", 7, (8,))], ids=str)
def test_a_fresh_model_expects_what_naive_bayes_expects(network: NetworkSettings, shared: bool) -> None:
    """At any history, given the same belief; how each smooths its counts hardly matters here."""
    query_set = make_columns(["yes_no", "choice", "number", "yes_no"])
    rows = make_rows(query_set, 6000, n_classes=3)
    rows.x[:, 0] = torch.where(rows.y == 0, 1.0, rows.x[:, 0])
    rows.x[:, 4] += rows.y
    naive = NaiveBayesIP.count(query_set, range(3), rows, NaiveBayesSettings(n_bins=8, smoothing=0.01))
    answer_model = AnswerModel.count(query_set, 3, rows, AnswerSettings(n_bins=8, smoothing=0.01))
    model = InformationVIP.build(
        ModelSpec(query_set, range(3), network, shared=shared, prior=naive.log_prior.exp().float()),
        answer_model=answer_model,
    ).eval()
    known = torch.rand(50, 4, generator=torch.Generator().manual_seed(0)) < 0.4
    known[0] = False
    history = History(rows.x[:50].float(), known, known)
    with torch.no_grad():
        outputs = model.read(model.network_input(history.x, known))
        bits = model.answer_model.information(outputs, naive.log_posterior(history)).double()
        wanted = naive.scores(history)
        assert wanted[:, 0].max() > 0.2
        torch.testing.assert_close(bits[~known], wanted[~known], atol=1e-4, rtol=0)
        torch.testing.assert_close(model.scores(history)[0].double(), wanted[0], atol=1e-4, rtol=0)


# What holds whatever the network says


@given(
    types=st.lists(st.sampled_from(["yes_no", "choice", "single", "number"]), min_size=1, max_size=5),
    rank=st.integers(0, 3),
    size=st.sampled_from([0.1, 1.0, 5.0]),
    missing=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)
def test_information_is_what_the_answers_would_change(
    types: list[str], rank: int, size: float, missing: float, seed: int
) -> None:
    """The expected change of belief, and the entropy now less the expected one after the answer; the belief now is the
    mean of what it may become."""
    query_set = make_columns(types)
    rows = make_rows(query_set, 12, seed=seed, missing=missing, n_classes=N_CLASSES)
    settings = AnswerSettings(rank=rank, n_bins=3)
    model, outputs, log_posterior = random_model(query_set, rows, settings, size, seed)
    bits, before = model.information(outputs, log_posterior), log_posterior.exp()
    model.keep_weights()  # with a rank of 0, what depends on labels alone is computed once
    torch.testing.assert_close(model.information(outputs, log_posterior), bits, atol=2e-5, rtol=0)
    for query in range(len(query_set)):
        probability, after = model.after_answers(outputs, log_posterior, query)
        assert probability.shape == (12, model.outcomes.n_values[query] + (query in model.maybe_missing))
        torch.testing.assert_close(probability.sum(dim=1), torch.ones(12))
        torch.testing.assert_close((probability[:, :, None] * after).sum(dim=1), before, atol=1e-5, rtol=0)
        changes = (torch.special.xlogy(after, after / before[:, None]) / math.log(2)).sum(dim=2)  # (12, answers)
        if query in model.maybe_missing:  # nobody is told that there is no answer
            changes[:, -1] = 0
        wanted = (probability * changes).sum(dim=1)
        torch.testing.assert_close(bits[:, query], wanted, atol=2e-5, rtol=0)
        if query not in model.maybe_missing:
            less = entropy(before) - (probability * entropy(after)).sum(dim=1)
            torch.testing.assert_close(bits[:, query].double(), less, atol=2e-5, rtol=0)
        most = torch.minimum(entropy(probability), entropy(before))
        assert (bits[:, query] >= 0).all()
        assert (bits[:, query] <= most + 2e-5).all()


def test_a_list_of_one_beside_a_list_of_three_is_not_taken_for_two_of_yes_and_no() -> None:
    """Both have as many odds as queries."""
    query_set = make_columns(["choice", "single"])
    rows = make_rows(query_set, 40, n_classes=N_CLASSES)
    model, outputs, log_posterior = random_model(query_set, rows)
    assert model.n_odds == len(query_set)
    bits = model.information(outputs, log_posterior)
    assert not bits[:, 1].any()
    probability, after = model.after_answers(outputs, log_posterior, 0)
    wanted = entropy(log_posterior.exp()) - (probability * entropy(after)).sum(dim=1)
    torch.testing.assert_close(bits[:, 0].double(), wanted, atol=2e-5, rtol=0)


def test_where_nothing_can_differ_there_is_nothing_to_learn() -> None:
    query_set = make_columns(["single", "single"])
    rows = make_rows(query_set, 5, n_classes=N_CLASSES)
    model, outputs, log_posterior = random_model(query_set, rows)
    assert model.n_outputs == 0
    assert torch.equal(model.information(outputs, log_posterior), torch.zeros(5, 2))
    assert model.loss(outputs, rows.x, rows.y, rows.available, torch.zeros(5, 2, dtype=torch.bool)) == 0


@pytest.mark.parametrize("rank", [0, 2])
def test_nothing_is_lost_by_computing_in_parts(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    query_set = make_columns(MIXED)
    rows = make_rows(query_set, 37, missing=0.2, n_classes=N_CLASSES)
    model, outputs, log_posterior = random_model(query_set, rows, AnswerSettings(rank=rank))
    wanted = model.information(outputs, log_posterior)
    for at_once in (1, 3 * model.table.numel()):
        monkeypatch.setattr(information, "AT_ONCE", at_once)
        torch.testing.assert_close(model.information(outputs, log_posterior), wanted, atol=1e-6, rtol=1e-6)
    assert model.information(outputs[:0], log_posterior[:0]).shape == (0, len(query_set))


def test_some_of_many_labels_give_nearly_the_same_information() -> None:
    query_set, n_labels = make_columns(["yes_no", "choice", "yes_no"] * 4), 60
    rows = make_rows(query_set, 3000, missing=0.1, n_classes=n_labels)
    rows.x[:, 0] = torch.where(rows.y < 20, 1.0, rows.x[:, 0])
    model = AnswerModel.count(query_set, n_labels, rows)
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(100, model.n_outputs, generator=generator)
    log_posterior = (3 * torch.randn(100, n_labels, generator=generator)).log_softmax(dim=1)
    bits = model.information(outputs, log_posterior)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        some, one = (model.information(outputs, log_posterior, n) for n in (20, 1))
        for n in (n_labels, n_labels + 1):
            assert torch.equal(model.information(outputs, log_posterior, n), bits)
    assert correlation(some.flatten(), bits.flatten()) > 0.97
    assert float((some - bits).mean().abs() / bits.mean()) < 0.05
    assert not one.any()  # a single label is certain


def test_what_is_not_drawn_does_not_count() -> None:
    """Labels are drawn by their probability: of two that share it all, both are drawn."""
    query_set = make_columns(["yes_no", "choice"])
    rows = make_rows(query_set, 200, n_classes=N_CLASSES)
    model, outputs, _ = random_model(query_set, rows)
    log_posterior = torch.tensor([0.4, 0.0, 0.6, 0.0]).log().expand(200, -1)
    wanted = model.information(outputs, log_posterior)
    torch.testing.assert_close(model.information(outputs, log_posterior, 2), wanted, atol=2e-5, rtol=0)


def test_bits_that_are_only_rounding_are_none() -> None:
    """So that a query which costs next to nothing is not asked for the sake of an error."""
    query_set = make_columns(["choice"] * 3)
    model, outputs, log_posterior = random_model(query_set, make_rows(query_set, 500, n_classes=N_CLASSES))
    log_posterior[:, 0] += 18  # all but certain
    bits = model.information(outputs, log_posterior.log_softmax(dim=1))
    assert ((bits == 0) | (bits > information.ROUNDING)).all()
    assert (bits == 0).float().mean() > 0.9


@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_huge_log_odds_stay_finite(size: float) -> None:
    query_set = make_columns(MIXED)
    rows = make_rows(query_set, 30, missing=0.2, n_classes=N_CLASSES)
    model, outputs, log_posterior = random_model(query_set, rows, size=size)
    log_posterior[0] = torch.tensor([0.0, -torch.inf, -torch.inf, -torch.inf])
    bits = model.information(outputs, log_posterior)
    assert bits.isfinite().all()
    assert (bits >= 0).all()
    assert (bits <= 2.0 + 1e-5).all()
    assert bits[0].max() < 1e-5  # nothing can be learnt about a label that is certain
    outputs.requires_grad_()
    loss = model.loss(outputs, rows.x.float(), rows.y, rows.available, torch.zeros_like(rows.available))
    assert loss.isfinite()
    for gradient in torch.autograd.grad(loss, [outputs, *model.parameters()]):
        assert gradient.isfinite().all()
    for query in range(len(query_set)):
        probability, after = model.after_answers(outputs.detach(), log_posterior, query)
        assert probability.isfinite().all()
        assert after.isfinite().all()


@pytest.mark.parametrize("size", [3.0, 30.0])
def test_single_precision_is_enough(size: float) -> None:
    """Against the same in double precision, written down as the definition has it."""
    query_set = make_columns(MIXED)
    rows = make_rows(query_set, 200, n_classes=N_CLASSES)
    model, outputs, log_posterior = random_model(query_set, rows, size=size)
    b, u = (part.double() for part in model._terms(outputs))
    further = model.table.double() + b[:, :, None] + u @ model.label_vectors.double().T  # (B, A, C)
    log_odds = torch.zeros(200, len(model.outcomes), N_CLASSES, dtype=torch.double)
    log_odds[:, model.further] = further.detach().clamp(-information.LARGEST, information.LARGEST)
    posterior, bits = log_posterior.double().exp(), model.information(outputs, log_posterior)
    for query, part in enumerate(log_odds.split(model.outcomes.n_values, dim=1)):
        share = part.softmax(dim=1)  # (B, k, C)
        mixed = (share @ posterior[:, :, None])[:, :, 0]
        wanted = entropy(mixed) - (entropy(share.transpose(1, 2)) * posterior).sum(dim=1)
        torch.testing.assert_close(bits[:, query].double(), wanted, atol=1e-4, rtol=0)


# A world whose answers depend on one another


SHARED_BIT = ColumnQueries([yes_no(f"q{i}") for i in range(5)])


def dependent_world() -> TableIP:
    """Three labels and a hidden bit. The first two queries show the bit, each wrong one time in ten, the third the bit
    where the label is 0 and its contrary elsewhere: it says nothing before the bit is known, and much after. The last
    two depend on the label alone."""
    answers = torch.tensor(list(product((0, 1), repeat=5)))  # (W, Q)
    yes_alone = torch.tensor([[0.9, 0.3], [0.4, 0.4], [0.5, 0.95]])  # (C, 2)
    weights = torch.zeros(len(answers), 3, dtype=torch.double)
    for label, bit in product(range(3), (0, 1)):
        shown = torch.tensor([0.9, 0.9, 0.9 if label == 0 else 0.15])  # P(yes) where the bit is 1
        yes = torch.cat([shown if bit else 1 - shown, yes_alone[label]])
        weights[:, label] += torch.where(answers == 1, yes, 1 - yes).prod(dim=1) / 6
    return TableIP(SHARED_BIT, range(3), 2.0 * answers - 1, weights)


def draw(world: TableIP, n: int, seed: int) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    worlds = 2.0 * world.world[:, 1::2].float() - 1  # (W, Q)
    drawn = torch.multinomial(world.weights.flatten().float(), n, replacement=True, generator=generator)
    return Rows(worlds[drawn // 3], torch.ones(n, 5, dtype=torch.bool), drawn % 3)


def correlation(one: Tensor, other: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([one.double(), other.double()]))[0, 1])


@pytest.mark.slow
def test_it_learns_how_answers_depend_on_one_another() -> None:
    world = dependent_world()
    rows, others = draw(world, 20_000, seed=1), draw(world, 1000, seed=2)
    generator = torch.Generator().manual_seed(3)
    known = torch.rand(1000, 5, generator=generator) < torch.rand(1000, 1, generator=generator) * 0.8
    history = History(others.x, known, known)
    model = trained(SHARED_BIT, rows, AnswerSettings(rank=4), n_classes=3, epochs=10)
    with torch.no_grad():
        exact, learnt, log_posterior = world.scores(history), model.scores(history), world.log_posterior(history)
    left = ~known
    assert correlation(learnt[left], exact[left]) > 0.98
    # Taking answers to be independent given the label, even an exact belief does not help.
    naive = AnswerModel.count(SHARED_BIT, 3, rows, AnswerSettings(rank=0))
    independent = naive.information(torch.zeros(1000, naive.n_outputs), log_posterior)
    assert correlation(independent[left], exact[left]) < correlation(learnt[left], exact[left]) - 0.05
    assert F.mse_loss(learnt[left].double(), exact[left]) < 0.3 * F.mse_loss(independent[left].double(), exact[left])


# Settings, saving and what it is not made for


@pytest.mark.parametrize("wrong", [{"rank": -1}, {"rank": 2**63}, {"n_bins": 1}, {"n_bins": 2**20}, {"smoothing": 0.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="rank of 0 to 16,384, 2 to 16,384 intervals and a smoothing above 0"):
        AnswerSettings(**wrong)


def test_patches_have_no_list_of_answers_and_the_message_says_what_to_do() -> None:
    query_set = PatchQueries((1, 4, 4), size=2)
    rows = Rows(torch.zeros(3, 1, 4, 4), torch.ones(3, len(query_set), dtype=torch.bool), torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match=r"columns, words or concepts\), not PatchQueries.*querier='straight-through'"):
        AnswerModel.count(query_set, 3, rows)


def test_a_config_and_its_tensors_make_the_same_model() -> None:
    query_set = make_columns(MIXED)
    rows = make_rows(query_set, 30, missing=0.2, n_classes=N_CLASSES)
    model, outputs, log_posterior = random_model(query_set, rows, AnswerSettings(rank=3, n_bins=5))
    again = AnswerModel.from_config(query_set, N_CLASSES, model.to_config())
    again.load_state_dict(model.state_dict())
    assert again.settings == model.settings
    assert torch.equal(again.information(outputs, log_posterior), model.information(outputs, log_posterior))
    for query in range(len(query_set)):
        one, other = (own.possible_answers(outputs[:1], log_posterior[:1], query) for own in (model, again))
        assert [(a.text, a.probability) for a in one] == [(a.text, a.probability) for a in other]
