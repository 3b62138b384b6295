"""People who do not know, and people who err: rows whose answers are withheld or wrong now and then, drawn again each
time a row comes up in training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from pursuit.queries import QuerySet
from pursuit.registry import register
from pursuit.training.rows import Rows, RowStream


@register
@dataclass(frozen=True)
class Unreliable:
    """How often answers are withheld, and how often they are wrong: yes for no, no for yes, or another row's answer."""

    withheld: float = 0.05
    wrong: float = 0.02
    by_question: Mapping[str, Sequence[float]] = field(default_factory=dict, hash=False)
    """Both rates of questions that are answered less or more reliably than others, by their names: what can be checked
    is wrong less often than what only the person knows, as in {"income": (0.0, 0.2), "age": (0.0, 0.0)}."""

    def __post_init__(self) -> None:
        own = {name: tuple(rates) for name, rates in self.by_question.items()}  # lists, where a file has them
        object.__setattr__(self, "by_question", own)
        for rates in ((self.withheld, self.wrong), *self.by_question.values()):
            if len(rates) != 2 or not all(0 <= rate < 1 for rate in rates):
                raise ValueError(
                    "Answers are withheld and wrong in a share of all cases, at least 0 and below 1, not "
                    f"{' and '.join(map(str, rates))}."
                )

    def rates(self, query_set: QuerySet, device: torch.device) -> Tensor:
        """How often answers to each query are withheld, and wrong: (2, Q)."""
        if unknown := [name for name in self.by_question if name not in query_set.index_of]:
            raise ValueError(f"Nothing is asked about '{unknown[0]}': name another question in by_question.")
        own = [self.by_question.get(query.name, (self.withheld, self.wrong)) for query in query_set.queries]
        return torch.tensor(own, device=device).T

    def __call__(
        self, rows: Rows, features: tuple[Tensor, Tensor], generator: torch.Generator, rates: Tensor | None = None
    ) -> Rows:
        """The rows as such people answer, given the `answer_features` of their query set, and perhaps the `rates` of
        its queries. What is initially known stays as it is."""
        unit_of_feature, is_yes_no = features
        withheld, wrong = (self.withheld, self.wrong) if rates is None else rates
        draws = torch.rand(2, *rows.available.shape, generator=generator, device=rows.x.device)
        given = torch.zeros_like(rows.available) if rows.initially_known is None else rows.initially_known
        # Yes and no are exchanged, and other answers are those of the row before, if that has one.
        has_other = rows.available.roll(1, dims=0)[:, unit_of_feature] | is_yes_no
        is_wrong = ((draws[0] < wrong) & ~given & rows.available)[:, unit_of_feature] & has_other
        mistaken = torch.where(is_yes_no, -rows.x, rows.x.roll(1, dims=0))
        kept = (draws[1] >= withheld) | given
        return replace(rows, x=torch.where(is_wrong, mistaken, rows.x), available=rows.available & kept)


def answer_features(query_set: QuerySet, device: torch.device) -> tuple[Tensor, Tensor]:
    """The query of each feature of the answers (F,), and whether it is answered by yes or no (F,)."""
    if not query_set.has_own_units:
        raise ValueError(
            "Only answers to columns, words or concepts can be withheld or wrong, because those to patches depend on "
            "one another: leave unreliable out."
        )
    units = query_set.units
    return units.of_feature.to(device), torch.tensor([one == "yes_no" for one in units.feature_types], device=device)


class UnreliableRows(RowStream):
    """A stream whose answers are withheld and wrong now and then."""

    def __init__(self, stream: RowStream, settings: Unreliable, query_set: QuerySet, generator: torch.Generator):
        self.stream, self.settings, self.generator, self.n_queries = stream, settings, generator, stream.n_queries
        self.features = answer_features(query_set, generator.device)
        self.rates = settings.rates(query_set, generator.device)

    def prepare(self, n: int) -> None:
        self.stream.prepare(n)

    def take(self, n: int) -> Rows:
        rows = self.stream.take(n)
        return self.settings(rows, self.features, self.generator, self.rates) if n else rows

    def state(self) -> dict[str, Tensor]:
        return self.stream.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.stream.load_state(state)
