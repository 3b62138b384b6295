"""Streamed rows in which some classes count more than others."""

from dataclasses import replace

import torch
from torch import Tensor

from pursuit.training.rows import Rows, RowStream, StreamedRows


class ClassWeightedRows(StreamedRows):
    """The rows of another source, each with the weight of its class."""

    def __init__(self, source: StreamedRows, class_weight: Tensor):
        """`class_weight` (C,) says how many rows one of each class counts as, 1 on average over the rows."""
        self.source, self.class_weight = source, class_weight
        self.n_queries, self.classes, self.query_set = source.n_queries, source.classes, source.query_set
        self.has_initially_known, self.feature_names = source.has_initially_known, source.feature_names

    def __len__(self) -> int:
        return len(self.source)

    def weighted(self, rows: Rows) -> Rows:
        return replace(rows, weight=self.class_weight[rows.y])

    def draw(self, n: int, generator: torch.Generator) -> Rows:
        return self.weighted(self.source.draw(n, generator))

    def hold_out(self, share: float, most: int, seed: int) -> tuple["ClassWeightedRows", Rows]:
        others, held_out = self.source.hold_out(share, most, seed)
        return ClassWeightedRows(others, self.class_weight), self.weighted(held_out)

    def to(self, device: torch.device) -> "ClassWeightedRows":
        return ClassWeightedRows(self.source.to(device), self.class_weight.to(device))

    def prior(self, n_classes: int) -> Tensor:
        weighted = self.source.prior(n_classes) * self.class_weight
        return weighted / weighted.sum()

    def fingerprint(self) -> str:
        return f"{self.source.fingerprint()} {self.class_weight.tolist()}"

    def shard(self, number: int, n_shards: int) -> "ClassWeightedRows":
        return ClassWeightedRows(self.source.shard(number, n_shards), self.class_weight)

    def stream(self, generator: torch.Generator) -> RowStream:
        return _WeightedStream(self, self.source.stream(generator))


class _WeightedStream(RowStream):
    def __init__(self, source: ClassWeightedRows, stream: RowStream):
        self.source, self.rows, self.n_queries = source, stream, stream.n_queries

    def prepare(self, n: int) -> None:
        self.rows.prepare(n)

    def take(self, n: int) -> Rows:
        return self.source.weighted(self.rows.take(n))

    def state(self) -> dict[str, Tensor]:
        return self.rows.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.rows.load_state(state)
