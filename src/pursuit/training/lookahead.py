"""Looking further ahead than one answer, for the straight-through querier.

V-IP's objective is the loss after the next answer, so a query that tells nothing by itself and only says where to look
next is never worth asking. With look-ahead over n answers, the querier is trained on the losses of all that follow,

    min over g of   E [ loss(S u {q}) + (n - 1) J(S u {q}) ],   q = argmax g(S),

where J(S) is the mean loss along the rest of the chain, in which later answers count less: each (1 - 1/n) of the one
before. J is a network that reads the history as the classifier does and is fitted backwards, to

    J(S)  =  1/n loss(S u {q}) + (1 - 1/n) J(S u {q}).

Both histories occur in a training step anyway, so looking ahead takes one further network and no longer chains. The
choice is straight-through: its gradient through J says what revealing each answer would do to the losses of all answers
after it. J serves training alone; a trained querier asks as quickly as one that does not look ahead.

What J promises is less certain than the loss after the next answer. So n may fall to 1 in the course of a stage: by
then the querier has learnt which queries pay off only later, and its choices become more accurate.
"""

import torch
from torch import Tensor, nn

SHORTENING = 0.5
"""Share of a stage after which a look-ahead that shortens has come down to one answer."""


class Lookahead(nn.Module):
    """The mean loss of the rest of a chain, as a network from histories to a number (B, 1)."""

    horizon: Tensor

    def __init__(self, value: nn.Module, n_answers: int):
        super().__init__()
        self.value, self.n_answers, self.shortens = value, n_answers, False
        self.register_buffer("horizon", torch.tensor(float(n_answers)), persistent=False)

    def shorten(self, n_answers: int) -> None:
        """Look so many answers ahead from now on, and fewer and fewer until half of the next stage is done."""
        self.n_answers, self.shortens = n_answers, True

    def schedule(self, share: float) -> None:
        """Set how far to look in the next step, when this share of a stage is done."""
        left = max(0.0, 1 - share / SHORTENING) if self.shortens else 1.0
        self.horizon.fill_(1 + (self.n_answers - 1) * left)

    def forward(self, before: Tensor, after: Tensor, loss_after: Tensor, goes_on: Tensor) -> Tensor:
        """What looking ahead adds to the loss of each row (B,): from the network inputs `before` and `after` a query is
        answered, the loss after it (B,), and whether there is anything left to ask then (B,)."""
        fixed = {name: weight.detach() for name, weight in self.value.named_parameters()}
        rest = torch.func.functional_call(self.value, fixed, (after,))[:, 0].float()  # a gradient for the choice alone
        rest = torch.where(goes_on, rest, loss_after.detach())
        share = 1 / self.horizon
        fitted = (share * loss_after + (1 - share) * rest).detach()
        error = (self.value(before.detach())[:, 0].float() - fitted) ** 2
        return (self.horizon - 1) * rest + error
