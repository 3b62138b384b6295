"""Random order: queries come by chance, and another pursuer's classifier believes. What asking well is measured
against."""

import torch
from torch import Tensor, nn

from pursuit.following import Follower, follow
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
        return self.draw(history.asked)

    def draw(self, asked: Tensor) -> Tensor:
        """Random scores in the shape of `asked` (B, Q)."""
        if asked.device not in self._generators:
            self._generators[asked.device] = torch.Generator(asked.device).manual_seed(self._seed)
        return torch.rand(asked.shape, generator=self._generators[asked.device], device=asked.device)

    def log_posterior(self, history: History) -> Tensor:
        return self.pursuer.log_posterior(history)

    def follow(self, history: History) -> Follower:
        return _RandomFollower(self, follow(self.pursuer, history))


class _RandomFollower(Follower):
    """Follows the other pursuer and draws scores of its own."""

    def __init__(self, pursuer: RandomOrder, believer: Follower):
        self._random, self._believer = pursuer, believer

    @property
    def asked(self) -> Tensor:
        return self._believer.asked

    def log_posterior(self) -> Tensor:
        return self._believer.log_posterior()

    def scores(self) -> Tensor:
        return self._random.draw(self.asked)

    def ask(self, query: Tensor, answered: Tensor) -> None:
        self._believer.ask(query, answered)

    def again(self, history: History) -> Follower:
        return _RandomFollower(self._random, self._believer.again(history))

    def keep(self, rows: Tensor) -> None:
        self._believer.keep(rows)
