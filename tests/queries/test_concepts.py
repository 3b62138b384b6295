"""Concepts as queries: what a network answers, what people answer, and that training leaves the network alone."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pursuit import ModelSpec
from pursuit.exact import IndependentIP
from pursuit.inference.chain import explain
from pursuit.inference.history import History
from pursuit.inference.stopping import Budget
from pursuit.networks import MLP, SetNetwork
from pursuit.queries import ColumnQueries, ConceptQueries, Query, yes_no
from pursuit.queries.concepts import Scale
from pursuit.sessions.session import Session
from pursuit.training import Stage, train
from pursuit.training.rows import Rows
from pursuit.vip import VIP
from untrained import make_vip

QUERIES = [Query("red", "Is it red?"), Query("big", "Is it big?", cost=2.0), Query("loud", "")]
SCALES: tuple[Scale, ...] = ("probability", "log odds", "yes/no")
PROBABILITIES = np.array([[0.03, 0.83, np.nan], [1.0, 0.5, 0.0]])


class Seeing(nn.Module):
    """A network from images (N, 1, 4, 4) to three logits, with statistics that training mode would move."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm2d(1), nn.Linear(16, 3)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.norm(images.float()).flatten(1))


def seeing(seed: int = 0) -> Seeing:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Seeing()


def test_probabilities_are_the_answers_themselves() -> None:
    x, available = ConceptQueries(QUERIES).answers(PROBABILITIES)
    assert torch.allclose(x, torch.tensor([[-0.94, 0.66, 0.0], [1.0, 0.0, -1.0]]))
    assert available.tolist() == [[True, True, False], [True, True, True]]


def test_log_odds_are_cut_where_they_would_be_endless() -> None:
    x, available = ConceptQueries(QUERIES, scale="log odds").answers(PROBABILITIES)
    assert torch.allclose(x, torch.tensor([[-1.1587, 0.5285, 0.0], [2.0, 0.0, -2.0]]), atol=1e-4)
    assert available.tolist() == [[True, True, False], [True, True, True]]
    with pytest.raises(ValueError, match="scale is one of probability, log odds, yes/no"):
        ConceptQueries(QUERIES, scale="logits")  # type: ignore[arg-type]


def test_hard_answers_are_the_likelier_ones() -> None:
    x, available = ConceptQueries(QUERIES, scale="yes/no").answers(PROBABILITIES)
    assert x.tolist() == [[-1, 1, 0], [1, 1, -1]]
    assert not available[0, 2]
    assert available.sum() == 5


@pytest.mark.parametrize("scale", SCALES)
def test_every_form_of_the_same_probabilities_reads_alike(scale: Scale) -> None:
    queries = ConceptQueries(QUERIES, scale=scale)
    frame = pd.DataFrame(PROBABILITIES, columns=["red", "big", "loud"])[["loud", "red", "big"]].assign(other="text")
    wanted = queries.answers(PROBABILITIES)
    for data in (PROBABILITIES.tolist(), torch.from_numpy(PROBABILITIES), PROBABILITIES.astype(np.float32), frame):
        x, available = queries.answers(data)
        assert torch.allclose(x, wanted.x, atol=1e-6)
        assert torch.equal(available, wanted.available)
    certain = 2.0 if scale == "log odds" else 1.0
    zeros_and_ones = queries.answers([[0, 1, 1]]).x  # where no network could want them
    assert zeros_and_ones.tolist() == [[-certain, certain, certain]]


def test_the_network_answers_for_anything_else() -> None:
    network, images = seeing().train(), torch.rand(600, 1, 4, 4)
    queries = ConceptQueries(QUERIES, network)
    x, available = queries.answers(images)
    assert available.all()
    assert network.training
    with torch.no_grad():
        wanted = 2 * network.eval()(images).sigmoid() - 1
    assert torch.allclose(x, wanted, atol=1e-6)
    assert torch.allclose(queries.answers(images.numpy()).x, x)
    assert torch.equal(
        ConceptQueries(QUERIES, network, scale="yes/no").answers(images).x, torch.where(wanted >= 0, 1.0, -1)
    )
    assert np.allclose(queries.probabilities(images), (x.numpy() + 1) / 2, atol=1e-6)


