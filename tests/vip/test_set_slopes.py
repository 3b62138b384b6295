"""A set network with a maximum gives every query a slope, as that of the authors' released code does."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit import ModelSpec
from pursuit.methods.gdfs import GDFS
from pursuit.networks import SetNetwork
from pursuit.queries import Choice, ColumnQueries, Number, yes_no
from pursuit.training import Batch
from pursuit.vip import VIP, choose_straight_through

MIXED = ColumnQueries(
    [yes_no("p"), Choice("c", "Which c?", ("r", "g", "b")), yes_no("q"), Number("n", "How many?"), yes_no("r")]
)


def released_logits(classifier: nn.Module, query_set: ColumnQueries, x: Tensor, known: Tensor, query: Tensor) -> Tensor:
    """The authors' set network, which has one feature for each query, written for any number of them: [a, a e, b] of
    all answers is mixed by the weights of their queries, embedded, and compared with the answers in the history."""
    (encoder, *layers), head = classifier  # type: ignore[misc]
    owner = F.one_hot(query_set.own_inputs.of_query, len(query_set)).to(x.dtype)  # (F, Q)
    members = torch.cat([x[:, :, None], x[:, :, None] * encoder.embedding], dim=2)  # (B, F, 1 + embedding)
    members = torch.einsum("bfe,fq->bqe", members, owner)
    members = torch.cat([members, encoder.bias.expand(len(x), -1, 1)], dim=2)  # (B, Q, 1 + embedding + 1)
    before = (known[:, :, None] * encoder.linear(members)).amax(dim=1)
    mixture = encoder.linear(torch.bmm(query[:, None], members).squeeze(1))
    logits = torch.maximum(before, mixture).relu()
    for layer in (*layers, head):
        logits = layer(logits)
    return logits


@pytest.mark.parametrize("shared", [False, True])
def test_a_set_network_with_a_maximum_has_the_released_slope_for_every_query(shared: bool) -> None:
    torch.manual_seed(0)
    settings = SetNetwork(5, "max", 40, (16, 8), norm="batch")
    model = VIP.build(ModelSpec(MIXED, range(3), settings, shared=shared)).double().train()
    nn.init.normal_(model.classifier[0][0].bias)  # type: ignore[index, arg-type]
    n_rows, n_queries = 12, len(MIXED)
    x, y = torch.randn(n_rows, *MIXED.answer_shape).double(), torch.randint(3, (n_rows,))
    known = torch.zeros(n_rows, n_queries, dtype=torch.bool)
    known[torch.arange(4, n_rows), torch.arange(4, n_rows) % n_queries] = True  # four empty histories
    scores = torch.randn(n_rows, n_queries, dtype=torch.double, requires_grad=True)
    batch = Batch(x, known, known, torch.ones_like(known), y)

    query = choose_straight_through(scores, known, 0.7)

    def slopes(loss: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss, [query, scores, *model.classifier.parameters()], retain_graph=True)

    loss = model.loss_after(query, batch).loss
    reference = F.cross_entropy(released_logits(model.classifier, MIXED, x, known.double(), query), y)
    together = F.cross_entropy(model.classifier(model.network_input(x, known + query)), y)
    for other in (reference, together):  # a choice is hard, so that the mixture is the chosen answer
        torch.testing.assert_close(loss.double(), other, rtol=1e-5, atol=1e-6)
    (of_query, *found), (released, *expected), (unmixed, *_) = slopes(loss), slopes(reference), slopes(together)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
    # What is the same for all queries is lost in the softmax: there, the released layer's bias has no weight.
    difference = (of_query - released)[~known].reshape(-1)
    of_row = (of_query - released).masked_fill(known, 0).sum(dim=1, keepdim=True) / (~known).sum(dim=1, keepdim=True)
    torch.testing.assert_close(difference, of_row.expand(known.shape)[~known], rtol=1e-3, atol=1e-6)
    is_rival = ~known & (query == 0)
    assert of_query[is_rival].all(), "every query that was not asked has a slope"
    assert not unmixed[is_rival].any(), "a maximum over single answers has none for those that are not chosen"


def test_a_mixture_holds_only_answers_that_there_are() -> None:
    torch.manual_seed(0)
    model = VIP.build(ModelSpec(MIXED, range(3), SetNetwork(5, "max", 40, (8,)))).eval()
    x, y = torch.randn(6, *MIXED.answer_shape), torch.randint(3, (6,))
    known, available = torch.zeros(6, 5, dtype=torch.bool), torch.ones(6, 5, dtype=torch.bool)
    available[:, 2] = False
    scores = torch.randn(6, 5, requires_grad=True)
    query = choose_straight_through(scores, known, 0.7)
    changed = x.clone()
    changed[:, MIXED.own_inputs.features(2)] += 9
    losses = [model.loss_after(query, Batch(one, known, known, available, y)).loss for one in (x, changed)]
    slopes = [torch.autograd.grad(loss, scores, retain_graph=True)[0] for loss in losses]
    assert torch.equal(losses[0], losses[1])
    assert torch.equal(slopes[0], slopes[1])
    assert slopes[0].any()


def test_concrete_samples_are_mixed_too() -> None:
    torch.manual_seed(0)
    model = GDFS.build(ModelSpec(MIXED, range(3), SetNetwork(5, "max", 40, (8,), norm="layer"))).eval()
    (encoder, *_), _ = model.classifier  # type: ignore[misc]
    nn.init.normal_(encoder.bias)
    x, known = torch.randn(6, *MIXED.answer_shape), torch.zeros(6, 5)
    known[:, 0] = 1
    shares = (torch.rand(6, 5) * (1 - known)).softmax(dim=1).requires_grad_()
    encoded = model.partial_input(x, known, shares)
    slope, offset = encoder.slope_and_offset()
    expected = torch.maximum(encoder(MIXED.encode(x, known)), MIXED.encode(x, shares) @ torch.cat([slope, offset]))
    torch.testing.assert_close(encoder(encoded), expected)
    model.classifier(encoded).logsumexp(dim=1).sum().backward()
    assert shares.grad is not None
    assert shares.grad.all()
