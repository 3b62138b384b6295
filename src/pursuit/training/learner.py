"""Learners: pursuers that the training loop can train, and the two that are made of networks.

A learner is a module: called on a `Batch`, it gives its loss and what it would ask next. `VIP` is one, and so are most
of its rivals; what differs between them is `forward`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState, network_state
from pursuit.inference.pursuer import Labels
from pursuit.networks import NetworkSettings, default_network
from pursuit.networks.settings import reads_next_apart
from pursuit.queries import QuerySet
from pursuit.registry import from_config, to_config
from pursuit.training.samplers import Batch, TrainingOutcome
from pursuit.training.schedule import Stage

LEAST_SPREAD = 0.3
"""Rare answers are not scaled up beyond those with this deviation, so that a handful of rows cannot drown the rest."""


class Learner(nn.Module, ABC):
    """A pursuer that the training loop can train."""

    may_be_infinite: ClassVar[tuple[str, ...]] = ("log_prior",)
    """A label without rows has no share."""

    registry_kind: ClassVar[str] = "pursuer"
    log_prior: Tensor

    def __init__(self, query_set: QuerySet, classes: Labels, prior: Tensor | None = None):
        super().__init__()
        self.query_set, self.classes = query_set, classes
        prior = torch.full((len(classes),), 1 / len(classes)) if prior is None else prior
        self.register_buffer("log_prior", prior.log())  # (C,) the posterior when nothing is known

    @abstractmethod
    def forward(self, batch: Batch) -> TrainingOutcome:
        """The loss on a batch, and the queries it would ask next, if it chooses any."""

    @abstractmethod
    def scores(self, history: History) -> Tensor: ...

    @abstractmethod
    def log_posterior(self, history: History) -> Tensor: ...

    def closed(self, of: Batch | History) -> Tensor:
        """Which queries (B, Q) are not to be chosen: those asked already, and those that may not be asked yet."""
        return self.query_set.closed(of.x, of.known, of.asked)

    def begin(self, stage: Stage) -> None:
        """Prepare for a stage, before its first step. `batch.phase` says in each step which phase it is."""
        return

    def schedule(self, share: float) -> None:
        """Prepare for the next step, when this share of the stage is done."""
        return

    def roughly(self) -> AbstractContextManager[None]:
        """While it lasts, scores may be estimates that take less time, as in training."""
        return nullcontext()

    def set_temperature(self, temperature: Tensor | float) -> None:
        """Make beliefs less extreme than they were learnt (above 1) or more, all or by the number of known answers
        (Q + 1,); a learner that cannot leaves them."""
        return

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """How to build it, as JSON values; weights and other tensors are saved beside them."""

    @classmethod
    @abstractmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        """What `to_config` described, with tensors of the right shapes for those saved."""


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """Specification of a model with neural networks, saved next to the weights to rebuild the model from."""

    query_set: QuerySet
    classes: Labels
    network: NetworkSettings | None = None
    """The network settings; by default, those that suit the query set. None in a model whose networks were passed in by
    the caller, which cannot be saved."""
    _: KW_ONLY
    shared: bool = False
    """Whether querier and classifier share a trunk."""
    standardised: bool = False
    """Whether networks see answers relative to their mean and spread."""
    settings: Any = None
    """Settings of the method, if it has any; by default, `Settings()` of the model class."""
    prior: Tensor | None = None
    """The frequencies (C,) of the classes, all the same by default."""

    def networks(self) -> tuple[nn.Module, nn.Module]:
        """A fresh querier and a fresh classifier."""
        assert self.network is not None
        return self.network.build(self.query_set, len(self.classes), self.shared)

    def to_config(self) -> dict[str, Any]:
        if self.network is None:
            raise ValueError("Only models made by `build` can be saved: the file must say how to build the networks.")
        return {name: to_config(getattr(self, name)) for name in SAVED}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> "ModelSpec":
        return cls(query_set, classes, **{name: from_config(config[name]) for name in SAVED if name in config})


SAVED = ("network", "shared", "standardised", "settings")
"""Fields of `ModelSpec` that are saved. Query set and classes are saved with the estimator, the prior with the
weights."""


class ClassifierModel(Learner):
    """A classifier network over a query set, which learns a posterior. It does not choose queries."""

    Settings: ClassVar[type[Any] | None] = None
    """The type of the method's settings, for a method that has any."""
    settings: Any
    temperature: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(self, spec: ModelSpec, classifier: nn.Module):
        super().__init__(spec.query_set, spec.classes, spec.prior)
        if self.Settings is not None:
            spec = spec if spec.settings is not None else replace(spec, settings=self.Settings())
            if not isinstance(spec.settings, self.Settings):
                raise TypeError(f"{type(self).__name__} has {self.Settings.__name__}(...), not {spec.settings!r}.")
        self.spec, self.settings, self.classifier = spec, spec.settings, classifier
        self.reads_next_apart = reads_next_apart(classifier)
        # (Q + 1,) what logits are divided by, by how many answers are known
        self.register_buffer("temperature", torch.ones(len(spec.query_set) + 1))
        if spec.standardised:
            self.register_buffer("centre", torch.zeros(spec.query_set.answer_shape))
            self.register_buffer("scale", torch.ones(spec.query_set.answer_shape))

    @classmethod
    def build(cls, spec: ModelSpec, **parts: Any) -> Self:
        """A model with fresh networks; `parts` is what a method needs beside its specification."""
        if spec.network is None:
            spec = replace(spec, network=default_network(spec.query_set))
        return cls._with_fresh_networks(spec, **parts)

    @classmethod
    def _with_fresh_networks(cls, spec: ModelSpec, **parts: Any) -> Self:
        return cls(spec, spec.networks()[1], **parts)

    def extra_repr(self) -> str:
        return "" if self.settings is None else repr(self.settings)

    def forward(self, batch: Batch) -> TrainingOutcome:
        """Cross-entropy on the histories as they are."""
        logits = self.classifier(self.network_input(batch.x, batch.known.to(batch.x.dtype))).float()
        return TrainingOutcome(batch.label_loss(logits))

    def network_input(self, x: Tensor, known: Tensor) -> Tensor:
        """The input of the networks for answers `x` of which `known` may be read."""
        return self.query_set.encode((x - self.centre) * self.scale if self.spec.standardised else x, known)

    def input_after(self, x: Tensor, known: Tensor, choice: Tensor) -> Tensor:
        """The classifier's input once the answers to a `choice` (B, Q) among the queries not `known` are known too; it
        is one-hot, or relaxed, or all zeros where nothing is chosen."""
        if self.reads_next_apart:
            return torch.stack([self.network_input(x, known), self.network_input(x, choice)], dim=1)
        return self.network_input(x, known + choice)

    def standardise_features(self, values: Tensor, features: Tensor | slice) -> Tensor:
        """The same for the known `values` of some `features` alone."""
        return (values - self.centre[features]) * self.scale[features] if self.spec.standardised else values

    def standardise(self, x: Tensor, available: Tensor) -> None:
        """Measure the mean and spread of answers on these rows: where nearly all say no, a yes then weighs more."""
        if not self.spec.standardised or not self.query_set.has_own_units:
            raise ValueError(
                "Only models of columns, words or concepts made with standardised=True can be standardised."
            )
        units = self.query_set.units
        there = available[:, units.of_feature.to(available.device)]  # (N, F)
        n = there.sum(dim=0).clamp(min=1)
        self.centre.copy_((x * there).sum(dim=0) / n)
        spread = (((x - self.centre) ** 2 * there).sum(dim=0) / n).sqrt()
        self.scale.copy_(1 / spread.clamp(min=LEAST_SPREAD))
        # Numbers have a scale already, which their codes are on.
        is_number = torch.tensor([feature == "number" for feature in units.feature_types], device=x.device)
        self.centre.masked_fill_(is_number, 0.0)
        self.scale.masked_fill_(is_number, 1.0)

    def scores(self, history: History) -> Tensor:
        """Queries are asked in their order."""
        n_queries = history.asked.shape[1]
        return -torch.arange(float(n_queries), device=history.asked.device).expand(history.asked.shape)

    def log_posterior(self, history: History) -> Tensor:
        logits = self.classifier(self.network_input(history.x, history.known))
        return self.log_probabilities(logits, history.n_known)

    def log_probabilities(self, logits: Tensor, n_known: Tensor) -> Tensor:
        """Log probabilities (B, C) from the classifier's logits, and how many answers each row knows (B,)."""
        tempered = logits.float() / self.temperature[n_known][:, None]
        # Training hardly ever shows the classifier an empty history, and there the label frequencies are the answer.
        return torch.where(n_known[:, None] > 0, tempered.log_softmax(dim=1), self.log_prior)

    def set_temperature(self, temperature: Tensor | float) -> None:
        """Divide logits by this from now on."""
        self.temperature.copy_(torch.as_tensor(temperature))

    def to_config(self) -> dict[str, Any]:
        return self.spec.to_config()

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls.build(ModelSpec.from_config(query_set, classes, config))


