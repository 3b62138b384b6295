"""`mnist`, `fashion-mnist` and `kmnist`: images of 28x28 pixels, black or white, asked by 676 patches of 3x3 pixels."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from pursuit.queries import PatchQueries
from pursuit.tasks import files
from pursuit.tasks.files import DataFile
from pursuit.tasks.readers import read_idx
from pursuit.tasks.task import Task, TaskInfo

PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
IMAGE = (1, 28, 28)


@dataclass(frozen=True)
class Family:
    """One data set of the family, in the four files all of them are published in."""

    name: str
    title: str
    site: str
    md5: tuple[str, str, str, str]
    """Of train images, train labels, test images and test labels."""
    classes: tuple[str, ...]
    threshold: float
    """Share of full brightness from which a pixel is white."""

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
KMNIST_TEST_SPLIT = "kmnist-test-split"
SPLIT_SEED, N_SPLIT_TEST = 0, 2000


def load(family: Family, seed: int = 0) -> Task:
    """The official images to learn from and to measure on; `seed` plays no part in them."""
    images, labels, test_images, test_labels = (read_idx(files.find(file, family.name)) for file in family.files)
    classes = np.array(family.classes)
    return Task(
        family.name, query_set(family), images, classes[labels], test_images, classes[test_labels], {"seed": seed}
    )


def load_kmnist_test_split(seed: int = 0) -> Task:
    """KMNIST's 10,000 test images alone, in 8,000 to learn from and 2,000 to measure on: always the same."""
    images, labels = (read_idx(files.find(file, KMNIST.name)) for file in KMNIST.files[2:])
    test, train = np.split(np.random.default_rng(SPLIT_SEED).permutation(len(images)), [N_SPLIT_TEST])
    y = np.array(KMNIST.classes)[labels]
    notes = {
        "seed": seed,
        "split": "8,000 and 2,000 of the official test images",
        "learnt_from_test_rows_of": KMNIST.name,
    }
    return Task(KMNIST_TEST_SPLIT, query_set(KMNIST), images[train], y[train], images[test], y[test], notes)


def query_set(family: Family) -> PatchQueries:
    return PatchQueries(IMAGE, size=3, stride=1, low=0, high=255, threshold=255 * family.threshold)


def _info(family: Family) -> TaskInfo:
    title = f"{family.title}, by 3x3 patches"
    return TaskInfo(family.name, title, partial(load, family), 676, 10, 60_000, 10_000, family.files)


INFOS = (
    *(_info(family) for family in (MNIST, FASHION, KMNIST)),
    TaskInfo(
        KMNIST_TEST_SPLIT,
        "only the test images of kmnist, split",
        load_kmnist_test_split,
        676,
        10,
        8000,
        N_SPLIT_TEST,
        KMNIST.files[2:],
    ),
)
