"""A trained classifier as a folder: `model.json` says what it is and `model.safetensors` holds its tensors. Never a
pickle, and no class is imported because a file names it: all are looked up in the registry."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import astuple
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from sklearn.base import is_regressor
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from pursuit.estimators.plan import Reason
from pursuit.files import DamagedFile, check_model, make_folder, read_described, read_json, write_pair
from pursuit.inference.history import History
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target_bins import TargetBins
from pursuit.queries.column import listed
from pursuit.registry import UnknownName, check_fields, find, from_config, name_of, settings_from, to_config
from pursuit.version import __version__

FORMAT = 8
DESCRIPTION, WEIGHTS = "model.json", "model.safetensors"
TRY_AGAIN = "Copy the whole folder again, or train again."
RUN = "run.json"
"""Says in a folder what is trained there."""
LEARNED = {"n_features_in_": int, "has_initially_known_": bool}
"""What an estimator learned besides its pursuer, its classes and the names of columns."""
TASK_NOTES: dict[str, Any] = {
    **dict.fromkeys(
        ("name", "file", "target", "group", "time", "encoding", "decimal", "usual_decimal", "sheet", "questions"),
        str | None,
    ),
    **{"n_rows": int, "n_test": int, "seed": int, "test_share": int | float, "regress": bool, "missing": list | tuple},
}
"""What commands read of the notes on the task that a model was trained on."""


def save(folder: str | Path, classifier: Any, notes: dict[str, Any]) -> None:
    """Write a fitted classifier into `folder`, with `notes` (JSON values) beside it; an older one there is replaced."""
    folder = Path(folder)
    model = classifier.model_
    check_notes(notes)
    how_to_build = getattr(model, "to_config", None)
    if not isinstance(model, nn.Module) or how_to_build is None:
        raise ValueError(f"Only pursuers that are modules with a to_config can be saved, not {type(model).__name__}.")
    if folder.is_file():
        raise ValueError(f"{folder} is a file, but a model is saved as a folder: choose another name.")
    # clone() separates tensors that a shared trunk has under two names
    tensors = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    if spoilt := spoilt_tensor(model, tensors):
        raise ValueError(
            f"The model is not saved: its weights {spoilt} are not finite numbers, so it could not predict anything. "
            "Look for enormous numbers in the rows, and train again."
        )
    weights = safetensors.torch.save(tensors)
    names = getattr(classifier, "feature_names_in_", None)
    description = {
        "format": FORMAT,
        "pursuit": __version__,
        "estimator": {
            "type": name_of(type(classifier)),
            "parameters": {name: _parameter(value) for name, value in classifier.get_params(deep=False).items()},
            "feature_names": None if names is None else names.tolist(),
            "stop": to_config(classifier.stop_),
            "guaranteed": to_config(getattr(classifier, "guaranteed_", None)),
            "chosen": [astuple(reason) for reason in classifier.chosen_],
            **{name: getattr(classifier, name) for name in LEARNED},
        },
        "pursuer": {"type": name_of(type(model)), **how_to_build()},
        "classes": _labels_config(classifier.labels),
        "query_set": to_config(classifier.model_.query_set),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "notes": notes,
    }
    description["description_sha256"] = _checksum(description)
    text = json.dumps(description, indent=1, ensure_ascii=False)
    make_folder(folder)
    write_pair(folder / WEIGHTS, weights, folder / DESCRIPTION, text.encode())


def _labels_config(labels: Any) -> dict[str, Any]:
    """Labels as JSON: an array, or a registered object such as bins of a number."""
    if isinstance(labels, np.ndarray):
        return {"dtype": labels.dtype.str, "labels": labels.tolist()}
    return to_config(labels)


def _labels_from_config(config: dict[str, Any]) -> Any:
    if "dtype" not in config:
        return from_config(config)
    labels, dtype = config["labels"], np.dtype(config["dtype"])
    if not isinstance(labels, list) or dtype.itemsize > 4 * max((len(str(label)) for label in labels), default=0) + 16:
        raise ValueError("the labels are not those of their type")
    classes = np.array(labels, dtype=dtype)
    if classes.ndim != 1 or not all(isinstance(label, str | int | float) for label in labels):
        raise ValueError("labels are texts or numbers")
    if len(set(classes.tolist())) != len(classes) or not len(classes):
        raise ValueError("labels differ, and there is at least one")
    return classes


def _parameter(value: Any) -> Any:
    """A parameter as JSON, or None for what cannot be saved and is not needed any more: a random state that is a stream
    of numbers, and teachers that were given."""
    are_teachers = isinstance(value, list | tuple) and any(hasattr(each, "predict") for each in value)
    return None if hasattr(value, "random_sample") or are_teachers else to_config(value)


def load(folder: str | Path) -> Any:
    """The classifier in `folder`; raises FileNotFoundError, DamagedFile or UnknownName with what is wrong."""
    folder = Path(folder)
    description, weights = _read(folder)
    try:
        return _build(description, weights)
    except UnknownName as error:
        raise UnknownName(f"{folder} cannot be loaded. {error!s:.1000}") from None  # which may quote anything
    except DamagedFile as error:
        raise DamagedFile(f"{folder} is damaged: {error}. {TRY_AGAIN}") from error
    except Exception as error:  # what somebody wrote by hand may go wrong anywhere
        raise DamagedFile(
            f"{folder / DESCRIPTION} does not fit the code installed here ({type(error).__name__}: {error!s:.1000}). "
            "Has a class of your own changed? Otherwise the file is damaged: copy the whole folder again, or train "
            "again."
        ) from error


def _read(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The description of the model in `folder`, and its weights."""
    description: dict[str, Any] = {}
    while (again := _read_description(folder)) != description:  # another model may be saved there meanwhile
        description = again
        try:
            weights = read_described(folder / WEIGHTS, str(description.get("weights_sha256")))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{folder} is not a complete model: {WEIGHTS} is missing. Copy the whole folder, or save the model "
                "again."
            ) from None
        if weights is not None:
            return description, weights
    raise DamagedFile(f"{folder / WEIGHTS} is damaged or belongs to another {DESCRIPTION}. {TRY_AGAIN}")


