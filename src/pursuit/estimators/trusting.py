"""What is checked of a model that a file describes, before memory is given to it and before it predicts anything.

Checksums show that files are whole, not that whoever wrote them meant well: a description may name a network of any
size, and weights may be anything.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from pursuit.files import DamagedFile
from pursuit.inference.history import History

SPARE_BYTES, TIMES = 1 << 28, 8
"""Building a model may allocate this many bytes, plus this many times the size of its saved tensors: for what is
computed from settings, and for the initial values of weights."""
SPARE_TENSORS, TENSORS_EACH = 50_000, 100
"""How many tensors it may make, and how many more for each that is saved."""
MAKE = {"empty", "zeros", "ones", "full", "rand", "randn", "eye", "empty_strided", "arange", "linspace"}
"""The functions that make tensors from sizes alone."""
MAKE_LIKE = {"new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided", "repeat"}
"""Those that do so beside another tensor."""


class Sizes(TorchDispatchMode):
    """While a model is built, refuses to make tensors that have no match among those saved, before they are made."""

    def __init__(self, saved: Mapping[str, Tensor]):
        super().__init__()
        self.most_bytes = SPARE_BYTES + TIMES * sum(tensor.nbytes for tensor in saved.values())
        self.most_tensors = SPARE_TENSORS + TENSORS_EACH * len(saved)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and torch's compiler takes seconds to import

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in MAKE:
            self._count(_n_numbers(name, args))
        elif name in MAKE_LIKE:
            self._count(_product(args[1]) * (args[0].numel() if name == "repeat" else 1))
        return func(*args, **(kwargs or {}))

    def _count(self, n_numbers: int) -> None:
        self.most_bytes -= 4 * n_numbers
        self.most_tensors -= 1
        if self.most_bytes < 0 or self.most_tensors < 0:
            raise DamagedFile("its sizes are far larger than its weights")


def _n_numbers(name: str, args: Any) -> int:
    """How many numbers a tensor would have."""
    if name == "arange":
        start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        return max(0, int((end - start) / step))
    if name == "linspace":
        return int(args[2])
    if name == "eye":
        return int(args[0]) * int(args[-1])
    return _product(args[0])


def _product(sizes: Any) -> int:
    product = 1
    for size in sizes:
        product *= int(size)
    return product


def load_weights(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give a model its saved tensors; raises DamagedFile where they have other names or shapes, or are not numbers. A
    model whose tensors count or point to something says by `check_tensors` if they do not."""
    wanted, found = (
        {
            name: f"{tuple(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"
            for name, tensor in tensors.items()
        }
        for tensors in (model.state_dict(), saved)
    )
    for name in {**wanted, **found}:
        if wanted.get(name) != found.get(name):
            is_there, is_described = found.get(name, "not there"), wanted.get(name, "not there")
            raise DamagedFile(f"its weights {name} are {is_there}, but {is_described} by its description")
    if spoilt := spoilt_tensor(model, saved):
        raise DamagedFile(f"its weights {spoilt} are not finite numbers, so it cannot predict anything")
    model.load_state_dict(dict(saved))
    check: Any = getattr(model, "check_tensors", None)
    if check is not None:
        check()


def spoilt_tensor(model: nn.Module, tensors: Mapping[str, Tensor]) -> str:
    """The name of a tensor of the model with values that are not numbers, or infinite where its module does not say by
    `may_be_infinite` that they may be; "" if there is none."""
    for name, tensor in tensors.items():
        owner, _, own = name.rpartition(".")
        may_be_infinite = own in getattr(model.get_submodule(owner), "may_be_infinite", ())
        if not (~tensor.isnan() if may_be_infinite else tensor.isfinite()).all():
            return name
    return ""


@torch.no_grad()
def check_belief(model: Any, n_labels: int) -> None:
    """Raise DamagedFile unless the model believes something before anything is asked: a share for each label."""
    belief = model.log_posterior(History.start(model.query_set.blank(), len(model.query_set))).float().exp()
    if belief.shape != (1, n_labels) or not torch.isclose(belief.sum(), torch.ones(()), atol=1e-3):
        raise DamagedFile(f"what it believes at first are not shares of {n_labels} labels")
