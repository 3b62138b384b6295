"""The algorithm: its gradient, its objective, and its queries judged by exact Information Pursuit."""

import pytest
import torch
import torch.nn.functional as F

from pursuit import ModelSpec
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.inference.incremental import FirstLayerState, HistoryState, SharedInputState, history_state
from pursuit.inference.rollout import pursue
from pursuit.information import AnswerModel, AnswerSettings
from pursuit.networks import MLP, NetworkSettings, SetNetwork
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training import (
    AdamW,
    Batch,
    CarriedHistories,
    EarlyStopping,
    RandomHistories,
    Report,
    RolledOutHistories,
    Stage,
    TrainingRun,
    train,
)
from pursuit.training.rows import Rows
from pursuit.vip import VIP, InformationVIP, TwoQueriers, choose_straight_through
from trained import kept

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
    def learn() -> VIP:
        world, histories = known_world(), CarriedHistories(random_share=0.2)
        torch.manual_seed(0)
        model = VIP.build(ModelSpec(world.query_set, world.classes, MLP((64, 64))))
        train(model, draw(world, 15_000, seed=1), [Stage(6, histories, AdamW(6e-3), batch_size=256)], seed=1)
        return model

    return kept("straight-through", learn)


def test_first_query_is_the_exact_first_query(trained: VIP) -> None:
    world = known_world()
    start = History.start(world.query_set.blank(), N_QUERIES)
    assert int(trained.scores(start).argmax()) == int(world.scores(start).argmax()) == 5


def test_queries_carry_97_percent_of_the_information_of_the_exact_ones(trained: VIP) -> None:
    assert share_of_information(trained) >= 0.97


def share_of_information(model: VIP) -> float:
    """That of the model's queries, on its own chains, over that of the best queries there."""
    world, rows = known_world(), draw(known_world(), 2_000, seed=2)
    history, chosen, best = rows.start(), 0.0, 0.0
    for step in pursue(model, rows.x):
        if int(step.n_answered[0]) == N_QUERIES - 1:
            break  # the last query is not a choice
        information = world.scores(history).masked_fill(history.asked, 0)
        chosen += information.gather(1, step.query[:, None]).sum().item()
        best += information.max(dim=1).values.sum().item()
        history = history.ask(step.query)
    return chosen / best


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
    model = VIP.build(ModelSpec(world.query_set, world.classes, MLP((32,)), shared=True))
    rows = draw(world, 2_000, seed=4)
    train(model, rows, [Stage(5, histories, AdamW(6e-3))], seed=0)
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
    model = VIP.build(ModelSpec(world.query_set, world.classes, MLP((16,)))).eval()
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
    model = VIP.build(ModelSpec(world.query_set, world.classes, MLP((16,)))).eval()
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
    model = VIP.build(ModelSpec(world.query_set, world.classes, MLP((16,)), prior=prior)).eval()
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
    model = VIP.build(ModelSpec(query_set, [0, 1], MLP((4,)), standardised=True))
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
    model = VIP.build(ModelSpec(ColumnQueries([yes_no("a")]), [0, 1]))
    with pytest.raises(ValueError, match="standardised=True"):
        model.standardise(torch.ones(2, 1), torch.ones(2, 1, dtype=torch.bool))


# By information


def by_information(
    rows: Rows,
    network: NetworkSettings,
    histories: CarriedHistories | RandomHistories | RolledOutHistories | None = None,
    epochs: float = 6,
    *,
    shared: bool = False,
    standardised: bool = False,
) -> InformationVIP:
    """Trained on rows of the known world."""
    world = known_world()
    torch.manual_seed(0)
    answer_model = AnswerModel.count(world.query_set, N_CLASSES, rows)
    model = InformationVIP.build(
        ModelSpec(world.query_set, world.classes, network, shared=shared, standardised=standardised),
        answer_model=answer_model,
    )
    if standardised:
        model.standardise(rows.x, rows.available)
    train(model, rows, [Stage(epochs, histories or CarriedHistories(), AdamW(6e-3), batch_size=256)], seed=1)
    return model


@pytest.fixture(scope="module")
def informed() -> InformationVIP:
    return kept("by information", lambda: by_information(draw(known_world(), 15_000, seed=1), MLP((64, 64)), epochs=4))


