"""What every query set offers: its queries, the answers of data rows, and network input for a history.

Answers live in the *answer space* of their query set: `x` has shape (B, *answer_shape) and holds the answers to all
queries of B rows, ready for the networks. Which of them may be read is said by `known` (B, Q). `encode` makes network
input of the two; the shortcuts beside it (`encode_partly`, `reveal`, `place`) must give the same.

Whatever training, inference, methods and figures want to know of a query set beyond that is an attribute or a method
of `QuerySet`, with a default that is right for any: nothing outside this package asks for the type of a query set.
"""

import copy
import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from pursuit.queries.doubts import Doubt
from pursuit.queries.order import Gate, Order

FeatureType = Literal["yes_no", "share", "choice", "number"]
"""What a feature of the answer space is: -1 or 1; anything from -1 to 1, a share of no and yes; 0 or 1 for one of
several choices; or a standardised number."""
NOT_GIVEN_TEXT = "not given"
"""The answer, in words, that a value is missing, to a query that may be answered so."""


@dataclass(frozen=True)
class Query:
    """A question with a clear meaning."""

    name: str
    text: str
    """The wording a person reads."""
    choices: tuple[str, ...] = ()
    """What may be answered; empty where the answer is not one of a list."""
    cost: float = 1.0
    """What it takes to get the answer, in any unit; 0 if it is free."""
    help: str = field(default="", kw_only=True)
    """What a person may want to know to answer it."""
    unit: str = field(default="", kw_only=True)
    """What a number is measured in."""
    may_be_missing: bool = field(default=False, kw_only=True)
    """Whether it is an answer of its own, "not given", that data have no value. It is not "don't know", which is no
    answer."""

    @property
    def offered(self) -> tuple[str, ...]:
        """The choices that a person may pick, "not given" last where it is an answer; empty without choices."""
        is_more = self.may_be_missing and self.choices and NOT_GIVEN_TEXT not in self.choices
        return (*self.choices, NOT_GIVEN_TEXT) if is_more else self.choices

    @property
    def expected(self) -> str:
        """What may be answered, in a few words; empty where that cannot be said."""
        return "/".join(self.offered)

    def __post_init__(self) -> None:
        if not 0 <= self.cost < math.inf:
            raise ValueError(f"The cost of '{self.name}' is a number of at least 0, not {self.cost}.")


class Answers(NamedTuple):
    """The answers of N rows, asked or not."""

    x: Tensor  # (N, *answer_shape)
    available: Tensor  # (N, Q) bool, False where a row has no answer to a query


