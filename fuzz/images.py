"""Bad pictures, and bad files of the formats that data sets are published in."""

import gzip
import io
import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fuzz.judging import Wrong
from fuzz.mutations import json_text, mutated_bytes, mutated_value
from fuzz.workers import Files, Target
from pursuit.queries import PatchQueries
from pursuit.research.tasks.files import (
    read_cifar,
    read_idx,
    read_json,
    read_jsonl,
    read_npz,
)
from pursuit.web.serving.pictures import Picture
from pursuit.web.serving.problems import Refused

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
QUERIES = PatchQueries((1, 8, 8), 4, 4)


def _prepare_pictures(folder: Path) -> list[bytes]:
    rng = np.random.default_rng(0)
    files = []
    for mode, shape in (("L", (12, 9)), ("RGB", (10, 14, 3)), ("RGBA", (9, 9, 4))):
        picture = Image.fromarray(rng.integers(0, 255, shape).astype(np.uint8))
        for name in FORMATS:
            file = io.BytesIO()
            (picture.convert("RGB") if name in ("JPEG", "BMP") and mode == "RGBA" else picture).save(file, name)
            files.append(file.getvalue())
    return files


def _make_picture(rng: random.Random, good: list[bytes]) -> Files:
    return {"picture": mutated_bytes(rng, rng.choice(good), good)}


def _read_picture(folder: Path, good: list[bytes]) -> None:
    try:
        picture = Picture.read((folder / "picture").read_bytes(), QUERIES)
    except Refused as error:  # the server's own kind of sentence
        raise ValueError(str(error)) from None
    if not np.isfinite(picture.pixels).all() or picture.pixels.min() < 0 or picture.pixels.max() > 1:
        raise Wrong("pixels are not between 0 and 1")
    picture.revealed(QUERIES, [0, 2])
    QUERIES.answers(picture.pixels[None])


# ----------------------------------------------------------------------------------------------------------------------
# Files of data sets


def _prepare_data(folder: Path) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (3, 4, 5)).astype(np.uint8)
    idx = struct.pack(">HBB3I", 0, 8, 3, 3, 4, 5) + pixels.tobytes()
    rows = rng.integers(0, 10, (3, 1 + 3072)).astype(np.uint8)
    arrays = io.BytesIO()
    np.savez(arrays, a=pixels, b=np.arange(3.0), c=np.array(["x", "y"]))
    jsonl = "\n".join(json.dumps({"text": f"row {i}", "label": i}) for i in range(4)).encode()
    return {
        "idx": [idx, gzip.compress(idx)],
        "cifar": [rows.tobytes()],
        "npz": [arrays.getvalue()],
        "jsonl": [jsonl, gzip.compress(jsonl)],
        "json": [{"a": [1, 2.5, {"b": None}], "c": "text"}],
    }


def _make_data(rng: random.Random, good: dict[str, list[Any]]) -> Files:
    name = rng.choice(list(good))
    if name == "json":
        return {name: json_text(rng, mutated_value(rng, good[name][0]))}
    others = [data for files in good.values() for data in files if isinstance(data, bytes)]
    return {name: mutated_bytes(rng, rng.choice(good[name]), others)}


def _read_data(folder: Path, good: dict[str, list[Any]]) -> None:
    path = next(folder.iterdir())
    match path.name:
        case "idx":
            read_idx(path)
        case "cifar":
            read_cifar(path, 1)
        case "npz":
            read_npz(path)
        case "jsonl":
            read_jsonl(path)
        case "json":
            read_json(path)


TARGETS = (
    Target("pictures", "PNG, JPEG, GIF, BMP and WebP pictures", _prepare_pictures, _make_picture, _read_picture, 375),
    Target("data", "IDX, CIFAR, npz and JSON files of data sets", _prepare_data, _make_data, _read_data, 500),
)
