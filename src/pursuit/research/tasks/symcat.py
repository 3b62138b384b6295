"""`symcat-200`, `-300`, `-400`: patients drawn from SymCAT's table of diseases and symptoms.

A patient has one disease, all equally likely, and each symptom independently with the probability in the table;
patients without any symptom do not come. One of the symptoms, chosen at random, is what the patient reports unasked.
Since the table is known, so is exact Information Pursuit: `exact`.
"""

import hashlib
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pursuit.exact import IndependentIP
from pursuit.inference.pursuer import Labels
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.registry import register
from pursuit.research.tasks.files import DataFile, content_of, find, read_json, read_lines, read_npz
from pursuit.research.tasks.recipe import PAPER_MEDICAL, Published, Recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.training.rows import GeneratedRows, Rows
from pursuit.training.samplers import CarriedHistories
from pursuit.training.schedule import AdamW, Stage

ORIGIN = (
    "Put SymCAT.json and disease200_SymCAT.txt (or 300, or 400), from Baselines/BED/dataset of mila-iqia/Casande-RL on "
    "GitHub, into the folder symcat (teliov/symcat-to-synthea has the same table in another format)."
)
TABLE = DataFile(
    "symcat/symcat_table.npz",
    sha256="c19272d240db114f1065417c9847f2276c211bd7e8d3162dc0f74cb733e8c6c1",
    origin=ORIGIN,
)
NAMES = DataFile(
    "symcat/symcat_names.json",
    sha256="36ba8c895a9a57dc9882b3e2ba7897a9eaf91ce632ce29cabea28ce73af8f3ff",
    origin=ORIGIN,
)
N_SYMPTOMS = {200: 328, 300: 349, 400: 355}
RELEASED = {
    n: (
        DataFile("symcat/SymCAT.json", origin=ORIGIN, alternatives=(TABLE,)),
        DataFile(f"symcat/disease{n}_SymCAT.txt", origin=ORIGIN, alternatives=(NAMES,)),
    )
    for n in N_SYMPTOMS
}
"""As they are published, or else our own files with the same content."""
EPOCH_PATIENTS, TEST_PATIENTS = 1_000_000, 10_000


class Patients(GeneratedRows):
    """Patients drawn by the published rule from a table `yes` (C, Q) of P(symptom | disease)."""

    has_initially_known = True

    def __init__(self, classes: Labels, yes: Tensor, n_rows: int = EPOCH_PATIENTS):
        if not bool((yes > 0).any(dim=1).all()):
            raise ValueError("Every disease needs a symptom with a probability above 0, or it could never be drawn.")
        self.classes, self.yes, self.n_rows, self.n_queries = classes, yes, n_rows, yes.shape[1]
        # The first symptom present is drawn first, so that no patient without one has to be drawn again:
        # P(first is j) = yes_j times the probability that none before j is present.
        none_before = torch.cumprod(torch.cat([torch.ones(len(yes), 1), 1 - yes[:, :-1]], dim=1).double(), dim=1)
        first = (yes * none_before).cumsum(dim=1)  # (C, Q)
        self.comes = first[:, -1]  # (C,) P(any symptom | disease)
        self.first_by = (first / first[:, -1:]).float()
        self.disease_by = (self.comes.cumsum(0) / self.comes.sum()).float()

    def draw(self, n: int, generator: torch.Generator) -> Rows:
        device = generator.device
        chance = torch.rand(2, n, generator=generator, device=device)
        y = torch.searchsorted(self.disease_by, chance[0], right=True).clamp(max=len(self.classes) - 1)
        first = torch.searchsorted(self.first_by[y], chance[1, :, None], right=True)  # (n, 1)
        symptom = torch.arange(self.n_queries, device=device)
        later = torch.rand(n, self.n_queries, generator=generator, device=device) < self.yes[y]
        present = (symptom == first) | (later & (symptom > first))
        lot = torch.rand(n, self.n_queries, generator=generator, device=device)
        reported = torch.where(present, lot, -1.0).argmax(dim=1, keepdim=True)
        return Rows(present * 2.0 - 1.0, torch.ones_like(present), y, symptom == reported)

    def to(self, device: torch.device) -> "Patients":
        moved = Patients(self.classes, self.yes.cpu(), self.n_rows)
        for name in ("yes", "comes", "first_by", "disease_by"):
            setattr(moved, name, getattr(moved, name).to(device))
        return moved

    def prior(self, n_classes: int) -> Tensor:
        return (self.comes / self.comes.sum()).float()

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.yes.cpu().numpy().tobytes())
        digest.update(str(self.n_rows).encode())  # because the length of training depends on it
        return digest.hexdigest()