def test_by_information_it_asks_what_exact_pursuit_asks(informed: InformationVIP) -> None:
    world = known_world()
    start = History.start(world.query_set.blank(), N_QUERIES)
    with torch.no_grad():
        bits = informed.scores(start)
    assert int(bits.argmax()) == 5
    torch.testing.assert_close(bits.double(), world.scores(start), atol=0.02, rtol=0)
    assert informed.score_unit == "bits"
    assert share_of_information(informed) >= 0.99


def test_by_information_its_bits_are_those_of_exact_pursuit(informed: InformationVIP) -> None:
    world, rows = known_world(), draw(known_world(), 500, seed=7)
    expected, exact, history = [], [], rows.start()
    for step in pursue(informed, rows.x):
        if int(step.n_answered[0]) == N_QUERIES:
            break  # there is nothing left to ask
        assert step.bits is not None
        expected.append(step.bits)
        exact.append(world.scores(history).gather(1, step.query[:, None])[:, 0])
        history = history.ask(step.query)
    both = torch.stack([torch.cat(expected).double(), torch.cat(exact)])
    assert torch.corrcoef(both)[0, 1] > 0.98
    assert (both[0] - both[1]).abs().mean() < 0.03


def test_possible_answers_are_those_that_the_bits_are_made_of(informed: InformationVIP) -> None:
    rows = draw(known_world(), 1, seed=8)
    known = torch.arange(N_QUERIES)[None] < 3
    history = History(rows.x, known, known)
    with torch.no_grad():
        bits, belief = informed.scores(history)[0], informed.log_posterior(history)[0].exp()
    for query in range(3, N_QUERIES):
        possible = informed.possible_answers(history, query)
        assert [answer.text for answer in possible] == ["no", "yes"]
        assert not any(answer.posterior.requires_grad for answer in possible)
        mean = sum(answer.probability * answer.posterior for answer in possible)
        torch.testing.assert_close(mean, belief, atol=1e-5, rtol=0)
        left = sum(answer.probability * torch.special.entr(answer.posterior).sum() for answer in possible)
        gained = (torch.special.entr(belief).sum() - left) / torch.tensor(2.0).log()
        torch.testing.assert_close(bits[query], gained, atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "shared", "standardised"),
    [
        (MLP((48,)), True, False),
        (MLP((48,)), False, True),
        (MLP((48,), direct=True), False, False),
        (MLP((48,), direct=True), True, True),
        (SetNetwork(16, "sum", 24, (32,)), False, False),
        (SetNetwork(16, "max", 24, (32,), norm="batch"), True, False),
    ],
)
def test_every_network_learns_by_information(network: NetworkSettings, shared: bool, standardised: bool) -> None:
    rows = draw(known_world(), 5_000, seed=9)
    model = by_information(rows, network, shared=shared, standardised=standardised)
    assert share_of_information(model) >= 0.97
    trunks = [own[0] for own in (model.querier, model.classifier)]  # type: ignore[index]
    assert (trunks[0] is trunks[1]) == shared
    again = InformationVIP.from_config(model.query_set, model.classes, model.to_config()).eval()
    again.load_state_dict(model.state_dict())
    known = torch.rand(50, N_QUERIES, generator=torch.Generator().manual_seed(0)) < 0.4
    history = History(rows.x[:50], known, known)
    with torch.no_grad():
        assert torch.equal(again.scores(history), model.scores(history))


@pytest.mark.slow
@pytest.mark.parametrize("histories", [RandomHistories(), RolledOutHistories()])
def test_other_histories_train_by_information(histories: RandomHistories | RolledOutHistories) -> None:
    rows = draw(known_world(), 4_000, seed=4)
    model = by_information(rows, MLP((32,)), histories)
    assert share_of_information(model) >= 0.95
    with torch.no_grad():
        loss = F.nll_loss(model.log_posterior(History(rows.x, rows.available, rows.available)), rows.y)
    assert loss < 0.7 * torch.tensor(float(N_CLASSES)).log()


