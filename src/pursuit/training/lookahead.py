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
"""

import torch
from torch import Tensor, nn


class Lookahead(nn.Module):
    """The mean loss of the rest of a chain, as a network from histories to a number (B, 1)."""

    def __init__(self, value: nn.Module, n_answers: int):
        super().__init__()
        self.value, self.n_answers = value, n_answers

    def forward(self, before: Tensor, after: Tensor, loss_after: Tensor, goes_on: Tensor) -> Tensor:
        """What looking ahead adds to the loss of each row (B,): from the network inputs `before` and `after` a query is
        answered, the loss after it (B,), and whether there is anything left to ask then (B,)."""
        fixed = {name: weight.detach() for name, weight in self.value.named_parameters()}
        rest = torch.func.functional_call(self.value, fixed, (after,))[:, 0].float()  # a gradient for the choice alone
        rest = torch.where(goes_on, rest, loss_after.detach())
        share = 1 / self.n_answers
        fitted = (share * loss_after + (1 - share) * rest).detach()
        error = (self.value(before.detach())[:, 0].float() - fitted) ** 2
        return (self.n_answers - 1) * rest + error