def table(n_diseases: int) -> tuple[np.ndarray, list[str], Tensor]:
    """Names of diseases and of the symptoms any of them has, and P(symptom | disease): (C, Q)."""
    task = f"symcat-{n_diseases}"
    released, listed = RELEASED[n_diseases]
    table_path = find(released, task)
    if table_path.name == Path(released.path).name:
        return _released_table(table_path, find(replace(listed, alternatives=()), task))
    names_path = find(NAMES, task)
    names, arrays = read_json(names_path), read_npz(table_path)
    with content_of(table_path):
        diseases = arrays[f"idx{n_diseases}"]
        percent = arrays["P_percent"][diseases]
    symptoms = percent.any(axis=0).nonzero()[0]
    with content_of(names_path):
        classes = np.array([names["disease_names"][i] for i in diseases])
        asked = [names["symptom_names"][i] for i in symptoms]
    return classes, asked, torch.from_numpy(percent[:, symptoms]).float() / 100


def _released_table(table_path: Path, list_path: Path) -> tuple[np.ndarray, list[str], Tensor]:
    """The same from a JSON object that has the symptoms of each disease, as pairs of a name and a probability, and a
    file with the diseases of a task, one a line. Diseases have no names there but those of their web pages."""
    found = read_json(table_path)
    diseases = read_lines(list_path)
    with content_of(table_path):
        of_disease = [{pair[0].strip(): 100 * pair[1] for pair in found[disease]} for disease in diseases]
        symptoms = sorted({name for own in of_disease for name, percent in own.items() if percent > 0})
        percent = torch.tensor([[float(own.get(symptom, 0)) for symptom in symptoms] for own in of_disease])
    return np.array([_disease_name(disease) for disease in diseases]), symptoms, percent / 100


def _disease_name(page: str) -> str:
    """As in "Chronic back pain", from "chronic-back-pain"; pages of the same name have numbers, as "depression--2"."""
    return re.sub(r"--\d+$", "", page).replace("-", " ").capitalize()


def load(n_diseases: int, seed: int = 0) -> Task:
    """Training patients are drawn while training; the test patients are drawn here, from another seed."""
    classes, symptoms, yes = table(n_diseases)
    patients = Patients(classes, yes)
    test = patients.draw(TEST_PATIENTS, torch.Generator().manual_seed(_test_seed(seed)))
    assert test.initially_known is not None
    return Task(
        f"symcat-{n_diseases}",
        query_set(symptoms),
        patients,
        None,
        (test.x > 0).numpy().astype(np.int8),
        classes[test.y.numpy()],
        {"seed": seed, "test_patients": TEST_PATIENTS},
        initially_known_test=test.initially_known.numpy(),
        exact=partial(exact, n_diseases),
    )


def exact(n_diseases: int) -> IndependentIP:
    """Information Pursuit that knows the table.

    It takes the self-report as an answer like any other, although a symptom named at random among those present also
    says a little about how many there are: a learnt classifier can use that.
    """
    classes, symptoms, yes = table(n_diseases)
    return IndependentIP.from_yes(query_set(symptoms), classes, torch.full((len(classes),), 1 / len(classes)), yes)


def query_set(symptoms: list[str]) -> ColumnQueries:
    return ColumnQueries([yes_no(name, f"Do you have this symptom: {name.lower()}?") for name in symptoms])


def _test_seed(seed: int) -> int:
    """Far from the seeds of training, which are small or drawn from the same one."""
    return int(np.random.SeedSequence([seed, 20230]).generate_state(1, np.uint64)[0] >> 1)


def _recipe(epochs: float, hidden: tuple[int, ...], batch_size: int, lr: float) -> Recipe:
    histories = CarriedHistories(20, random_share=0.1)
    stage = Stage(epochs, histories, AdamW(lr), batch_size=batch_size, average=0.999)
    # Symptoms are nearly independent given the disease: what naive Bayes counts is most of what there is to learn.
    return Recipe(MLP(hidden, direct=True), (stage,), "budget=20", max_queries=20)


RECIPES = {
    "paper": PAPER_MEDICAL,
    "fast": _recipe(1.6, (512,), 512, 3e-3),
    "gpu": _recipe(48, (2048, 1024), 4096, 3e-3),
}
# The paper's patients are others than those drawn from the public table; ours are judged by the gap to exact IP.
PUBLISHED = {
    n: Published(after_20=figure, comparable=False) for n, figure in ((200, 0.681), (300, 0.599), (400, 0.513))
}

for _n, _n_symptoms in N_SYMPTOMS.items():
    register(
        TaskInfo(
            f"symcat-{_n}",
            f"{_n} diseases of drawn patients",
            partial(load, _n),
            n_queries=_n_symptoms,
            n_classes=_n,
            n_train=EPOCH_PATIENTS,
            n_test=TEST_PATIENTS,
            files=RELEASED[_n],
            recipes=RECIPES,
            published=PUBLISHED[_n],
        )
    )
