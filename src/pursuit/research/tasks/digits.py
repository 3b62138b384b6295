"""`digits`: scikit-learn's 8x8 handwritten digits, asked by overlapping 2x2 patches (49 queries)."""

from pursuit.networks import MLP
from pursuit.queries import PatchQueries
from pursuit.registry import register
from pursuit.research.tasks.recipe import Recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.training.samplers import CarriedHistories
from pursuit.training.schedule import AdamW, Stage


def load(seed: int = 0) -> Task:
    """The digits with a fifth of them, chosen by `seed`, as test rows."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        images.reshape(-1, 1, 8, 8), labels, test_size=0.2, stratify=labels, random_state=seed
    )
    query_set = PatchQueries((1, 8, 8), size=2, stride=1, low=0, high=16)
    return Task("digits", query_set, X_train, y_train, X_test, y_test, {"seed": seed})


DEMO = Recipe(
    MLP((256, 256), dropout=0.1),
    (Stage(100, CarriedHistories(20), AdamW(4e-3), batch_size=256),),
    "confidence=0.99",
)
FAST = Recipe(MLP((256, 256), dropout=0.1), (Stage(180, CarriedHistories(20)),), "confidence=0.99")

register(
    TaskInfo(
        "digits",
        "digits of 8x8 pixels, by 2x2 patches",
        load,
        n_queries=49,
        n_classes=10,
        n_train=1437,
        n_test=360,
        recipes={"fast": FAST, "demo": DEMO},
    )
)
