"""`cub`: which of 200 species the bird on a photo is, asked by 312 attributes that a concept network sees in the photo.

The photos are those of CUB-200-2011, with its official split. A concept network learns from the photo alone what
share of its species' photos show each attribute. The answers of the task are the network's, which `make_answers`
writes: the first few of the species' own answers would give the species away.
"""

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pursuit.evaluation.protocols import Protocol
from pursuit.files import check_file, parse_json
from pursuit.networks import MLP
from pursuit.queries import ConceptQueries, Query
from pursuit.registry import register
from pursuit.research.concepts import (
    Calibration,
    ConceptNetwork,
    ConceptReport,
    attribute_accuracy,
    cross_fold,
    efficientnet_lite,
    gather,
    read_fold,
    write_arrays,
    write_fold,
)
from pursuit.research.concepts import load as load_network
from pursuit.research.concepts import save as save_network
from pursuit.research.tasks.files import DataFile, MissingData, content_of, find, read_npz
from pursuit.research.tasks.recipe import NEEDS_GPU, Published, Recipe, paper_recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.training.devices import find_device
from pursuit.training.samplers import CarriedHistories, RandomHistories, RolledOutHistories
from pursuit.training.schedule import AdamW, Stage, paper_stage

SIZE = 256
"""Photos are resized to this many pixels in both directions."""
SITE = "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz"
ARCHIVE = DataFile("cub/CUB_200_2011.tgz", md5="97eceeb196236b17998738112f37df78", url=SITE)
COMPACT = DataFile("cub/cub_meta.npz", sha256="4060f2ab205266f3882731dc226307b4a2889a6b4c11efe800b121e989ad912a")
COMPACT_PHOTOS = DataFile(
    "cub/cub_webp256.bin", sha256="278abde800354aa954e2a5f7e2521af28bc1b244c15f13bc2f56c8c0536b08b6"
)
"""The photos one after another; cub_webp256.idx.npz beside it has their lengths."""
ANNOTATIONS = DataFile("cub/CUB_200_2011/images.txt", archive=ARCHIVE, alternatives=(COMPACT,))
PHOTOS = DataFile("cub/CUB_200_2011/images", archive=ARCHIVE, alternatives=(COMPACT_PHOTOS,))
ANSWERS = DataFile(
    "cub/concept_answers.npz",
    origin="concept_answers.npz is made from the photos by `pursuit concepts cub`, in minutes on a GPU.",
)