class Place(NamedTuple):
    """Where the answers to B queries stand, in a query set in which every answer has inputs of its own."""

    features: Tensor  # (B, w), the same in `x` (B, F) and in the input
    there: Tensor | None  # (B, w) bool, False where a query has fewer features; None if all have w
    known: Tensor | None  # (B, 1), the input that says that the query is known; None without a mask


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
    _costs: Tensor | None
    answer_shape: tuple[int, ...]
    input_shape: tuple[int, ...]

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_on_device", torch.empty(0), persistent=False)  # says where the query set is
        self.register_buffer("_costs", None, persistent=False)  # made when it is asked for: queries come later
        self.register_buffer("unit_of_feature", None, persistent=False)
        self.register_buffer("units_of_query", None, persistent=False)
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
            on_device: Any = self._on_device
            costs = [query.cost for query in self.queries]
            self._costs = torch.tensor(costs, dtype=torch.float, device=on_device.device)
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
            close = difflib.get_close_matches(unknown[0], self.index_of, n=1)
            names = f"Did you mean '{close[0]}'?" if close else f"Queries are {', '.join([*self.index_of][:6])} …"
            raise ValueError(f"There is no query '{unknown[0]}' to give a cost. {names}")
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
        on_device: Any = self._on_device
        return torch.zeros(n_rows, *self.answer_shape, device=on_device.device)

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

    # Units are the smallest parts that answers are made of: columns of a table, pixels of an image. A unit is a single
    # feature, or has one for each of several choices. Methods that model answers one by one need to know units; a query
    # set that leaves them None can be used with all other methods.
    unit_of_feature: Tensor | None
    """(F,) the unit that each feature of a flattened answer belongs to."""
    units_of_query: Tensor | None
    """(Q, S) the units that each query shows."""
    has_own_units: bool = False
    """Whether unit q is what query q shows, and no other query shows it: S is 1, and there are Q units."""
    feature_types: tuple[FeatureType, ...] | None = None
    """(F,) what each feature of a flattened answer is."""

    def set_units(self, unit_of_feature: Tensor, units_of_query: Tensor) -> None:
        """Say which units answers are made of: (F,) and (Q, S)."""
        self.register_buffer("unit_of_feature", unit_of_feature, persistent=False)
        self.register_buffer("units_of_query", units_of_query, persistent=False)

    def known_units(self, known: Tensor) -> Tensor:
        """Which units are known once the queries `known` (B, Q) are: (B, U) bool."""
        if self.has_own_units:
            return known.bool()
        _, units_of_query, _ = self.need_units("Counting units")
        shown = units_of_query.flatten().expand(len(known), -1)
        is_known = known.bool().int().repeat_interleave(units_of_query.shape[1], dim=1)
        times_shown = torch.zeros(len(known), self.n_units, dtype=torch.int, device=known.device)
        return times_shown.scatter_add(1, shown, is_known) > 0

    def sum_over_units(self, values: Tensor) -> Tensor:
        """The sum of the `values` (B, U) of the units that each query shows: (B, Q)."""
        if self.has_own_units:
            return values
        _, units_of_query, _ = self.need_units("Counting units")
        return values[:, units_of_query].sum(dim=2)

    @cached_property
    def n_units(self) -> int:
        unit_of_feature, _, _ = self.need_units("Counting units")
        return int(unit_of_feature.max()) + 1

    def need_units(self, who: str) -> tuple[Tensor, Tensor, tuple[FeatureType, ...]]:
        """The unit of every feature, the units of every query and the types of features; raises ValueError, in the
        name of `who`, for a query set that does not say."""
        if self.unit_of_feature is None or self.units_of_query is None or self.feature_types is None:
            raise ValueError(
                f"{who} needs to know what answers are made of, which {self} does not say: use columns, words, "
                "concepts or patches, or give your query set units (set_units) and feature_types."
            )
        return self.unit_of_feature, self.units_of_query, self.feature_types

    def features_of_units(self, who: str) -> list[list[int]]:
        """The features of every unit: a single one, or one for each of several choices; raises ValueError, in the name
        of `who`, for a query set with units that mix feature types."""
        unit_of_feature, _, types = self.need_units(who)
        features: list[list[int]] = [[] for _ in range(self.n_units)]
        for feature, unit in enumerate(unit_of_feature.tolist()):
            features[unit].append(feature)
        for unit, own in enumerate(features):
            if not own or (len(own) > 1 and any(types[feature] != "choice" for feature in own)):
                raise ValueError(
                    f"{who} needs units of one feature each, or of one feature for each of several choices, but unit "
                    f"{unit} of {self} has {', '.join(types[feature] for feature in own) or 'none'}: give each number "
                    "and each yes or no a unit of its own (set_units)."
                )
        return features

    # Network input that grows answer by answer, for rollouts and sessions.
    reveals_in_place: bool = False
    """Whether `reveal` can change network input answer by answer."""
    inputs_per_answer: int | None = None
    """How many inputs of the network an answer has, at most, if these are its own: then `place` and `features` say
    which. None where one input may belong to several answers."""

    @property
    def query_of_input(self) -> Tensor:
        """(inputs,) the query whose answer each input shows, for query sets with units of their own; inputs of the mask
        come after these."""
        return self.need_units("Dividing the input by queries")[0]

    def reveal(self, encoded: Tensor, x: Tensor, query: Tensor, answered: Tensor) -> None:
        """Make `query` (B,) known in network input `encoded` of answers `x`, in place, where it was `answered` (B,)."""
        raise NotImplementedError(f"{self} encodes answers together: see reveals_in_place.")

    def place(self, query: Tensor) -> Place:
        """Where the answers to `query` (B,) stand in `x` and in the network input."""
        raise NotImplementedError(f"{self} has no inputs of its own for an answer: see inputs_per_answer.")

    has_plain_inputs: bool = True
    """Whether an answer has no other inputs than its features and, with a mask, one that says that it is known."""

    def shown(self, values: Tensor) -> Tensor:
        """The `values` of features, of any shape, as the input shows them once they are known."""
        return values

    def code_inputs(self, query: Tensor, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor] | None:
        """Further inputs of the answers to `query` (B,), beside those of `place`, and their values in the `rows` (B,)
        of answers `x`: (B, k) each; None where no query has any."""
        return None

    def features(self, query: int) -> slice:
        """The features of one query in `x` and in the network input."""
        raise NotImplementedError(f"{self} has no inputs of its own for an answer: see inputs_per_answer.")
