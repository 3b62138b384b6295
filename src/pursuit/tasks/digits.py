"""`digits`: scikit-learn's 8x8 handwritten digits, asked by overlapping 2x2 patches (49 queries)."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from pursuit.queries import PatchQueries
from pursuit.tasks.task import Task, TaskInfo


def load(seed: int = 0) -> Task:
    """The digits with a fifth held out, chosen by `seed`."""
    images, labels = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        images.reshape(-1, 1, 8, 8), labels, test_size=0.2, stratify=labels, random_state=seed
    )
    query_set = PatchQueries((1, 8, 8), size=2, stride=1, low=0, high=16)
    return Task("digits", query_set, X_train, y_train, X_test, y_test, {"seed": seed})


INFO = TaskInfo("digits", "digits of 8x8 pixels, by 2x2 patches", load, 49, 10, 1437, 360)
