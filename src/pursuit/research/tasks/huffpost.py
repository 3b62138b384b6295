"""`huffpost`: which section of the HuffPost an article is from, asked by the words of its headline and description.

The articles are those up to May 2018, as in the paper, in ten sections after small ones are dropped and similar ones
merged. Four fifths are for training, a tenth for validation and a tenth for testing, always the same ones. The paper's
authors chose the thousand words from all articles; here they come from the training articles alone, so that the test
articles have no influence on what is asked.
"""

from collections import Counter
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch.utils.data import random_split

from pursuit.evaluation.protocols import Protocol
from pursuit.networks import MLP
from pursuit.queries import WordQueries
from pursuit.registry import register
from pursuit.research.tasks.files import DataFile, find, read_jsonl
from pursuit.research.tasks.recipe import NEEDS_GPU, Published, Recipe, paper_recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.training.samplers import CarriedHistories, RandomHistories, RolledOutHistories
from pursuit.training.schedule import SGD, AdamW, Stage, paper_stage

LAST_DATE = "2018-05-26"
"""Last date of the data set's second version, which the paper used; the third goes on to 2022."""
DROPPED = frozenset({"IMPACT", "LATINO VOICES", "EDUCATION", "COLLEGE", "GREEN", "THE WORLDPOST", "WORLDPOST", "FIFTY"})
MERGED = {
    "PARENTS": "PARENTING",
    "ARTS": "ARTS & CULTURE",
    "CULTURE & ARTS": "ARTS & CULTURE",
    "STYLE": "STYLE & BEAUTY",
    "TASTE": "FOOD & DRINK",
    "HEALTHY LIVING": "HOME & LIVING",
}
N_CATEGORIES, N_WORDS = 10, 1000
N_TRAIN, N_VALIDATION, N_TEST = 106_006, 13_251, 13_251
SPLIT_SEED = 42

ORIGIN = (
    "Put News_Category_Dataset_v3.json, the News Category Dataset by R. Misra (CC BY 4.0), from "
    "https://www.kaggle.com/datasets/rmisra/news-category-dataset into the folder huffpost."
)
FILE = DataFile(
    "huffpost/News_Category_Dataset_v3.json",
    alternatives=(
        DataFile(
            "huffpost/huffpost_v3.jsonl.xz",
            sha256="dee66d5bb037faabbfdc3c150f1a7e05f50b518464e251cee22422b200bfcf18",
            size=11_741_044,
            origin=ORIGIN,
        ),
    ),
    origin=ORIGIN,
)

Part = Literal["test", "validation"]


def load(seed: int = 0, measure_on: Part = "test") -> Task:
    """Texts (N, 1) and their sections, whatever the seed; measure on "validation" to choose settings."""
    if measure_on not in get_args(Part):
        raise ValueError(f'measure_on must be "test" or "validation", not {measure_on!r}.')
    path = find(FILE, "huffpost")
    texts, categories = documents(path)
    if len(texts) != N_TRAIN + N_VALIDATION + N_TEST:
        raise ValueError(
            f"{path} has {len(texts)} articles of the ten sections, but {N_TRAIN + N_VALIDATION + N_TEST} are "
            f"expected. {ORIGIN}"
        )
    train, validation, test = split(len(texts))
    query_set = WordQueries.from_texts(texts[train], N_WORDS, place="headline or description")

    def measured(rows: np.ndarray, part: Part, held_out: Task | None = None) -> Task:
        notes = {"file": path.name, "measure_on": part}
        learnt_from, asked = (texts[train, None], categories[train]), (texts[rows, None], categories[rows])
        return Task("huffpost", query_set, *learnt_from, *asked, notes=notes, held_out=held_out)

    on_validation = measured(validation, "validation")
    return on_validation if measure_on == "validation" else measured(test, "test", on_validation)


def documents(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """The texts and sections of the articles up to LAST_DATE in the most frequent sections, in the file's order."""
    texts, categories = [], []
    for row in read_jsonl(path):
        try:
            date, category = row["date"], row["category"]
            text = f"{row['headline']} {row['short_description']}"
        except KeyError as missing:
            raise ValueError(f"{path} has an article without {missing}. {ORIGIN}") from None
        if date <= LAST_DATE and category not in DROPPED:
            texts.append(text)
            categories.append(MERGED.get(category, category))
    most_frequent = {category for category, _ in Counter(categories).most_common(N_CATEGORIES)}
    kept = np.array([category in most_frequent for category in categories], dtype=bool)
    # Texts stay Python objects: an array of numpy's strings would take the space of the longest for each
    return np.array(texts, dtype=object)[kept], np.array(categories, dtype=str)[kept]


def split(n_documents: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers for training, validation and testing: 80, 10 and 10 per cent."""
    n_train, n_validation = round(0.8 * n_documents), round(0.1 * n_documents)
    sizes = [n_train, n_validation, n_documents - n_train - n_validation]
    rows: Any = range(n_documents)
    parts = random_split(rows, sizes, torch.Generator().manual_seed(SPLIT_SEED))
    train, validation, test = (np.array(part.indices, dtype=np.int64) for part in parts)
    return train, validation, test


PAPER = paper_recipe(
    MLP((2000, 1000, 500)),
    paper_stage(RandomHistories(), 500),
    paper_stage(RolledOutHistories(), 100, SGD(1e-4, 0.9), period=100),
    "confidence=0.99",
)
FAST = Recipe(
    MLP((256,), dropout=0.3, direct=True),
    (Stage(8, CarriedHistories(100, random_share=0.4), AdamW(weight_decay=0.02), batch_size=256, average=0.998),),
    "confidence=0.99",
    standardise=True,
)
# Chains are as long in training as they are asked.
GPU = Recipe(
    MLP((1024,), dropout=0.5, direct=True),
    (Stage(60, CarriedHistories(200, random_share=0.5), AdamW(1e-3, 0.1), batch_size=1024, average=0.998),),
    "confidence=0.99",
    standardise=True,
    note=NEEDS_GPU,
)
PUBLISHED = Published("confidence=0.99", 195.89, 0.672, 0.712, 0.715, 0.680)

register(
    TaskInfo(
        "huffpost",
        "sections of news articles, by words",
        load,
        n_queries=N_WORDS,
        n_classes=N_CATEGORIES,
        n_train=N_TRAIN,
        n_test=N_TEST,
        files=(FILE,),
        recipes={"paper": PAPER, "fast": FAST, "gpu": GPU},
        published=PUBLISHED,
        protocols=(Protocol("no cap"),),
        protocol_length=PUBLISHED.mean_answered,
    )
)
