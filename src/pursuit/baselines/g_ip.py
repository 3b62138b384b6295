"""G-IP: Information Pursuit by a generative model of all answers (Chattopadhyay et al. 2022, Interpretable by Design).

A variational autoencoder learns how answers come about: p(answers | z, y), z being standard normal whatever the label y
is, and answers independent given both. What a history S leaves open of z is sampled by Langevin's algorithm, in M
chains z_m ~ p(z | y, S) for every label, which each new answer a moves on:

    p(a | y, S)     = mean over m of p(a | z_m, y)
    p(y | S, a) is proportional to p(y | S) p(a | y, S)
    I(a; y | S)     = H(sum over y of p(y | S) p(a | y, S)) - sum over y of p(y | S) H(p(a | y, S))

The query with the most information I comes next.
"""

import itertools
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.baselines.shared.answers import AnswerModel
from pursuit.baselines.shared.langevin import Langevin
from pursuit.baselines.shared.rival import RivalClassifier
from pursuit.estimators import PursuitClassifier
from pursuit.following import Follower
from pursuit.histories import RandomHistories
from pursuit.history import History
from pursuit.learner import Learner
from pursuit.pursuer import Labels
from pursuit.queries import PatchQueries, QuerySet
from pursuit.rows import RowSource
from pursuit.stages import Stage
from pursuit.stopping import StoppingRule

LISTED_PIXELS = 9
"""Up to this many pixels, all that a patch may show is listed to find its information; above it, patches are drawn."""
AT_ONCE, AT_ONCE_ON_GPU = 2**23, 2**27
"""About how many numbers are computed at once: further rows, and further patches, come after each other."""
LARGE_IMAGE = 16
"""From so many pixels a side."""
MOST_PARTS = 16
"""A history of more answers than this is taken in by so many parts of a few answers each."""


@dataclass(frozen=True)
class GIPSettings:
    """The sizes of the autoencoder, and how z is sampled: more chains ask better, and cost as much more."""

    latent: int = 8
    hidden: tuple[int, ...] = (64,)
    """Layers of the decoder, and of the encoder in reverse."""
    langevin: Langevin = field(default_factory=Langevin)

    def __post_init__(self) -> None:
        if self.latent < 1 or not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"G-IP needs a latent variable and hidden layers of at least one number each, not {self}.")

    @classmethod
    def suiting(cls, query_set: QuerySet) -> Self:
        """Larger sizes for large images."""
        if isinstance(query_set, PatchQueries) and min(query_set.image_shape[1:]) >= LARGE_IMAGE:
            return cls(latent=32, hidden=(512, 512))
        return cls()


