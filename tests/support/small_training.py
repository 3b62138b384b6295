"""What tests of training share: rows whose labels two queries give away, small models of them, and a plan of stages."""

import torch
from torch import Tensor

from pursuit import ModelSpec
from pursuit.information import AnswerModel
from pursuit.networks import MLP, NetworkSettings
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet, yes_no
from pursuit.training import SGD, Adam, AdamW, CarriedHistories, RandomHistories, Report, RolledOutHistories, Stage
from pursuit.training.rows import Rows
from pursuit.vip import VIP, InformationVIP

QUERIES = ColumnQueries([yes_no(f"q{i}") for i in range(6)])
PATCHES = PatchQueries((1, 8, 8), size=2)
NETWORK = MLP((16,), dropout=0.2)
STAGES = [
    Stage(3, RandomHistories(), Adam(amsgrad=True), batch_size=16, average=0.0),
    Stage(3, CarriedHistories(4), AdamW(), batch_size=16),
    Stage(3, RolledOutHistories(4), SGD(), schedule="constant", batch_size=16),
]
"""Every kind of histories and of optimizers, with averaged weights and without."""


def rows(n: int = 200, query_set: QuerySet = QUERIES) -> Rows:
    """Rows of four labels; for patches, images whose brightness tells half of the label."""
    generator = torch.Generator().manual_seed(0)
    answers = torch.randint(2, (n, 6), generator=generator)
    y = answers[:, 0] + 2 * answers[:, 3]
    if query_set.patches is not None:
        images = torch.rand(n, 1, 8, 8, generator=generator) + answers[:, :1, None, None] * 0.5
        return Rows(*query_set.answers((images / 2).numpy()), y)
    x, available = query_set.answers(answers.numpy())
    return Rows(x, available & (torch.rand(available.shape, generator=generator) < 0.9), y)


def fresh(query_set: QuerySet = QUERIES, network: NetworkSettings = NETWORK) -> VIP:
    """The same untrained model each time."""
    torch.manual_seed(0)
    return VIP.build(ModelSpec(query_set, list("abcd"), network))


def fresh_by_information(learnt_from: Rows, network: NetworkSettings = NETWORK) -> InformationVIP:
    """The same untrained model with an answer model each time."""
    torch.manual_seed(0)
    return InformationVIP.build(
        ModelSpec(QUERIES, list("abcd"), network), answer_model=AnswerModel.count(QUERIES, 4, learnt_from)
    )


def weights(model: VIP) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two models have the same weights, bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Killed(Exception):
    """Stands for whatever ends a training before its time."""


class KillAt:
    """Ends a training at its report number `n`."""

    def __init__(self, n: int):
        self.n_left = n

    def __call__(self, report: Report) -> None:
        self.n_left -= 1
        if self.n_left == 0:
            raise Killed
