"""Naive Bayes: counted probabilities give the posterior and the information of the definition, unit by unit."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.inference.incremental import history_state
from pursuit.inference.pursuer import PossibleAnswer, choose
from pursuit.methods import METHODS, naive_bayes
from pursuit.methods.naive_bayes import NaiveBayesIP, NaiveBayesIPClassifier, NaiveBayesSettings
from pursuit.queries import ColumnQueries, Number, PatchQueries, QuerySet, yes_no
from pursuit.sessions.session import Session
from pursuit.training.rows import Rows
from pursuit.training.samplers import random_histories
from untrained import make_columns, make_rows

LETTERS = ["a", "b", "c"]


def test_many_rows_of_a_known_world_give_exact_pursuit() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, prior = ColumnQueries([yes_no(f"q{i}") for i in range(8)]), torch.tensor([0.5, 0.3, 0.2])
    yes = torch.rand(3, 8, generator=generator)
    y = torch.multinomial(prior, 40_000, replacement=True, generator=generator)
    x = 2 * (torch.rand(len(y), 8, generator=generator) < yes[y]).float() - 1
    rows = Rows(x, torch.rand(x.shape, generator=generator) < 0.8, y)
    exact, counted = IndependentIP.from_yes(queries, LETTERS, prior, yes), NaiveBayesIP.count(queries, LETTERS, rows)
    some = rows.take(slice(200))
    for k in range(4):
        history = random_histories(some, torch.full((200,), k), generator)
        torch.testing.assert_close(
            counted.log_posterior(history).exp(), exact.log_posterior(history).exp(), atol=0.05, rtol=0
        )
        expected = exact.scores(history).masked_fill(history.asked, 0)
        found = counted.scores(history).masked_fill(history.asked, 0)
        torch.testing.assert_close(found, expected, atol=0.03, rtol=0)
        same = choose(found, history.asked) == choose(expected, history.asked)
        assert same.float().mean() > 0.9


def test_answers_are_counted_where_they_exist() -> None:
    queries = ColumnQueries([yes_no("p"), yes_no("q")])
    x, available = queries.answers([[1, 0], [1, np.nan], [0, 1], [np.nan, 1], [0, 0]])
    rows = Rows(x, available, torch.tensor([0, 0, 0, 1, 1]))
    model = NaiveBayesIP.count(queries, ["a", "b"], rows, NaiveBayesSettings(smoothing=0.5))
    likelihood = model.log_likelihood.exp().T  # labels by (p no, p yes, q no, q yes)
    expected = torch.tensor([[1.5 / 4, 2.5 / 4, 0.5, 0.5], [0.75, 0.25, 0.5, 0.5]], dtype=torch.double)
    torch.testing.assert_close(likelihood, expected)


def brute_force(model: NaiveBayesIP, known_units: Tensor, x: Tensor, units: list[int]) -> tuple[Tensor, float]:
    """Posterior and information (bits) about the label in the unknown ones of `units`, summed over all their values."""
    likelihood = model.log_likelihood.exp()  # (V, C)
    joint = model.log_prior.exp().clone()
    holds = model.holds(x[None], known_units[None])[0]
    for value in holds.nonzero()[:, 0]:
        joint *= likelihood[value]
    posterior = joint / joint.sum()
    unknown = [unit for unit in units if not known_units[unit]]
    values = [(model.outcomes.unit_of_value == unit).nonzero()[:, 0].tolist() for unit in unknown]
    information = 0.0
    for outcome in itertools.product(*values):
        with_label = posterior * likelihood[list(outcome)].prod(dim=0)
        answer = with_label.sum()
        information += float((with_label * (with_label / answer / posterior).log2()).sum())
    return posterior, information


def images(query_set: PatchQueries, n_rows: int) -> Rows:
    """Labels that are seen in the brightness of some pixels."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (n_rows,), generator=generator)
    bright = torch.rand(3, *query_set.image_shape, generator=generator)
    pixels = (torch.rand(n_rows, *query_set.image_shape, generator=generator) + bright[y]) / 2
    return Rows(*query_set.answers(pixels.numpy()), y)


