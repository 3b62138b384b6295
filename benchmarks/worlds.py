"""Generated data of the paper's shapes and of any size: speed depends on shapes alone, so no data sets are needed.

Labels can be learnt from all of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pursuit import ColumnQueries, ModelSpec, PatchQueries, Rows, yes_no
from pursuit.networks import NetworkSettings
from pursuit.queries import QuerySet
from pursuit.research.tasks import digits
from pursuit.research.tasks.symcat import N_SYMPTOMS, Patients
from pursuit.vip import VIP

MNIST_PIXELS, NOISE = (1, 28, 28), 0.1
HUFFPOST_WORDS, WORD_SHARE = 1000, 0.03


@dataclass(frozen=True)
class World:
    """Rows of a query set."""

    query_set: QuerySet
    n_classes: int
    rows: Rows

    def build(self, network: NetworkSettings, shared: bool = False) -> VIP:
        """A fresh model, the same for the same settings."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return VIP.build(ModelSpec(self.query_set, range(self.n_classes), network, shared=shared))


def mnist(n_rows: int) -> World:
    """Ten pictures of 28x28 pixels, -1 or 1, each pixel wrong in a tenth of the rows; 3x3 patches."""
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(10, *MNIST_PIXELS, generator=generator) < 0.3
    y = torch.randint(10, (n_rows,), generator=generator)
    flipped = torch.rand(n_rows, *MNIST_PIXELS, generator=generator) < NOISE
    query_set = PatchQueries(MNIST_PIXELS, size=3, mask=False, threshold=0.5)
    return World(query_set, 10, _rows((pictures[y] ^ flipped) * 2.0 - 1.0, len(query_set), y))


def huffpost(n_rows: int) -> World:
    """A thousand words, of which a text has a few; ten sections, in each of which other words are frequent."""
    generator = torch.Generator().manual_seed(0)
    yes = WORD_SHARE * 2 * torch.rand(10, HUFFPOST_WORDS, generator=generator)
    return World(yes_no_queries(HUFFPOST_WORDS, mask=False), 10, draw_yes_no(yes, n_rows, generator))


def symcat(n_diseases: int, n_rows: int) -> World:
    """Patients drawn as those of SymCAT, from a table of the same size: few symptoms to a disease."""
    generator, shape = torch.Generator().manual_seed(0), (n_diseases, N_SYMPTOMS[n_diseases])
    yes = torch.rand(shape, generator=generator) * (torch.rand(shape, generator=generator) < 0.05)
    yes[:, 0] += 0.05  # every disease can be noticed
    rows = Patients(range(n_diseases), yes).draw(n_rows, torch.Generator().manual_seed(0))
    return World(yes_no_queries(shape[1]), n_diseases, rows)


def digits_in_black_and_white() -> tuple[World, Rows]:
    """Scikit-learn's digits, each pixel dark or bright as the paper has its images, and the fifth held out."""
    task = digits.load()
    query_set = task.query_set.with_options(threshold=8, mask=False)
    train, test = (
        Rows(*query_set.answers(X), torch.from_numpy(y))
        for X, y in ((task.X_train, task.y_train), (task.X_test, task.y_test))
    )
    return World(query_set, 10, train), test


def draw_yes_no(yes: Tensor, n_rows: int, generator: torch.Generator) -> Rows:
    """Yes/no answers independent given the label, with P(yes | label) from a table `yes` (C, Q); labels are uniform."""
    y = torch.randint(len(yes), (n_rows,), generator=generator)
    says_yes = torch.rand(n_rows, yes.shape[1], generator=generator) < yes[y]
    return _rows(says_yes * 2.0 - 1.0, yes.shape[1], y)


def yes_no_queries(n: int, mask: bool = True) -> ColumnQueries:
    return ColumnQueries([yes_no(f"q{i}") for i in range(n)], mask)


def _rows(x: Tensor, n_queries: int, y: Tensor) -> Rows:
    return Rows(x, torch.ones(len(y), n_queries, dtype=torch.bool), y)
