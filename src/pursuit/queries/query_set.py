"""What every query set offers: its queries, the answers of data rows, and network input for a history.

Answers live in the *answer space* of their query set: `x` has shape (B, *answer_shape) and holds the answers to all
queries of B rows, ready for the networks. Which of them may be read is said by `known` (B, Q). `encode` makes network
input of the two; the shortcuts beside it (`encode_partly`, `reveal`, `own_inputs`) must give the same.

Whatever training, inference, methods and figures want to know of a query set beyond that is an attribute or a method
of `QuerySet`, with a default that is right for any: nothing outside this package asks for the type of a query set.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from pursuit.queries.column import FREE, Doubt, Query
from pursuit.queries.order import Gate, Order
from pursuit.queries.own_inputs import OwnInputs
from pursuit.registry import did_you_mean

FeatureType = Literal["yes_no", "share", "choice", "number"]
"""The type of a feature of the answer space: -1 or 1; anything from -1 to 1, a share of no and yes; 0 or 1 for one of
several choices; or a standardised number."""


class Units(nn.Module):
    """The units of a query set. A unit is a single feature, or has one feature for each of several choices.

    Methods that model answers one by one need to know them: the unit of each feature of a flattened answer (F,), the
    units that each query shows (Q, S), and the types of features (F,).
    """

    of_feature: Tensor
    of_query: Tensor

    def __init__(self, of_feature: Tensor, of_query: Tensor, feature_types: tuple[FeatureType, ...]):
        super().__init__()
        self.register_buffer("of_feature", of_feature, persistent=False)  # (F,)
        self.register_buffer("of_query", of_query, persistent=False)  # (Q, S)
        self.feature_types = feature_types

    @cached_property
    def n_units(self) -> int:
        return int(self.of_feature.max()) + 1

    def __len__(self) -> int:
        return self.n_units

    @cached_property
    def are_own(self) -> bool:
        """Whether unit q is what query q shows, and no other query shows it: S is 1, and there are Q units."""
        n_queries = len(self.of_query)
        own = torch.arange(n_queries, device=self.of_query.device)[:, None]
        return self.n_units == n_queries and torch.equal(self.of_query, own)

    def known(self, known: Tensor) -> Tensor:
        """Which units are known once the queries `known` (B, Q) are: (B, U) bool."""
        if self.are_own:
            return known.bool()
        shown = self.of_query.flatten().expand(len(known), -1)
        is_known = known.bool().int().repeat_interleave(self.of_query.shape[1], dim=1)
        times_shown = torch.zeros(len(known), len(self), dtype=torch.int, device=known.device)
        return times_shown.scatter_add(1, shown, is_known) > 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum of the `values` (B, U) of the units that each query shows: (B, Q)."""
        return values if self.are_own else values[:, self.of_query].sum(dim=2)

    @cached_property
    def features(self) -> list[list[int]]:
        """The features of every unit: a single one, or one for each of several choices; raises ValueError where units
        mix feature types."""
        features: list[list[int]] = [[] for _ in range(len(self))]
        for feature, unit in enumerate(self.of_feature.tolist()):
            features[unit].append(feature)
        for unit, own in enumerate(features):
            if not own or (len(own) > 1 and any(self.feature_types[feature] != "choice" for feature in own)):
                types = ", ".join(self.feature_types[feature] for feature in own) or "none"
                raise ValueError(
                    "Answers can be modelled one by one only if each unit has one feature, or one for each of several "
                    f"choices, but unit {unit} has {types}: give each number and each yes or no a unit of its own "
                    "(set_units)."
                )
        return features


class Answers(NamedTuple):
    """The answers of N rows, asked or not."""

    x: Tensor  # (N, *answer_shape)
    available: Tensor  # (N, Q) bool, False where a row has no answer to a query


