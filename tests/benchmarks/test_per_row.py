"""The plain implementation and the library do the same maths: a comparison of speed is one of nothing else."""

import copy
from itertools import islice

import pytest
import torch
from benchmarks.per_row import PerRow, confident
from torch import Tensor

from pursuit import ModelSpec
from pursuit.evaluation.curves import evaluate
from pursuit.inference.chain import explain
from pursuit.inference.stopping import Budget, Confidence
from pursuit.networks import MLP, NetworkSettings, PaperConv, SetNetwork
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet, yes_no
from pursuit.sessions.session import Session
from pursuit.training import SGD, Adam, AdamW, Batch
from pursuit.training.rows import Rows
from pursuit.training.samplers import random_histories, rolled_out_histories
from pursuit.vip import VIP

N_CLASSES = 4


def columns(n: int, mask: bool) -> ColumnQueries:
    return ColumnQueries([yes_no(f"q{i}") for i in range(n)], mask)


CASES: dict[str, tuple[QuerySet, NetworkSettings, bool]] = {
    "vector": (columns(9, mask=False), MLP((16, 8)), False),
    "set, max": (columns(9, mask=True), SetNetwork(5, "max", 7, (16, 8), norm="batch"), True),
    "set, sum, two trunks": (columns(9, mask=True), SetNetwork(5, "sum", 7, (16, 8), norm="layer"), False),
    "pixels": (PatchQueries((1, 3, 3), size=1, mask=False), MLP((16,)), False),
    "overlapping patches": (PatchQueries((1, 5, 5), size=3, mask=False), MLP((16,)), True),
}
every_case = pytest.mark.parametrize("case", list(CASES))


def build(case: str) -> VIP:
    query_set, network, shared = CASES[case]
    torch.manual_seed(0)
    model = VIP.build(
        ModelSpec(query_set, range(N_CLASSES), network, shared=shared, prior=torch.tensor([0.4, 0.3, 0.2, 0.1]))
    )
    with torch.no_grad():
        model.classifier[1].weight.mul_(8)  # opinions strong enough for rows to stop at different steps
    return model.double()


def draw(query_set: QuerySet, n: int, with_known: bool = False, seed: int = 1) -> Rows:
    """Random rows of -1 and 1, of which some initially know one answer."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(2, (n, *query_set.answer_shape), generator=generator).double() * 2 - 1
    initially_known = torch.zeros(n, len(query_set), dtype=torch.bool)
    initially_known[torch.arange(n), torch.randint(len(query_set), (n,), generator=generator)] = True
    y = torch.randint(N_CLASSES, (n,), generator=generator)
    return Rows(x, torch.ones_like(initially_known), y, initially_known if with_known else None)


def assert_same(found: Tensor, expected: Tensor, what: str = "loss") -> None:
    """Alike but for the rounding of single precision, in which the library has scores and logits."""
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=1e-6, msg=lambda m: f"{what}: {m}")


def gradients(model: VIP, loss: Tensor, part: str = "") -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None and name.startswith(part)}


def losses(model: VIP, rows: Rows) -> tuple[Tensor, Tensor]:
    """Of the library and of the plain implementation, on the same random histories."""
    k = torch.arange(len(rows)) % len(model.query_set)
    history = random_histories(rows, k, torch.Generator().manual_seed(2))
    loss = model(Batch.of(rows, history)._replace(tau=0.7)).loss
    return loss, PerRow(model).loss(rows.x, rows.y, history.asked.double(), 0.7)


@pytest.mark.parametrize("case", [name for name in CASES if name != "overlapping patches"])
def test_same_histories_give_the_same_loss_and_gradients(case: str) -> None:
    model = build(case).train()
    ours, plain = losses(model, draw(model.query_set, 24))
    assert_same(plain, ours)
    expected, found = gradients(model, ours), gradients(model, plain)
    assert found.keys() == expected.keys()
    assert any(gradient.abs().max() > 1e-4 for name, gradient in expected.items() if name.startswith("querier"))
    for name, gradient in expected.items():
        assert_same(found[name], gradient, name)


def test_where_patches_overlap_loss_and_gradients_of_the_classifier_are_the_same() -> None:
    """The paper clips pixels that are seen twice, and with them the querier's gradient; the library is finer there."""
    torch.manual_seed(0)
    query_set = PatchQueries((1, 28, 28), size=3, mask=False)
    model = VIP.build(ModelSpec(query_set, range(N_CLASSES), PaperConv())).double().train()
    ours, plain = losses(model, draw(query_set, 4))
    assert_same(plain, ours)
    expected, found = gradients(model, ours, "classifier"), gradients(model, plain, "classifier")
    for name, gradient in expected.items():
        assert_same(found[name], gradient, name)


