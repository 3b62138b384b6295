"""How answers are distributed given what a decoder says: the last part of every generative model of a query set.

Answers fall into U units that are independent given the decoder's numbers: a table's queries, each a unit of its own,
or the pixels of images, which patches show several at a time.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.queries import Choice, ColumnQueries, PatchQueries, QuerySet

CELL_EDGES = torch.linspace(-3, 3, 13)
"""Where the cells of a number's outcomes meet; numbers are standardised."""
LEAST_DEVIATION = 0.05
"""Of a number given the decoder's guess, lest a density grow without bound."""


class AnswerModel(nn.Module):
    """From a decoder's numbers (..., F), F being the size of an answer row, to probabilities of answers.

    A yes/no answer has the log odds of yes there and other choices have logits; a number is normal around what is said
    there, with a deviation that is learnt. A pixel is bright or dark like a yes or a no, and a grey one counts as both,
    each by its share.
    """

    yes_no: Tensor
    numbers: Tensor
    choices: Tensor
    owner: Tensor
    query_of: Tensor
    cell_edges: Tensor

    def __init__(self, query_set: QuerySet):
        super().__init__()
        self.query_set, self.n_outputs = query_set, math.prod(query_set.answer_shape)
        if isinstance(query_set, PatchQueries):
            kinds, owner = ["yes_no"] * self.n_outputs, torch.arange(self.n_outputs)
        elif isinstance(query_set, ColumnQueries):
            kinds, owner = _kinds(query_set), query_set.owner.clone()
        else:
            raise ValueError(f"There is no generative model of {query_set}: use columns, words, concepts or patches.")
        self.n_units = int(owner[-1]) + 1
        self.has_one_each = self.n_units == self.n_outputs
        places = {kind: [i for i, own in enumerate(kinds) if own == kind] for kind in ("yes_no", "number", "choice")}
        yes_no, numbers, choices = (torch.tensor(place, dtype=torch.long) for place in places.values())
        n_cells = len(CELL_EDGES) + 1
        query_of = torch.cat([owner[yes_no], owner[yes_no], owner[choices], owner[numbers].repeat_interleave(n_cells)])
        for name, tensor in (
            ("yes_no", yes_no),
            ("numbers", numbers),
            ("choices", choices),
            ("owner", owner),  # (F,) the unit of every number
            ("query_of", query_of),  # (A,) the unit of every outcome
            ("cell_edges", CELL_EDGES),
        ):
            self.register_buffer(name, tensor, persistent=False)
        self.log_deviation = nn.Parameter(torch.zeros(len(numbers)))

    def known_units(self, known: Tensor) -> Tensor:
        """Which units are known (B, U) once these queries (B, Q) are, as float."""
        if isinstance(self.query_set, PatchQueries):
            seen = self.query_set.pixels(known.float())  # (B, 1, H, W)
            return seen.expand(-1, self.query_set.image_shape[0], -1, -1).flatten(1)
        return known.float()

    def log_prob(self, outputs: Tensor, x: Tensor) -> Tensor:
        """The log probability (or density, of numbers) of the answers x (..., F) to every unit: (..., U)."""
        outputs = outputs.float()
        if len(self.yes_no) == self.n_outputs:
            return _log_bernoulli(outputs, x)
        of_features = torch.zeros(torch.broadcast_shapes(outputs.shape, x.shape), device=x.device)
        told, answer = outputs[..., self.yes_no], x[..., self.yes_no]
        of_features[..., self.yes_no] = _log_bernoulli(told, answer)
        guess, answer, deviation = outputs[..., self.numbers], x[..., self.numbers], self._deviation()
        distance = (answer - guess) / deviation
        of_features[..., self.numbers] = -0.5 * (distance**2 + math.log(2 * math.pi)) - deviation.log()
        of_features[..., self.choices] = self._log_choices(outputs) * x[..., self.choices]
        return of_features if self.has_one_each else self._by_unit(of_features, self.owner)

    def _deviation(self) -> Tensor:
        return self.log_deviation.exp().clamp(min=LEAST_DEVIATION)

    def _log_choices(self, outputs: Tensor) -> Tensor:
        """Log probabilities of the choices of queries that have more than two: (..., n)."""
        logits = outputs[..., self.choices]
        largest = outputs.amax(dim=-1, keepdim=True)
        total = self._by_unit((logits - largest).exp(), self.owner[self.choices])
        return logits - largest - total.clamp(min=torch.finfo(total.dtype).tiny).log()[..., self.owner[self.choices]]

    def _by_unit(self, values: Tensor, unit: Tensor) -> Tensor:
        total = torch.zeros(*values.shape[:-1], self.n_units, dtype=values.dtype, device=values.device)
        return total.index_add(-1, unit, values)

    def outcomes(self, outputs: Tensor) -> Tensor:
        """The probability of every outcome (..., A), those of unit u being where `query_of` is u; a number's outcomes
        are cells between `CELL_EDGES`."""
        outputs = outputs.float()
        yes = outputs[..., self.yes_no].sigmoid()
        parts = [yes, 1 - yes, self._log_choices(outputs).exp()]
        if len(self.numbers):
            distance = (self.cell_edges - outputs[..., self.numbers, None]) / self._deviation()[:, None]
            below = F.pad(torch.special.ndtr(distance), (1, 0))
            parts.append((F.pad(below, (0, 1), value=1.0).diff(dim=-1)).flatten(-2))
        return torch.cat(parts, dim=-1)

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Answers (..., F) drawn as the decoder says."""
        outputs = outputs.float()
        noise = torch.rand(outputs.shape, generator=generator, device=outputs.device)
        x = torch.zeros_like(outputs)
        x[..., self.yes_no] = (noise < outputs.sigmoid())[..., self.yes_no] * 2.0 - 1.0
        spread = torch.special.ndtri(noise[..., self.numbers].clamp(1e-6, 1 - 1e-6)) * self._deviation()
        x[..., self.numbers] = outputs[..., self.numbers] + spread
        if len(self.choices):
            x[..., self.choices] = self._drawn_choices(outputs, noise)
        return x

    def _drawn_choices(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """Indicators of choices: in every query the one with the largest logit, each with Gumbel noise."""
        gumbel = -(-noise.clamp(min=1e-20).log()).clamp(min=1e-20).log()
        worth, unit = (outputs + gumbel)[..., self.choices], self.owner[self.choices]
        best = torch.full((*worth.shape[:-1], self.n_units), -torch.inf, device=worth.device)
        best = best.scatter_reduce(-1, unit.expand(worth.shape), worth, "amax")
        return (worth == best[..., unit]).float()


def _kinds(query_set: ColumnQueries) -> list[str]:
    """What every feature of a table is part of."""
    kinds = []
    for query, width in zip(query_set.queries, query_set.widths, strict=True):
        is_choice = isinstance(query, Choice)
        kinds += ["number" if not is_choice else "yes_no" if width == 1 else "choice"] * width
    return kinds


def _log_bernoulli(logit: Tensor, x: Tensor) -> Tensor:
    """Of x = 1 or -1; what lies between counts as both, each by its share."""
    share = (x + 1) / 2
    return share * logit - F.softplus(logit)