@dataclass(frozen=True)
class PatchGrid:
    """The patches of `size` x `size` pixels at steps of `stride` of a (channels, height, width) image."""

    image_shape: tuple[int, int, int]
    size: int
    stride: int

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns of patches there are."""
        _, height, width = self.image_shape
        return (height - self.size) // self.stride + 1, (width - self.size) // self.stride + 1

    def corner(self, query: int) -> tuple[int, int]:
        """Row and column of the upper left pixel of a patch."""
        row, column = divmod(query, self.shape[1])
        return row * self.stride, column * self.stride


class QuerySet(nn.Module, ABC):
    """A list of queries and the way their answers reach a network.

    It is a module only so that its constant buffers follow the networks to their device; it has no weights.
    """

    registry_kind: ClassVar[str] = "query set"
    queries: tuple[Query, ...]
    _on_device: Tensor
    _costs: Tensor | None
    answer_shape: tuple[int, ...]
    input_shape: tuple[int, ...]

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_on_device", torch.empty(0), persistent=False)  # says where the query set is
        self.register_buffer("_costs", None, persistent=False)  # made when it is asked for: queries come later
        self._units: Units | None = None
        self.own_inputs: OwnInputs | None = None
        """Which inputs each answer has, if no two answers share one; None otherwise."""
        self.order: Order | None = None
        """What restricts the order of the queries; None if any may be asked at any time."""
        self._gate: Gate | None = None

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def index_of(self) -> dict[str, int]:
        """The number of every query by its name."""
        return {query.name: i for i, query in enumerate(self.queries)}

    @property
    def costs(self) -> Tensor:
        """(Q,) what each query costs, where the query set is."""
        if self._costs is None:
            costs = [query.cost for query in self.queries]
            self._costs = torch.tensor(costs, dtype=torch.float, device=self._on_device.device)
        return self._costs.float()  # whatever precision a model has that the query set belongs to

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} queries)"

    @abstractmethod
    def answers(self, data: Any) -> Answers:
        """Read data rows in the user's form; raises ValueError with what is wrong and what to do."""

    @abstractmethod
    def encode(self, x: Tensor, known: Tensor) -> Tensor:
        """Network input (B, *input_shape) for answers `x` of which `known` (B, Q) may be read.

        Differentiable in `known`; an answer that is not known never shows in the result.
        """

    @abstractmethod
    def describe(self, query: int, x: Tensor) -> str:
        """The answer to `query` in words, from one row `x` (*answer_shape)."""

    def describe_given(self, query: int, x: Tensor, answer: Any) -> str:
        """The `answer` of a person to `query` in words, which is in the row `x` (*answer_shape) already. What a row
        cannot hold exactly is shown as it was given."""
        return self.describe(query, x)

    @abstractmethod
    def tell(self, x: Tensor, query: int, answer: Any) -> None:
        """Write a person's answer to `query` into one row `x` (*answer_shape), in place.

        An answer that cannot be used raises ValueError, with what may be answered, before anything is written.
        """

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """All there is to know about the query set, as JSON values; `from_config` builds it again."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: dict[str, Any]) -> "QuerySet":
        """The query set that `to_config` described."""

    def with_options(self, **options: Any) -> "QuerySet":
        """The same query set with other options, as in `with_options(mask=False)`."""
        config = self.to_config()
        if unknown := [name for name in options if name not in config]:
            raise ValueError(f"{self} has no option '{unknown[0]}', only {', '.join(config)}.")
        return self.from_config({**config, **options})

    def with_costs(self, costs: Mapping[str, float]) -> Self:
        """The same query set in which the queries named in `costs` cost that; the others cost what they did."""
        if unknown := [name for name in costs if name not in self.index_of]:
            hint = did_you_mean(unknown[0], self.index_of, f"Queries are {', '.join([*self.index_of][:6])} …")
            raise ValueError(f"There is no query '{unknown[0]}' to give a cost. {hint}")
        again = copy.deepcopy(self)
        again.queries = tuple(replace(query, cost=float(costs.get(query.name, query.cost))) for query in self.queries)
        again._costs = None
        kept = self.from_config(again.to_config())
        if [query.cost for query in kept.queries] != [query.cost for query in again.queries]:
            raise ValueError(f"{self} would lose its costs when saved: add them to its to_config and from_config.")
        return again

    def with_queries(self, queries: Sequence[Query], order: Order | None = None) -> "QuerySet":
        """The same query set with its queries worded or restricted otherwise; those that are not given are left out."""
        raise ValueError(f"A questions file is for the columns of a table, but {self} does not read columns.")

    def set_order(self, order: Order | None) -> None:
        """Restrict the order of the queries; raises ValueError for an order that does not fit them."""
        self._gate = Gate(order, self) if order else None
        self.order = order or None

    def allowed(self, x: Tensor, known: Tensor, asked: Tensor, affordable: Tensor | None = None) -> Tensor | None:
        """What may be asked now (B, Q) of that which was not asked, in histories of answers `x`, `known` and `asked`,
        as far as it is `affordable` (B, Q); None: everything."""
        return affordable if self._gate is None else self._gate(x, self.given(x, known), asked, affordable)

    def closed(self, x: Tensor, known: Tensor, asked: Tensor) -> Tensor:
        """What is not to be chosen now (B, Q): what was asked already, and what may not be asked yet."""
        allowed = self.allowed(x, known, asked)
        return asked if allowed is None else ~allowed

    @property
    def _groups(self) -> Gate | None:
        """The gate, where some queries are asked together."""
        return self._gate if self._gate is not None and self._gate.has_groups else None

    def prices(self, asked: Tensor) -> Tensor:
        """What it takes to ask each query (Q,) or (B, Q): its cost, and that of its group where it would begin one."""
        return self.costs if self._groups is None else self._groups.prices(self.costs, asked)

    def group_scores(self, scores: Tensor, closed: Tensor, per_cost: bool = False) -> Tensor:
        """Scores in bits (B, Q), or in bits per cost, by which to choose among what is not `closed` (B, Q): members of
        a group stand for all of it."""
        if self._groups is None:
            return scores
        weights = self.costs.clamp(min=FREE) if per_cost else torch.ones_like(self.costs)
        return self._groups.group_scores(scores, closed, weights)

    def in_group(self, last: Tensor, allowed: Tensor | None) -> Tensor | None:
        """Whether more is `allowed` (B, Q) of the group of the query that was asked `last` (B,), -1 before the first;
        None where there are no groups."""
        return None if self._groups is None or allowed is None else self._groups.in_group(last, allowed)

    def whole_groups(self, chosen: Tensor) -> Tensor:
        """What is `chosen` (B, Q), one-hot or relaxed, with all that is asked together with it; differentiable."""
        return chosen if self._groups is None else self._groups.whole_groups(chosen)

    @property
    def first_of_group(self) -> Tensor | None:
        """The first member of the group of each query (Q,), or the query itself; None where there are no groups."""
        return None if self._groups is None else self._groups.first_of_group

    def known_beforehand(self, n_rows: int, given: Tensor | None = None) -> Tensor | None:
        """What is known of `n_rows` rows before anything is asked (n_rows, Q): what is `given`, and what the order
        says; None: nothing."""
        if self.order is None or not self.order.beforehand:
            return given
        assert self._gate is not None
        known = self._gate.beforehand.expand(n_rows, -1)
        return known if given is None else given | known.to(given.device)

    def blank(self, n_rows: int = 1) -> Tensor:
        """Rows (n_rows, *answer_shape) without any answer, to be filled by `tell`."""
        return torch.zeros(n_rows, *self.answer_shape, device=self._on_device.device)

    # ------------------------------------------------------------------------------------------------------------------
    # What follows has defaults that are right for any query set; one that can do more overrides them.

    mask: bool = False
    """Whether the network input also tells which queries are known."""
    reads_texts: bool = False
    """Whether a row of data is a text."""
    reads_columns: bool = False
    """Whether each query is a column of a table, found by the query's name."""
    patches: PatchGrid | None = None
    """Where the queries are patches of an image, which image networks and figures need to know."""
    pixel_range: tuple[float, float] | None = None
    """Of an image: what the darkest and the brightest pixel are in the user's data."""

    def doubt(self, query: int, answer: Any) -> Doubt | None:
        """Why a person hardly means this answer, so that it should be asked for again; None: nothing speaks against it,
        or it cannot be used at all, which `tell` says."""
        return None

    def given(self, x: Tensor, known: Tensor) -> Tensor:
        """Of the answers that are `known` (B, Q), those that are more than "not given"."""
        return known

    def encode_partly(self, x: Tensor, known: Tensor, shares: Tensor) -> Tensor:
        """Network input that also shows `shares` (B, Q), from 0 to 1, of further answers; differentiable in these."""
        return self.encode(x, known + shares)

    def reveal(self, encoded: Tensor, x: Tensor, query: Tensor, answered: Tensor) -> bool:
        """Make `query` (B,) known in network input `encoded` of answers `x`, in place, where it was `answered` (B,);
        False where the query set cannot do that, and the input has to be made again."""
        return False

    # Methods that model answers one by one need to know units; a query set without them works with all other methods.

    def set_units(self, of_feature: Tensor, of_query: Tensor, feature_types: tuple[FeatureType, ...]) -> None:
        """Say which units answers are made of, as `Units` has it: (F,), (Q, S) and (F,)."""
        self._units = Units(of_feature, of_query, feature_types)

    @property
    def has_units(self) -> bool:
        return self._units is not None

    @property
    def has_own_units(self) -> bool:
        """Whether each query shows one unit, and no other query shows it."""
        return self._units is not None and self._units.are_own

    @property
    def units(self) -> Units:
        """The units that answers are made of; raises ValueError for a query set that does not say."""
        if self._units is None:
            raise ValueError(
                f"This takes to know what answers are made of, which {self} does not say: use columns, words, concepts "
                "or patches, or give your query set units (set_units)."
            )
        return self._units
