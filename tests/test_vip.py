"""The algorithm: its gradient, its objective, and its queries judged by exact Information Pursuit."""

import pytest
import torch
import torch.nn.functional as F

from pursuit.data.rows import Rows
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.inference.rollout import pursue
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training import Batch, CarriedHistories, RandomHistories, RolledOutHistories, Stage, train
from pursuit.vip import VIP, choose_straight_through

pytestmark = pytest.mark.xdist_group("vip trained")  # they share what is loaded or trained

N_CLASSES, N_QUERIES = 6, 8


def known_world() -> IndependentIP:
    """Six labels and eight yes/no queries, independent given the label; the first query is best by a clear margin."""
    generator = torch.Generator().manual_seed(3)
    yes = torch.rand(N_CLASSES, N_QUERIES, generator=generator).clamp(0.05, 0.95)
    yes[:, 5] = torch.tensor([0.97, 0.97, 0.97, 0.03, 0.03, 0.03])
    query_set = ColumnQueries([yes_no(f"q{i}") for i in range(N_QUERIES)])
    return IndependentIP.from_yes(query_set, list("abcdef"), torch.full((N_CLASSES,), 1 / N_CLASSES), yes)


def draw(world: IndependentIP, n: int, seed: int) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(N_CLASSES, (n,), generator=generator)
    yes = world.likelihood[:, 1::2].float()[y]
    answers = torch.rand(yes.shape, generator=generator) < yes
    return Rows(*world.query_set.answers(answers.numpy().astype(float)), y)


@pytest.fixture(scope="module")
def trained() -> VIP:
    world = known_world()
    torch.manual_seed(0)
    model = VIP.build(world.query_set, world.classes, MLP((64, 64)))
    train(model, draw(world, 20_000, seed=1), [Stage(16, CarriedHistories(random_share=0.2), batch_size=256)], seed=1)
    return model


def test_first_query_is_the_exact_first_query(trained: VIP) -> None:
    world = known_world()
    start = History.start(world.query_set.blank(), N_QUERIES)
    assert int(trained.scores(start).argmax()) == int(world.scores(start).argmax()) == 5


def test_queries_carry_97_percent_of_the_information_of_the_exact_ones(trained: VIP) -> None:
    world, rows = known_world(), draw(known_world(), 2_000, seed=2)
    history, chosen, best = rows.start(), 0.0, 0.0
    for step in pursue(trained, rows.x):
        if int(step.n_answered[0]) == N_QUERIES - 1:
            break  # the last query is not a choice
        information = world.scores(history).masked_fill(history.asked, 0)
        chosen += information.gather(1, step.query[:, None]).sum().item()
        best += information.max(dim=1).values.sum().item()
        history = history.ask(step.query)
    assert chosen / best >= 0.97


def test_classifier_is_close_to_the_exact_posterior(trained: VIP) -> None:
    world, rows = known_world(), draw(known_world(), 2_000, seed=3)
    all_known = History(rows.x, rows.available, rows.available)
    with torch.no_grad():
        gap = F.nll_loss(trained.log_posterior(all_known), rows.y) - F.nll_loss(world.log_posterior(all_known), rows.y)
    assert gap < 0.05


@pytest.mark.parametrize("histories", [RandomHistories(), RolledOutHistories(), CarriedHistories(random_share=0.0)])
def test_all_histories_train(histories: RandomHistories | RolledOutHistories | CarriedHistories) -> None:
    world = known_world()
    torch.manual_seed(0)
    model = VIP.build(world.query_set, world.classes, MLP((32,)), shared=True)
    rows = draw(world, 2_000, seed=4)
    train(model, rows, [Stage(12, histories)], seed=0)
    with torch.no_grad():
        loss = F.nll_loss(model.log_posterior(History(rows.x, rows.available, rows.available)), rows.y)
    assert loss < 0.7 * torch.tensor(float(N_CLASSES)).log()


def test_choice_is_one_hot_and_its_gradient_that_of_the_softmax() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 4, generator=generator, requires_grad=True)
    asked = torch.rand(5, 4, generator=generator) < 0.4
    asked[:, 0] = False
    weight, tau = torch.randn(5, 4, generator=generator), 0.7
    choice = choose_straight_through(scores, asked, tau)
    assert torch.equal(choice.detach(), F.one_hot(scores.masked_fill(asked, -torch.inf).argmax(dim=1), 4).float())
    (gradient,) = torch.autograd.grad((choice * weight).sum(), scores)
    soft = (scores.masked_fill(asked, -torch.inf) / tau).softmax(dim=1)
    (expected,) = torch.autograd.grad((soft * weight).sum(), scores)
    torch.testing.assert_close(gradient, expected)


