"""In what order queries may be asked: what is known beforehand, what is asked only after something else, and what is
asked together. The best query is chosen among those that are open; this says which ones are closed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pursuit.registry import did_you_mean, register

OWN_SHARE = 1e-3
"""Weight of a query's own score beside the mean score of its group: it only decides which member comes first."""


@register
@dataclass(frozen=True)
class OnlyAfter:
    """`query` is asked only once `after` was asked, or got one of the `answers` (choices of `after`)."""

    query: str
    after: str
    answers: tuple[str, ...] = ()


@register
@dataclass(frozen=True)
class Group:
    """Queries that are asked together: once one is asked, the others follow at once. It is begun where what all of them
    tell is worth what all of them cost."""

    name: str
    queries: tuple[str, ...]


@register
@dataclass(frozen=True)
class Order:
    """What restricts the order of queries, by their names. A query with several conditions waits for all of them."""

    beforehand: tuple[str, ...] = ()
    """Known before anything is asked: never chosen, and a session begins with them."""
    only_after: tuple[OnlyAfter, ...] = ()
    groups: tuple[Group, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.beforehand or self.only_after or self.groups)

    def check(self, choices: Mapping[str, Sequence[str]]) -> None:
        """Raise ValueError if the order does not fit queries with these names and choices."""
        for name in self.beforehand:
            _check_name(name, choices, "to be known beforehand")
        for condition in self.only_after:
            self._check_condition(condition, choices)
        pairs = [(condition.query, condition.after) for condition in self.only_after]
        if twice := [pair for pair in pairs if pairs.count(pair) > 1]:
            raise ValueError(f"'{twice[0][0]}' waits for '{twice[0][1]}' more than once: leave one of the conditions.")
        _refuse_cycle(self.only_after)
        group_of: dict[str, str] = {}
        for group in self.groups:
            if len(set(group.queries)) < 2:
                raise ValueError(f"The group '{group.name}' is asked together, so it needs at least two queries.")
            for name in group.queries:
                _check_name(name, choices, f"in the group '{group.name}'")
                if name in self.beforehand:
                    raise ValueError(
                        f"'{name}' is in the group '{group.name}' and known beforehand, so it is never asked together "
                        "with others: leave it out of the group."
                    )
                if group_of.setdefault(name, group.name) != group.name:
                    raise ValueError(
                        f"'{name}' is in the groups '{group_of[name]}' and '{group.name}': leave it in one of them."
                    )

    def _check_condition(self, condition: OnlyAfter, choices: Mapping[str, Sequence[str]]) -> None:
        query, after = condition.query, condition.after
        _check_name(query, choices, f"to ask after '{after}'")
        _check_name(after, choices, f"to ask '{query}' after")
        if query in self.beforehand:
            raise ValueError(f"'{query}' is known beforehand, so it cannot be asked only after '{after}'.")
        if condition.answers and not choices[after]:
            raise ValueError(
                f"'{query}' can wait for an answer to '{after}' only if that has choices, but it is a number: write "
                f'only_after = "{after}".'
            )
        for answer in condition.answers:
            if answer not in choices[after]:
                raise ValueError(
                    f"'{query}' is asked only after '{after}' was answered '{answer}', but its choices are "
                    f"{', '.join(choices[after])}."
                )


def _check_name(name: str, names: Collection[str], what_for: str) -> None:
    if name not in names:
        hint = did_you_mean(name, names, "Is it left out, or never asked?")
        raise ValueError(f"There is no query '{name}' {what_for}. {hint}")


def _refuse_cycle(conditions: Iterable[OnlyAfter]) -> None:
    """Raise ValueError if queries wait for each other, and none of them could ever be asked."""
    waiting = TopologicalSorter[str]()
    for condition in conditions:
        waiting.add(condition.query, condition.after)
    try:
        waiting.prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))  # which has each before what waits for it
        raise ValueError(f"None of these could ever be asked, because each waits for the next: {circle}.") from None


class Ordered(Protocol):
    """What a gate needs to know of a query set."""

    queries: Any

    @property
    def index_of(self) -> dict[str, int]: ...

    def blank(self, n_rows: int = 1) -> Tensor: ...

    def tell(self, x: Tensor, query: int, answer: Any) -> None: ...


