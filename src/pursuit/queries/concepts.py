"""Concepts as queries: yes/no questions whose answers a network predicts from the input, such as a photo."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from pursuit.queries.column import NO_WORDS, YES_WORDS, Number, Query, wording, yes_no
from pursuit.queries.columns import ColumnQueries
from pursuit.queries.own_inputs import OwnInputs
from pursuit.queries.query_set import Answers
from pursuit.registry import register

BATCH_SIZE = 256
LARGEST_LOG_ODDS = 6.0
"""Log odds beyond this are cut: it is 99.75 %, and what lies beyond is worth little and varies much."""
UNIT = 3.0
"""Log odds that networks see as one."""
Scale = Literal["probability", "log odds", "yes/no"]
_RANGE = "Answers to concepts are probabilities of yes, from 0 to 1"


@dataclass(frozen=True)
class Concept(Number):
    """A yes/no query answered by how likely yes is, as a number that networks see as it is."""

    choices: tuple[str, ...] = ("no", "yes")


@register
class ConceptQueries(ColumnQueries):
    """Yes/no queries that a network answers, from inputs (N, ...) to logits (N, Q).

    With p the probability of yes that the network gives, an answer is 2p - 1 by default. On the scale "log odds" it is
    the logarithm of p / (1 - p), up to 6 and divided by 3: where probabilities are mostly small, as with shares of
    images that show something rare, 1 % and 4 % are then as different as 20 % and 50 %. Both count as numbers, so
    whatever needs answers from a list (exact pursuit) refuses them. On the scale "yes/no" it is only -1 or 1, a choice
    like any other.
    """

    reads_columns = False

    def __init__(
        self,
        queries: Sequence[Query],
        network: nn.Module | None = None,
        scale: Scale = "probability",
        mask: bool = True,
    ):
        if network is not None and not isinstance(network, nn.Module):
            raise TypeError(f"network is a torch module from inputs to logits, not {type(network).__name__}.")
        if scale not in get_args(Scale):
            raise ValueError(f"scale is one of {', '.join(get_args(Scale))}, not {scale!r}.")
        make = yes_no if scale == "yes/no" else _concept
        super().__init__([make(query.name, query.text, query.cost) for query in queries])
        self.scale, self.mask = scale, mask
        # Other numbers need the mask; here zero means "as likely as not", which may well look like no answer.
        self.own_inputs = OwnInputs(self.queries, mask)
        self.input_shape = (self.own_inputs.n_inputs,)
        # In a tuple, where torch does not see it: a submodule would follow the model into training mode (moving its
        # BatchNorm statistics), under the optimizer and into the saved weights. The answers are given, not learned.
        self._network = (network,)

    @property
    def network(self) -> nn.Module | None:
        return self._network[0]

    def with_network(self, network: nn.Module | None) -> "ConceptQueries":
        """The same queries, answered by this network; those of a loaded model have none."""
        return ConceptQueries(self.queries, network, self.scale, self.mask)

    @classmethod
    def from_data(cls, *_: Any, **__: Any) -> "ConceptQueries":
        raise ValueError("Concepts cannot be guessed from data: list them, as in ConceptQueries([Query(name, text)]).")

    def rescaled(self, data: Any) -> "ConceptQueries":
        return self  # probabilities need no scaling

    def answers(self, data: Any) -> Answers:
        """Probabilities of yes, as floats (N, Q) or a DataFrame (NaN: no answer), or anything the network reads."""
        probabilities = data if isinstance(data, pd.DataFrame | Tensor) else np.asarray(data)
        if not self._are_probabilities(probabilities):
            probabilities = self.probabilities(probabilities)
        if isinstance(probabilities, Tensor):
            probabilities = probabilities.detach().cpu().float().numpy()
        if isinstance(probabilities, pd.DataFrame):  # other columns are not read
            probabilities = probabilities.set_axis([str(name) for name in probabilities.columns], axis=1)
            present = set(probabilities.columns)
            probabilities = probabilities[[query.name for query in self.queries if query.name in present]]
        try:
            values = np.array(probabilities, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{_RANGE}, but the data hold words: write yes as 1 and no as 0.") from None
        outside = values[(values < 0) | (values > 1)]  # NaN is neither
        if outside.size:
            raise ValueError(f"{_RANGE}, but the data hold {outside[0]:g}. Put logits through a sigmoid first.")
        if isinstance(probabilities, pd.DataFrame):
            return super().answers(probabilities.astype(np.float64).apply(self._scaled))
        return super().answers(self._scaled(values))

    def _scaled(self, probabilities: Any) -> Any:
        """Probabilities as numbers of this scale, or as 0 and 1 for no and yes; NaN stays."""
        match self.scale:
            case "probability":
                return 2 * probabilities - 1
            case "log odds":
                with np.errstate(divide="ignore"):
                    log_odds = np.log(probabilities) - np.log1p(-probabilities)
                return np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS) / UNIT
            case "yes/no":
                return (probabilities >= 0.5) + 0 * probabilities

    def _are_probabilities(self, data: pd.DataFrame | Tensor | np.ndarray) -> bool:
        if isinstance(data, pd.DataFrame):
            return True
        is_float = data.is_floating_point() if isinstance(data, Tensor) else data.dtype.kind == "f"
        return (is_float or self.network is None) and data.ndim == 2 and data.shape[1] == len(self)

    @torch.no_grad()
    def probabilities(self, data: Any) -> np.ndarray:
        """What the network answers: the probability of yes to each query, (N, Q)."""
        network = self.network
        if network is None:
            raise ValueError(
                f"These queries have no concept network to read the data, so probabilities of shape (N, {len(self)}) "
                f"are expected, not {tuple(np.shape(data))}. Give those, or attach the network: with_network(network)."
            )
        inputs = data if isinstance(data, Tensor) else torch.from_numpy(np.asarray(data))
        if len(inputs) == 0:
            raise ValueError("There are no rows to answer for: at least one is needed.")
        device = next((tensor.device for tensor in (*network.parameters(), *network.buffers())), torch.device("cpu"))
        was_training = network.training
        network.eval()
        try:
            logits = torch.cat([network(batch.to(device)).float().cpu() for batch in inputs.split(BATCH_SIZE)])
        finally:
            network.train(was_training)
        if logits.shape != (len(inputs), len(self)):
            raise ValueError(
                f"The concept network gives logits of shape {tuple(logits.shape)} for {len(inputs)} rows, but "
                f"{(len(inputs), len(self))} is expected, one for each query."
            )
        return logits.sigmoid().numpy()

    def describe(self, query: int, x: Tensor) -> str:
        value = float(x[query])
        answer = "yes" if value >= 0 else "no"
        if self.scale == "yes/no":
            return answer
        probability = (value + 1) / 2 if self.scale == "probability" else 1 / (1 + math.exp(-UNIT * value))
        return f"{answer} ({probability:.0%})"

    def tell(self, x: Tensor, query: int, answer: Any) -> None:
        value = float(self._scaled(np.float64(parse_probability(self.queries[query], answer))))
        x[query] = 2 * value - 1 if self.scale == "yes/no" else value

    def to_config(self) -> dict[str, Any]:
        """Without the network, which is saved apart from the query set."""
        queries = [{"name": query.name, "text": query.text, "cost": query.cost} for query in self.queries]
        return {"queries": queries, "scale": self.scale, "mask": self.mask}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ConceptQueries":
        queries = [Query(**query) for query in config["queries"]]
        return cls(queries, scale=config["scale"], mask=config["mask"])


def _concept(name: str, text: str, cost: float) -> Concept:
    return Concept(name, text or wording(name), cost=cost)


def parse_probability(query: Query, answer: Any) -> float:
    """The probability of yes in a person's answer: yes or no in the usual words, 0.8, or "80%"."""
    word = str(answer).strip().lower()
    if word in NO_WORDS | YES_WORDS:
        return float(word in YES_WORDS)
    try:
        probability = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        probability = np.nan
    if not 0 <= probability <= 1:
        raise ValueError(
            f"The answer to '{query.text}' is yes, no, or the probability of yes from 0 to 1, not {answer!r}."
        )
    return probability
