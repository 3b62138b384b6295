"""People who do not know, and people who err: rows whose answers are withheld or wrong now and then, drawn again each
time a row comes up in training."""

from dataclasses import dataclass, replace

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

    def __post_init__(self) -> None:
        if not (0 <= self.withheld < 1 and 0 <= self.wrong < 1):
            raise ValueError(
                f"Answers are withheld and wrong in a share of all cases, at least 0 and below 1, not {self.withheld} "
                f"and {self.wrong}."
            )

    def __call__(self, rows: Rows, features: tuple[Tensor, Tensor], generator: torch.Generator) -> Rows:
        """The rows as such people answer, given the `answer_features` of their query set. What is initially known stays
        as it is."""
        unit_of_feature, is_yes_no = features
        draws = torch.rand(2, *rows.available.shape, generator=generator, device=rows.x.device)
        given = torch.zeros_like(rows.available) if rows.initially_known is None else rows.initially_known
        # Yes and no are exchanged, and other answers are those of the row before, if that has one.
        has_other = rows.available.roll(1, dims=0)[:, unit_of_feature] | is_yes_no
        is_wrong = ((draws[0] < self.wrong) & ~given & rows.available)[:, unit_of_feature] & has_other
        mistaken = torch.where(is_yes_no, -rows.x, rows.x.roll(1, dims=0))
        kept = (draws[1] >= self.withheld) | given
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

    def prepare(self, n: int) -> None:
        self.stream.prepare(n)

    def take(self, n: int) -> Rows:
        rows = self.stream.take(n)
        return self.settings(rows, self.features, self.generator) if n else rows

    def state(self) -> dict[str, Tensor]:
        return self.stream.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.stream.load_state(state)