def test_the_loss_by_information_is_v_ips_before_and_after_its_query_and_the_surprise_of_answers() -> None:
    world, rows = known_world(), draw(known_world(), 50, seed=5)
    torch.manual_seed(0)
    answer_model = AnswerModel.count(world.query_set, N_CLASSES, rows, AnswerSettings(rank=2))
    model = InformationVIP.build(
        ModelSpec(world.query_set, world.classes, MLP((16,))), answer_model=answer_model
    ).eval()
    available = torch.rand(50, N_QUERIES) < 0.8
    asked = torch.rand(50, N_QUERIES) < 0.3
    asked[0] = True  # there is nothing left to ask
    batch = Batch(rows.x, asked & available, asked, available, rows.y, tau=0.5)
    loss, query = model(batch)
    history = batch.history
    best = model.scores(history).masked_fill(asked, -1).argmax(dim=1)
    assert torch.equal(query[1:], best[1:])
    after = torch.where(torch.arange(50)[:, None] > 0, history.ask(query, available).known, history.known)
    encoded = model.query_set.encode(rows.x, history.known)
    surprise = model.answer_model.loss(model.querier(encoded), rows.x, rows.y, available, asked)
    logits = model.classifier(model.query_set.encode(rows.x, after))
    logits_before = model.classifier(encoded)
    wanted = F.cross_entropy(logits_before, rows.y) + F.cross_entropy(logits, rows.y) + surprise
    torch.testing.assert_close(loss, wanted)


def test_costs_divide_the_information_they_must_be_worth() -> None:
    rows = draw(known_world(), 500, seed=10)
    model = by_information(rows, MLP((16,)), epochs=1)
    history = rows.take(slice(5)).start()
    with torch.no_grad():
        bits = model.scores(history)
        costs = torch.arange(N_QUERIES).float()
        model.query_set = model.query_set.with_costs(dict(zip(model.query_set.index_of, costs.tolist(), strict=True)))
        model.cost_aware = True
        per_cost = model.scores(history)
    assert model.score_unit == "bits per cost"
    torch.testing.assert_close(per_cost[:, 1:], bits[:, 1:] / costs[1:])
    assert (per_cost.argmax(dim=1) == 0).all()  # what is free comes first
    assert per_cost.isfinite().all()


@pytest.mark.parametrize(("n_queries", "state"), [(4, SharedInputState), (30, FirstLayerState)])
@pytest.mark.parametrize("shared", [False, True])
def test_answer_by_answer_it_expects_the_same_bits(n_queries: int, state: type[HistoryState], shared: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    query_set = ColumnQueries([yes_no(f"q{i}") for i in range(n_queries)])
    x = torch.randint(2, (20, n_queries), generator=generator) * 2.0 - 1
    rows = Rows(x, torch.rand(20, n_queries, generator=generator) < 0.8, torch.arange(20) % 3)
    answer_model = AnswerModel.count(query_set, 3, rows)
    model = InformationVIP.build(
        ModelSpec(query_set, range(3), MLP((12,)), shared=shared), answer_model=answer_model
    ).eval()
    history = rows.start()
    with torch.no_grad():
        now = history_state(model, history)
        assert type(now) is state
        for query in torch.randperm(n_queries, generator=generator)[:3].tolist():
            asked = torch.full((20,), query)
            now.ask(asked, rows.available[:, query])
            history = history.record(asked, rows.available[:, query])
            torch.testing.assert_close(now.scores(), model.scores(history), atol=1e-5, rtol=1e-4)


def test_held_out_rows_end_a_training_by_information() -> None:
    """With so few rows the held-out loss soon rises."""
    world, rows = known_world(), draw(known_world(), 60, seed=11)
    torch.manual_seed(0)
    answer_model = AnswerModel.count(world.query_set, N_CLASSES, rows)
    model = InformationVIP.build(ModelSpec(world.query_set, world.classes, MLP((64,))), answer_model=answer_model)
    reports: list[Report] = []
    held_out, run = EarlyStopping(draw(world, 300, seed=12), patience=3, every=1), TrainingRun(on_report=reports.append)
    train(model, rows, [Stage(400, optimizer=AdamW(4e-2), batch_size=32)], seed=0, early_stopping=held_out, run=run)
    assert reports[-1].step < reports[-1].n_steps
    losses = [report.held_out_loss for report in reports if report.held_out_loss is not None]
    assert losses.index(min(losses)) == len(losses) - 1 - 3


# Two queriers that are learnt at once


def two_queriers(standardised: bool = False) -> TwoQueriers:
    world, rows = known_world(), draw(known_world(), 500, seed=9)
    torch.manual_seed(0)
    model = TwoQueriers.build(
        ModelSpec(world.query_set, world.classes, MLP((16,)), standardised=standardised),
        answer_model=AnswerModel.count(world.query_set, N_CLASSES, rows, AnswerSettings(rank=2)),
    )
    if standardised:
        model.standardise(rows.x, rows.available)
    for part in (model.reader, model.querier, model.classifier):  # readers begin at zero
        for parameter in part.parameters():
            torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(parameter.numel()))
    return model.eval()


