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
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def scores(self, history: History) -> Tensor:
        device = history.asked.device
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return torch.rand(history.asked.shape, generator=self._generators[device], device=device)

    def log_posterior(self, history: History) -> Tensor:
        return self.pursuer.log_posterior(history)