COLOURED = {
    "wing": "Are its wings",
    "upperparts": "Are its upperparts",
    "underparts": "Are its underparts",
    "back": "Is its back",
    "upper_tail": "Is the upper side of its tail",
    "under_tail": "Is the underside of its tail",
    "breast": "Is its breast",
    "throat": "Is its throat",
    "eye": "Are its eyes",
    "forehead": "Is its forehead",
    "nape": "Is the nape of its neck",
    "belly": "Is its belly",
    "primary": "Is it mainly",
    "leg": "Are its legs",
    "bill": "Is its bill",
    "crown": "Is the crown of its head",
}
COLOURS = {"rufous": "rufous (reddish brown)", "buff": "buff (pale yellowish brown)"}
"""Colours that need an explanation."""
PATTERNED = {
    "breast": "Is its breast",
    "back": "Is its back",
    "tail": "Is its tail",
    "belly": "Is its belly",
    "wing": "Are its wings",
}
PATTERNS = {"solid": "of a single colour", "multi-colored": "multi-coloured"}
OTHERS = {
    "bill_shape": {
        "curved_(up_or_down)": "Does it have a bill that curves up or down?",
        "dagger": "Does it have a dagger-shaped bill?",
        "hooked": "Does it have a hooked bill?",
        "needle": "Does it have a needle-shaped bill?",
        "hooked_seabird": "Does it have a hooked bill like a seabird's?",
        "spatulate": "Does it have a spatulate (spoon-shaped) bill?",
        "all-purpose": "Does it have an all-purpose bill?",
        "cone": "Does it have a cone-shaped bill?",
        "specialized": "Does it have a specialised bill?",
    },
    "head_pattern": {
        "spotted": "Is its head spotted?",
        "malar": "Does it have a malar stripe (from the bill down the side of the throat)?",
        "crested": "Does it have a crest on its head?",
        "masked": "Does it have a mask around its eyes?",
        "unique_pattern": "Does its head have a unique pattern?",
        "eyebrow": "Does it have an eyebrow (a stripe above the eye)?",
        "eyering": "Does it have a ring around its eye?",
        "plain": "Is its head plain?",
        "eyeline": "Does it have a line through its eye?",
        "striped": "Is its head striped?",
        "capped": "Does it have a cap on its head?",
    },
    "bill_length": {
        "about_the_same_as_head": "Is its bill about as long as its head?",
        "longer_than_head": "Is its bill longer than its head?",
        "shorter_than_head": "Is its bill shorter than its head?",
    },
    "size": {"medium_(9_-_16_in)": "Is it of medium size (9 to 16 in)?"},
    "shape": {
        "upright-perching_water-like": "Is it shaped like a water bird that perches upright?",
        "chicken-like-marsh": "Is it shaped like a chicken-like marsh bird?",
        "long-legged-like": "Is it shaped like a long-legged bird?",
        "owl-like": "Is it shaped like an owl?",
        "tree-clinging-like": "Is it shaped like a bird that clings to trees?",
        "upland-ground-like": "Is it shaped like an upland ground bird?",
        "perching-like": "Is it shaped like a perching bird?",
    },
}
NAMESAKES = {
    "Anna", "Baird", "Bewick", "Brandt", "Brewer", "Clark", "Harris", "Heermann", "Henslow", "Le_Conte", "Lincoln",
    "Nelson", "Scott", "Swainson", "Wilson",
}  # fmt: skip
"""People whom species are named after; the files leave out the possessive."""
RENAMED = {
    "Artic_Tern": "Arctic Tern",
    "Chuck_will_Widow": "Chuck-will's-widow",
    "Forsters_Tern": "Forster's Tern",
    "Whip_poor_Will": "Whip-poor-will",
}


@dataclass(frozen=True)
class Birds:
    """The annotations of the photos and their species."""

    paths: np.ndarray  # (N,) "001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg"
    labels: np.ndarray  # (N,) place in `species`
    is_train: np.ndarray  # (N,) bool, the official split
    species: np.ndarray  # (C,) readable names
    attributes: tuple[str, ...]  # (Q,) "has_bill_shape::dagger"
    percent: np.ndarray  # (C, Q) share of a species' photos with the attribute

    @property
    def targets(self) -> Tensor:
        """The share of photos of each photo's species that show the attribute: (N, Q), 0 to 1."""
        return torch.from_numpy((self.percent / 100)[self.labels].astype(np.float32))

    @property
    def digest(self) -> str:
        """A checksum of the photos' names in order and the attributes, by which answers are matched to photos."""
        return hashlib.sha256("\n".join([*self.paths, *self.attributes]).encode()).hexdigest()


def birds() -> Birds:
    """The annotations, from either layout."""
    path = find(ANNOTATIONS, "cub")
    return read_compact(path) if path.suffix == ".npz" else read_official(path.parent)


def read_official(folder: Path) -> Birds:
    """The annotations in the folder CUB_200_2011 as it is published."""
    paths = _listed(folder / "images.txt")
    percent = np.loadtxt(folder / "attributes" / "class_attribute_labels_continuous.txt", ndmin=2)
    # The archive has the names of the attributes beside the folder; some copies have them inside.
    places = [place / "attributes.txt" for place in (folder.parent, folder, folder / "attributes")]
    attributes = _listed(next((place for place in places if place.exists()), places[0]))
    labels = np.array([int(label) for label in _listed(folder / "image_class_labels.txt")]) - 1
    is_train = np.array(_listed(folder / "train_test_split.txt")) == "1"
    return _checked(
        Birds(np.array(paths), labels, is_train, _species(_listed(folder / "classes.txt")), tuple(attributes), percent),
        folder,
    )


