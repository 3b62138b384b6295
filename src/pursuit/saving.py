"""A trained pursuer as a folder: `model.json` says what it is and `model.safetensors` holds its tensors. Never a
pickle."""

import hashlib
import json
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import safetensors.torch
from safetensors import SafetensorError
from torch import nn

from pursuit.checkpoints import DamagedFile, write_whole
from pursuit.pursuer import Labels, Pursuer
from pursuit.queries import KINDS, QuerySet
from pursuit.version import __version__
from pursuit.vip import VIP

FORMAT = 3
DESCRIPTION, WEIGHTS = "model.json", "model.safetensors"
QUERY_SETS: dict[str, type[QuerySet]] = {kind.__name__: kind for kind in KINDS}


class Saveable(Pursuer, Protocol):
    """A pursuer that is a module and says how to build it: its tensors and this are all that is saved."""

    def to_config(self) -> dict[str, Any]:
        """How to build it, as JSON values."""

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        """As `to_config` says, with tensors of the right shapes for those saved."""


def save(folder: str | Path, model: Saveable, notes: dict[str, Any] | None = None) -> None:
    """Write `model` into `folder`, with `notes` (JSON values) beside it; an older model there is replaced."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"Only pursuers that are modules can be saved, not {type(model).__name__}.")
    config = model.to_config()
    if type(model.query_set).__name__ not in QUERY_SETS:
        raise ValueError(f"Only query sets of these kinds can be saved: {', '.join(QUERY_SETS)}.")
    folder = Path(folder)
    if folder.is_file():
        raise ValueError(f"{folder} is a file, but a model is saved as a folder: choose another name.")
    labels = np.asarray(model.classes)
    # clone() parts tensors that a shared trunk has under two names
    weights = safetensors.torch.save(
        {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    )
    description = {
        "format": FORMAT,
        "pursuit": __version__,
        "pursuer": {"kind": type(model).__name__, **config},
        "classes": {"dtype": labels.dtype.str, "labels": labels.tolist()},
        "query_set": {"kind": type(model.query_set).__name__, **model.query_set.to_config()},
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "notes": notes or {},
    }
    description["description_sha256"] = _checksum(description)
    text = json.dumps(description, indent=1, ensure_ascii=False)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / WEIGHTS, weights)
    write_whole(folder / DESCRIPTION, text.encode())


def kind_of(folder: str | Path) -> str:
    """The name of the pursuer's class in `folder`."""
    return str(_read_description(Path(folder)).get("pursuer", {}).get("kind"))


def load(folder: str | Path, kind: type[Any] = VIP) -> tuple[Any, dict[str, Any]]:
    """The model in `folder`, a pursuer of this kind, and its notes; raises FileNotFoundError or DamagedFile with what
    is wrong."""
    folder = Path(folder)
    description = _read_description(folder)
    found = description.get("pursuer", {}).get("kind")
    if found != kind.__name__:
        raise ValueError(f"{folder} holds a {found}, not a {kind.__name__}: load it with the estimator it was made by.")
    try:
        weights = (folder / WEIGHTS).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{folder} is no complete model: {WEIGHTS} is missing. Copy the whole folder, or save the model again."
        ) from None
    if hashlib.sha256(weights).hexdigest() != description.get("weights_sha256"):
        raise DamagedFile(
            f"{folder / WEIGHTS} is damaged or belongs to another {DESCRIPTION}. Copy the whole folder"
            " again, or train again."
        )
    try:
        model = _build(description, kind)
        model.load_state_dict(safetensors.torch.load(weights))
        notes = description["notes"]
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError, SafetensorError) as error:
        raise DamagedFile(
            f"{folder / DESCRIPTION} is damaged: {error}. Copy the whole folder again, or train again."
        ) from None
    return model.eval(), notes


def _read_description(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no model folder {folder}. Train one with: pursuit train TASK_OR_CSV --out {folder}"
        )
    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{folder} is no model: {DESCRIPTION} is missing. Was its training interrupted? Go on with --resume."
        ) from None
    except (ValueError, OSError):
        raise DamagedFile(
            f"{folder / DESCRIPTION} is damaged: it is not JSON. Copy the whole folder again, or train again."
        ) from None
    version = description.get("format") if isinstance(description, dict) else None
    if not isinstance(version, int):
        raise DamagedFile(
            f"{folder / DESCRIPTION} is damaged: it does not say its format. Copy the whole folder "
            "again, or train again."
        )
    if version > FORMAT:
        raise DamagedFile(
            f"{folder} was written by a newer pursuit ({description.get('pursuit')}, format {version};"
            f" this one reads up to {FORMAT}). "
            "Update with: pip install --upgrade pursuit"
        )
    if version < 2 and description.get("network", {}).get("kind") == "Conv":
        raise DamagedFile(
            f"{folder} holds a Conv network of an earlier pursuit, which were built otherwise: train again."
        )
    if description.get("description_sha256") != _checksum(description):
        raise DamagedFile(
            f"{folder / DESCRIPTION} is damaged: its checksum does not fit. Copy the whole folder "
            "again, or train again."
        )
    return description if version == FORMAT else _upgraded(description)


def _upgraded(description: dict[str, Any]) -> dict[str, Any]:
    """What an earlier version wrote, in the words of this one: there was V-IP alone, and its settings lay apart."""
    network = dict(description.get("network", {}))
    pursuer = {
        "kind": "VIP",
        "shared": network.pop("shared", False),
        "network": network,
        "standardised": description.get("standardised", False),
    }
    return {**description, "pursuer": pursuer}


def _checksum(description: dict[str, Any]) -> str:
    """Of all that the description says but for the checksum itself."""
    said = {key: value for key, value in description.items() if key != "description_sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def remove(folder: Path) -> None:
    """Remove the model in `folder`, if there is one; other files stay."""
    for name in (DESCRIPTION, WEIGHTS):
        (folder / name).unlink(missing_ok=True)


def _build(description: dict[str, Any], kind: type[Any]) -> Any:
    query_set, pursuer = dict(description["query_set"]), dict(description["pursuer"])
    queries = QUERY_SETS[query_set.pop("kind")].from_config(query_set)
    classes = np.array(description["classes"]["labels"], dtype=np.dtype(description["classes"]["dtype"]))
    del pursuer["kind"]
    return kind.from_config(queries, classes, pursuer)