PATCHES = {
    "binary": PatchQueries((1, 4, 4), 2, threshold=0.5),
    "four shades": PatchQueries((1, 3, 4), 2),
    "apart": PatchQueries((1, 5, 5), 2, stride=3, threshold=0.5),
    "channels": PatchQueries((2, 2, 3), 1, threshold=0.5),
    "pixels": PatchQueries((1, 3, 3), 1),
}


@pytest.mark.parametrize("kind", PATCHES)
@pytest.mark.parametrize("chunk_bytes", [1, 2**28])
def test_information_of_patches_is_that_of_pixels_not_seen_yet(
    kind: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naive_bayes, "CHUNK_BYTES", chunk_bytes)
    query_set = PATCHES[kind]
    rows = images(query_set, 60)
    model = NaiveBayesIP.count(query_set, LETTERS, rows)
    some = rows.take(slice(4))
    history = random_histories(some, torch.tensor([0, 1, 2, 3]), torch.Generator().manual_seed(1))
    posterior, scores = model.log_posterior(history).exp(), model.scores(history)
    for row in range(4):
        seen = torch.zeros(query_set.image_shape, dtype=torch.bool)
        for query in history.known[row].nonzero()[:, 0].tolist():
            top, left = query_set.patches.corner(query)
            seen[:, top : top + query_set.patches.size, left : left + query_set.patches.size] = True
        for query in range(len(query_set)):
            units = model.units_of_query[query].tolist()
            expected, information = brute_force(model, seen.flatten(), some.x[row], units)
            torch.testing.assert_close(posterior[row], expected)
            assert float(scores[row, query]) == pytest.approx(information, abs=1e-9)


def test_information_of_queries_of_ones_own_is_that_of_units_not_seen_yet(pairs: Any, pair_rows: Rows) -> None:
    model = NaiveBayesIP.count(pairs, LETTERS, pair_rows)
    assert model.outcomes.n_values == [2, 3, 8, 8, 2]
    some = pair_rows.take(slice(12))
    history = random_histories(some, torch.arange(12) % 4, torch.Generator().manual_seed(1))
    posterior, scores = model.log_posterior(history).exp(), model.scores(history)
    for row in range(12):
        seen = torch.zeros(5, dtype=torch.bool)
        seen[pairs.units.of_query[history.known[row]].flatten()] = True
        for query, units in enumerate(pairs.units.of_query.tolist()):
            expected, information = brute_force(model, seen, some.x[row], units)
            torch.testing.assert_close(posterior[row], expected)
            assert float(scores[row, query]) == pytest.approx(information, abs=1e-9)


def mixed() -> ColumnQueries:
    return make_columns(["yes_no", "number", "choice", "single", "number"])


@pytest.mark.parametrize("name", ["columns", "pairs", *PATCHES])
def test_answer_by_answer_the_same_evidence_is_added(name: str, pairs: Any, pair_rows: Rows) -> None:
    query_set: QuerySet = {"columns": mixed(), "pairs": pairs, **PATCHES}[name]
    rows = pair_rows.take(slice(30)) if name == "pairs" else make_rows(query_set, 30, missing=0.3, reported=0.2)
    model = NaiveBayesIP.count(query_set, LETTERS, rows)
    history = rows.start()
    state = history_state(model, History.start(rows.x[:0], len(query_set))).restart(history)
    for step in range(3):
        torch.testing.assert_close(state.scores(), model.scores(history))
        query = choose(torch.rand(history.asked.shape, generator=torch.Generator().manual_seed(step)), history.asked)
        answered = rows.available.gather(1, query[:, None])[:, 0] & ~history.asked.gather(1, query[:, None])[:, 0]
        state.ask(query, answered)
        history = history.record(query, answered)
        torch.testing.assert_close(state.log_posterior(), model.log_posterior(history))
        kept = torch.arange(len(history) - 5)
        state.keep(kept)
        history, rows = history.rows(kept), rows.take(kept)
        assert torch.equal(state.asked, history.asked)


