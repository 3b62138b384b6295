"""Random order: queries come by chance, and another pursuer's classifier believes. What asking well is measured
against."""

import torch
from torch import Tensor, nn

from pursuit.history import History
from pursuit.pursuer import Pursuer


class RandomOrder(nn.Module):
    """Asks queries in a random order and believes what `pursuer` believes."""

    def __init__(self, pursuer: Pursuer, seed: int = 0):
        super().__init__()  # a module, so that it follows its pursuer to a device
        self.pursuer, self.query_set, self.classes = pursuer, pursuer.query_set, pursuer.classes
        self._generator = torch.Generator().manual_seed(seed)

    def scores(self, history: History) -> Tensor:
        return torch.rand(history.asked.shape, generator=self._generator).to(history.asked.device)

    def log_posterior(self, history: History) -> Tensor:
        return self.pursuer.log_posterior(history)