class GIP(Learner):
    """An autoencoder of answers given the label, and the pursuit of information by it.

    Chance is the same whenever histories are followed from `seed` on, and the same for all rows and labels: a row is
    asked alike whatever rows are beside it, and labels that do not differ look alike.
    """

    patches: Tensor

    def __init__(
        self,
        query_set: QuerySet,
        classes: Labels,
        settings: GIPSettings | None = None,
        prior: Tensor | None = None,
        seed: int = 0,
    ):
        super().__init__(query_set, classes, prior)
        self.settings, self.seed = settings or GIPSettings.suiting(query_set), seed
        self.answers = AnswerModel(query_set)
        latent, hidden, n_classes = self.settings.latent, self.settings.hidden, len(classes)
        n_inputs = self.answers.n_outputs + self.answers.n_units + n_classes
        self.encoder = nn.Sequential(*_smooth_layers((n_inputs, *reversed(hidden), 2 * latent)))
        self.decoder = _Decoder(latent, n_classes, (*hidden, self.answers.n_outputs))
        if isinstance(query_set, PatchQueries):
            self.register_buffer("patches", _places(query_set), persistent=False)

    def forward(
        self,
        x: Tensor,
        known: Tensor,
        asked: Tensor,
        available: Tensor,
        y: Tensor,
        tau: Tensor | float,
        label_smoothing: float = 0.0,
        *more: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Minus the evidence lower bound of the answers a row has, whatever of them is known; query 0 stands for what
        it would ask, which takes long to find out."""
        there = self.answers.known_units(available)  # (B, U)
        x = self.shown(x, there)
        label = F.one_hot(y, len(self.classes)).to(x.dtype)
        mean, log_variance = self.encoder(torch.cat([x, there, label], dim=1)).float().chunk(2, dim=1)
        z = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        log_prob = (self.answers.log_prob(self.decoder(z, y), x) * there).sum(dim=1)
        divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(dim=1)
        return (divergence - log_prob).mean(), torch.zeros_like(y)

    def shown(self, x: Tensor, units: Tensor) -> Tensor:
        """The answers x to these units (B, U) alone, and zero elsewhere: (B, F)."""
        return torch.where(units[:, self.answers.owner] > 0, x.flatten(1).float(), 0.0)

    def scores(self, history: History) -> Tensor:
        return self.follow(history).scores()

    def log_posterior(self, history: History) -> Tensor:
        return self.follow(history).log_posterior()

    def follow(self, history: History) -> Follower:
        return _ChainFollower(self, history)

    def decoded(self, z: Tensor) -> Tensor:
        """The decoder's numbers (B, C, M, F) at chains z (B, C, M, L), each with its label."""
        return self.decoder(z, torch.arange(z.shape[1], device=z.device)[:, None]).float()

    def log_prob(self, z: Tensor, x: Tensor, units: Tensor) -> Tensor:
        """The log probability (B, C, M) of the answers x (B, F) to these units (B, U) at chains z (B, C, M, L)."""
        return (self.answers.log_prob(self.decoded(z), x[:, None, None]) * units[:, None, None]).sum(dim=3)

    def moved(self, z: Tensor, x: Tensor, seen: Tensor, noise: Tensor) -> Tensor:
        """Chains z (B, C, M, L) moved on towards p(z | y, S), S being the answers x (B, F) to the units seen (B, U)."""
        return self.settings.langevin.move(lambda z: self.log_prob(z, x, seen) - (z**2).sum(dim=3) / 2, z, noise)

    def information(self, z: Tensor, seen: Tensor, log_belief: Tensor, noise: Tensor) -> Tensor:
        """The mutual information (B, Q) of every answer with the label, at chains z (B, C, M, L), units seen (B, U)
        and a belief (B, C); `noise` (M, F), uniform, decides on patches that are drawn."""
        outputs, unseen = self.decoded(z), 1 - seen
        if not isinstance(self.query_set, PatchQueries):
            gain = _gain(self.answers.outcomes(outputs).mean(dim=2), log_belief)  # (B, A)
            return torch.zeros_like(seen).index_add(1, self.answers.query_of, gain) * unseen
        # What was seen is out of question: such pixels are dark in all that is listed, and left out of what is drawn.
        if self.patches.shape[1] <= LISTED_PIXELS:
            bright = outputs.sigmoid() * unseen[:, None, None]
            return torch.cat(
                [_gain(_listed(bright[..., places]), log_belief).sum(dim=2) for places in self._some_patches(len(z))],
                dim=1,
            )
        drawn = (noise < outputs.sigmoid()).float() * unseen[:, None, None]
        parts = [
            _drawn_gain(outputs[..., places], drawn[..., places], unseen[:, places], log_belief)
            for places in self._some_patches(len(z))
        ]
        return torch.cat(parts, dim=1)

    def _some_patches(self, n_rows: int) -> tuple[Tensor, ...]:
        """The patches, as many at a time as memory is for."""
        n_pixels, n_chains = self.patches.shape[1], len(self.classes) * self.settings.langevin.n_chains
        n_numbers = n_chains * (n_chains + 3 * n_pixels)
        if n_pixels <= LISTED_PIXELS:
            n_numbers = len(self.classes) * 3 * 2**n_pixels + n_chains * (n_pixels + 2 * 2 ** math.ceil(n_pixels / 2))
        return self.patches.split(max(1, self._at_once // max(1, n_rows * n_numbers)))

    @property
    def rows_at_once(self) -> int:
        """How many rows have their chains moved at once."""
        n_chains = len(self.classes) * self.settings.langevin.n_chains
        n_outcomes = 0 if isinstance(self.query_set, PatchQueries) else len(self.answers.query_of)
        n_numbers = 2 * sum(self.settings.hidden) + 3 * self.answers.n_outputs + n_outcomes
        return max(1, self._at_once // (n_chains * n_numbers))

    @property
    def _at_once(self) -> int:
        return AT_ONCE if self.log_prior.device.type == "cpu" else AT_ONCE_ON_GPU

    def to_config(self) -> dict[str, Any]:
        return {"seed": self.seed, "settings": asdict(self.settings)}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        given = config["settings"]
        settings = GIPSettings(given["latent"], tuple(given["hidden"]), Langevin(**given["langevin"]))
        return cls(query_set, classes, settings, seed=config["seed"])


class _Decoder(nn.Module):
    """From z (..., L) and labels y (...) to the numbers (..., F) of an `AnswerModel`."""

    def __init__(self, n_latent: int, n_classes: int, sizes: tuple[int, ...]):
        super().__init__()
        self.latent, self.label = nn.Linear(n_latent, sizes[0]), nn.Embedding(n_classes, sizes[0])
        self.rest = nn.Sequential(nn.SiLU(), *_smooth_layers(sizes))
        self.usual = nn.Embedding(n_classes, sizes[-1])
        nn.init.zeros_(self.usual.weight)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return self.rest(self.latent(z) + self.label(y)) + self.usual(y)


def _smooth_layers(sizes: tuple[int, ...]) -> list[nn.Module]:
    """Linear layers with a smooth function between them, so that gradients in z are smooth."""
    layers: list[nn.Module] = []
    for n_inputs, n_outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(n_inputs, n_outputs), nn.SiLU()]
    return layers[:-1]


def _places(query_set: PatchQueries) -> Tensor:
    """Where the pixels of every patch lie in a flattened image: (Q, P)."""
    channels, height, width = query_set.image_shape
    side = torch.arange(query_set.size)
    corners = torch.tensor([query_set.corner(query) for query in range(len(query_set))])
    rows, columns = corners[:, :1] + side, corners[:, 1:] + side  # (Q, size) each
    pixels = (rows[:, :, None] * width + columns[:, None, :]).flatten(1)
    return (torch.arange(channels)[:, None] * height * width + pixels[:, None]).flatten(1)


def _gain(outcomes: Tensor, log_belief: Tensor) -> Tensor:
    """What every outcome adds to I(a; y | S), (B, ...), from p(a | y, S) (B, C, ...) and the belief (B, C)."""
    belief = log_belief.exp()
    mixed, noise = (torch.einsum("bc,bc...->b...", belief, part) for part in (outcomes, torch.special.entr(outcomes)))
    return torch.special.entr(mixed) - noise


def _listed(bright: Tensor) -> Tensor:
    """The probabilities (B, C, q, 2^P) of all that patches may show, from those of their pixels being bright in every
    chain (B, C, M, q, P)."""
    n_chains, n_pixels = bright.shape[2], bright.shape[4]
    bright = bright.movedim(2, 3)  # (B, C, q, M, P)
    # Pixels are independent in a chain: two halves of a patch meet in a product, summed over the chains.
    first, second = (_products(part) for part in bright.split([n_pixels // 2, n_pixels - n_pixels // 2], dim=4))
    return (first.mT @ (second / n_chains)).flatten(3)


def _products(bright: Tensor) -> Tensor:
    """The probabilities (..., 2^P) of all combinations of P independent pixels (..., P)."""
    chances = bright.new_ones(*bright.shape[:-1], 1)
    for pixel in bright.unbind(dim=-1):
        chances = torch.cat([chances * (1 - pixel[..., None]), chances * pixel[..., None]], dim=-1)
    return chances


def _drawn_gain(outputs: Tensor, drawn: Tensor, unseen: Tensor, log_belief: Tensor) -> Tensor:
    """I(a; y | S) of patches (B, q), estimated on one that each chain drew.

    From the decoder's numbers (B, C, M, q, P) of their pixels, which of them are drawn bright, which are unseen
    (B, q, P), and the belief (B, C). The chain that drew is left out of p(a | y, S), and so are its like of the other
    labels: it knows its patch too well.
    """
    n_classes, n_chains = outputs.shape[1:3]
    odds, shown = (part.flatten(1, 2).movedim(2, 1) for part in (outputs, drawn))  # (B, q, C M, P)
    dark = (F.softplus(odds) * unseen[:, :, None]).sum(dim=3)  # (B, q, C M)
    log_prob = (shown @ odds.mT - dark[:, :, None]).unflatten(3, (n_classes, n_chains)).unflatten(2, (n_classes, -1))
    itself = torch.eye(n_chains, dtype=torch.bool, device=odds.device)[:, None]  # (M, 1, M)
    by_label = log_prob.masked_fill(itself, -torch.inf).logsumexp(dim=5) - math.log(n_chains - 1)  # (B, q, C, M, C)
    mixed = (by_label + log_belief[:, None, None, None]).logsumexp(dim=4)
    own = by_label.diagonal(dim1=2, dim2=4).movedim(3, 2)  # (B, q, C, M)
    return ((own - mixed).mean(dim=3) * log_belief.exp()[:, None]).sum(dim=2)


class _ChainFollower(Follower):
    """The chains of B rows, moved on by every answer."""

    @torch.no_grad()
    def __init__(self, model: GIP, history: History):
        self._model, self._x, self._asked = model, history.x, history.asked.clone()
        self._rows = torch.arange(len(history), device=history.x.device)
        self._generator = torch.Generator().manual_seed(model.seed)
        n_classes, latent = len(model.classes), model.settings.latent
        n_chains = model.settings.langevin.n_chains
        z = torch.randn(n_chains, latent, generator=self._generator).to(self._x.device)
        self._z = z.repeat(len(history), n_classes, 1, 1)  # (B, C, M, L)
        self._seen = model.answers.known_units(torch.zeros_like(history.known))  # (B, U)
        self._evidence = model.log_prior.repeat(len(history), 1)  # (B, C): log p(y, S)
        n_known, number = history.known.sum(dim=1, keepdim=True), history.known.cumsum(dim=1) - 1
        part = number * n_known.clamp(max=MOST_PARTS) // n_known.clamp(min=1)  # (B, Q) when an answer is taken in
        for turn in range(min(MOST_PARTS, int(n_known.max()) if len(history) else 0)):
            self._take_in(history.known & (part == turn))
        self._generator.manual_seed(model.seed + 1)  # lest what comes depend on the longest history here

    @property
    def asked(self) -> Tensor:
        return self._asked

    def log_posterior(self) -> Tensor:
        return self._evidence.log_softmax(dim=1)

    @torch.no_grad()
    def scores(self) -> Tensor:
        model, log_belief = self._model, self.log_posterior()
        generator = torch.Generator().manual_seed(model.seed)
        noise = torch.rand(self._z.shape[2], model.answers.n_outputs, generator=generator).to(self._z.device)
        with torch.autocast(self._z.device.type, enabled=False):
            parts = [
                model.information(self._z[part], self._seen[part], log_belief[part], noise)
                for part in self._parts(len(self._z))
            ]
        return torch.cat(parts) if parts else torch.zeros(self._asked.shape, device=self._z.device)

    def _parts(self, n_rows: int) -> list[slice]:
        n = self._model.rows_at_once
        return [slice(start, start + n) for start in range(0, n_rows, n)]

    @torch.no_grad()
    def ask(self, query: Tensor, answered: Tensor) -> None:
        self._asked.scatter_(1, query[:, None], True)
        self._take_in(F.one_hot(query, self._asked.shape[1]).bool() & answered[:, None])

    def _take_in(self, known: Tensor) -> None:
        """Believe by the answers that become known (B, Q), and move the chains of these rows on."""
        model, langevin = self._model, self._model.settings.langevin
        new = model.answers.known_units(known) * (1 - self._seen)  # (B, U)
        self._seen += new
        noise = torch.randn(langevin.burn_in, *self._z.shape[2:], generator=self._generator).to(self._z.device)
        changed = new.any(dim=1).nonzero()[:, 0]
        with torch.autocast(self._z.device.type, enabled=False):
            for part in self._parts(len(changed)):
                rows = changed[part]
                z, seen = self._z[rows], self._seen[rows]
                x = model.shown(self._x[self._rows[rows]], seen)
                self._evidence[rows] += model.log_prob(z, x, new[rows]).logsumexp(dim=2) - math.log(z.shape[2])
                self._z[rows] = model.moved(z, x, seen, noise)

    def again(self, history: History) -> Follower:
        return _ChainFollower(self._model, history)

    def keep(self, rows: Tensor) -> None:
        self._rows, self._asked, self._z = self._rows[rows], self._asked[rows], self._z[rows]
        self._seen, self._evidence = self._seen[rows], self._evidence[rows]


class GIPClassifier(RivalClassifier):
    """G-IP: a generative model of answers, and the information of every query computed by it.

    Parameters
    ----------
    query_set, stop, max_queries, stages, random_state, device
        As for every estimator with networks (`NetworkClassifier`). `stages` are those of V-IP: the autoencoder learns
        from as many rows as these have histories, with the same batches.
    settings : GIPSettings, optional
        The sizes of the autoencoder, and how z is sampled. By default `GIPSettings.suiting` the query set.
    """

    kind = GIP
    Settings = GIPSettings

    def __init__(
        self,
        query_set: QuerySet | None = None,
        *,
        stop: StoppingRule | str | None = None,
        max_queries: int | None = None,
        stages: list[Stage] | None = None,
        settings: GIPSettings | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ):
        PursuitClassifier.__init__(
            self, query_set, stop=stop, max_queries=max_queries, random_state=random_state, device=device
        )
        self.stages = stages
        self.settings = settings

    def _build(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> GIP:
        return GIP(query_set, self.classes_, self.settings, prior)

    def _plan(self, stages: list[Stage]) -> list[Stage]:
        return [replace(stage, histories=RandomHistories(0)) for stage in stages]

    @classmethod
    def _settings_of(cls, model: GIP) -> dict[str, Any]:
        return {"settings": model.settings}