def fingerprint(folder: str | Path) -> str:
    """What tells a saved model from any other: the checksum of its description, which has that of its weights."""
    return str(_read_description(Path(folder))["description_sha256"])


def _build(description: dict[str, Any], weights: bytes) -> Any:
    saved, pursuer = safetensors.torch.load(weights), dict(description["pursuer"])
    with Sizes(saved):
        query_set = from_config(description["query_set"])
        classes = _labels_from_config(description["classes"])
        model = find("pursuer", pursuer.pop("type")).from_config(query_set, classes, pursuer)
    load_weights(model, saved)
    check_belief(model.eval(), len(classes))
    kept = description["estimator"]
    given = dict(kept["parameters"])
    same = {"query_set": query_set} if given.get("query_set") == description["query_set"] else {}
    with Sizes(saved):
        parameters = same | {name: from_config(value) for name, value in given.items() if name not in same}
    estimator = find("estimator", kept["type"])
    check_fields(estimator, parameters)
    classifier = estimator(**parameters)
    classifier.stopping_rule()  # a rule written as text must be known as well
    if is_regressor(classifier) != isinstance(classes, TargetBins):
        raise TypeError(f"{type(classifier).__name__} does not predict what its labels are")
    check_notes(description["notes"])
    classifier.model_, classifier.notes_ = model, description["notes"]
    setattr(classifier, classifier.labels_attribute, classes)
    for name in ("stop", "guaranteed"):
        rule = None if kept[name] is None else settings_from(kept[name], StoppingRule)  # type: ignore[type-abstract]
        setattr(classifier, f"{name}_", rule)
    classifier.chosen_ = tuple(Reason(*reason) for reason in kept["chosen"])
    for name, kind in LEARNED.items():
        if type(kept[name]) is not kind:
            raise TypeError(f"{name} cannot be {kept[name]!r:.100}")
        setattr(classifier, name, kept[name])
    if (names := kept["feature_names"]) is not None:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"the names of columns cannot be {names!r:.100}")
        classifier.feature_names_in_ = np.array(names, dtype=object)
    return classifier


