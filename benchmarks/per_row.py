"""V-IP as one would write it straight from the paper's text and the authors' code: what speed is compared with.

A loop over the rows of a batch draws each row's history; for biased histories all rows are asked as often as the
longest one wants, and each row looks back; the set network embeds every answer; evaluation asks all rows everything and
looks back for the stopping rule. Nothing is slow on purpose, and the networks are the very modules of the library with
the same weights. A form says how answers `x` of which `mask` (B, Q)
was asked reach a network (`start`), and how one more of them is added (`add`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.training.rows import Rows
from pursuit.training.schedule import SGD, Adam, AdamW
from pursuit.vip import VIP

ASKED = -1e9
"""Added to the score of a query that was asked, as in the released code."""


class MaskedVector:
    """Columns and words: S, then S + q * x."""

    def start(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * mask

    def add(self, history: Tensor, x: Tensor, query: Tensor) -> Tensor:
        return history + query * x


class MaskedImage:
    """Patches of `size` pixels at stride 1 of images of -1 and 1: Clip(S + Conv2D(q) * x)."""

    def __init__(self, size: int, grid: tuple[int, int]):
        self.size, self.grid = size, grid

    def start(self, x: Tensor, mask: Tensor) -> Tensor:
        # Row by row, and pixel by pixel of a patch for all asked patches of a row at once, as the released code does
        history = torch.zeros_like(x)
        for row in range(len(x)):
            patches = mask[row].nonzero()[:, 0]
            top, left = patches // self.grid[1], patches % self.grid[1]
            for down in range(self.size):
                for right in range(self.size):
                    history[row, :, top + down, left + right] = x[row, :, top + down, left + right]
        return history

    def add(self, history: Tensor, x: Tensor, query: Tensor) -> Tensor:
        ones = query.new_ones(1, 1, self.size, self.size)
        covered = F.conv2d(query.view(-1, 1, *self.grid), ones, padding=self.size - 1)  # (B, 1, H, W)
        return (history + covered * x).clamp(-1, 1)


class AnswerSet:
    """The set network's history: all answers, and a mask that the network multiplies their embeddings by. A choice that
    has a gradient comes third: q^T M is one more member of the set, where M has a row for each answer."""

    def start(self, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        return x, mask

    def add(self, history: tuple[Tensor, ...], x: Tensor, query: Tensor) -> tuple[Tensor, ...]:
        return (*history, query) if query.requires_grad else (x, history[1] + query)


class EmbedEveryAnswer(nn.Module):
    """The first layer of the set network as the text has it: [a, a e_j, b_j] of every answer goes through a linear
    layer, is multiplied by the mask, and the maximum (or sum) is taken, of zero and of what is being chosen too."""

    def __init__(self, encoder: Any):
        super().__init__()
        self.embedding, self.bias, self.linear = encoder.embedding, encoder.bias, encoder.linear
        self.aggregate = encoder.aggregate

    def forward(self, history: tuple[Tensor, ...]) -> Tensor:
        x, mask, *chosen = history  # (B, Q) each
        answer = x.reshape(-1, 1)  # (B * Q, 1)
        embedding, bias = self.embedding.repeat(len(x), 1), self.bias.repeat(len(x), 1)
        members = torch.cat([answer, answer * embedding, bias], dim=1)  # (B * Q, 1 + embedding + 1)
        embedded = self.linear(members).view(*x.shape, -1) * mask[:, :, None]
        for query in chosen:
            mixture = torch.bmm(query[:, None], members.view(*x.shape, -1))  # (B, 1, 1 + embedding + 1)
            embedded = torch.cat([embedded, self.linear(mixture)], dim=1)
        return embedded.amax(dim=1).relu() if self.aggregate == "max" else embedded.sum(dim=1)


@dataclass
class Judged:
    """What a stopping rule gives, found by looking back on all steps."""

    n_queries: Tensor  # (N,) where each row stops
    prediction: Tensor  # (N,) the label believed there
    chain: Tensor  # (N, steps) all queries in their order


class PerRow:
    """Querier and classifier of a V-IP, and the plain way to train and to use them."""

    def __init__(self, model: VIP):
        self.form, wrap = _form_of(model)
        # Each a trunk and a head
        self.querier, self.classifier = (wrap(n) for n in (model.querier, model.classifier))
        self.is_shared = self.querier[0] is self.classifier[0]
        self.modules = nn.ModuleList([self.querier, self.classifier])
        self.log_prior = model.log_prior

    def random_masks(self, known: Tensor) -> Tensor:
        """For each row k uniform, then k queries uniformly at random. All |Q| leaves nothing to choose: the released
        code leaves that length out, too."""
        mask = known.clone()
        for row, k in enumerate(torch.randint(known.shape[1], (len(known),)).tolist()):
            left = 1 - known[row]
            k = min(k, int(left.sum()) - 1)
            if k > 0:
                mask[row, torch.multinomial(left, k)] = 1
        return mask

    @torch.no_grad()
    def biased_masks(self, x: Tensor, known: Tensor, max_queries: int) -> Tensor:
        """For each row k uniform on 0..max_queries, then the querier's first k queries."""
        return self.first_queries(x, known, torch.randint(max_queries + 1, (len(x),)))

    @torch.no_grad()
    def first_queries(self, x: Tensor, known: Tensor, k: Tensor) -> Tensor:
        """All rows are asked until the longest history is there; each looks back to its own length."""
        self.modules.eval()
        mask, kept = known.clone(), known.clone()
        history = self.form.start(x, mask)
        for step in range(int(k.max())):
            query = one_hot(self.querier(history), mask)
            mask, history = mask + query, self.form.add(history, x, query)
            has_its_length = k == step + 1
            kept[has_its_length] = mask[has_its_length]
        return kept

    def loss(self, x: Tensor, y: Tensor, mask: Tensor, tau: float) -> Tensor:
        """The objective on one batch of histories."""
        history = self.form.start(x, mask)
        query = straight_through(self.querier(history), mask, tau)
        return F.cross_entropy(self.classifier(self.form.add(history, x, query)), y)

    def training(
        self, rows: Rows, batch_size: int, settings: Adam | AdamW | SGD, draw: Callable[[Tensor, Tensor], Tensor]
    ) -> Iterator[float]:
        """Train for ever, a step at a time; gives the losses. `draw` makes masks from answers and what is known."""
        optimizer = _optimizer(settings, list(self.modules.parameters()))
        while True:
            for index in torch.randperm(len(rows)).split(batch_size):
                if len(index) < batch_size:
                    continue
                x, y = rows.x[index], rows.y[index]
                mask = draw(x, initially_known(rows, index))
                self.modules.train()
                loss = self.loss(x, y, mask, tau=0.5)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                yield loss.item()

    @torch.no_grad()
    def evaluate(self, rows: Rows, max_queries: int, enough: Callable[[Tensor], Tensor], batch_size: int) -> Judged:
        """Ask all rows all queries and look back. `enough` says of the beliefs (B, steps + 1, C) where each row could
        stop: (B, steps + 1)."""
        self.modules.eval()
        parts = [
            self._evaluate(rows, index, max_queries, enough) for index in torch.arange(len(rows)).split(batch_size)
        ]
        return Judged(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _evaluate(
        self, rows: Rows, index: Tensor, max_queries: int, enough: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, mask = rows.x[index], initially_known(rows, index)
        history = self.form.start(x, mask)
        beliefs, chain = [], []
        for step in range(max_queries + 1):
            scores, logits = self.both(history)
            # Before the first answer the labels' frequencies are believed, as in the library.
            beliefs.append(torch.where(mask.any(dim=1, keepdim=True), logits.softmax(dim=1), self.log_prior.exp()))
            if step < max_queries:
                query = one_hot(scores, mask)
                mask, history = mask + query, self.form.add(history, x, query)
                chain.append(query.argmax(dim=1))
        by_step = torch.stack(beliefs, dim=1)  # (B, steps + 1, C)
        could_stop = enough(by_step)
        could_stop[:, -1] = True
        n_queries = could_stop.float().argmax(dim=1)  # the first of them
        at_stop = by_step[torch.arange(len(x)), n_queries]
        return n_queries, at_stop.argmax(dim=1), torch.stack(chain, dim=1)

    def both(self, history: Any) -> tuple[Tensor, Tensor]:
        """Scores and logits; a shared trunk is computed once."""
        if not self.is_shared:
            return self.querier(history), self.classifier(history)
        seen = self.querier[0](history)
        return self.querier[1](seen), self.classifier[1](seen)

    @torch.no_grad()
    def session(self, x: Tensor, known: Tensor, n_steps: int) -> Iterator[tuple[int, Tensor]]:
        """One row (1, Q) asked query by query: a query, and the belief once its answer is known."""
        self.modules.eval()
        mask, history = known.clone(), self.form.start(x, known)
        scores, _ = self.both(history)
        for _ in range(n_steps):
            query = one_hot(scores, mask)
            mask, history = mask + query, self.form.add(history, x, query)
            scores, logits = self.both(history)
            yield int(query.argmax()), logits.softmax(dim=1)[0]


def confident(level: float) -> Callable[[Tensor], Tensor]:
    """Where the largest posterior reaches `level`: the paper's MAP criterion."""
    return lambda beliefs: beliefs.amax(dim=2) >= level


def initially_known(rows: Rows, index: Tensor) -> Tensor:
    """What is initially known of rows, as a mask of 0 and 1 (B, Q)."""
    if rows.initially_known is None:
        return torch.zeros(len(index), rows.n_queries)
    return rows.initially_known[index].float()


def one_hot(scores: Tensor, mask: Tensor) -> Tensor:
    """The best query that was not asked (B, Q)."""
    return F.one_hot((scores + ASKED * mask).argmax(dim=1), scores.shape[1]).to(scores.dtype)


def straight_through(scores: Tensor, mask: Tensor, tau: float) -> Tensor:
    """The same with the gradient of a softmax of temperature `tau`."""
    soft = ((scores + ASKED * mask) / tau).softmax(dim=1)
    return (one_hot(scores, mask) - soft).detach() + soft


def _form_of(model: VIP) -> tuple[Any, Callable[[Any], Any]]:
    """How histories of this model are written plainly, and what makes its networks read them."""
    query_set, networks = model.query_set, [cast(Any, model.querier), cast(Any, model.classifier)]
    patches, has_mask = query_set.patches, getattr(query_set, "mask", True)
    if patches is not None and patches.stride == 1 and not has_mask:
        return MaskedImage(patches.size, patches.shape), lambda network: network
    if query_set.has_own_units and query_set.answer_shape == (len(query_set),):
        if hasattr(networks[0][0][0], "aggregate"):
            trunks = {network[0] for network in networks}  # one, if it is shared
            plain = {trunk: nn.Sequential(EmbedEveryAnswer(trunk[0]), *trunk[1:]) for trunk in trunks}
            return AnswerSet(), lambda network: nn.Sequential(plain[network[0]], network[1])
        if not has_mask:
            return MaskedVector(), lambda network: network
    raise ValueError(
        "The plain implementation knows the paper's cases: a set network, patches at stride 1 and columns of one "
        "feature each, the latter two with mask=False."
    )


def _optimizer(settings: Adam | AdamW | SGD, parameters: list[Tensor]) -> torch.optim.Optimizer:
    """The same optimizer as the library's, written as usual."""
    if isinstance(settings, SGD):
        return torch.optim.SGD(parameters, lr=settings.lr, momentum=settings.momentum)
    if isinstance(settings, AdamW):
        return torch.optim.AdamW(parameters, lr=settings.lr, weight_decay=settings.weight_decay)
    return torch.optim.Adam(parameters, lr=settings.lr, amsgrad=settings.amsgrad)
