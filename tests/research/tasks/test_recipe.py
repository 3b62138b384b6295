"""Recipes: they build on their task's queries, follow the paper where it says how, and change as their methods say."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pursuit import ModelSpec, VIPClassifier
from pursuit.inference.history import History
from pursuit.inference.stopping import Budget, parse_stop
from pursuit.networks import MLP, Conv, SetNetwork
from pursuit.queries import ConceptQueries, Query, QuerySet, WordQueries
from pursuit.queries.words import word_query
from pursuit.research.tasks import TASKS, animals, cifar, dialogues, digits, find_recipe, mnist, symcat
from pursuit.research.tasks.recipe import Recipe, Sampling
from pursuit.training import SGD, Adam, CarriedHistories, RandomHistories, RolledOutHistories, Stage
from pursuit.vip import VIP


def names(n: int) -> list[str]:
    return [f"thing {i}" for i in range(n)]


def words() -> QuerySet:
    letters = [a + b + c for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyzabcd"]
    return WordQueries([word_query(f"x{word}") for word in letters])


QUERY_SETS: dict[str, Callable[[], QuerySet]] = {
    "animals": animals.query_set,
    "digits": lambda: digits.load().query_set,
    "mnist": partial(mnist.query_set, mnist.MNIST),
    "mnist-pixels": mnist.pixel_queries,
    "fashion-mnist": partial(mnist.query_set, mnist.FASHION),
    "kmnist": partial(mnist.query_set, mnist.KMNIST),
    "cifar10": cifar.query_set,
    "cifar100": cifar.query_set,
    "cub": lambda: ConceptQueries([Query(name, f"{name}?") for name in names(312)]),
    "huffpost": words,
    **{f"symcat-{n}": partial(symcat.query_set, names(q)) for n, q in symcat.N_SYMPTOMS.items()},
    "muzhi": partial(dialogues.query_set, names(66)),
    "dxy": partial(dialogues.query_set, names(41)),
}
"""As the tasks make them, without their data."""
EVERY = [(task, name) for task, info in TASKS.items() for name in info.recipes]
MEDICAL = ["symcat-200", "symcat-300", "symcat-400", "muzhi", "dxy"]
PUBLISHED = [name for name, info in TASKS.items() if info.published]
OF_THE_TEXT = [task for task in PUBLISHED if "mnist" not in task]


def query_set_for(task: str, recipe: Recipe) -> QuerySet:
    return QUERY_SETS[task]().with_options(**recipe.query_options)


def quick_first() -> list[Any]:
    """Every recipe; those that take a GPU or hours have large networks and are tried with the slow tests."""
    quick = ("fast", "demo")
    return [pytest.param(task, name, marks=() if name in quick else pytest.mark.slow) for task, name in EVERY]


@pytest.mark.parametrize(("task", "name"), quick_first())
def test_every_recipe_builds_its_networks_on_the_tasks_queries(task: str, name: str) -> None:
    info, recipe = TASKS[task], find_recipe(task, name)
    query_set = query_set_for(task, recipe)
    assert len(query_set) == info.n_queries
    model = VIP.build(ModelSpec(query_set, names(info.n_classes), recipe.network, shared=recipe.shared)).eval()
    generator = torch.Generator().manual_seed(0)
    known = torch.rand(2, info.n_queries, generator=generator) < 0.2
    history = History(torch.rand(2, *query_set.answer_shape, generator=generator) * 2 - 1, known, known)
    with torch.no_grad():
        scores, log_posterior = model.scores(history), model.log_posterior(history)
    assert scores.shape == (2, info.n_queries)
    assert log_posterior.shape == (2, info.n_classes)
    torch.testing.assert_close(log_posterior.exp().sum(dim=1), torch.ones(2))
    assert scores.isfinite().all()


def test_every_recipe_is_a_plan_for_the_estimator() -> None:
    parameters = set(VIPClassifier().get_params())
    for task, name in EVERY:
        recipe, n_queries = find_recipe(task, name), TASKS[task].n_queries
        assert set(recipe.settings()) <= parameters
        assert str(parse_stop(recipe.stop)) == recipe.stop
        assert recipe.max_queries is None or recipe.max_queries <= n_queries
        for stage in recipe.stages:
            longest = stage.histories.max_queries
            assert longest is None or 1 <= longest <= n_queries
            assert stage.augment is None or len(QUERY_SETS[task]().answer_shape) == 3  # only images are shifted


# What the paper says, in its appendix and its released code


@pytest.mark.parametrize("task", PUBLISHED)
def test_paper_random_histories_then_biased_ones(task: str) -> None:
    """First k queries at random, then the first k of the current querier; no average of the weights, no warm-up."""
    random, biased = find_recipe(task, "paper").stages
    assert random.histories == RandomHistories()
    assert isinstance(biased.histories, RolledOutHistories)
    for stage in (random, biased):
        assert (stage.average, stage.label_smoothing) == (0, 0)
        assert stage.lr_at(0, 1000) == stage.optimizer.lr


@pytest.mark.parametrize("task", OF_THE_TEXT)
def test_paper_adam_with_a_cosine_of_50_epochs(task: str) -> None:
    """Adam with amsgrad and lr=1e-4, which falls to zero in 50 epochs and rises again in the next 50."""
    stage = find_recipe(task, "paper").stages[0]
    assert isinstance(stage.optimizer, Adam)
    assert stage.optimizer.amsgrad
    n_steps = round(stage.epochs)  # one step an epoch
    wave = [stage.lr_at(epoch, n_steps) for epoch in (0, 25, 50, 75, 100)]
    assert wave == pytest.approx([1e-4, 5e-5, 0, 5e-5, 1e-4], abs=1e-12)


@pytest.mark.parametrize("task", OF_THE_TEXT)
def test_paper_temperature_falls_from_1_to_a_fifth(task: str) -> None:
    """Linearly over the whole stage; in the medical tasks over the first 50 of 200 epochs."""
    for stage in find_recipe(task, "paper").stages:
        n_steps = round(stage.epochs)
        falling = 50 if task in MEDICAL else n_steps
        temperatures = [stage.tau_at(epoch, n_steps) for epoch in (0, falling // 2, falling, n_steps)]
        assert temperatures == pytest.approx([1.0, 0.6, 0.2, 0.2])


@pytest.mark.parametrize(
    ("task", "epochs", "batch_size"),
    [
        ("mnist", [100, 20], 128),
        ("cub", [500, 500], 128),
        ("huffpost", [500, 100], 128),
        ("dxy", [200, 200], 128),
        ("cifar10", [500, 100], 128),
        ("cifar100", [500, 100], 64),
    ],
)
def test_paper_epochs_and_batches(task: str, epochs: list[int], batch_size: int) -> None:
    stages = find_recipe(task, "paper").stages
    assert [stage.epochs for stage in stages] == epochs
    assert {stage.batch_size for stage in stages} == {batch_size}


@pytest.mark.parametrize(
    ("task", "lr", "period"), [("huffpost", 1e-4, 100), ("cifar10", 0.01, 50), ("cifar100", 0.01, 50)]
)
def test_paper_fine_tunes_some_by_sgd(task: str, lr: float, period: int) -> None:
    stage = find_recipe(task, "paper").stages[1]
    assert stage.optimizer == SGD(lr, momentum=0.9)
    assert stage.lr_at(period // 2, 100) == pytest.approx(lr / 2)
    assert stage.lr_at(period, 100) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("task", ["cub"])
def test_paper_biased_histories_are_up_to_all_queries_long(task: str) -> None:
    """Where the text says nothing else, the second stage is as long as the first, and k is uniform on 0..|Q|."""
    random, biased = find_recipe(task, "paper").stages
    assert biased.histories == RolledOutHistories(None)
    assert replace(biased, histories=random.histories) == random


@pytest.mark.parametrize("task", ["mnist", "fashion-mnist", "kmnist"])
def test_the_released_script_of_mnist(task: str) -> None:
    """100 epochs and then 20 with a cosine each, tau from 1 to 0.2 and then 0.2, histories of fewer than 21 queries."""
    random, biased = find_recipe(task, "paper").stages
    assert [stage.epochs for stage in (random, biased)] == [100, 20]
    assert [stage.tau for stage in (random, biased)] == [(1.0, 0.2), (0.2, 0.2)]
    assert [random.histories, biased.histories] == [RandomHistories(), RolledOutHistories(20)]
    for stage in (random, biased):
        wave = [stage.lr_at(step, 100) for step in (0, 50, 100)]
        assert wave == pytest.approx([1e-4, 5e-5, 0], abs=1e-12)


def linear_layers(network: nn.Module) -> list[tuple[int, int]]:
    layers = (layer for layer in network.modules() if isinstance(layer, nn.Linear))
    return [(layer.in_features, layer.out_features) for layer in layers]


def built(task: str) -> tuple[nn.Module, nn.Module]:
    recipe = find_recipe(task, "paper")
    return recipe.network.build(query_set_for(task, recipe), TASKS[task].n_classes, recipe.shared)


@pytest.mark.parametrize(("task", "hidden"), [("cub", [312, 2000, 500]), ("huffpost", [1000, 2000, 1000, 500])])
def test_paper_dense_networks_read_nothing_but_the_answers(task: str, hidden: list[int]) -> None:
    querier, classifier = built(task)
    for network, n_outputs in ((querier, TASKS[task].n_queries), (classifier, TASKS[task].n_classes)):
        assert linear_layers(network) == list(zip(hidden, [*hidden[1:], n_outputs], strict=True))
        assert sum(isinstance(layer, nn.LayerNorm) for layer in network.modules()) == len(hidden) - 1
    assert not set(querier.parameters()) & set(classifier.parameters())


@pytest.mark.parametrize("task", MEDICAL)
def test_paper_set_network_is_shared(task: str) -> None:
    """Answer, embedding of 400 and bias give 100 numbers a query; their maximum goes through 2000 and 500."""
    querier, classifier = built(task)
    for network, n_outputs in ((querier, TASKS[task].n_queries), (classifier, TASKS[task].n_classes)):
        assert linear_layers(network) == [(402, 100), (100, 2000), (2000, 500), (500, n_outputs)]
        assert sum(isinstance(layer, nn.BatchNorm1d) for layer in network.modules()) == 2
    shared = set(querier.parameters()) & set(classifier.parameters())
    assert len(shared) == len(list(querier.parameters())) - 2  # all but the head's weight and bias
    assert find_recipe(task, "paper").network.aggregate == "max"  # type: ignore[attr-defined]


def test_paper_convolutions() -> None:
    querier, classifier = built("mnist")
    channels = [layer.out_channels for layer in classifier.modules() if isinstance(layer, nn.Conv2d)]
    assert channels == [32, 64, 128, 256]
    assert linear_layers(classifier) == [(4096, 512), (512, 10)]
    decoder = [layer.out_channels for layer in querier.modules() if isinstance(layer, nn.Conv2d)][len(channels) :]
    assert decoder == [256, 128, 64, 64, 32, 1]
    _, classifier = built("cifar100")
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in classifier.modules()) == 169  # DenseNet-169


# Published figures


def test_what_is_published_has_a_recipe_that_stops_there_and_the_rest_needs_none() -> None:
    for task, info in TASKS.items():
        if info.published is None:
            continue
        rule = parse_stop(info.recipes["paper"].stop)
        assert rule == (parse_stop(info.published.rule) if info.published.rule else Budget(20)), task
    assert all("paper" not in TASKS[task].recipes for task in ("animals", "digits"))


def test_published_figures_are_plausible() -> None:
    for task in PUBLISHED:
        published, n_queries = TASKS[task].published, TASKS[task].n_queries
        assert published is not None
        if task in MEDICAL:
            assert 1 / TASKS[task].n_classes < (published.after_20 or 0) < 1
            continue
        mean_answered, accuracy, all_answers = published.mean_answered, published.accuracy, published.all_answers
        assert mean_answered is not None
        assert accuracy is not None
        assert all_answers is not None
        assert 1 < mean_answered < n_queries
        assert 1 / TASKS[task].n_classes < accuracy < all_answers < 1
        assert published.area is None or 1 / TASKS[task].n_classes < published.area < all_answers
        assert published.black_box == pytest.approx(all_answers, abs=0.02)  # it has the same answers


# Changed recipes

CARRIED = Recipe(
    MLP((30, 20), dropout=0.25),
    (Stage(8, CarriedHistories(12, random_share=0.3), batch_size=64, label_smoothing=0.1),),
    "budget=3",
    query_options={"mask": False},
)


@pytest.mark.parametrize("effort", [0.01, 0.5, 3])
@pytest.mark.parametrize("recipe", [CARRIED, find_recipe("huffpost", "paper")], ids=["one stage", "two stages"])
def test_a_scaled_recipe_has_all_its_stages_and_waves(recipe: Recipe, effort: float) -> None:
    scaled = recipe.scaled(effort)
    assert [stage.epochs for stage in scaled.stages] == [stage.epochs * effort for stage in recipe.stages]
    assert replace(scaled, stages=recipe.stages) == recipe
    for before, after in zip(recipe.stages, scaled.stages, strict=True):
        assert replace(after, epochs=before.epochs, period=before.period) == before
        # The learning rate and the temperature run through the same course.
        for step in range(0, 1000, 50):
            assert after.lr_at(step, 1000) == pytest.approx(before.lr_at(step, 1000), abs=1e-9)
            assert after.tau_at(step, 1000) == before.tau_at(step, 1000)


@pytest.mark.parametrize("sampling", ["irs", "sbs", "irs+sbs"])
@pytest.mark.parametrize("recipe", [CARRIED, find_recipe("mnist", "paper")], ids=["one stage", "two stages"])
def test_sampling_changes_the_histories_and_not_how_many(recipe: Recipe, sampling: Sampling) -> None:
    changed = recipe.sampled(sampling)
    assert sum(stage.epochs for stage in changed.stages) == sum(stage.epochs for stage in recipe.stages)
    assert changed.querier == "straight-through"
    assert replace(changed, stages=recipe.stages, querier=recipe.querier) == recipe
    random = [isinstance(stage.histories, RandomHistories) for stage in changed.stages]
    assert random == {"irs": [True], "sbs": [False], "irs+sbs": [True, False]}[sampling]
    for stage in changed.stages:  # nothing else of a stage changes
        origin = recipe.stages[0 if isinstance(stage.histories, RandomHistories) else -1]
        assert replace(stage, epochs=origin.epochs, histories=origin.histories) == origin


def test_biased_histories_are_those_of_the_recipe_without_random_ones() -> None:
    assert CARRIED.sampled("sbs").stages[0].histories == CarriedHistories(12, random_share=0.0)
    paper = find_recipe("mnist", "paper")
    assert paper.sampled("irs+sbs") == paper
    assert [stage.histories for stage in paper.sampled("sbs").stages] == [RolledOutHistories(20)]
    only_random = replace(paper, stages=paper.stages[:1], max_queries=9)
    assert only_random.sampled("sbs").stages[0].histories == RolledOutHistories(9)


def test_another_temperature_is_all_that_changes() -> None:
    recipe = find_recipe("cub", "paper")
    changed = recipe.tempered(0.7, 0.7)
    assert [stage.tau for stage in changed.stages] == [(0.7, 0.7)] * 2
    assert changed.tempered(1.0, 0.2) == recipe
    with pytest.raises(ValueError, match="tau must be above 0"):
        recipe.tempered(1.0, 0.0)


def test_held_out_rows_are_a_setting_of_the_recipe() -> None:
    assert "held_out" not in CARRIED.settings()
    assert replace(CARRIED, held_out=0.2).scaled(2).settings()["held_out"] == 0.2


def test_networks_are_exchanged_with_their_hidden_layers() -> None:
    as_set = CARRIED.with_network("set")
    assert isinstance(as_set.network, SetNetwork)
    assert (as_set.network.hidden, as_set.network.dropout) == ((30, 20), 0.25)
    assert (as_set.network.aggregate, as_set.network.norm) == ("max", "batch")  # the paper's
    assert find_recipe("dxy", "paper").with_network("set").network == find_recipe("dxy", "paper").network
    assert as_set.query_options == {"mask": True}  # a set network needs it to know what was answered
    assert as_set.querier == "straight-through"
    assert replace(as_set, network=CARRIED.network, querier="auto", query_options={"mask": False}) == CARRIED
    assert as_set.with_network("masked").network == CARRIED.network
    with pytest.raises(ValueError, match="not for image patches"):
        replace(CARRIED, network=Conv()).with_network("set")


@pytest.mark.parametrize("kind", ["set", "masked"])
@pytest.mark.parametrize(
    ("task", "name"), [("animals", "fast"), ("cub", "paper"), ("huffpost", "fast"), ("dxy", "paper")]
)
def test_exchanged_networks_build(task: str, name: str, kind: Any) -> None:
    recipe = find_recipe(task, name).with_network(kind)
    querier, classifier = recipe.network.build(query_set_for(task, recipe), 2, recipe.shared)
    assert linear_layers(querier)[-1][1] == TASKS[task].n_queries
    assert linear_layers(classifier)[-1][1] == 2


def test_the_table_of_recipes_has_the_epochs_of_the_code() -> None:
    text = Path("docs/tasks.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `") and "chains of" in line]
    checked = set()
    for names, _, ours, _ in rows:
        for name in re.findall(r"`([\w*-]+)`", names):
            recipes = TASKS[name.replace("*", "200")].recipes
            plain, _, gpu = ours.partition("`gpu`:")
            said = {"fast": plain, "gpu": gpu}
            for recipe in recipes.keys() & said.keys():
                epochs = f"{sum(stage.epochs for stage in recipes[recipe].stages):g}"
                assert re.search(rf"(?<![\d.(,]){re.escape(epochs)}(?![\d.)])", said[recipe]), (name, recipe, epochs)
                checked.add((name, recipe))
    assert len(checked) >= 18
