"""Recipes: every task has its own, they build on its query set, and ablations change what they say and no more."""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pytest
import torch

from pursuit.augmentation import Shifts
from pursuit.estimators import VIPClassifier
from pursuit.histories import CarriedHistories, RandomHistories, RolledOutHistories
from pursuit.history import History
from pursuit.networks import MLP, Conv, SetNetwork
from pursuit.queries import ConceptQueries, PatchQueries, Query, QuerySet, WordQueries
from pursuit.queries.words import word_query
from pursuit.stages import Stage
from pursuit.stopping import Budget, Confidence, Stability, parse_stop
from pursuit.tasks import EMBEDDED, TASKS, animals, cifar, dialogues, digits, mnist, symcat
from pursuit.tasks.recipes import PUBLISHED, RECIPES, Recipe, Sampling, find_recipe
from pursuit.training import check_plan
from pursuit.vip import VIP

EVERY = [(task, name) for task, recipes in RECIPES.items() for name in recipes]


def names(n: int) -> list[str]:
    return [f"thing {i}" for i in range(n)]


def words() -> QuerySet:
    letters = [a + b + c for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyzabcd"]
    return WordQueries([word_query(f"x{word}") for word in letters])


QUERY_SETS: dict[str, Callable[[], QuerySet]] = {
    "animals": animals.query_set,
    "digits": lambda: digits.load().query_set,
    "mnist": partial(mnist.query_set, mnist.MNIST),
    "fashion-mnist": partial(mnist.query_set, mnist.FASHION),
    "kmnist": partial(mnist.query_set, mnist.KMNIST),
    "kmnist-test-split": partial(mnist.query_set, mnist.KMNIST),
    "cifar10": cifar.query_set,
    "cifar100": cifar.query_set,
    "cub": lambda: ConceptQueries([Query(name, f"{name}?") for name in names(312)]),
    "huffpost": words,
    **{f"symcat-{n}": partial(symcat.query_set, names(q)) for n, q in symcat.N_SYMPTOMS.items()},
    "muzhi": partial(dialogues.query_set, names(66)),
    "dxy": partial(dialogues.query_set, names(41)),
}
"""As the tasks make them, without their data."""


def test_every_task_has_its_recipes() -> None:
    assert list(RECIPES) == list(TASKS)
    for task, recipes in RECIPES.items():
        assert {"fast"} <= set(recipes)
        assert ("paper" in recipes) == (task not in EMBEDDED)


@pytest.mark.parametrize(("task", "name"), EVERY)
def test_every_recipe_builds_its_networks_on_the_tasks_queries(task: str, name: str) -> None:
    info, recipe = TASKS[task], find_recipe(task, name)
    query_set = QUERY_SETS[task]().with_options(**recipe.query_options)
    assert len(query_set) == info.n_queries
    model = VIP.build(query_set, names(info.n_classes), recipe.network, recipe.shared).eval()
    generator = torch.Generator().manual_seed(0)
    known = torch.rand(2, info.n_queries, generator=generator) < 0.2
    history = History(torch.rand(2, *query_set.answer_shape, generator=generator) * 2 - 1, known, known)
    with torch.no_grad():
        scores, log_posterior = model.scores(history), model.log_posterior(history)
    assert scores.shape == (2, info.n_queries)
    assert log_posterior.shape == (2, info.n_classes)
    torch.testing.assert_close(log_posterior.exp().sum(dim=1), torch.ones(2))
    assert scores.isfinite().all()


@pytest.mark.parametrize(("task", "name"), EVERY)
def test_every_recipe_is_a_plan_for_the_estimator(task: str, name: str) -> None:
    recipe = find_recipe(task, name)
    estimator = VIPClassifier(QUERY_SETS[task](), **recipe.settings())
    check_plan(estimator.stages or [], "cpu", "csv")
    rule = parse_stop(recipe.stop)
    assert str(rule) == recipe.stop
    for stage in recipe.stages:
        longest = stage.histories.max_queries
        assert longest is None or 1 <= longest <= TASKS[task].n_queries
        if stage.augment is not None:
            assert len(QUERY_SETS[task]().answer_shape) == 3
    # Asking and learning go together: nothing is asked further than histories reach.
    if recipe.max_queries is not None:
        assert recipe.max_queries <= TASKS[task].n_queries


@pytest.mark.parametrize("task", [task for task in RECIPES if task not in EMBEDDED])
def test_the_papers_recipe_is_random_histories_and_then_biased_ones(task: str) -> None:
    random, biased = find_recipe(task, "paper").stages
    assert isinstance(random.histories, RandomHistories)
    assert random.histories.max_queries is None
    assert isinstance(biased.histories, RolledOutHistories)
    for stage in (random, biased):
        assert (stage.average, stage.warmup, stage.tau, stage.label_smoothing) == (0, 0, (1.0, 0.2), 0)


def test_unknown_recipes_are_told_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no recipes for 'mnistt', only for animals, digits, mnist"):
        find_recipe("mnistt")
    with pytest.raises(ValueError, match=r"digits has no recipe 'paper', only fast"):
        find_recipe("digits", "paper")


# Ablations


def total(recipe: Recipe) -> float:
    return sum(stage.epochs for stage in recipe.stages)


def kinds(recipe: Recipe) -> list[type]:
    return [type(stage.histories) for stage in recipe.stages]


@pytest.mark.parametrize(("task", "name"), EVERY)
@pytest.mark.parametrize("sampling", ["irs", "sbs", "irs+sbs"])
def test_sampling_changes_the_histories_and_not_how_many(task: str, name: str, sampling: Sampling) -> None:
    recipe = find_recipe(task, name)
    changed = recipe.sampled(sampling)
    assert total(changed) == pytest.approx(total(recipe))
    random = [isinstance(stage.histories, RandomHistories) for stage in changed.stages]
    assert random == {"irs": [True], "sbs": [False], "irs+sbs": [True, False]}[sampling]
    for stage in changed.stages:
        if isinstance(stage.histories, CarriedHistories):
            assert stage.histories.random_share == 0
            assert stage.histories.max_queries == recipe.stages[-1].histories.max_queries
    assert replace(changed, stages=recipe.stages) == recipe
    first, last = recipe.stages[0], recipe.stages[-1]
    for stage in changed.stages:
        origin = first if isinstance(stage.histories, RandomHistories) else last
        assert replace(stage, epochs=origin.epochs, histories=origin.histories) == origin


def test_the_papers_two_stages_are_its_irs_and_sbs() -> None:
    recipe = find_recipe("mnist", "paper")
    assert recipe.sampled("irs+sbs") == recipe
    assert kinds(recipe.sampled("sbs")) == [RolledOutHistories]
    only_random = replace(recipe, stages=recipe.stages[:1], max_queries=9)
    assert only_random.sampled("sbs").stages[0].histories == RolledOutHistories(9)


@pytest.mark.parametrize(("task", "name"), EVERY)
@pytest.mark.parametrize("effort", [0.01, 0.5, 3])
def test_a_shortened_recipe_has_all_its_stages_and_waves(task: str, name: str, effort: float) -> None:
    recipe = find_recipe(task, name)
    short = recipe.shortened(effort)
    assert total(short) == pytest.approx(effort * total(recipe))
    assert len(short.stages) == len(recipe.stages)
    for before, after in zip(recipe.stages, short.stages, strict=True):
        assert replace(after, epochs=before.epochs, period=before.period) == before
        # The learning rate and the temperature run through the same course.
        for step in range(0, 1000, 50):
            assert after.lr_at(step, 1000) == pytest.approx(before.lr_at(step, 1000), abs=1e-9)
            assert after.tau_at(step, 1000) == before.tau_at(step, 1000)


def test_another_temperature_is_all_that_changes() -> None:
    recipe = find_recipe("mnist", "paper")
    changed = recipe.tempered(0.7, 0.7)
    assert [stage.tau for stage in changed.stages] == [(0.7, 0.7)] * 2
    assert changed.tempered(1.0, 0.2) == recipe
    with pytest.raises(ValueError, match="tau must be above 0"):
        recipe.tempered(1.0, 0.0)


def test_networks_are_exchanged_with_their_hidden_layers() -> None:
    recipe = Recipe(MLP((30, 20), dropout=0.25), (Stage(1),), "budget=3", query_options={"mask": False})
    as_set = recipe.with_network("set")
    assert isinstance(as_set.network, SetNetwork)
    assert (as_set.network.hidden, as_set.network.dropout) == ((30, 20), 0.25)
    assert as_set.query_options == {"mask": True}  # a set network knows by it what was answered
    assert replace(as_set, network=recipe.network, query_options={"mask": False}) == recipe
    masked = as_set.with_network("masked")
    assert masked.network == recipe.network
    with pytest.raises(ValueError, match="not for image patches"):
        replace(recipe, network=Conv()).with_network("set")


@pytest.mark.parametrize("kind", ["set", "masked"])
@pytest.mark.parametrize(
    ("task", "name"),
    [(task, name) for task, name in EVERY if isinstance(RECIPES[task][name].network, MLP | SetNetwork)],
)
def test_exchanged_networks_build(task: str, name: str, kind: Any) -> None:
    recipe = find_recipe(task, name).with_network(kind)
    query_set = QUERY_SETS[task]().with_options(**recipe.query_options)
    if isinstance(query_set, PatchQueries) and kind == "set":
        with pytest.raises(ValueError, match="needs column queries"):
            VIP.build(query_set, ["a", "b"], recipe.network, recipe.shared)
    else:
        VIP.build(query_set, ["a", "b"], recipe.network, recipe.shared)


# Published figures

AT_RULE = {
    "huffpost": (Confidence(0.99), 195.89, 0.672, 0.712, 0.715, 0.680),
    "cub": (Stability(0.001), 18.82, 0.752, 0.763, 0.763, 0.716),
    "mnist": (Confidence(0.99), 6.34, 0.971, 0.991, 0.992, 0.956),
    "kmnist": (Confidence(0.99), 20.34, 0.916, 0.958, 0.951, 0.911),
    "fashion-mnist": (Confidence(0.99), 19.42, 0.872, 0.876, 0.884, 0.849),
    "cifar10": (Stability(0.127), 9.79, 0.936, 0.946, 0.955, None),
    "cifar100": (Stability(1.438), 12.82, 0.752, 0.788, 0.798, None),
}
AFTER_20 = {"symcat-200": 0.681, "symcat-300": 0.599, "symcat-400": 0.513, "muzhi": 0.706, "dxy": 0.806}


def test_published_figures_are_those_of_the_paper() -> None:
    assert set(PUBLISHED) == {*AT_RULE, *AFTER_20} == set(TASKS) - {*EMBEDDED, "kmnist-test-split"}
    for task, (rule, *figures) in AT_RULE.items():
        told = asdict(PUBLISHED[task])
        assert parse_stop(told.pop("rule")) == rule
        assert list(told.values()) == [*figures, None]
    for task, after_20 in AFTER_20.items():
        told = asdict(PUBLISHED[task])
        assert told.pop("after_20") == after_20
        assert not any(told.values())


@pytest.mark.parametrize("task", list(PUBLISHED))
def test_the_papers_recipe_stops_where_its_figures_were_taken(task: str) -> None:
    rule = parse_stop(find_recipe(task, "paper").stop)
    assert rule == (AT_RULE[task][0] if task in AT_RULE else Budget(20))


def test_shifts_of_a_recipe_fit_its_images() -> None:
    for task, name in EVERY:
        for stage in find_recipe(task, name).stages:
            if isinstance(stage.augment, Shifts):
                assert 0 < stage.augment.pixels <= 4
