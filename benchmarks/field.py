"""The field's own benchmarks: SEFA's made sets, twenty pixels of MNIST and Fashion-MNIST, bank marketing and California
housing, and sets of AFABench, by their authors' splits and metrics, beside published figures. docs/results/field.md
says how each is measured.
"""

import random
import statistics
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import f1_score, roc_auc_score

from benchmarks.common import Stopwatch, ask_everything, data_folder, fit
from benchmarks.report import NOTHING, Record, cell, dig, grid, grouped, origins, spread, table
from benchmarks.study import Study
from pursuit.methods import METHODS
from pursuit.research.tasks.files import read_idx

PIXELS = {
    "mnist": [153, 154, 210, 211, 243, 269, 271, 295, 327, 348, 350, 375, 405, 409, 427, 430, 461, 514, 543, 655],
    "fashion-mnist": [10, 38, 121, 146, 202, 246, 248, 341, 343, 362, 406, 434, 454, 490, 546, 574, 580, 602, 742, 770],
}
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS_BEFORE = dict(zip(MONTHS, (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335), strict=True))
"""Days of a leap year before each month."""
BRANCHES = {"a": (1, 2, 11), "b": (3, 4, 5, 6, 11), "c": (7, 8, 9, 10, 11)}
"""The features, numbered from 1, that each formula of the made sets reads, with the one that chooses the formula."""
RULES = {"syn1": "ab", "syn2": "ac", "syn3": "bc"}
"""The formulas of each made set: where x11 is below 0, and elsewhere."""
Parts = list[tuple[pd.DataFrame, np.ndarray]]
"""Rows to learn from, to choose settings on, and to test on."""


def parts_of(X: pd.DataFrame, y: np.ndarray, order: np.ndarray, n_train: int, n_validation: int) -> Parts:
    cuts = np.split(order, [n_train, n_train + n_validation])
    return [(X.iloc[part].reset_index(drop=True), y[part]) for part in cuts]


def made(name: str) -> Parts:
    """One generator draws the made sets one after the other."""
    rng = np.random.RandomState(8139)
    for rule, formulas in RULES.items():
        x = rng.normal(size=(80_000, 11))
        values = {
            "a": 4 * x[:, 0] * x[:, 1],
            "b": 1.2 * (x[:, 2:6] ** 2).sum(axis=1) - 4.2,
            "c": -10 * np.sin(0.2 * x[:, 6]) + np.abs(x[:, 7]) + x[:, 8] + np.exp(-x[:, 9]) - 2.4,
        }
        below, elsewhere = (values[formula] for formula in formulas)
        y = rng.binomial(1, 1 / (1 + np.exp(np.where(x[:, 10] < 0, below, elsewhere))), size=len(x))
        if rule == name:
            break
    return parts_of(pd.DataFrame(x, columns=[f"x{i}" for i in range(1, 12)]), y, np.arange(len(x)), 60_000, 10_000)


def relevant(name: str, X: pd.DataFrame) -> np.ndarray:
    """Which of the features (N, 11) the label of each row of a made set depends on."""
    below, elsewhere = (np.isin(np.arange(1, 12), BRANCHES[formula]) for formula in RULES[name])
    return np.where(X["x11"].to_numpy()[:, None] < 0, below, elsewhere)


def cube(n: int, generator: np.random.RandomState, y: np.ndarray, deviation: float) -> pd.DataFrame:
    """Class k shows its binary digits, lowest first, in features k, k + 1 and k + 2; all others are noise."""
    x = generator.normal(0.5, 0.3, (n, 20))
    for digit in range(3):
        x[np.arange(n), y + digit] = generator.normal((y >> digit) & 1, deviation)
    return pd.DataFrame(x, columns=[f"x{i}" for i in range(1, 21)])


def made_cube() -> Parts:
    """SEFA's cube: the classes in turn."""
    y = np.arange(80_000) % 8
    return parts_of(cube(len(y), np.random.RandomState(8917), y, 0.1), y, np.arange(len(y)), 60_000, 10_000)