def test_numbers_are_put_between_quantiles() -> None:
    queries = ColumnQueries([Number("n", "How many?"), Number("same", "Always?"), Number("none", "Never?")])
    numbers = np.stack([np.arange(100.0) / 50 - 1, np.ones(100), np.full(100, np.nan)], axis=1)
    x, available = queries.answers(numbers)
    rows = Rows(x, available, (torch.arange(100) >= 50).long())
    model = NaiveBayesIP.count(queries, ["low", "high"], rows, NaiveBayesSettings(n_bins=4))
    assert model.outcomes.n_values == [4, 1, 1]
    counts = model.holds(x, available).sum(dim=0)
    assert (counts[:4] - 25).abs().max() <= 1
    scores = model.scores(History.start(x[:1], 3))[0]
    assert float(scores[0]) > 0.5 * math.log(2)
    assert scores[1:].tolist() == pytest.approx([0, 0], abs=1e-12)


def test_what_is_not_known_is_never_read() -> None:
    for query_set in (mixed(), PATCHES["binary"]):
        rows = make_rows(query_set, 20, missing=0.5)
        model = NaiveBayesIP.count(query_set, LETTERS, rows)
        known = torch.zeros_like(rows.available)
        known[:, 0] = True
        other = make_rows(query_set, 20, seed=1).x.flatten(1)
        is_known = query_set.units.known(known)[:, query_set.units.of_feature]
        other[is_known] = rows.x.flatten(1)[is_known]
        one, two = History(rows.x, known, known), History(other.view_as(rows.x), known, known)
        assert torch.equal(model.log_posterior(one), model.log_posterior(two))
        assert torch.equal(model.scores(one), model.scores(two))


def test_the_estimator_learns_saves_and_loads(tmp_path: Path) -> None:
    randomness = np.random.default_rng(0)
    y = randomness.choice(["flu", "cold"], 150)
    heat = np.where(y == "flu", 39.0, 37.0) + randomness.normal(0, 0.5, 150)
    place = np.where(y == "flu", "home", randomness.choice(["home", "work", "bus"], 150))
    X = pd.DataFrame({"noise": randomness.random(150) < 0.5, "place": place, "heat": heat})
    X.loc[::7, "heat"] = np.nan
    settings = NaiveBayesSettings(smoothing=0.5, n_bins=5)
    model = NaiveBayesIPClassifier(settings=settings).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.explain(X)[1].steps[0].name == "heat"
    model.save(tmp_path / "model")
    again = NaiveBayesIPClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.settings == again.model_.settings == settings
    session = again.session()
    assert session.ask().name == "heat"
    session.tell(39.5)
    assert session.prediction == "flu"


def test_what_it_cannot_do_is_refused(pairs: Any, pair_rows: Rows) -> None:
    images = np.zeros((4, 1, 8, 8))
    with pytest.raises(ValueError, match="3x3"):
        NaiveBayesIPClassifier(PatchQueries((1, 8, 8), 4)).fit(images, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="smoothing"):
        NaiveBayesSettings(smoothing=0)
    with pytest.raises(ValueError, match="n_bins"):
        NaiveBayesSettings(n_bins=1)
    for units, wrong in (([2, 1, 1, 1, 3, 3, 0], "unit 3 .* share, yes_no"), ([2, 1, 1, 1, 3, 5, 0], "unit 4 .* none")):
        query_set = type(pairs)()
        query_set.set_units(torch.tensor(units), pairs.units.of_query, pairs.units.feature_types)
        with pytest.raises(ValueError, match=f"one by one.*{wrong}"):
            NaiveBayesIP.count(query_set, LETTERS, pair_rows)


def test_costs_matter_where_they_should(tmp_path: Path) -> None:
    names = [query.name for query in mixed().queries]
    query_set = mixed().with_costs({names[0]: 3.0, names[1]: 0.0, names[4]: 0.5})
    rows = make_rows(query_set, 40, missing=0.2)
    blind = NaiveBayesIP.count(query_set, LETTERS, rows)
    aware = NaiveBayesIP.count(query_set, LETTERS, rows, NaiveBayesSettings(cost_aware=True))
    assert (blind.score_unit, aware.score_unit) == ("bits", "bits per cost")
    history = rows.start()
    bits, scores = blind.scores(history), aware.scores(history)
    paid = [0, 2, 3, 4]
    torch.testing.assert_close(scores[:, paid], bits[:, paid] / query_set.costs[paid])
    assert torch.equal(scores.argmax(dim=1), torch.ones(40, dtype=torch.long))
    torch.testing.assert_close(history_state(aware, history).scores(), scores)
    estimator = METHODS["naive-bayes"].build(query_set, cost_aware=True)
    assert estimator.settings == NaiveBayesSettings(cost_aware=True)


