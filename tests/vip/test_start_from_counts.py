"""A classifier with a direct path begins as naive Bayes, by what its answer model counted."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.information import AnswerModel, AnswerSettings
from pursuit.networks import MLP
from pursuit.queries import Choice, ColumnQueries, Number, yes_no
from pursuit.training.rows import Rows
from pursuit.vip import VIP, InformationVIP

LABELS = ["a", "b", "c"]
QUERIES = ColumnQueries(
    [
        yes_no("fever"),
        Choice("where", "Where?", ("head", "chest", "belly")),
        yes_no("cough"),
        Choice("how", "How?", ("well", "so-so", "badly", "worst")),
    ]
)


def rows(n: int = 300, missing: float = 0.0, seed: int = 0) -> Rows:
    """Answers that depend on the label, and of which some are missing."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (n,), generator=generator)
    sizes = (2, 3, 2, 4)
    tells, noise = torch.rand(n, 4, generator=generator) < 0.5, torch.randint(12, (n, 4), generator=generator)
    codes = [torch.where(tells[:, i], y, noise[:, i]) % size for i, size in enumerate(sizes)]
    x = torch.zeros(n, 9)
    x[:, 0], x[:, 4] = 2.0 * codes[0] - 1, 2.0 * codes[2] - 1
    x[:, 1:4] = torch.nn.functional.one_hot(codes[1], 3)
    x[:, 5:9] = torch.nn.functional.one_hot(codes[3], 4)
    return Rows(x, torch.rand(n, 4, generator=generator) >= missing, y)


def codes_of(x: Tensor) -> Tensor:
    """The number of the answer to each query: (N, 4)."""
    return torch.stack([(x[:, 0] > 0).long(), x[:, 1:4].argmax(1), (x[:, 4] > 0).long(), x[:, 5:9].argmax(1)], dim=1)


def naive_bayes(learnt_from: Rows, smoothing: float, shown: Rows, known: Tensor) -> Tensor:
    """The posterior (N, C) by hand. Each label is counted with a few rows of the average label, to which one row more
    brings each answer; whoever has no answer counts for none."""
    posterior = learnt_from.prior(3).log().repeat(len(shown), 1).double()
    codes, asked = codes_of(learnt_from.x), codes_of(shown.x)
    for query, n_values in enumerate((2, 3, 2, 4)):
        counts = torch.zeros(n_values, 3, dtype=torch.double)
        for code, label, there in zip(
            codes[:, query].tolist(), learnt_from.y.tolist(), learnt_from.available[:, query].tolist(), strict=True
        ):
            counts[code, label] += there
        counts += smoothing * (counts.sum(dim=1, keepdim=True) + 1) / len(learnt_from)
        likelihood = counts / counts.sum(dim=0)
        posterior += torch.where(known[:, query, None], likelihood[asked[:, query]].log(), 0.0)
    return posterior.softmax(dim=1).float()


def begin(learnt_from: Rows, cls: type[VIP] = InformationVIP, standardised: bool = False, **options: Any) -> VIP:
    torch.manual_seed(0)
    query_set = options.pop("query_set", QUERIES)
    answers = AnswerModel.count(query_set, 3, learnt_from, options.pop("settings", None))
    network = MLP((16, 16), dropout=0.3, direct=True)
    spec = ModelSpec(query_set, LABELS, network, prior=learnt_from.prior(3), standardised=standardised, **options)
    model = cls.build(spec, answer_model=answers)
    if standardised:
        model.standardise(learnt_from.x, learnt_from.available)
    model.start_from_counts(learnt_from)
    return model.eval()


@pytest.mark.parametrize("cls", [VIP, InformationVIP])
@pytest.mark.parametrize(
    ("standardised", "missing", "smoothing"), [(False, 0.0, 0.5), (False, 0.3, 2.0), (True, 0.3, 0.5)]
)
def test_an_untrained_model_believes_what_naive_bayes_believes(
    cls: type[VIP], standardised: bool, missing: float, smoothing: float
) -> None:
    learnt_from, shown = rows(missing=missing), rows(80, missing, seed=1)
    model = begin(learnt_from, cls, standardised, settings=AnswerSettings(smoothing=smoothing))
    some = torch.rand(80, 4, generator=torch.Generator().manual_seed(2)) < 0.6
    for known in (shown.available, shown.available & some, torch.zeros_like(some)):
        with torch.no_grad():
            found = model.log_posterior(History(shown.x, known, known)).exp()
        torch.testing.assert_close(found, naive_bayes(learnt_from, smoothing, shown, known), atol=1e-4, rtol=0)


def test_it_is_better_than_the_prior_before_anything_is_trained() -> None:
    learnt_from, shown = rows(), rows(500, seed=1)
    history = History(shown.x, shown.available, shown.available)
    with torch.no_grad():
        log_posterior = begin(learnt_from).log_posterior(history)
    loss = torch.nn.functional.nll_loss(log_posterior, shown.y)
    assert loss < torch.nn.functional.nll_loss(learnt_from.prior(3).log().expand(500, 3), shown.y) - 0.2


def test_hidden_layers_learn_from_the_first_step() -> None:
    """They add nothing yet, but what reads them has a gradient."""
    model, data = begin(rows()), rows(seed=1)
    logits = model.classifier(model.network_input(data.x, data.available.float()))
    torch.nn.functional.cross_entropy(logits, data.y).backward()
    weight: Any = model.classifier[-1].weight  # type: ignore[index, union-attr]
    assert not weight[:, :16].any()
    assert weight.grad[:, :16].abs().sum() > 0


def test_a_column_without_any_answer_says_nothing() -> None:
    learnt_from, shown = rows(), rows(50, seed=1)
    learnt_from.available[:, 1] = False
    model = begin(learnt_from)
    others = shown.available.clone()
    others[:, 1] = False
    with torch.no_grad():
        one, other = (model.log_posterior(History(shown.x, known, known)) for known in (shown.available, others))
    torch.testing.assert_close(one, other)
    assert one.isfinite().all()


def test_a_label_without_rows_is_improbable_and_not_impossible() -> None:
    """A trial on a part of the rows may lack the rarest of them."""
    learnt_from = rows()
    learnt_from = learnt_from.take((learnt_from.y != 2).nonzero()[:, 0])
    shown = rows(50, seed=1)
    with torch.no_grad():
        found = begin(learnt_from).log_posterior(History(shown.x, shown.available, shown.available))
    assert found.isfinite().all()
    assert (found[:, 2].exp() < 0.1).float().mean() > 0.9


def test_the_evidence_of_a_number_is_nearly_that_of_its_interval() -> None:
    """The code is linear within a piece, where naive Bayes goes by steps: close, and on the same side."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (900,), generator=generator)
    numbers = torch.randn(900, generator=generator).double() + 1.5 * y
    data = numbers[:, None].numpy()
    query_set = ColumnQueries([Number("n", "How many?", edges=tuple(torch.linspace(-3, 6, 9).tolist()))])
    query_set = query_set.rescaled(data)
    learnt_from = Rows(*query_set.answers(data), y)
    model = begin(learnt_from, query_set=query_set)
    history = History(learnt_from.x, learnt_from.available, learnt_from.available)
    with torch.no_grad():
        found = model.log_posterior(history)
    right = torch.stack([-((numbers - 1.5 * label) ** 2) / 2 for label in range(3)], dim=1).log_softmax(dim=1)
    assert (found.argmax(1) == right.argmax(1)).float().mean() > 0.9
    assert float((found.exp() - right.exp()).abs().mean()) < 0.08