def split_by(seed: int, X: pd.DataFrame, y: np.ndarray) -> Parts:
    """AFABench's parts of rows."""
    order = list(range(len(y)))
    random.Random(seed).shuffle(order)
    return parts_of(X, y, np.array(order), int(0.6 * len(y)), int(0.2 * len(y)))


def noisy_cube(seed: int) -> Parts:
    """AFABench's cube: few rows, and digits as noisy as everything else."""
    generator = np.random.RandomState(seed)
    y = generator.randint(0, 8, 1000)
    return split_by(seed, cube(len(y), generator, y, 0.3), y)


def afabench(file: str, target: str, seed: int) -> Parts:
    """A table of AFABench: words become numbers in the order of the alphabet, missing cells the mean of the table."""
    frame = pd.read_csv(data_folder() / "field" / f"{file}.csv.gz")
    y = frame.pop(target).astype("category").cat.codes.to_numpy().astype(int)
    for name in frame.select_dtypes("object"):
        frame[name] = frame[name].astype(str).astype("category").cat.codes
    return split_by(seed, frame.fillna(frame.mean()), y)


def images(name: str, seed: int, columns: list[int], n_train: int = 50_000) -> Parts:
    """Pixels of MNIST or Fashion-MNIST; test rows are the official ones."""
    folder, parts = data_folder() / name, []
    for part in ("train", "t10k"):
        pixels = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
        labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz").astype(int)
        parts.append((pixels.reshape(len(pixels), -1)[:, columns] / 255, labels))
    x, y = (np.concatenate(both) for both in zip(*parts, strict=True))
    n = len(parts[0][1])
    order = np.concatenate([np.random.RandomState(seed).permutation(n), np.arange(n, len(y))])
    return parts_of(pd.DataFrame(x, columns=[f"pixel {column}" for column in columns]), y, order, n_train, n - n_train)


def shuffled(X: pd.DataFrame, y: np.ndarray, seed: int) -> Parts:
    """Eight tenths of the rows to learn from and one to choose settings on, in an order drawn by torch."""
    torch.manual_seed(seed)
    return parts_of(X, y, torch.randperm(len(y)).numpy(), int(0.8 * len(y)), int(0.1 * len(y)))


def bank() -> Parts:
    """Bank marketing: day and month are one feature, and some words are missing values."""
    frame = pd.read_csv(data_folder() / "field" / "bank-full.csv.gz", keep_default_na=False)
    frame["date"] = frame["day"] + frame["month"].map(DAYS_BEFORE)
    frame["pdays"] = frame["pdays"].replace(-1, -500)
    for name, missing in (("job", "unknown"), ("education", "unknown"), ("contact", "unknown"), ("poutcome", "other")):
        frame[name] = frame[name].where(frame[name] != missing, None)
    columns = (
        "age balance duration campaign previous date pdays job marital education default housing loan contact poutcome"
    )
    return shuffled(frame[columns.split()], (frame["y"] == "yes").to_numpy().astype(int), 9675)