def test_every_other_chain_is_asked_by_either_querier() -> None:
    model, rows = two_queriers(), draw(known_world(), 51, seed=5)
    generator = torch.Generator().manual_seed(0)
    known = torch.rand(51, N_QUERIES, generator=generator) < 0.3
    available = (torch.rand(51, N_QUERIES, generator=generator) < 0.8) | known
    target = torch.randn(51, N_CLASSES, generator=generator).softmax(dim=1)
    batch = Batch(rows.x, known, known, available, rows.y, target=target, tau=0.5)
    loss, query = model(batch)
    history = batch.history
    through, by_bits = model.asking("straight-through"), model.asking("information")
    for first, one in ((0, through), (1, by_bits)):
        own = History(*(part[first::2] for part in (history.x, history.known, history.asked)))
        wanted = one.scores(own).masked_fill(own.asked, -torch.inf).argmax(dim=1)
        assert torch.equal(query[first::2], wanted)
    assert not torch.equal(query, by_bits.scores(history).masked_fill(known, -torch.inf).argmax(dim=1))

    def cross_entropy(known_answers: torch.Tensor, which: slice) -> torch.Tensor:
        logits = model.classifier(model.query_set.encode(rows.x[which], known_answers[which].float()))
        return F.cross_entropy(logits, target[which])

    after = history.ask(query, available).known
    encoded = model.query_set.encode(rows.x, known.float())[1::2]
    foreseen = model.answer_model.loss(
        model.reader(encoded), rows.x[1::2], rows.y[1::2], available[1::2], known[1::2], None
    )
    wanted_loss = cross_entropy(known, slice(None)) + cross_entropy(after, slice(None, None, 2)) + foreseen
    torch.testing.assert_close(loss, wanted_loss)
    loss.backward()
    for part in (model.querier, model.reader, model.classifier):
        assert all(parameter.grad is not None and parameter.grad.any() for parameter in part.parameters())


@pytest.mark.parametrize("standardised", [False, True])
def test_either_querier_has_the_same_networks_and_can_be_saved(standardised: bool) -> None:
    model, rows = two_queriers(standardised), draw(known_world(), 40, seed=6)
    model.set_temperature(torch.linspace(1, 2, N_QUERIES + 1))
    model.unusual_from.fill_(3.0)
    known = torch.rand(40, N_QUERIES, generator=torch.Generator().manual_seed(0)) < 0.4
    history = History(rows.x, known, known)
    through, by_bits = model.asking("straight-through"), model.asking("information")
    assert (type(through), type(by_bits)) == (VIP, InformationVIP)
    assert through.querier is model.querier
    assert by_bits.querier is through.reader is model.reader
    for one in (through, by_bits):
        assert one.classifier is model.classifier
        assert one.answer_model is model.answer_model
        assert not one.training
        torch.testing.assert_close(one.log_posterior(history), model.log_posterior(history))
        torch.testing.assert_close(one.expected_information(history), model.expected_information(history))
        with torch.no_grad():
            loaded = type(one).from_config(one.query_set, one.classes, one.to_config()).eval()
            loaded.load_state_dict(one.state_dict())
            torch.testing.assert_close(loaded.scores(history), one.scores(history))
            torch.testing.assert_close(loaded.log_posterior(history), one.log_posterior(history))
        assert torch.equal(loaded.temperature, model.temperature)
        assert torch.equal(loaded.unusual_from, model.unusual_from)
    assert not torch.equal(through.scores(history).argmax(dim=1), by_bits.scores(history).argmax(dim=1))


def test_two_queriers_are_trained_at_once() -> None:
    world, rows = known_world(), draw(known_world(), 2_000, seed=4)
    torch.manual_seed(0)
    answer_model = AnswerModel.count(world.query_set, N_CLASSES, rows)
    model = TwoQueriers.build(ModelSpec(world.query_set, world.classes, MLP((32,))), answer_model=answer_model)
    train(model, rows, [Stage(6, CarriedHistories(random_share=0.3))], seed=0)
    with torch.no_grad():
        loss = F.nll_loss(model.log_posterior(History(rows.x, rows.available, rows.available)), rows.y)
    assert loss < 0.7 * torch.tensor(float(N_CLASSES)).log()