class Gate(nn.Module):
    """An order as operations on tensors, the same ones whatever the histories are: a recorded training step can replay
    them. It is a module only so that its constant tensors follow the query set to its device."""

    beforehand: Tensor
    after: Tensor
    waits: Tensor
    codes: Tensor
    offsets: Tensor
    places: Tensor
    accepted: Tensor
    needs_answer: Tensor
    members: Tensor
    is_member: Tensor
    first_of_group: Tensor

    def __init__(self, order: Order, query_set: Ordered):
        super().__init__()
        order.check({query.name: query.choices for query in query_set.queries})
        index_of, n_queries = query_set.index_of, len(query_set.queries)
        self.has_conditions, self.has_groups = bool(order.only_after), bool(order.groups)
        beforehand = torch.zeros(n_queries, dtype=torch.bool)
        beforehand[[index_of[name] for name in order.beforehand]] = True
        self._keep("beforehand", beforehand)  # (Q,)
        self._keep("after", torch.tensor([index_of[c.after] for c in order.only_after], dtype=torch.long))  # (J,)
        waits = torch.zeros(len(order.only_after), n_queries)
        for row, condition in zip(waits, order.only_after, strict=True):
            row[index_of[condition.query]] = 1
        self._keep("waits", waits)  # (J, Q) 1 where a query waits for a condition
        members = torch.zeros(n_queries, len(order.groups))
        for i, group in enumerate(order.groups):
            members[[index_of[name] for name in group.queries], i] = 1
        self._keep("members", members)  # (Q, G)
        self._keep("is_member", members.any(dim=1))  # (Q,)
        first = torch.arange(n_queries)
        for own in members.T.bool():
            first[own] = own.int().argmax()
        self._keep("first_of_group", first)  # (Q,)
        self._keep_answers(order.only_after, query_set)

    def _keep(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor, persistent=False)

    def _keep_answers(self, conditions: Sequence[OnlyAfter], query_set: Ordered) -> None:
        """How to tell which answer a query got: by the nearest of the codes that its choices have in the answer space.

        Conditions without answers come by a single code, which every answer is nearest to.
        """
        codes: list[Tensor] = []
        places, accepted = [], []
        for condition in conditions:
            query = query_set.index_of[condition.after]
            choices = query_set.queries[query].choices if condition.answers else ()
            places.append(range(len(codes), len(codes) + max(1, len(choices))))
            accepted.append([not choices or choice in condition.answers for choice in choices or [""]])
            rows = query_set.blank(max(1, len(choices))).cpu()
            for row, choice in zip(rows, choices, strict=False):
                query_set.tell(row, query, choice)
            codes += list(rows.flatten(1))
        n_codes = max(map(len, places), default=0)
        place, accepts = torch.zeros(2, len(conditions), n_codes)
        for i, (at, is_accepted) in enumerate(zip(places, accepted, strict=True)):
            place[i] = torch.tensor([*at, *[at[0]] * (n_codes - len(at))])  # the first again where there are fewer
            accepts[i] = torch.tensor([*is_accepted, *[is_accepted[0]] * (n_codes - len(at))])
        code = torch.stack(codes, dim=1) if codes else torch.empty(0, 0)
        self._keep("codes", code)  # (F, M)
        self._keep("offsets", (code**2).sum(dim=0) / 2)  # (M,)
        self._keep("places", place.long())  # (J, K) which codes are those of a condition's query
        self._keep("accepted", accepts.bool())  # (J, K)
        self._keep("needs_answer", torch.tensor([bool(c.answers) for c in conditions]))  # (J,)

    def forward(self, x: Tensor, known: Tensor, asked: Tensor, affordable: Tensor | None = None) -> Tensor:
        """Which queries may be asked now (B, Q): open, not asked before, and `affordable` (B, Q)."""
        is_open = ~(asked | self.beforehand)
        if affordable is not None:
            is_open = is_open & affordable
        if self.has_conditions:
            holds = self._holds(x, known, asked)  # (B, J)
            is_open = is_open & ~((~holds).float() @ self.waits > 0)
        if self.has_groups:
            begun = asked.float() @ self.members > 0  # (B, G)
            # A group goes on while a member is open; one that waits for something else does not hold up the rest.
            goes_on = begun & (is_open.float() @ self.members > 0)
            comes_next = goes_on.float() @ self.members.T > 0  # (B, Q)
            is_open = is_open & (comes_next | ~goes_on.any(dim=1, keepdim=True))
        return is_open

    def prices(self, costs: Tensor, asked: Tensor) -> Tensor:
        """What it takes to ask each query (B, Q), where each costs `costs` (Q,): whoever begins a group pays for all of
        it."""
        not_begun = (asked.float() @ self.members == 0).float() @ self.members.T  # (B, Q) 1 for members of such groups
        of_group = (costs @ self.members) @ self.members.T  # (Q,)
        return torch.where(not_begun > 0, of_group, costs)

    def group_scores(self, scores: Tensor, closed: Tensor, weights: Tensor) -> Tensor:
        """The scores (B, Q) with those of a group's members nearly replaced by their mean, in which each counts by its
        weight (Q,): a group is chosen for all that it tells, and its best member comes first."""
        is_open = ~closed & (scores > -torch.inf)
        weight = is_open * weights.to(scores.dtype)
        members = self.members.to(scores.dtype)
        total = (weight * scores.masked_fill(~is_open, 0)) @ members
        mean = (total / (weight @ members).clamp(min=torch.finfo(scores.dtype).tiny)) @ members.T
        return torch.where(is_open & self.is_member, mean + OWN_SHARE * (scores - mean), scores)

    def in_group(self, last: Tensor, allowed: Tensor) -> Tensor:
        """Whether more is `allowed` (B, Q) of the group of the query asked `last` (B,), -1 before the first: (B,)."""
        own = self.members[last] * (last >= 0)[:, None]  # (B, G)
        return (own * (allowed.float() @ self.members)).any(dim=1)

    def whole_groups(self, chosen: Tensor) -> Tensor:
        """What is `chosen` (B, Q), with the groups it belongs to; differentiable."""
        members = self.members.to(chosen.dtype)
        return torch.where(self.is_member, (chosen @ members) @ members.T, chosen)

    def _holds(self, x: Tensor, known: Tensor, asked: Tensor) -> Tensor:
        """Which conditions are met: (B, J)."""
        was_asked = (asked | self.beforehand)[:, self.after]
        nearness = x.flatten(1).float() @ self.codes - self.offsets  # (B, M)
        nearest = nearness[:, self.places].argmax(dim=2, keepdim=True)  # (B, J, 1)
        is_accepted = self.accepted.expand(len(x), -1, -1).gather(2, nearest)[:, :, 0]
        return torch.where(self.needs_answer, known[:, self.after] & is_accepted, was_asked)