def test_with_network_attaches_one_to_the_same_queries() -> None:
    bare = ConceptQueries(QUERIES, scale="yes/no", mask=False)
    network, images = seeing(), torch.rand(5, 1, 4, 4)
    attached = bare.with_network(network)
    assert attached.network is network
    assert bare.network is None
    assert attached.to_config() == bare.to_config()
    assert attached.queries == bare.queries
    assert attached.answers(images).x.shape == (5, 3)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mask", [False, True])
def test_queries_are_built_again_from_json(scale: Scale, mask: bool) -> None:
    queries = ConceptQueries(QUERIES, seeing(), scale, mask)
    again = ConceptQueries.from_config(json.loads(json.dumps(queries.to_config())))
    assert again.network is None
    assert (again.queries, again.scale, again.mask) == (queries.queries, scale, mask)
    assert again.input_shape == queries.input_shape
    assert [query.cost for query in again.queries] == [1, 2, 1]
    assert again.queries[2].text == "loud?"
    assert again.queries[0].choices == ("no", "yes")


@given(st.data())
def test_what_is_not_known_never_shows(data: st.DataObject) -> None:
    mask = data.draw(st.booleans())
    queries = ConceptQueries(QUERIES, mask=mask)
    known = torch.tensor([data.draw(st.lists(st.booleans(), min_size=3, max_size=3))])
    x, other = torch.rand(2, 1, 3) * 2 - 1
    other = torch.where(known, x, other)
    seen = queries.encode(x, known)
    assert seen.shape == (1, *queries.input_shape)
    assert torch.equal(seen, queries.encode(other, known))
    assert torch.equal(seen[:, :3], x * known)
    assert not mask or torch.equal(seen[:, 3:], known.float())


def test_answers_in_words() -> None:
    queries, x = ConceptQueries(QUERIES), torch.tensor([-0.94, 0.66, 0.0])
    assert [queries.describe(i, x) for i in range(3)] == ["no (3%)", "yes (83%)", "yes (50%)"]
    odds = ConceptQueries(QUERIES, scale="log odds")
    assert [odds.describe(i, odds.answers(PROBABILITIES).x[1]) for i in range(3)] == [
        "yes (100%)",
        "yes (50%)",
        "no (0%)",
    ]
    assert odds.describe(0, odds.answers(PROBABILITIES).x[0]) == "no (3%)"
    hard = ConceptQueries(QUERIES, scale="yes/no")
    assert [hard.describe(i, hard.answers(PROBABILITIES).x[1]) for i in range(3)] == ["yes", "yes", "no"]


@pytest.mark.parametrize(
    ("answer", "probability"),
    [("yes", 1), ("No", 0), ("y", 1), (True, 1), (False, 0), (1, 1), (0, 0), (0.8, 0.8), ("0.25", 0.25), ("40%", 0.4)],
)
def test_people_answer_yes_no_or_how_likely(answer: object, probability: float) -> None:
    queries = ConceptQueries(QUERIES)
    x = queries.blank()[0]
    queries.tell(x, 1, answer)
    assert torch.allclose(x, torch.tensor([0.0, 2 * probability - 1, 0.0]))
    hard = ConceptQueries(QUERIES, scale="yes/no")
    hard.tell(x, 1, answer)
    assert x[1] == (1 if probability >= 0.5 else -1)


@pytest.mark.parametrize("answer", ["maybe", "", 1.2, "-0.1", "120%", float("nan"), None, [1]])
def test_other_answers_are_refused(answer: object) -> None:
    queries = ConceptQueries(QUERIES)
    with pytest.raises(ValueError, match="'Is it red\\?' is yes, no, or the probability"):
        queries.tell(queries.blank()[0], 0, answer)


