"""Bad models, with checksums that fit, and bad sessions with a good one."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch

from fuzz.judging import Wrong
from fuzz.mutations import json_text, mutated_bytes, mutated_value
from fuzz.tables import LABEL, check_predictions, good_table
from fuzz.workers import Files, Target
from pursuit import load
from pursuit.estimators.saving import DESCRIPTION, WEIGHTS
from pursuit.methods import METHODS, NaiveBayesIPClassifier
from pursuit.networks import MLP
from pursuit.queries import PatchQueries
from pursuit.sessions.session import Session
from pursuit.training import Stage

MODELS = ("vip", "vip-straight-through", "naive-bayes", "tree", "fixed", "vip-regressor")
SHORT: dict[str, Any] = {"network": MLP((8,)), "stages": [Stage(2, batch_size=16)]}
ODD = (float("nan"), float("inf"), -float("inf"), 0.0, 1e38, -1e38, 1e-40)


class Saved(NamedTuple):
    """A good model."""

    description: dict[str, Any]
    weights: bytes
    X: Any


def _prepare_models(folder: Path) -> list[Saved]:
    frame = good_table(80)
    X = frame.drop(columns=LABEL)
    saved = []
    for name in MODELS:
        is_trained = METHODS[name].accepts("stages")
        model = METHODS[name].build(None, random_state=0, **(SHORT if is_trained else {}))
        y = frame["weight"] if METHODS[name].predicts_numbers else frame[LABEL]
        saved.append(_saved(model.fit(X, y), folder / name, X))
    images = np.random.default_rng(0).random((40, 6, 6)).astype(np.float32)
    patches = METHODS["vip"].build(PatchQueries((1, 6, 6), 3, 3), random_state=0, **SHORT)
    saved.append(_saved(patches.fit(images, np.arange(40) % 2), folder / "patches", images))
    return saved


def _saved(model: Any, folder: Path, X: Any) -> Saved:
    model.save(folder, {"task": {"name": "fuzz"}})
    return Saved(json.loads((folder / DESCRIPTION).read_text()), (folder / WEIGHTS).read_bytes(), X)


def _make_model(rng: random.Random, good: list[Saved]) -> Files:
    number = rng.randrange(len(good))
    description, weights = dict(good[number].description), good[number].weights
    chance = rng.random()
    if chance < 0.25:
        weights = _odd_weights(rng, weights)
    elif chance < 0.35:
        weights = mutated_bytes(rng, weights)
    elif chance < 0.45:
        weights = rng.choice(good).weights
    else:
        description = mutated_value(rng, description)
    if isinstance(description, dict) and rng.random() < 0.95:
        description["weights_sha256"] = hashlib.sha256(weights).hexdigest()
        rest = {key: value for key, value in description.items() if key != "description_sha256"}
        try:
            checked = json.dumps(rest, sort_keys=True).encode()
        except (TypeError, ValueError):
            checked = b""
        description["description_sha256"] = hashlib.sha256(checked).hexdigest()
    text = json.dumps(description).encode() if rng.random() < 0.9 else json_text(rng, description)
    return {f"{number}/{DESCRIPTION}": text, f"{number}/{WEIGHTS}": weights}


def _odd_weights(rng: random.Random, weights: bytes) -> bytes:
    """Tensors with odd values, shapes, types or names."""
    tensors = safetensors.torch.load(weights)
    name = rng.choice(sorted(tensors))
    tensor = tensors[name].clone()
    match rng.randrange(6):
        case 0 if tensor.is_floating_point() and tensor.numel():
            tensor.view(-1)[rng.randrange(tensor.numel())] = rng.choice(ODD)
        case 1 if tensor.is_floating_point():
            tensor = torch.full_like(tensor, rng.choice(ODD))
        case 2:
            tensor = tensor.flatten()[: rng.randrange(tensor.numel() + 1)]
        case 3:
            tensor = tensor.to(rng.choice((torch.float64, torch.float16, torch.int64, torch.bool)))
        case 4:
            tensors[f"{name}x"] = tensor
        case _:
            if not tensor.is_floating_point() and tensor.numel():
                limits = torch.iinfo(tensor.dtype) if tensor.dtype != torch.bool else None
                tensor.view(-1)[rng.randrange(tensor.numel())] = rng.choice((0, -1, limits.max)) if limits else True
            else:
                tensor = tensor * 1e30
    tensors[name] = tensor
    return safetensors.torch.save({key: value.contiguous().clone() for key, value in tensors.items()})


def _read_model(folder: Path, good: list[Saved]) -> None:
    place = next(folder.iterdir())
    model, X = load(place), good[int(place.name)].X
    if hasattr(model, "predict_proba"):
        check_predictions(model, X)
    elif not np.isfinite(model.predict(X[:3])).all():
        raise Wrong("a predicted number is not finite")
    _go_through(model.session(), 3)


def _go_through(session: Session, n: int) -> None:
    """Ask a few questions and look at all that a person would see."""
    for _ in range(n):
        if session.done:
            break
        question = session.ask()
        str(question), str(session.why())
        session.dont_know()
    shares = [float(share) for share in session.posterior.values()]
    if not np.isfinite(shares).all() or abs(sum(shares) - 1) > 1e-3:
        raise Wrong(f"a session believes {shares!r:.200}")
    str(session.chain), str(session.reasons()), session.to_json()


# ----------------------------------------------------------------------------------------------------------------------
# Sessions


def _prepare_sessions(folder: Path) -> tuple[Any, list[dict[str, Any]]]:
    frame = good_table(200)
    model = NaiveBayesIPClassifier(random_state=0).fit(frame.drop(columns=LABEL), frame[LABEL])
    session = model.session("confidence=0.999")
    session.tell("no", "fever")
    session.tell(42, "age")
    session.skip()
    session.dont_know()
    session.change("age", 50)
    more = model.session("confidence=0.999")
    more.tell("yes", "fever")
    more.reject("flu")
    return model, [session.to_dict(), more.to_dict(), model.session().to_dict()]


def _make_session(rng: random.Random, prepared: tuple[Any, list[dict[str, Any]]]) -> Files:
    return {"session.json": json_text(rng, mutated_value(rng, rng.choice(prepared[1])))}


def _read_session(folder: Path, prepared: tuple[Any, list[dict[str, Any]]]) -> None:
    model = prepared[0]
    text = (folder / "session.json").read_bytes().decode("utf-8")
    session = Session.from_json(text, model.model_, model.stopping_rule("confidence=0.999"))
    again = Session.from_json(session.to_json(), model.model_, model.stopping_rule("confidence=0.999"))
    if again.posterior != session.posterior:
        raise Wrong("a session that was saved again believes something else")
    _go_through(session, 2)
    for _ in range(3):
        session.undo()


TARGETS = (
    Target("models", "model folders with fitting checksums", _prepare_models, _make_model, _read_model, weight=75),
    Target("sessions", "saved sessions, gone on with", _prepare_sessions, _make_session, _read_session, weight=500),
)
