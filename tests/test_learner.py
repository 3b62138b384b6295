"""Learners made of networks: what all of them share, whatever their objective."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from pursuit.following import follow
from pursuit.history import History
from pursuit.learner import Believer, Learner, NetworkPair
from pursuit.networks import MLP, SetNetwork
from pursuit.queries import ColumnQueries
from pursuit.vip import VIP

KINDS = ["yes_no", "choice", "number", "yes_no"]


def histories(query_set: ColumnQueries, n: int = 9) -> History:
    randomness = torch.Generator().manual_seed(1)
    asked = torch.rand(n, len(query_set), generator=randomness) < 0.6
    known = asked & (torch.rand(asked.shape, generator=randomness) < 0.8)
    known[0] = False
    return History(torch.randn(n, *query_set.answer_shape, generator=randomness), known, asked)


def test_a_learner_must_say_what_it_learns(make_columns: Any) -> None:
    with pytest.raises(TypeError, match="abstract"):
        Learner(make_columns(KINDS), ["a", "b"])  # type: ignore[abstract]


def test_a_believer_learns_from_histories_as_they_are(make_columns: Any) -> None:
    torch.manual_seed(0)
    query_set = make_columns(KINDS)
    model = Believer.build(query_set, ["a", "b", "c"], MLP((8,))).eval()
    history, y = histories(query_set), torch.tensor([0, 1, 2] * 3)
    available = torch.ones(9, len(query_set), dtype=torch.bool)
    loss, query = model(history.x, history.known, history.asked, available, y, 1.0)
    logits = model.classifier(model.see(history.x, history.known))
    torch.testing.assert_close(loss, F.cross_entropy(logits, y))
    assert query.shape == (9,)
    assert torch.equal(model.scores(history), torch.zeros(9, len(query_set)))


def test_where_nothing_is_known_the_prior_is_believed(make_columns: Any) -> None:
    query_set, prior = make_columns(KINDS), torch.tensor([0.2, 0.3, 0.5])
    model = Believer.build(query_set, ["a", "b", "c"], MLP((8,)), prior=prior)
    torch.testing.assert_close(model.log_posterior(histories(query_set))[0].exp(), prior)


@pytest.mark.parametrize("kind", [Believer, VIP])
@pytest.mark.parametrize("network", [MLP((8, 4), 0.5, direct=True), SetNetwork(4, "max", 5, (6,))])
def test_a_config_builds_the_same_again(make_columns: Any, kind: type[Believer], network: Any) -> None:
    torch.manual_seed(0)
    query_set = make_columns(KINDS)
    model = kind.build(query_set, ["a", "b"], network, standardised=True).eval()
    model.standardise(torch.randn(20, *query_set.answer_shape), torch.ones(20, len(query_set), dtype=torch.bool))
    again = kind.from_config(query_set, ["a", "b"], model.to_config())
    again.load_state_dict(model.state_dict())
    again.eval()
    history = histories(query_set)
    assert torch.equal(again.log_posterior(history), model.log_posterior(history))
    assert torch.equal(again.scores(history), model.scores(history))
    assert again.settings == model.settings


def test_networks_of_ones_own_have_no_config(make_columns: Any) -> None:
    query_set = make_columns(KINDS)
    _, classifier = MLP((4,)).build(query_set, 2, False)
    with pytest.raises(ValueError, match=r"made by Believer\.build"):
        Believer(query_set, ["a", "b"], classifier).to_config()


class _Contrary(VIP):
    """Asks last what its querier wants first."""

    def scores(self, history: History) -> torch.Tensor:
        return -super().scores(history)


def test_a_pair_with_scores_of_its_own_is_followed_by_them(make_columns: Any) -> None:
    torch.manual_seed(0)
    query_set = make_columns(KINDS)
    model = _Contrary.build(query_set, ["a", "b"], MLP((8,))).eval()
    assert isinstance(model, NetworkPair)
    history = histories(query_set)
    assert torch.equal(follow(model, history).scores(), model.scores(history))