def read_compact(path: Path) -> Birds:
    """The annotations in one npz file."""
    arrays = read_npz(path)
    with content_of(path):
        paths, species, attributes = (arrays[name] for name in ("image_path", "class_name", "attribute_name"))
        labels, is_train = arrays["label"].astype(np.int64), arrays["official_train"].astype(bool)
        percent = arrays["class_attr_continuous_pct"]
    return _checked(
        Birds(paths, labels, is_train, _species(species.tolist()), tuple(attributes.tolist()), percent), path
    )


def _species(names: Iterable[str]) -> np.ndarray:
    return np.array([species_name(name) for name in names])


def _listed(path: Path) -> list[str]:
    """The text after the number in lines such as "1 001.Black_footed_Albatross", which are numbered from 1."""
    try:
        lines = [line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise MissingData(f"{path} is missing: unpack all of CUB_200_2011.tgz there.") from None
    if [line[0] for line in lines] != [str(i + 1) for i in range(len(lines))] or any(len(line) != 2 for line in lines):
        raise ValueError(f"{path} is damaged: its lines are not numbered from 1.")
    return [line[1].strip() for line in lines]


def _checked(birds: Birds, source: Path) -> Birds:
    n, shape = len(birds.paths), (len(birds.species), len(birds.attributes))
    if not len(birds.labels) == len(birds.is_train) == n or birds.percent.shape != shape:
        raise ValueError(
            f"{source} is damaged: it has {len(birds.labels)} labels for {n} photos, and a table of attributes of the "
            f"shape {birds.percent.shape}, where {shape} is expected."
        )
    if n == 0 or birds.labels.min() < 0 or birds.labels.max() >= shape[0]:
        raise ValueError(f"{source} is damaged: it has labels without a species, or no photos.")
    return birds


def photos(birds: Birds) -> Tensor:
    """All photos in the order of `birds.paths`: bytes (N, 3, SIZE, SIZE), from either layout."""
    path = find(PHOTOS, "cub")
    sources = [path / name for name in birds.paths] if path.is_dir() else _parts(path, len(birds.paths))
    result = torch.empty(len(birds.paths), 3, SIZE, SIZE, dtype=torch.uint8)
    with ThreadPoolExecutor() as pool:  # Pillow releases the GIL while it decodes
        for i, image in enumerate(pool.map(_decoded, sources)):
            result[i] = torch.from_numpy(image)
    return result


def photo(birds: Birds, rows: np.ndarray, number: int) -> np.ndarray:
    """The photo (SIZE, SIZE, 3) of `rows[number]`, a row of `birds`."""
    path, row = find(PHOTOS, "cub"), int(rows[number])
    source = path / str(birds.paths[row]) if path.is_dir() else _parts(path, len(birds.paths))[row]
    return _decoded(source).transpose(1, 2, 0)


def _parts(path: Path, n_photos: int) -> Sequence[Path | bytes]:
    """The photos in a file that has one after another, with their lengths in the file beside it."""
    index = path.with_suffix(".idx.npz")
    if not index.exists():
        raise MissingData(f"{index} is missing: copy all files of the folder again.")
    arrays = read_npz(index)
    with content_of(index):
        ends = np.cumsum(arrays["length"], dtype=np.int64)
    data = path.read_bytes()
    if len(ends) != n_photos or ends[-1] != len(data):
        raise ValueError(f"{path} does not fit {index.name} and the annotations: copy all files of the folder again.")
    return [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _decoded(source: Path | bytes) -> np.ndarray:
    """A photo as (3, SIZE, SIZE)."""
    from PIL import Image

    with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
        image.draft("RGB", (2 * SIZE, 2 * SIZE))  # decodes a JPEG no larger than needed
        colours = image.convert("RGB")
    if colours.size != (SIZE, SIZE):
        colours = colours.resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    return np.array(colours).transpose(2, 0, 1)


def query_set(birds: Birds) -> ConceptQueries:
    return ConceptQueries([Query(attribute, wording(attribute)) for attribute in birds.attributes])


def wording(attribute: str) -> str:
    """The question about an attribute such as "has_wing_color::blue"."""
    group, _, value = attribute.removeprefix("has_").partition("::")
    part, _, kind = group.rpartition("_")
    if value and value in OTHERS.get(group, {}):
        return OTHERS[group][value]
    if value and kind == "color" and part in COLOURED:
        return f"{COLOURED[part]} {COLOURS.get(value, value)}?"
    if value and kind == "pattern" and part in PATTERNED:
        return f"{PATTERNED[part]} {PATTERNS.get(value, value)}?"
    if value.endswith("_tail") and group == "tail_shape":
        return f"Is its tail {value.removesuffix('_tail')}?"
    if value.endswith("-wings") and group == "wing_shape":
        return f"Are its wings {value.removesuffix('-wings')}?"
    if value and group == "size":
        return f"Is it {value.replace('_-_', ' to ').replace('_', ' ')}?"
    if value.endswith("-like") and group == "shape":
        return f"Is it shaped like a {value.removesuffix('-like')}?"
    raise ValueError(f"'{attribute}' is not an attribute of CUB-200-2011; one is 'has_wing_color::blue'.")


def species_name(folder: str) -> str:
    """The name in the folder's name: "Black-footed Albatross" for "001.Black_footed_Albatross"."""
    name = folder.split(".", maxsplit=1)[-1]
    if name in RENAMED:
        return RENAMED[name]
    for person in NAMESAKES:
        if name.startswith(f"{person}_"):
            name = name.replace(person, f"{person}'s", 1)
    # Before a small letter the underscore stands for a hyphen: Red_winged, Black_and_white.
    return re.sub(r"_(?=[a-z])", "-", name).replace("_", " ")


def make_answers(
    folder: str | Path,
    *,
    fold: int | None = None,
    device: str = "cuda",
    epochs: int = 40,
    folds: int = 3,
    batch_size: int = 64,
    lr: float = 3e-3,
    seed: int = 0,
    build: Callable[[int], ConceptNetwork] = efficientnet_lite,
    on_report: Callable[[ConceptReport], None] | None = None,
) -> dict[str, Any]:
    """Train concept networks on the photos, and write their answers and the networks into `folder`.

    Each training photo is answered by a network trained on the other `folds`, and test photos by the mean of all these
    networks. All answers are calibrated on those of the training photos, each of which its network never saw. A fold is
    kept as soon as it is done, and not made again. With a number as `fold`, it is the only one that is made, and no
    answers are written. Returns how the answers were made and, if they were, their scores.
    """
    if fold is not None and not 1 <= fold <= folds:
        raise ValueError(f"There are {folds} folds, 1 to {folds}: {fold} is not one of them.")
    folder = Path(folder)
    places = {i: folder / "folds" / f"{i}-of-{folds}" for i in range(1, folds + 1)}
    missing = [i for i in places if fold in (None, i) and not _answers_of(places[i]).exists()]
    place = find_device(device).type if missing else ""
    found = birds()
    settings: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "seed": seed}
    made = {**settings, "folds": folds, "photos": found.digest}
    for i in places:
        if i not in missing and fold in (None, i):
            read_fold(_answers_of(places[i]), made)  # other settings are an error before the training, not after it
    make = partial(build, len(found.attributes))
    train, targets = torch.from_numpy(found.is_train), found.targets
    if missing:
        images = photos(found)
        known, new = images[train], images[~train]
        del images
    for i in missing:
        options = {"fold": i, "folds": folds, "device": place, "on_report": on_report, **settings}
        answered, network = cross_fold(make, known, targets[train], found.labels[found.is_train], new, **options)
        save_network(places[i], network, made)
        write_fold(_answers_of(places[i]), answered, made)
    if fold is not None:
        return made
    crossed = gather([read_fold(_answers_of(kept), made) for kept in places.values()], targets[train])
    architectures = [_calibrate(kept, crossed.calibration, make) for kept in places.values()]
    train_answers, test_answers = crossed.probabilities, crossed.further_probabilities
    made |= {
        "network": architectures[0],
        "train": asdict(attribute_accuracy(train_answers, targets[train].numpy())),
        "test": asdict(attribute_accuracy(test_answers, targets[~train].numpy())),
    }
    write_answers(folder / Path(ANSWERS.path).name, train_answers, test_answers, made)
    return made


def _answers_of(network: Path) -> Path:
    """The file beside the folder of a fold's network."""
    return network.with_suffix(".npz")


def _calibrate(folder: Path, calibration: Calibration, build: Callable[[], ConceptNetwork]) -> dict[str, Any] | None:
    """Give the network in this folder the calibration of all answers, and return its architecture; None without a
    network, since folds may have been brought from elsewhere."""
    if not folder.exists():
        return None
    network, notes = load_network(folder, build)
    network.calibration = calibration
    save_network(folder, network, notes)
    return network.architecture


def write_answers(path: Path, train: np.ndarray, test: np.ndarray, made: dict[str, Any]) -> None:
    """Write the probabilities (N, Q) of both parts, how they were made, and a digest of all that."""
    # Half precision keeps three digits, more than these probabilities are worth.
    parts = {"train": train.astype(np.float16), "test": test.astype(np.float16), "made": np.array(json.dumps(made))}
    write_arrays(path, **parts, digest=np.array(_digest(parts)))


def read_answers(path: Path) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Probabilities (N, Q) of both parts and how they were made."""
    check_file(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            parts = {name: file[name] for name in ("train", "test", "made")}
            if str(file["digest"]) != _digest(parts):
                raise ValueError("its digest does not match its content")
        return parts["train"].astype(np.float32), parts["test"].astype(np.float32), parse_json(str(parts["made"]))
    except Exception as error:  # a damaged archive can raise anything
        raise ValueError(f"{path} is damaged: {error}. Make it again with: pursuit concepts cub") from None


def _digest(parts: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(str(parts["made"]).encode())
    for name in ("train", "test"):
        digest.update(np.ascontiguousarray(parts[name]).tobytes())
    return digest.hexdigest()


def load(seed: int = 0) -> Task:
    """The concept network's answers in the official split, whatever the seed."""
    found = birds()
    path = find(ANSWERS, "cub")
    train, test, made = read_answers(path)
    n_train, n_queries = int(found.is_train.sum()), len(found.attributes)
    shapes = (n_train, n_queries), (len(found.paths) - n_train, n_queries)
    if (train.shape, test.shape) != shapes or made.get("photos") != found.digest:
        raise ValueError(
            f"{path} has answers for other photos than those in {ANNOTATIONS.path}. Make it again with: pursuit "
            "concepts cub"
        )
    y = found.species[found.labels]
    notes = {"seed": seed, "answers": made}
    picture = partial(photo, found, (~found.is_train).nonzero()[0])
    return Task("cub", query_set(found), train, y[found.is_train], test, y[~found.is_train], notes, picture=picture)


MOST_QUERIES = 50
"""Limit of the released code for a test photo. It answers a query before it records the belief, so all are known."""
PAPER = paper_recipe(
    MLP((2000, 500)),
    paper_stage(RandomHistories(), 500),
    paper_stage(RolledOutHistories(), 500),
    "stability=0.001",
    MOST_QUERIES,
    protocols=(Protocol(f"released code: at most {MOST_QUERIES}, all answered", MOST_QUERIES),),
    mask=False,
    scale="yes/no",
)
# With so few photos, networks without hidden layers are best.
FAST = Recipe(
    MLP(()),
    (Stage(60, CarriedHistories(30), AdamW(3e-3, weight_decay=0.05), average=0.998),),
    "stability=0.001",
    standardise=True,
    query_options={"scale": "log odds"},
)
# All photos are learnt from: there are only thirty of each bird.
GPU = Recipe(
    MLP((2000, 500), dropout=0.5),
    (Stage(1000, CarriedHistories(40, random_share=0.4), AdamW(1e-3, 0.1), batch_size=512, average=0.998),),
    "stability=0.001",
    standardise=True,
    held_out=0.0,
    query_options={"scale": "log odds"},
    note=NEEDS_GPU,
)

PUBLISHED = Published("stability=0.001", 18.82, 0.752, 0.763, 0.763, 0.716)
register(
    TaskInfo(
        "cub",
        "birds on photos, by attributes a network sees",
        load,
        n_queries=312,
        n_classes=200,
        n_train=5_994,
        n_test=5_794,
        files=(ANNOTATIONS, ANSWERS),
        recipes={"paper": PAPER, "fast": FAST, "gpu": GPU},
        published=PUBLISHED,
        protocol_length=PUBLISHED.mean_answered,
    )
)