class QuerierClassifier(ClassifierModel):
    """A querier and a classifier network over one query set."""

    def __init__(self, spec: ModelSpec, querier: nn.Module, classifier: nn.Module):
        super().__init__(spec, classifier)
        self.querier = querier

    @classmethod
    def _with_fresh_networks(cls, spec: ModelSpec, **parts: Any) -> Self:
        return cls(spec, *spec.networks(), **parts)

    def scores(self, history: History) -> Tensor:
        encoded = self.network_input(history.x, history.known)

        def log_posterior() -> Tensor:
            return self.log_probabilities(self.classifier(encoded), history.n_known)

        return self.scores_from(self.querier(encoded), log_posterior)

    def scores_from(self, outputs: Tensor, log_posterior: Callable[[], Tensor]) -> Tensor:
        """The scores (B, Q) from the querier's outputs (B, Q), and from the posterior where a method needs it.

        This, not `scores`, is what a subclass with other scores overrides: states computed answer by answer use it too.
        """
        return outputs.float()

    def expected_information(self, history: History) -> Tensor | None:
        """The bits that each query is expected to give (B, Q), for a model that knows them beside its scores."""
        return None

    def history_state(self, history: History) -> HistoryState:
        """Both networks, answer by answer."""
        return network_state(self, history)
