"""`mnist`, `fashion-mnist` and `kmnist`: images of 28x28 pixels, black or white, asked by 676 patches of 3x3 pixels.

`mnist-pixels` asks the digits of `mnist` pixel by pixel instead, each bright or dark: 784 yes/no questions.
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from pursuit.evaluation.protocols import Protocol
from pursuit.networks import MLP, Conv, PaperConv
from pursuit.queries import ColumnQueries, PatchQueries, yes_no
from pursuit.registry import register
from pursuit.research.tasks.files import DataFile, find, read_idx
from pursuit.research.tasks.recipe import NEEDS_GPU, Published, Recipe, paper_recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.training.rows import Shifts
from pursuit.training.samplers import CarriedHistories, RandomHistories, RolledOutHistories
from pursuit.training.schedule import AdamW, Stage, paper_stage

PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
IMAGE = (1, 28, 28)


@dataclass(frozen=True)
class Family:
    """One data set of the family; each is published in four files."""

    name: str
    title: str
    site: str
    md5: tuple[str, str, str, str]
    """Checksums of train images, train labels, test images and test labels."""
    classes: tuple[str, ...]
    threshold: float
    """Share of full brightness from which a pixel counts as white."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        names = [f"{part}-ubyte.gz" for part in PARTS]
        return tuple(
            DataFile(f"{self.name}/{name}", md5=md5, url=f"{self.site}/{name}")
            for name, md5 in zip(names, self.md5, strict=True)
        )


DIGITS = tuple(str(digit) for digit in range(10))
MNIST = Family(
    "mnist",
    "handwritten digits",
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    DIGITS,
    0.5,
)
FASHION = Family(
    "fashion-mnist",
    "articles of clothing",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
    0.1,
)
KMNIST = Family(
    "kmnist",
    "Japanese characters",
    "http://codh.rois.ac.jp/kmnist/dataset/kmnist",
    (
        "bdb82020997e1d708af4cf47b453dcf7",
        "e144d726b3acfaa3e44228e80efcd344",
        "5c965bf0a639b31b8f53240b1b52f4d7",
        "7320c461ea6c1c855c0b718fb2a4b134",
    ),
    ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
    0.5,
)
PIXELS = "mnist-pixels"
PROTOCOLS = (
    Protocol("no cap"),
    Protocol("at most 40", 40),
    Protocol("released code: at most 21, the last one not answered", 21, counts_unseen=True),
)
"""The paper states no cap. The released code records a belief and then reveals the answer, at most 21 times."""


def load(family: Family, seed: int = 0) -> Task:
    """The official training and test images, whatever the seed."""
    images, labels, test_images, test_labels = (read_idx(find(file, family.name)) for file in family.files)
    classes = np.array(family.classes)
    return Task(
        family.name, query_set(family), images, classes[labels], test_images, classes[test_labels], {"seed": seed}
    )


def query_set(family: Family) -> PatchQueries:
    return PatchQueries(IMAGE, size=3, stride=1, low=0, high=255, threshold=255 * family.threshold)


def load_pixels(seed: int = 0) -> Task:
    """The images of `mnist` as rows of 784 pixels, bright (1) or dark (0)."""
    task = load(MNIST, seed)
    task = replace(task, name=PIXELS, query_set=pixel_queries(), picture=partial(picture, task.X_test))
    return replace(task, X_train=bright(task.X_train), X_test=bright(task.X_test))


def pixel_queries() -> ColumnQueries:
    pixels = product(range(IMAGE[1]), range(IMAGE[2]))
    return ColumnQueries([yes_no(f"pixel {y},{x}", f"Is the pixel in row {y}, column {x} bright?") for y, x in pixels])


def bright(images: np.ndarray) -> np.ndarray:
    """1 for every bright pixel and 0 for every dark one, row after row: (N, 784)."""
    return (images >= 255 * MNIST.threshold).astype(np.uint8).reshape(len(images), -1)


def picture(images: np.ndarray, row: int) -> np.ndarray:
    """An image in shades of grey (H, W, 3)."""
    return np.repeat(images[row][:, :, None], 3, axis=2)


# The released script, by the commands published with it: a cosine for each stage, and a constant tau in the second. The
# text's 500 epochs of biased histories of up to 676 queries would ask 10 billion times.
PAPER = paper_recipe(
    PaperConv(),
    paper_stage(RandomHistories(), 100, period=100),
    replace(paper_stage(RolledOutHistories(20), 20, period=20), tau=(0.2, 0.2)),
    "confidence=0.99",
    mask=False,
)
FAST_MNIST = Recipe(
    Conv(padded=False),
    (
        Stage(
            50,
            CarriedHistories(16, random_share=0.25, random_skew=3.0),
            AdamW(3e-3, weight_decay=0.02),
            batch_size=1024,
            average=0.998,
            augment=Shifts(1),
        ),
    ),
    "confidence=0.99",
    note=NEEDS_GPU,
)


def _fast(shifts: int, chain_queries: int) -> Recipe:
    stage = Stage(
        60,
        CarriedHistories(chain_queries, random_share=0.25, random_skew=3.0),
        AdamW(3e-3, weight_decay=0.02),
        batch_size=2048,
        average=0.996,
        augment=Shifts(shifts),
    )
    return Recipe(Conv(), (stage,), "confidence=0.99", note=NEEDS_GPU)


def _register(family: Family, published: Published, **recipes: Recipe) -> None:
    register(
        TaskInfo(
            family.name,
            f"{family.title}, by 3x3 patches",
            partial(load, family),
            n_queries=676,
            n_classes=10,
            n_train=60_000,
            n_test=10_000,
            files=family.files,
            recipes={"paper": PAPER, **recipes},
            published=published,
            protocols=PROTOCOLS,
            protocol_length=published.mean_answered,
        )
    )


FAST_FASHION = _fast(1, 24)
PUBLISHED_MNIST = Published("confidence=0.99", 6.34, 0.971, 0.991, 0.992, 0.956)
PUBLISHED_FASHION = Published("confidence=0.99", 19.42, 0.872, 0.876, 0.884, 0.849)
_register(MNIST, PUBLISHED_MNIST, fast=FAST_MNIST, gpu=FAST_MNIST.scaled(2.4))
_register(FASHION, PUBLISHED_FASHION, fast=FAST_FASHION, gpu=FAST_FASHION.scaled(2.5))
PUBLISHED_KMNIST = Published("confidence=0.99", 20.34, 0.916, 0.958, 0.951, 0.911)
_register(KMNIST, PUBLISHED_KMNIST, fast=_fast(2, 40))


def _of_pixels(hidden: tuple[int, ...], epochs: float, batch_size: int, average: float) -> Recipe:
    """Standardised, because seven pixels of eight are dark, and a bright one says more."""
    histories = CarriedHistories(20, random_share=0.25, random_skew=3.0)
    stage = Stage(epochs, histories, AdamW(2e-3, weight_decay=0.02), batch_size=batch_size, average=average)
    return Recipe(MLP(hidden, dropout=0.1), (stage,), "confidence=0.99", standardise=True)


register(
    TaskInfo(
        PIXELS,
        "handwritten digits, pixel by pixel",
        load_pixels,
        n_queries=784,
        n_classes=10,
        n_train=60_000,
        n_test=10_000,
        files=MNIST.files,
        recipes={"fast": _of_pixels((256, 256), 12, 512, 0.998), "gpu": _of_pixels((1024, 1024), 120, 1024, 0.999)},
    )
)
