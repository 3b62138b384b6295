"""`mnist-pixels`: handwritten digits asked pixel by pixel, each bright or dark: 784 yes/no questions.

The images and their split are those of `mnist`.
"""

from functools import partial

import numpy as np

from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.registry import register
from pursuit.research.tasks.files import find
from pursuit.research.tasks.formats import read_idx
from pursuit.research.tasks.mnist import IMAGE, MNIST
from pursuit.research.tasks.recipe import Recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.training.samplers import CarriedHistories
from pursuit.training.schedule import AdamW, Stage

NAME = "mnist-pixels"


def load(seed: int = 0) -> Task:
    """The official training and test images, whatever the seed."""
    images, labels, test_images, test_labels = (read_idx(find(file, NAME)) for file in MNIST.files)
    classes = np.array(MNIST.classes)
    return Task(
        NAME,
        query_set(),
        bright(images),
        classes[labels],
        bright(test_images),
        classes[test_labels],
        {"seed": seed},
        picture=partial(picture, test_images),
    )


def query_set() -> ColumnQueries:
    _, height, width = IMAGE
    return ColumnQueries(
        [
            yes_no(f"pixel {row},{column}", f"Is the pixel in row {row}, column {column} bright?")
            for row in range(height)
            for column in range(width)
        ]
    )


def bright(images: np.ndarray) -> np.ndarray:
    """1 for every bright pixel and 0 for every dark one, row after row: (N, 784)."""
    return (images >= 255 * MNIST.threshold).astype(np.uint8).reshape(len(images), -1)


def picture(images: np.ndarray, row: int) -> np.ndarray:
    """An image in shades of grey (H, W, 3)."""
    return np.repeat(images[row][:, :, None], 3, axis=2)


def _recipe(hidden: tuple[int, ...], epochs: float, batch_size: int, average: float) -> Recipe:
    """Standardised, because seven pixels of eight are dark, and a bright one says more."""
    stage = Stage(
        epochs,
        CarriedHistories(20, random_share=0.25, random_skew=3.0),
        AdamW(2e-3, weight_decay=0.02),
        batch_size=batch_size,
        average=average,
    )
    return Recipe(MLP(hidden, dropout=0.1), (stage,), "confidence=0.99", standardise=True)


RECIPES = {"fast": _recipe((256, 256), 12, 512, 0.998), "gpu": _recipe((1024, 1024), 120, 1024, 0.999)}

register(
    TaskInfo(
        NAME,
        "handwritten digits, pixel by pixel",
        load,
        n_queries=784,
        n_classes=10,
        n_train=60_000,
        n_test=10_000,
        files=MNIST.files,
        recipes=RECIPES,
    )
)