@given(st.floats(0, 1), st.sampled_from(SCALES))
def test_a_person_s_probability_is_read_like_one_in_data(probability: float, scale: Scale) -> None:
    queries = ConceptQueries(QUERIES, scale=scale)
    x = queries.blank()[0]
    queries.tell(x, 0, probability)
    assert torch.allclose(x[0], queries.answers(np.full((1, 3), probability)).x[0, 0], atol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.array([[0.1, 1.5, 0.2]]), "hold 1.5. Put logits through a sigmoid"),
        (np.array([[0.1, -3.0, 0.2]]), "from 0 to 1"),
        (np.array([[0.1, np.inf, 0.2]]), "hold inf"),
        (np.zeros((2, 4)), r"probabilities of shape \(N, 3\) are expected, not \(2, 4\)"),
        (np.zeros((2, 1, 4, 4)), "with_network"),
        (np.zeros((0, 3)), "empty"),
        (pd.DataFrame({"red": [0.1], "big": [0.2]}), "lacks 1 of the columns of training: loud"),
        (pd.DataFrame({"red": ["often"], "big": [0.2], "loud": [0.3]}), "write yes as 1"),
    ],
)
def test_wrong_data_are_refused(data: object, message: str, scale: Scale) -> None:
    with pytest.raises(ValueError, match=message):
        ConceptQueries(QUERIES, scale=scale).answers(data)


def test_wrong_networks_are_refused() -> None:
    with pytest.raises(TypeError, match="torch module"):
        ConceptQueries(QUERIES, network="resnet")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\(5, 7\) for 5 rows, but \(5, 3\)"):
        ConceptQueries(QUERIES, nn.Linear(2, 7)).answers(torch.rand(5, 2))
    with pytest.raises(ValueError, match="no rows"):
        ConceptQueries(QUERIES, nn.Linear(2, 3)).answers(torch.rand(0, 2))
    with pytest.raises(ValueError, match="cannot be guessed"):
        ConceptQueries.from_data(PROBABILITIES)
    with pytest.raises(ValueError, match="more than once: red"):
        ConceptQueries([*QUERIES, QUERIES[0]])


def test_exact_pursuit_refuses_probabilities_and_takes_hard_answers() -> None:
    yes = torch.tensor([[0.9, 0.2, 0.5], [0.1, 0.6, 0.5]])
    prior = torch.tensor([0.5, 0.5])
    with pytest.raises(ValueError, match="'red' is answered by a number"):
        IndependentIP.from_yes(ConceptQueries(QUERIES), ["a", "b"], prior, yes)
    hard = ConceptQueries(QUERIES, scale="yes/no")
    columns = ColumnQueries([yes_no(query.name, query.text) for query in QUERIES])
    rows = np.array([[0.9, 0.1, 0.7], [0.2, 0.9, np.nan]])
    believed = []
    for queries, data in ((hard, rows), (columns, [[1, 0, 1], [0, 1, None]])):
        pursuer = IndependentIP.from_yes(queries, ["a", "b"], prior, yes)
        x, available = queries.answers(data)
        believed.append(pursuer.log_posterior(History(x, available, available)))
    assert torch.equal(*believed)


@pytest.mark.parametrize("network", [MLP(hidden=(8,)), SetNetwork(embedding=4, width=8, hidden=(8,))])
def test_training_leaves_the_concept_network_alone(network: MLP | SetNetwork) -> None:
    concepts, images = seeing().train(), torch.rand(64, 1, 4, 4)
    before = copy.deepcopy(concepts.state_dict())
    query_set = ConceptQueries(QUERIES, concepts)
    assert not list(query_set.parameters())
    assert not query_set.state_dict()
    model = VIP.build(ModelSpec(query_set, ["a", "b"], network))
    assert not any(name.startswith("query_set.") for name in model.state_dict())
    rows = Rows(*query_set.answers(images), torch.arange(64) % 2)
    train(model, rows, [Stage(4, batch_size=16)], seed=0)
    after = concepts.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.grad is None for parameter in concepts.parameters())


def test_chains_and_sessions_speak_of_probabilities() -> None:
    model = make_vip(ConceptQueries(QUERIES), dtype=torch.float)
    chain = explain(model, *model.query_set.answers(PROBABILITIES), Budget(3))[1]
    answers = {step.name: step.answer for step in chain.steps}
    assert answers == {"red": "yes (100%)", "big": "yes (50%)", "loud": "no (0%)"}
    session = Session(model)
    assert session.ask().choices == ("no", "yes")
    session.tell("70%")
    session.tell("no")
    assert [step.answer for step in session.chain.steps] == ["yes (70%)", "no (0%)"]
    assert Session.from_json(session.to_json(), model).posterior == session.posterior