def california() -> Parts:
    """California housing: the value in four classes of equal size."""
    frame = pd.read_csv(data_folder() / "field" / "california-housing.csv.gz")
    value = frame.pop("MedHouseVal").to_numpy()
    cuts = np.sort(value)[[len(value) // 4, len(value) // 2, 3 * len(value) // 4]]
    return shuffled(frame, np.searchsorted(cuts, value, side="left"), 2538)


SETS: dict[str, Callable[[int], Parts]] = {
    "syn1": lambda seed: made("syn1"),
    "syn2": lambda seed: made("syn2"),
    "syn3": lambda seed: made("syn3"),
    "cube": lambda seed: made_cube(),
    "mnist-20": lambda seed: images("mnist", 3295, PIXELS["mnist"]),
    "fashion-20": lambda seed: images("fashion-mnist", 7508, PIXELS["fashion-mnist"]),
    "bank-full": lambda seed: bank(),
    "california": lambda seed: california(),
    "mnist-pixels": lambda seed: images("mnist", seed, list(range(784)), 60_000),
    "noisy-cube": noisy_cube,
    "ckd": partial(afabench, "ckd", "class"),
    "actg175": partial(afabench, "actg175", "cid"),
    "physionet": partial(afabench, "physionet", "Outcome"),
}
"""The parts of each set, by a seed where its authors draw them anew."""
METRICS = {name: "AUROC" if name in (*RULES, "bank-full") else "accuracy" for name in SETS} | {"physionet": "macro F1"}
BUDGETS = {
    "mnist-pixels": (10, 20),
    "noisy-cube": (3, 5, 10),
    "ckd": (2, 4, 7),
    "actg175": (3, 5, 10),
    "physionet": (5, 10, 15),
}
"""Sets that are judged after so many answers."""
CURVES = [name for name in SETS if name not in BUDGETS]
"""Sets that are judged by the mean over all steps."""
FIGURES = {name: "steps" if name in RULES else f"mean.{METRICS[name]}" for name in CURVES}
"""What is compared: steps, or the mean over the curve."""
BEST = {
    **dict(zip(FIGURES.items(), (4.017, 4.099, 5.084, None, 0.761, 0.721, 0.919, 0.676), strict=True)),
    ("mnist-pixels", "curve.accuracy.10"): 0.871,
    ("mnist-pixels", "curve.accuracy.20"): 0.944,
}
"""The best that is published for a set and what is compared on it, if anything is."""
ON_GPU = "-gpu"
TITLES = {
    "vip": "V-IP by default",
    f"vip{ON_GPU}": "V-IP by default, on a GPU",
    "vip-straight-through": "V-IP, straight-through",
    "vip-information": "V-IP, by information",
    "sefa": "SEFA (ours)",
    "gdfs": "GDFS (ours)",
    "dime": "DIME (ours)",
}
PUBLISHED = {
    "SEFA": ("4.017", "4.099", "5.084", NOTHING, ".761", ".721", ".919", ".676"),
    "Opportunistic RL": ("4.201", "4.846", "5.850", NOTHING, ".740", ".708", ".910", ".657"),
    "DIME": ("4.079", "4.581", "5.667", NOTHING, ".731", ".703", ".907", ".661"),
    "GDFS": ("4.568", "4.484", "5.587", NOTHING, ".732", ".692", ".907", ".653"),
    "ACFlow": ("7.730", "7.527", "9.194", *[NOTHING] * 5),
    "random order": ("9.484", "9.499", "9.987", *[NOTHING] * 5),
}
SHOWN = (1, 2, 3, 4, 5, 8, 10, 15, 20)


def measure(
    name: str,
    method: str,
    seed: int,
    validation: bool = False,
    train_rows: int | None = None,
    rows: int | None = None,
    device: str = "cpu",
) -> Record:
    torch.manual_seed(seed)
    (X, y), held_out, tested = SETS[name](seed)
    (X_test, y_test), n_features = held_out if validation else tested, X.shape[1]
    X, y, X_test, y_test = X[:train_rows], y[:train_rows], X_test[:rows], y_test[:rows]
    classifier: Any = METHODS[method.removesuffix(ON_GPU)].build(random_state=seed, device=device)
    fit_time = fit(classifier, X, y)
    asking = Stopwatch()
    posterior, queries = ask_everything(
        classifier.model_, classifier.rows(X_test, y_test), max(BUDGETS[name]) if name in BUDGETS else None
    )
    ask_time, found = asking.read("ask"), {}
    if name in RULES:  # the step after which all that the label depends on has been asked, on average
        step = np.full(X_test.shape, n_features)
        place = [X_test.columns.get_loc(query.name) for query in classifier.model_.query_set.queries]
        step[:, place] = queries.argsort(axis=1) + 1
        found["steps"] = float(np.where(relevant(name, X_test), step, 0).max(axis=1).mean())
    curves = {"accuracy": [float((one.argmax(axis=1) == y_test).mean()) for one in posterior]}
    if METRICS[name] == "AUROC":
        curves["AUROC"] = [float(roc_auc_score(y_test, one[:, 1])) for one in posterior]
    if METRICS[name] == "macro F1":
        weight = len(y) / np.bincount(y)
        labels = [(one * weight).argmax(axis=1) for one in posterior]
        curves["macro F1"] = [float(f1_score(y_test, one, average="macro")) for one in labels]
    # Columns that are not asked for, because they are the same in all rows, count as steps that tell nothing.
    n_steps = max(BUDGETS[name]) if name in BUDGETS else n_features
    curves = {key: curve + curve[-1:] * (n_steps + 1 - len(curve)) for key, curve in curves.items()}
    return {
        "shape": {"train": len(y), "test": len(y_test), "features": n_features},
        "model": type(classifier.model_).__name__,
        "chosen": [str(reason) for reason in classifier.chosen_],
        **found,
        "mean": {metric: statistics.fmean(curve[1:]) for metric, curve in curves.items()},
        "curve": curves,
        **fit_time,
        **ask_time,
    }


def verdict(path: str, found: list[float], best: float) -> str:
    """Whether the mean of figures is ahead of the best published one, level (within two standard errors over seeds) or
    behind it. Fewer steps are better, and more of everything else."""
    if not found:
        return "not run"
    gain = (statistics.fmean(found) - best) * (-1 if path == "steps" else 1)
    error = statistics.stdev(found) / len(found) ** 0.5 if len(found) > 1 else 0.0
    if abs(gain) <= 2 * error:
        return "level"
    return "ahead" if gain > 0 else "**behind**"


def page(records: list[Record]) -> dict[str, str]:
    done = [one for one in records if "not_run" not in one]
    runs = grouped(done, "name", "method")
    by_both = {(name, TITLES.get(method, method)): each for (name, method), each in runs.items()}
    goals = []
    for (name, path), best in BEST.items():
        for method in ("vip", f"vip{ON_GPU}") if best is not None else ():
            each = [value for one in runs.get((name, method), []) if (value := dig(one, path)) is not None]
            judged = [spread(each), len(each), verdict(path, each, best)]
            goals.append([name, path.removeprefix("mean."), best, TITLES[method], *judged])
    methods = dict.fromkeys(method for _, method in runs)
    rows = [
        [TITLES.get(method, method), *(cell(runs.get((name, method), []), f"{FIGURES[name]}|.3f±") for name in FIGURES)]
        for method in methods
    ]
    budgets = {
        (name, TITLES.get(method, method)): [cell(each, f"curve.{METRICS[name]}.{n}|.3f±") for n in BUDGETS[name]]
        for (name, method), each in runs.items()
        if name in BUDGETS
    }
    rows += [[f"{who} (published)", *cells] for who, cells in PUBLISHED.items()]
    curves = {f"after {n}": (lambda each, n=n: cell(each, f"curve.{METRICS[each[0]['name']]}.{n}|.3f")) for n in SHOWN}
    learnt = {
        "seeds": "seed",
        "model": "model",
        "querier chosen": lambda each: "; ".join(
            sorted({c for one in each for c in one["chosen"] if c[:7] == "querier"})
        ),
        "CPU seconds to learn": "fit_cpu_seconds|.0f±",
        "test rows": "shape.test|,",
    }
    return {
        "goals": table("set; figure; best published; ours; found; seeds; verdict", goals),
        "figures": table(["", *(f"{name}, {path.removeprefix('mean.')}" for name, path in FIGURES.items())], rows),
        "budgets": table(
            "set; metric; method; budgets; found",
            [
                [name, METRICS[name], method, " / ".join(map(str, BUDGETS[name])), " / ".join(found)]
                for (name, method), found in budgets.items()
            ],
        ),
        "curves": grid(by_both, curves, "set, by its metric", "method"),
        "learnt": grid(by_both, learnt, "set", "method"),
        "origins": origins(done, "name", "method"),
    }


STUDY = Study(
    name="field",
    runs=[
        {"name": n, "method": method, "seed": seed, "device": "cuda" if method.endswith(ON_GPU) else "cpu"}
        for seed, n, method in product(range(5), SETS, TITLES)
    ],
    measure=measure,
    page=page,
    quick={"train_rows": 300, "rows": 40},
    file="field/{name}-{method}-{seed}.json",
    limit_seconds=6 * 3600.0,
    limit_gb=16.0,
)