def believes_the_mean(model: NaiveBayesIP, history: History, query: int) -> tuple[PossibleAnswer, ...]:
    """The possible answers, once their probabilities sum to one and the belief before is the mean of those after."""
    answers = model.possible_answers(history, query)
    probability = torch.tensor([answer.probability for answer in answers], dtype=torch.double)
    assert float(probability.sum()) == pytest.approx(1)
    after = torch.stack([answer.posterior for answer in answers])
    torch.testing.assert_close(probability @ after, model.log_posterior(history)[0].exp())
    doubt = [float(torch.special.entr(belief).sum()) / math.log(2) for belief in (probability @ after, *after)]
    information = doubt[0] - sum(p * d for p, d in zip(probability.tolist(), doubt[1:], strict=True))
    assert float(model.scores(history)[0, query]) == pytest.approx(information, abs=1e-9)
    return answers


def test_possible_answers_of_columns_split_the_belief() -> None:
    query_set = mixed()
    rows = make_rows(query_set, 60, missing=0.3)
    model = NaiveBayesIP.count(query_set, LETTERS, rows, NaiveBayesSettings(n_bins=3))
    some = rows.take(slice(6))
    histories = random_histories(some, torch.tensor([0, 1, 2, 3, 4, 2]), torch.Generator().manual_seed(1))
    for row in range(6):
        history = histories.rows(torch.tensor([row]))
        for query in (~history.asked[0]).nonzero()[:, 0].tolist():
            answers, column = believes_the_mean(model, history, query), query_set.queries[query]
            if isinstance(column, Number):
                first, second, third = (answer.text for answer in answers)
                low, high = first.removeprefix("up to "), third.removeprefix("above ")
                assert second == f"{low} to {high}"
                middle = (float(low) + float(high)) / 2
                believed = [(float(low) - 1, 0), (middle, 1), (float(high) + 1, 2)]
            else:
                assert tuple(answer.text for answer in answers) == column.choices
                believed = [(choice, i) for i, choice in enumerate(column.choices)]
            for told, i in believed:
                x = history.x.clone()
                query_set.tell(x[0], query, told)
                after = History(x, history.known, history.asked).ask(torch.tensor([query]))
                torch.testing.assert_close(model.log_posterior(after)[0].exp(), answers[i].posterior)


def test_possible_answers_of_pixels() -> None:
    for query_set, texts in (
        (PatchQueries((1, 3, 7), 1, stride=2), ["up to 25%", "25% to 50%", "50% to 75%", "above 75%"]),
        (PatchQueries((1, 3, 7), 1, stride=2, threshold=0.5), [" ", "█"]),
    ):
        rows = images(query_set, 60)
        model = NaiveBayesIP.count(query_set, LETTERS, rows, NaiveBayesSettings(n_bins=4))
        history = History.start(rows.x[:1], len(query_set)).ask(torch.tensor([2]))
        for query in (0, 1, 5, 7):
            answers = believes_the_mean(model, history, query)
            assert [answer.text for answer in answers] == texts
            pixel = model.outcomes.holds(rows.x[:1])[0, model.outcomes.values_of_query(query)]
            told = model.log_posterior(history.ask(torch.tensor([query])))[0].exp()
            torch.testing.assert_close(told, answers[int(pixel.int().argmax())].posterior)
        (known,) = believes_the_mean(model, history, 2)
        torch.testing.assert_close(known.posterior, model.log_posterior(history)[0].exp())


def test_answers_of_several_units_are_not_listed(pairs: Any, pair_rows: Rows) -> None:
    model = NaiveBayesIP.count(pairs, LETTERS, pair_rows)
    assert model.possible_answers(pair_rows.take(slice(1)).start(), 0) == ()


def test_a_session_says_what_answers_would_change() -> None:
    query_set = mixed()
    why = Session(NaiveBayesIP.count(query_set, LETTERS, make_rows(query_set, 60))).why()
    assert why.question.bits is not None
    assert sum(answer.probability or 0 for answer in why.answers) == pytest.approx(1)