@every_case
def test_a_history_looked_back_to_is_the_one_rolled_out(case: str) -> None:
    model = build(case).eval()
    rows = draw(model.query_set, 20, with_known=True)
    k = torch.arange(20) % (len(model.query_set) - 1)
    ours = rolled_out_histories(rows, k, model)
    assert rows.initially_known is not None
    plain = PerRow(model).first_queries(rows.x, rows.initially_known.double(), k)
    assert torch.equal(plain, ours.asked.double())
    assert torch.equal(plain.sum(dim=1), (k + 1).double())


def middling_level(model: VIP, rows: Rows) -> float:
    """A confidence that about half of the rows have reached after three queries."""
    chains = explain(model, rows.x, rows.available, Budget(3), rows.initially_known)
    beliefs = [[chain.prior, *(step.posterior for step in chain.steps)] for chain in chains]
    most = [max(float(belief.max()) for belief in of_row) for of_row in beliefs]
    return sorted(most)[len(most) // 2] - 1e-6


@every_case
@pytest.mark.parametrize("with_known", [False, True])
def test_chains_stops_and_accuracy_are_the_same(case: str, with_known: bool) -> None:
    model = build(case).eval()
    rows, limit = draw(model.query_set, 25, with_known), len(model.query_set) - with_known
    level = middling_level(model, rows)
    plain = PerRow(model).evaluate(rows, limit, confident(level), batch_size=7)
    chains = explain(model, rows.x, rows.available, Confidence(level), rows.initially_known)
    assert len({len(chain) for chain in chains}) > 1, "rows that all stop together prove little"
    assert plain.n_queries.tolist() == [len(chain) for chain in chains]
    assert plain.prediction.tolist() == [chain.prediction for chain in chains]
    for chain, queries in zip(chains, plain.chain.tolist(), strict=True):
        assert queries[: len(chain)] == [step.query for step in chain.steps]
    stop = evaluate(model, rows, Confidence(level)).at_stop
    assert stop is not None
    assert stop.mean_asked == pytest.approx(plain.n_queries.double().mean().item())
    assert stop.accuracy == pytest.approx((plain.prediction == rows.y).double().mean().item())


def test_a_session_asks_and_believes_the_same() -> None:
    model = build("set, max").eval()
    row = draw(model.query_set, 1)
    live = Session(model)
    for query, belief in PerRow(model).session(row.x, torch.zeros(1, 9, dtype=torch.double), 6):
        assert live.ask().query == query
        live.tell(int(row.x[0, query] > 0))
        assert list(live.posterior.values()) == pytest.approx(belief.sort(descending=True).values.tolist(), abs=1e-6)


def test_random_histories_have_all_lengths_but_that_of_everything_and_keep_what_is_initially_known() -> None:
    model = build("vector")
    known = torch.zeros(3000, 9)
    known[:, 4] = 1
    torch.manual_seed(0)
    masks = PerRow(model).random_masks(known)
    assert (masks[:, 4] == 1).all()
    # Besides what is initially known; 7 stands for 7 and 8, because one query is always left.
    asked = masks.sum(dim=1) - 1
    shares = torch.bincount(asked.long(), minlength=9) / len(asked)
    assert shares.tolist() == pytest.approx([1 / 9] * 7 + [2 / 9, 0], abs=0.03)
    others = masks[:, [0, 1, 2, 3, 5, 6, 7, 8]].mean(dim=0)
    assert others.tolist() == pytest.approx([float(others.mean())] * 8, abs=0.05)


@pytest.mark.slow  # of what speed is compared with, not of the library
@pytest.mark.parametrize(
    ("optimizer", "is_biased"),
    [(Adam(1e-2, amsgrad=True), False), (Adam(1e-2, amsgrad=True), True), (AdamW(1e-2), False), (SGD(0.05), True)],
)
def test_plain_training_learns(optimizer: Adam | AdamW | SGD, is_biased: bool) -> None:
    """The label is which of the first two answers are yes, so that two queries tell everything."""
    model = build("vector").float()
    rows = draw(model.query_set, 256)
    labelled = Rows(rows.x.float(), rows.available, ((rows.x[:, :2] > 0) * torch.tensor([2, 1])).sum(dim=1))
    reference = PerRow(model)

    def masks(x: Tensor, known: Tensor) -> Tensor:
        return reference.biased_masks(x, known, 4) if is_biased else reference.random_masks(known)

    before = copy.deepcopy(model.querier.state_dict())
    found = list(islice(reference.training(labelled, 64, optimizer, masks), 80))
    assert sum(found[-20:]) < 0.6 * sum(found[:5]) * 4
    assert any(not torch.equal(before[name], now) for name, now in model.querier.state_dict().items())


@pytest.mark.parametrize(
    "query_set", [columns(4, mask=True), PatchQueries((1, 4, 4), size=2, stride=2, mask=False)], ids=["mask", "stride"]
)
def test_what_the_paper_does_not_have_is_refused(query_set: QuerySet) -> None:
    with pytest.raises(ValueError, match="stride 1"):
        PerRow(VIP.build(ModelSpec(query_set, range(2), MLP((4,)))))