def test_nothing_is_chosen_once_everything_was_asked() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    choice = choose_straight_through(scores, torch.ones(2, 3, dtype=torch.bool), 0.2)
    assert not choice.any()
    choice.sum().backward()
    assert torch.isfinite(scores.grad).all()  # type: ignore[arg-type]


def test_objective_is_the_loss_after_the_chosen_answer() -> None:
    world = known_world()
    torch.manual_seed(0)
    model = VIP.build(world.query_set, world.classes, MLP((16,))).eval()
    rows = draw(world, 50, seed=5)
    known = torch.rand(50, N_QUERIES) < 0.3
    available = torch.rand(50, N_QUERIES) < 0.8
    known &= available
    batch = Batch(rows.x, known, known, available, rows.y, tau=0.5)
    loss, query = model(batch)
    after = batch.history.ask(query, available)
    logits = model.classifier(model.query_set.encode(after.x, after.known))
    torch.testing.assert_close(loss, F.cross_entropy(logits, rows.y))
    assert not known.gather(1, query[:, None]).any()


def test_labels_are_smoothed_as_the_batch_says() -> None:
    world = known_world()
    model = VIP.build(world.query_set, world.classes, MLP((16,))).eval()
    rows = draw(world, 50, seed=6)
    batch = Batch.of(rows, rows.start())
    query = model(batch).query
    logits = model.classifier(model.query_set.encode(rows.x, F.one_hot(query, N_QUERIES)))
    smoothed = model(batch._replace(label_smoothing=0.2))
    torch.testing.assert_close(smoothed.loss, F.cross_entropy(logits, rows.y, label_smoothing=0.2))
    assert torch.equal(smoothed.query, query)


def test_empty_history_is_believed_by_the_prior() -> None:
    world = known_world()
    prior = torch.tensor([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    model = VIP.build(world.query_set, world.classes, MLP((16,)), prior=prior).eval()
    start = History.start(world.query_set.blank(3), N_QUERIES)
    torch.testing.assert_close(model.log_posterior(start).exp(), prior.expand(3, -1))


def standardised_model(rare: float = 0.05) -> tuple[VIP, Rows]:
    """A model of one even and one rare yes/no query, standardised by rows of which some lack an answer."""
    generator = torch.Generator().manual_seed(0)
    query_set = ColumnQueries([yes_no("even"), yes_no("rare"), yes_no("never answered")])
    yes = torch.rand(4000, 3, generator=generator) < torch.tensor([0.5, rare, 0.5])
    available = torch.rand(4000, 3, generator=generator) < torch.tensor([0.8, 0.8, 0.0])
    x = (yes * 2.0 - 1) * available  # an answer that is not there is zero
    rows = Rows(x, available, torch.zeros(4000, dtype=torch.long))
    model = VIP.build(query_set, [0, 1], MLP((4,)), standardised=True)
    model.standardise(rows.x, rows.available)
    return model.eval(), rows


def test_standardised_answers_have_mean_zero_and_one_spread() -> None:
    model, rows = standardised_model(rare=0.1)
    for query in (0, 1):
        there = rows.available[:, query]
        known = torch.zeros(int(there.sum()), 3).index_fill(1, torch.tensor([query]), 1.0)
        seen = model.network_input(rows.x[there], known)[:, query]
        assert seen.mean() == pytest.approx(0, abs=1e-4)
        assert seen.std() == pytest.approx(1, abs=1e-2)
    assert model.scale[2] == pytest.approx(1 / 0.3)  # it was never answered: no division by zero
    assert model.centre[2] == 0


def test_the_rarest_answers_are_not_seen_without_bounds() -> None:
    model, _ = standardised_model(rare=0.001)
    yes = torch.tensor([[0.0, 1.0, 0.0]])
    assert model.network_input(yes, torch.tensor([[0.0, 1.0, 0.0]]))[0, 1] < 2 / 0.3


def test_standardising_shows_nothing_of_unknown_answers() -> None:
    model, rows = standardised_model()
    known = torch.rand(50, 3, generator=torch.Generator().manual_seed(1)) < 0.5
    other = torch.where(known, rows.x[:50], -rows.x[:50] + 3)
    assert torch.equal(model.network_input(rows.x[:50], known.float()), model.network_input(other, known.float()))


def test_only_a_standardised_model_can_be_standardised() -> None:
    model = VIP.build(ColumnQueries([yes_no("a")]), [0, 1])
    with pytest.raises(ValueError, match="standardised=True"):
        model.standardise(torch.ones(2, 1), torch.ones(2, 1, dtype=torch.bool))
