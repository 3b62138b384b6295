"""Answer models for tests: with random outputs of a network, and trained."""

from math import log

import torch
from torch import Tensor

from pursuit import ModelSpec
from pursuit.information import AnswerModel, AnswerSettings
from pursuit.networks import MLP
from pursuit.queries import QuerySet
from pursuit.training import CarriedHistories, Stage, train
from pursuit.training.rows import Rows
from pursuit.vip import InformationVIP

N_CLASSES = 4


def entropy(p: Tensor) -> Tensor:
    """In bits, over the last dimension."""
    return torch.special.entr(p.double()).sum(dim=-1) / log(2)


def random_model(
    query_set: QuerySet, rows: Rows, settings: AnswerSettings | None = None, size: float = 1.0, seed: int = 0
) -> tuple[AnswerModel, Tensor, Tensor]:
    """A model with a table counted from rows, with outputs of a network and a belief for as many histories."""
    generator = torch.Generator().manual_seed(seed)
    model = AnswerModel.count(query_set, N_CLASSES, rows, settings)
    outputs = torch.randn(len(rows), model.n_outputs, generator=generator) * size
    log_posterior = (2 * torch.randn(len(rows), N_CLASSES, generator=generator)).log_softmax(dim=1)
    return model, outputs, log_posterior


def trained(
    query_set: QuerySet,
    rows: Rows,
    settings: AnswerSettings,
    n_classes: int,
    epochs: float,
    random_share: float = 0.5,
) -> InformationVIP:
    torch.manual_seed(0)
    answer_model = AnswerModel.count(query_set, n_classes, rows, settings)
    model = InformationVIP.build(ModelSpec(query_set, range(n_classes), MLP((64,))), answer_model=answer_model)
    train(model, rows, [Stage(epochs, CarriedHistories(random_share=random_share), batch_size=128)], seed=0)
    return model
