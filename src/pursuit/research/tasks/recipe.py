"""A recipe: the networks, training plan and stopping rule for a task; and what is published about it.

`fast` is ours: every row carries its own chain from step to step, so that a biased history costs one forward pass.
`gpu` is a longer `fast`, for a GPU. `paper` follows the paper's appendix, if the paper has the task; for `mnist` and
its kin the authors' released script.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from pursuit.evaluation.protocols import Protocol
from pursuit.information import AnswerSettings
from pursuit.networks import MLP, NetworkSettings, SetNetwork
from pursuit.training.samplers import CarriedHistories, RandomHistories, RolledOutHistories
from pursuit.training.schedule import Stage, paper_stage

Sampling = Literal["irs", "sbs", "irs+sbs"]
NetworkKind = Literal["set", "masked"]
SAMPLINGS, NETWORKS = get_args(Sampling), get_args(NetworkKind)


@dataclass(frozen=True)
class Recipe:
    """Network, training plan and stopping rule of a task."""

    network: NetworkSettings
    stages: tuple[Stage, ...]
    stop: str
    max_queries: int | None = None
    shared: bool = False
    standardise: bool = False
    querier: str = "auto"
    """The querier of V-IP."""
    answers: AnswerSettings | None = None
    """Settings of the answer model, if they differ from the defaults."""
    teachers: tuple[Any, ...] | None = None
    """Classifiers of scikit-learn that teach V-IP's; None: it learns from labels alone."""
    held_out: float | None = None
    """Share of the training rows that judge training on the way; None: it goes on to the end of its stages."""
    query_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the query set that differ from the task's own, such as mask=False."""
    protocols: tuple[Protocol, ...] = ()
    """Rules to cut and count chains, besides those of the task."""
    note: str = ""

    def settings(self) -> dict[str, Any]:
        """The arguments of `VIPClassifier`."""
        return {
            "network": self.network,
            "stages": list(self.stages),
            "stop": self.stop,
            "max_queries": self.max_queries,
            "shared": self.shared,
            "standardise": self.standardise,
            "querier": self.querier,
            "answers": self.answers,
            "teachers": self.teachers,
            **({} if self.held_out is None else {"held_out": self.held_out}),
        }

    def scaled(self, effort: float) -> "Recipe":
        """The same recipe with every stage `effort` times as long."""
        return replace(self, stages=tuple(stage.scaled(effort) for stage in self.stages))

    def sampled(self, sampling: Sampling) -> "Recipe":
        """The same amount of training on random histories, on biased ones, or on random and then on biased ones, with
        the straight-through querier, whose histories these are."""
        first, last = self.stages[0], self.stages[-1]
        epochs = sum(stage.epochs for stage in self.stages)
        histories = last.histories
        biased = replace(histories, random_share=0.0) if isinstance(histories, CarriedHistories) else histories
        if isinstance(biased, RandomHistories):
            biased = RolledOutHistories(self.max_queries)
        random = RandomHistories()
        stages = {
            "irs": (replace(first, epochs=epochs, histories=random),),
            "sbs": (replace(last, epochs=epochs, histories=biased),),
            "irs+sbs": (
                replace(first, epochs=epochs - last.epochs if len(self.stages) > 1 else epochs / 2, histories=random),
                replace(last, epochs=last.epochs if len(self.stages) > 1 else epochs / 2, histories=biased),
            ),
        }
        return replace(self, stages=stages[sampling], querier="straight-through")

    def tempered(self, start: float, end: float) -> "Recipe":
        """The same recipe with a straight-through querier whose softmax has another temperature."""
        stages = tuple(replace(stage, tau=(start, end)) for stage in self.stages)
        return replace(self, stages=stages, querier="straight-through")

    def with_network(self, kind: NetworkKind) -> "Recipe":
        """The same recipe with the paper's set network or a masked one, with the same hidden layers, and the
        straight-through querier."""
        if not isinstance(self.network, MLP | SetNetwork):
            raise ValueError("Set and masked networks are for columns, words and concepts, not for image patches.")
        hidden, dropout = self.network.hidden, self.network.dropout
        network = SetNetwork(hidden=hidden, dropout=dropout) if kind == "set" else MLP(hidden, dropout)
        query_options = {**self.query_options, "mask": True}
        return replace(self, network=network, querier="straight-through", query_options=query_options)


@dataclass(frozen=True)
class Published:
    """The paper's figures for V-IP."""

    rule: str = ""
    mean_answered: float | None = None
    accuracy: float | None = None
    """At the rule."""
    all_answers: float | None = None
    black_box: float | None = None
    """A network trained on all answers."""
    area: float | None = None
    """By the paper's own definition of the area, so it cannot be compared with ours digit for digit."""
    after_20: float | None = None
    comparable: bool = True
    """Whether the figures were measured on the data of this task; otherwise they cannot be compared."""


def paper_recipe(
    network: NetworkSettings,
    random: Stage,
    biased: Stage,
    stop: str,
    max_queries: int | None = None,
    shared: bool = False,
    protocols: tuple[Protocol, ...] = (),
    **query_options: Any,
) -> Recipe:
    """The paper's two stages and its querier: random histories first, then biased ones."""
    stages = (random, biased)
    options: dict[str, Any] = {"query_options": query_options, "protocols": protocols}
    return Recipe(network, stages, stop, max_queries, shared, querier="straight-through", **options)


PAPER_MEDICAL = paper_recipe(
    SetNetwork(aggregate="max", norm="batch"),
    paper_stage(RandomHistories(), 200, tau_share=0.25),
    paper_stage(RolledOutHistories(20), 200, tau_share=0.25),
    "budget=20",
    max_queries=20,
    shared=True,
)
"""For all of its medical tasks."""
NEEDS_GPU = "made for a GPU; on a CPU it takes very long"
"""The note of recipes for large images."""
