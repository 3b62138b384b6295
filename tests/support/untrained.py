"""Query sets, rows and pursuers that take no data and no training."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.networks import MLP
from pursuit.queries import Choice, ColumnQueries, Number, QuerySet, yes_no
from pursuit.training.rows import Rows
from pursuit.vip import VIP


def make_columns(types: Sequence[str], mask: bool = True) -> ColumnQueries:
    """Column queries from a list of types: yes_no, choice (of three), single (of one) and number."""
    columns: list[Choice | Number] = []
    for i, column_type in enumerate(types):
        if column_type == "number":
            columns.append(Number(f"q{i}", f"What is q{i}?", centre=5.0 * i, spread=1.0 + i))
        elif column_type == "yes_no":
            columns.append(yes_no(f"q{i}"))
        else:
            choices = ("red", "green", "blue") if column_type == "choice" else ("only",)
            columns.append(Choice(f"q{i}", f"Which q{i}?", choices))
    return ColumnQueries(columns, mask)


def _random_answers(query_set: QuerySet, n_rows: int, generator: torch.Generator) -> Tensor:
    """Answers (n_rows, *answer_shape) such as the features of the query set may have."""
    unit_of_feature, types = query_set.units.of_feature, query_set.units.feature_types
    x = torch.zeros(n_rows, len(types), dtype=torch.double)
    shares = torch.tensor([feature_type == "share" for feature_type in types])
    x[:, shares] = torch.rand(n_rows, int(shares.sum()), generator=generator, dtype=torch.double) * 2 - 1
    for unit in range(len(query_set.units)):
        first, width = int((unit_of_feature == unit).int().argmax()), int((unit_of_feature == unit).sum())
        if types[first] == "number":
            x[:, first] = torch.randn(n_rows, generator=generator, dtype=torch.double)
        elif types[first] == "yes_no":
            x[:, first] = 2.0 * torch.randint(2, (n_rows,), generator=generator) - 1
        elif types[first] == "choice":
            x[torch.arange(n_rows), first + torch.randint(width, (n_rows,), generator=generator)] = 1
    return x.view(n_rows, *query_set.answer_shape)


def make_rows(
    query_set: QuerySet, n_rows: int, seed: int = 0, missing: float = 0.0, reported: float = 0.0, n_classes: int = 3
) -> Rows:
    """Random rows in double precision, of which a share `missing` of the answers is missing, and a share `reported` is
    initially known. Missing answers stay in `x`, so that reading them shows."""
    generator = torch.Generator().manual_seed(seed)
    x = _random_answers(query_set, n_rows, generator)
    available = torch.rand(n_rows, len(query_set), generator=generator) >= missing
    y = torch.randint(n_classes, (n_rows,), generator=generator)
    initially_known = available & (torch.rand(n_rows, len(query_set), generator=generator) < reported)
    return Rows(x, available, y, initially_known if reported else None)


def some_history(rows: Rows, share: float = 0.4, seed: int = 1) -> History:
    """Histories in which a share of the queries was asked."""
    asked = torch.rand(rows.available.shape, generator=torch.Generator().manual_seed(seed)) < share
    return History(rows.x, asked & rows.available, asked)


def make_vip(query_set: QuerySet, n_classes: int = 3, seed: int = 0, dtype: torch.dtype = torch.double) -> VIP:
    """An untrained V-IP with strong opinions; in double precision the size of a batch does not show in its results."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        prior = torch.rand(n_classes) + 0.2
        classes = [f"class {i}" for i in range(n_classes)]
        model = VIP.build(ModelSpec(query_set, classes, MLP(hidden=(12,)), prior=prior / prior.sum()))
    with torch.no_grad():
        model.classifier[-1].weight.mul_(4)
    return model.to(dtype).eval()


class Counting:
    """Another pursuer, with a count of the calls and of the rows it was shown."""

    def __init__(self, pursuer: Pursuer):
        self.pursuer, self.query_set, self.classes = pursuer, pursuer.query_set, pursuer.classes
        self.calls: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()

    def scores(self, history: History) -> Tensor:
        self.calls["scores"] += 1
        self.rows["scores"] += len(history)
        return self.pursuer.scores(history)

    def log_posterior(self, history: History) -> Tensor:
        self.calls["log_posterior"] += 1
        self.rows["log_posterior"] += len(history)
        return self.pursuer.log_posterior(history)


class InOrder:
    """Asks the queries from first to last and always believes the same, whatever is answered."""

    def __init__(self, query_set: QuerySet, classes: Sequence[str] = ("a", "b")):
        self.query_set, self.classes = query_set, classes

    def scores(self, history: History) -> Tensor:
        return -torch.arange(history.asked.shape[1], dtype=torch.float).expand(history.asked.shape)

    def log_posterior(self, history: History) -> Tensor:
        return torch.full((len(history), len(self.classes)), 1 / len(self.classes)).log()


class KnownWorth(InOrder):
    """A pursuer whose scores have a unit, and whose queries have costs. Every query it asks is worth half as much as
    the one before; its belief changes with every answer."""

    def __init__(self, costs: Sequence[float], unit: str | None = "bits", seed: int = 0):
        super().__init__(ColumnQueries([yes_no(f"q{i}") for i in range(len(costs))]))
        queries = zip(self.query_set.queries, costs, strict=True)
        self.query_set.queries = tuple(replace(query, cost=cost) for query, cost in queries)
        self.score_unit = unit
        generator = torch.Generator().manual_seed(seed)
        self.preferences = torch.rand(len(costs), generator=generator, dtype=torch.double)
        self.weights = torch.randn(len(costs), generator=generator, dtype=torch.double)

    def scores(self, history: History) -> Tensor:
        return self.preferences * 0.5 ** history.known.sum(dim=1, keepdim=True)

    def log_posterior(self, history: History) -> Tensor:
        logit = (history.x.double() * history.known) @ self.weights
        return torch.stack([logit, -logit], dim=1).log_softmax(dim=1)
