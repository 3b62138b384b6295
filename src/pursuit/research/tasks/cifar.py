"""`cifar10` and `cifar100`: photos of 32x32 pixels, asked by 49 overlapping patches of 8x8 pixels."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pursuit.evaluation.protocols import Protocol
from pursuit.networks import DLA, DenseNet, NetworkSettings, Residual
from pursuit.queries import PatchQueries
from pursuit.registry import register
from pursuit.research.tasks.files import DataFile, find, read_cifar
from pursuit.research.tasks.recipe import NEEDS_GPU, Published, Recipe, paper_recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.training.rows import Shifts
from pursuit.training.samplers import CarriedHistories, RandomHistories, RolledOutHistories
from pursuit.training.schedule import SGD, AdamW, Stage, paper_stage

IMAGE = (3, 32, 32)
SITE = "https://www.cs.toronto.edu/~kriz"


@dataclass(frozen=True)
class Photos:
    """One of the two data sets, and how it is published."""

    name: str
    title: str
    classes: tuple[str, ...]
    archive: tuple[str, str]
    """File name and md5 of the archive of the binary version."""
    folder: str
    """The folder that it unpacks to."""
    parts: tuple[str, ...]
    """The training files and then the test file, without ".bin"."""
    md5: tuple[str, ...]
    """Checksums of the parts; "" if unknown."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        archive_name, archive_md5 = self.archive
        archive = DataFile(f"{self.name}/{archive_name}", md5=archive_md5, url=f"{SITE}/{archive_name}")
        return tuple(
            DataFile(f"{self.name}/{self.folder}/{part}.bin", md5=md5, archive=archive)
            for part, md5 in zip(self.parts, self.md5, strict=True)
        )


CIFAR10 = Photos(
    "cifar10",
    "photos of ten things",
    ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    ("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar-10-batches-bin",
    (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"),
    (
        "5dd7e06a14cb22eb9f671a540d1b7c25",
        "5ea93a67294ea407fff1d09f752e9692",
        "942cd6a4bcdd0dd3c604fbe906cb4421",
        "ae636b3ba5c66a11e91e8cb52e771fcb",
        "53f37980c15c3d472c316c40844f3f0d",
        "803d5f7f4d78ea53de84dbe85f74fb6d",
    ),
)
# fmt: off
CIFAR100 = Photos(
    "cifar100",
    "photos of a hundred things",
    (
        "apple", "aquarium fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
        "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
        "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish",
        "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn mower", "leopard", "lion",
        "lizard", "lobster", "man", "maple tree", "motorcycle", "mountain", "mouse", "mushroom", "oak tree", "orange",
        "orchid", "otter", "palm tree", "pear", "pickup truck", "pine tree", "plain", "plate", "poppy", "porcupine",
        "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk",
        "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet pepper", "table", "tank",
        "telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale",
        "willow tree", "wolf", "woman", "worm",
    ),
    ("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
    "cifar-100-binary",
    ("train", "test"),
    ("", ""),
)
# fmt: on


def load(photos: Photos, seed: int = 0) -> Task:
    """The official training and test photos, whatever the seed."""
    n_labels = 1 if photos is CIFAR10 else 2  # CIFAR-100 has a coarse label before the fine one
    *train, (test_images, test_labels) = (read_cifar(find(file, photos.name), n_labels) for file in photos.files)
    images, labels = (np.concatenate(part) for part in zip(*train, strict=True))
    y, y_test = (np.array(photos.classes)[part[:, -1]] for part in (labels, test_labels))
    return Task(photos.name, query_set(), images, y, test_images, y_test, {"seed": seed})


def query_set() -> PatchQueries:
    return PatchQueries(IMAGE, size=8, stride=4, low=0, high=255)


CROPS = Shifts(4, mirror=True)


def _paper(network: NetworkSettings, batch_size: int, stop: str) -> Recipe:
    sgd = SGD(lr=0.01, momentum=0.9)
    return paper_recipe(
        network,
        paper_stage(RandomHistories(), 500, batch_size=batch_size, augment=CROPS),
        paper_stage(RolledOutHistories(), 100, sgd, batch_size=batch_size, augment=CROPS),
        stop,
        mask=False,
    )


FAST = Recipe(
    Residual(classifier_width=1.0, querier_width=0.5),
    (
        Stage(
            90,
            CarriedHistories(16, random_share=0.4),
            AdamW(2e-3, weight_decay=0.05),
            batch_size=768,
            average=0.998,
            augment=Shifts(4, mirror=True, edge="reflect"),
            label_smoothing=0.05,
        ),
    ),
    "confidence=0.9",  # the paper's rule, a small change of entropy, stops this classifier too early
    note=NEEDS_GPU,
)
# Wider and longer; the belief about a photo and about its mirror image are one.
GPU = replace(FAST.scaled(4 / 3), network=Residual(classifier_width=1.5, querier_width=0.75, mirrored=True))


def _register(photos: Photos, paper: Recipe, published: Published) -> None:
    register(
        TaskInfo(
            photos.name,
            f"{photos.title}, by 8x8 patches",
            partial(load, photos),
            n_queries=49,
            n_classes=len(photos.classes),
            n_train=50_000,
            n_test=10_000,
            files=photos.files,
            recipes={"paper": paper, "fast": FAST, "gpu": GPU},
            published=published,
            protocols=(Protocol("no cap"),),
            protocol_length=published.mean_answered,
            protocol_share=0.04,  # 2,000 photos are enough to choose a confidence on
        )
    )


_register(CIFAR10, _paper(DLA(), 128, "stability=0.127"), Published("stability=0.127", 9.79, 0.936, 0.946, 0.955))
_register(CIFAR100, _paper(DenseNet(), 64, "stability=1.438"), Published("stability=1.438", 12.82, 0.752, 0.788, 0.798))