def check_notes(notes: Any) -> None:
    """Raise TypeError unless notes are a table, and those on a "task" that commands read are of their types."""
    tables = {"notes": notes, "notes.task": notes.get("task", {}) if isinstance(notes, dict) else {}}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise TypeError(f"{name} cannot be {table!r:.100}: it is a table of names and values")
    for name, value in tables["notes.task"].items():
        if not isinstance(value, TASK_NOTES.get(name, object)):
            raise TypeError(f"notes.task.{name} cannot be {value!r:.100}")


def _without_model(folder: Path) -> str:
    """What to do about a folder that is not a model."""
    if (folder / RUN).exists():
        return f"The training in {folder} was not finished: run its command again with --resume."
    if inside := sorted(one.parent.name for one in folder.glob(f"*/{DESCRIPTION}")):
        return f"{folder} is not a model, but these folders in it are: {listed(inside)}. Name one of them."
    if (folder / WEIGHTS).exists():
        return f"{folder / DESCRIPTION} is missing, the description of the weights there: copy the whole folder again."
    there = "It holds other files." if any(folder.iterdir()) else "It is empty."
    return (
        f"There is no model in {folder.resolve()}. {there} Give the folder of a trained model, or train one: "
        "pursuit train TASK_OR_CSV"
    )


def _read_description(folder: Path) -> dict[str, Any]:
    check_model(folder)

    def damaged(what: str) -> DamagedFile:
        return DamagedFile(f"{folder / DESCRIPTION} is damaged: {what}. {TRY_AGAIN}")

    try:
        description = read_json(folder / DESCRIPTION)
    except FileNotFoundError:
        raise FileNotFoundError(_without_model(folder)) from None
    except (ValueError, OSError):
        raise damaged("it is not JSON") from None
    version = description.get("format") if isinstance(description, dict) else None
    if not isinstance(version, int):
        raise damaged("it does not say its format")
    if version != FORMAT:
        written = f"{folder} was written by pursuit {description.get('pursuit')} in format {version}, but this version"
        advice = "Update pursuit." if version > FORMAT else "Train the model again."
        raise DamagedFile(f"{written} reads format {FORMAT}. {advice}")
    if description.get("description_sha256") != _checksum(description):
        raise damaged("its checksum does not match")
    return description


def _checksum(description: dict[str, Any]) -> str:
    """Of everything in the description except the checksum itself."""
    rest = {key: value for key, value in description.items() if key != "description_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


# What is checked of a model that a file describes, before memory is given to it and before it predicts anything.
#
# Checksums show that files are whole, not that whoever wrote them meant well: a description may name a network of any
# size, and weights may be anything.


SPARE_BYTES, TIMES = 1 << 28, 8
"""Building a model may allocate this many bytes, plus this many times the size of its saved tensors: for what is
computed from settings, and for the initial values of weights."""
SPARE_TENSORS, TENSORS_EACH = 50_000, 100
"""How many tensors it may make, and how many more for each that is saved."""
NOTABLE = 2**20
"""The size from which the results of element-wise functions are counted."""
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
            self._count(_n_numbers(name, args), (kwargs or {}).get("dtype"))
        elif name in MAKE_LIKE:
            self._count(math.prod(args[1]) * (args[0].numel() if name == "repeat" else 1))
        elif (n_numbers := _broadcast_size(args)) > NOTABLE:
            self._count(n_numbers)
        return func(*args, **(kwargs or {}))

    def _count(self, n_numbers: int, dtype: torch.dtype | None = None) -> None:
        self.most_bytes -= n_numbers * (4 if dtype is None else dtype.itemsize)
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
    return math.prod(args[0])


def _broadcast_size(args: Any) -> int:
    """The number of elements that an element-wise function of these tensors gives; 0 if their shapes do not broadcast,
    or if there is only one of them."""
    shapes = [reversed(arg.shape) for arg in args if isinstance(arg, Tensor)]
    sizes = [{*dimension} - {1} for dimension in zip_longest(*shapes, fillvalue=1)]
    if len(shapes) < 2 or any(len(different) > 1 for different in sizes):
        return 0
    return math.prod(size for different in sizes for size in different)


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
