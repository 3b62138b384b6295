"""SymCAT's patients: drawn as published, on made tables by enumeration and on the real one by what is known of it."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Tensor

from pursuit.evaluation.curves import evaluate
from pursuit.research.tasks import Task, symcat
from pursuit.research.tasks.files import MissingData
from pursuit.research.tasks.symcat import Patients
from pursuit.training.rows import Rows

pytestmark = pytest.mark.xdist_group("real data")  # they share what is loaded or trained

PROBABILITIES = st.sampled_from([0.0, 0.01, 0.2, 0.5, 0.9, 1.0])
TABLES = [
    [[0.1, 0.5, 0.3, 0.8], [0.9, 0.05, 0.2, 0.4], [0.3, 0.3, 0.3, 0.3]],
    [[0.0, 0.5, 0.0, 0.0], [1.0, 0.0, 0.3, 1.0], [0.0, 0.0, 0.0, 0.02]],  # some never and some always
    [[0.01, 0.01, 0.01, 0.01], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]],  # of the first, few ever come
]


def published(yes: Tensor) -> np.ndarray:
    """P(disease, symptoms, self-report) by the published rule: (C, 2**Q, Q), the symptoms read as binary digits.

    Redrawing disease and symptoms until one is present is the same as leaving out the patients without any.
    """
    n_diseases, n_symptoms = yes.shape
    table = np.zeros((n_diseases, 2**n_symptoms, n_symptoms))
    for i, present in enumerate(product((0, 1), repeat=n_symptoms)):
        has = torch.tensor(present, dtype=torch.bool)
        probability = torch.where(has, yes.double(), 1 - yes.double()).prod(dim=1).numpy() / n_diseases
        for reported in has.nonzero()[:, 0].tolist():
            table[:, i, reported] = probability / sum(present)
    return table / table.sum()


def counted(rows: Rows, shape: tuple[int, ...]) -> np.ndarray:
    assert rows.initially_known is not None
    present = (rows.x > 0).numpy()
    code = present @ (2 ** np.arange(present.shape[1])[::-1])
    counts = np.zeros(shape)
    np.add.at(counts, (rows.y.numpy(), code, rows.initially_known.int().argmax(dim=1).numpy()), 1)
    return counts


def assert_as_published(yes: Tensor, n: int, seed: int, certainty: float) -> None:
    expected = published(yes) * n
    rows = Patients(["a", "b", "c"], yes).draw(n, torch.Generator().manual_seed(seed))
    counts = counted(rows, expected.shape)
    assert not counts[expected == 0].any()
    # Cells that hardly ever occur are counted as one, where the approximation by chi-square would not hold.
    rare = (expected > 0) & (expected < 5)
    seen = np.append(counts[expected >= 5], counts[rare].sum())
    wanted = np.append(expected[expected >= 5], expected[rare].sum())
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    assert statistic <= chi2.ppf(certainty, max(1, len(wanted) - 1))


@pytest.mark.parametrize("table", TABLES)
def test_patients_are_drawn_as_published(table: list[list[float]]) -> None:
    assert_as_published(torch.tensor(table), 200_000, seed=1, certainty=0.999)


@given(table=st.lists(st.lists(PROBABILITIES, min_size=4, max_size=4).filter(any), min_size=3, max_size=3))
def test_patients_of_any_table_are_drawn_as_published(table: list[list[float]]) -> None:
    assert_as_published(torch.tensor(table), 20_000, seed=2, certainty=0.9999)


@given(
    table=st.lists(st.lists(PROBABILITIES, min_size=5, max_size=5).filter(any), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_every_patient_has_a_symptom_and_reports_one(table: list[list[float]], seed: int) -> None:
    yes = torch.tensor(table)
    rows = Patients([str(i) for i in range(len(yes))], yes).draw(300, torch.Generator().manual_seed(seed))
    assert rows.initially_known is not None
    assert rows.x.shape == rows.available.shape == rows.initially_known.shape == (300, 5)
    assert set(rows.x.unique().tolist()) <= {-1.0, 1.0}
    assert rows.available.all()
    present = rows.x > 0
    assert present.any(dim=1).all()
    assert (rows.initially_known.sum(dim=1) == 1).all()
    assert (rows.initially_known & ~present).sum() == 0
    assert (present & (yes[rows.y] == 0)).sum() == 0
    assert (~present & (yes[rows.y] == 1)).sum() == 0


def test_the_prior_is_how_often_patients_come() -> None:
    yes = torch.tensor(TABLES[2])
    prior = Patients(["a", "b", "c"], yes).prior(3)
    wanted = published(yes).sum(axis=(1, 2))
    assert prior.tolist() == pytest.approx(wanted.tolist(), abs=1e-6)


def test_nobody_is_kept_and_the_generator_is_all_there_is_to_know() -> None:
    patients = Patients(["a", "b", "c"], torch.tensor(TABLES[0]), n_rows=10)
    assert len(patients) == 10
    before = {name: value.clone() for name, value in vars(patients).items() if isinstance(value, Tensor)}
    generator = torch.Generator().manual_seed(0)
    first = patients.draw(50, generator)
    state = generator.get_state()
    second = patients.draw(50, generator)
    assert not torch.equal(first.x, second.x)
    again = torch.Generator()
    again.set_state(state)
    repeated = patients.to(torch.device("cpu")).draw(50, again)
    for name in ("x", "y", "available", "initially_known"):
        assert torch.equal(getattr(repeated, name), getattr(second, name))
    assert all(torch.equal(getattr(patients, name), value) for name, value in before.items())


def test_fingerprints_depend_on_the_table_and_the_epoch() -> None:
    one, two = (Patients(["a", "b", "c"], torch.tensor(table)) for table in TABLES[:2])
    assert one.fingerprint() == Patients(one.classes, one.yes.clone()).fingerprint()
    assert one.fingerprint() == one.to(torch.device("cpu")).fingerprint()
    assert one.fingerprint() != two.fingerprint()
    assert one.fingerprint() != Patients(one.classes, one.yes, n_rows=10).fingerprint()


def test_a_disease_without_symptoms_is_refused() -> None:
    with pytest.raises(ValueError, match="Every disease needs a symptom"):
        Patients(["a", "b"], torch.tensor([[0.5, 0.1], [0.0, 0.0]]))


# Files


@pytest.fixture
def made(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five diseases and four symptoms; those numbered 1, 4 and 0 are the subset, and none of them has symptom 2."""
    monkeypatch.setattr(symcat, "TEST_PATIENTS", 40)
    (data / "symcat").mkdir()
    percent = np.array([[10, 20, 0, 0], [30, 0, 0, 40], [0, 0, 50, 60], [0, 0, 70, 0], [0, 100, 0, 0]], dtype=np.uint8)
    arrays = {f"idx{n}": np.array([1, 4, 0], dtype=np.int16) for n in symcat.N_SYMPTOMS}
    np.savez(data / "symcat" / "symcat_table.npz", P_percent=percent, **arrays)
    names = {"disease_names": list("ABCDE"), "symptom_names": ["Fever", "Cough", "Rash", "Itch"]}
    (data / "symcat" / "symcat_names.json").write_text(json.dumps(names))
    return data


def test_a_task_has_the_diseases_of_its_subset_and_the_symptoms_they_have(made: Path) -> None:
    classes, symptoms, yes = symcat.table(300)
    assert classes.tolist() == ["B", "E", "A"]
    assert symptoms == ["Fever", "Cough", "Itch"]
    torch.testing.assert_close(yes, torch.tensor([[0.3, 0, 0.4], [0, 1, 0], [0.1, 0.2, 0]]))
    task = symcat.load(300)
    assert task.name == "symcat-300"
    assert task.y_train is None
    assert task.X_test.shape == (40, 3)
    assert task.initially_known_test is not None
    assert (task.initially_known_test.sum(axis=1) == 1).all()
    assert (task.X_test[task.initially_known_test] == 1).all()
    assert set(task.y_test) <= {"A", "B", "E"}
    assert "fever" in task.query_set.queries[0].text


def test_missing_tables_are_reported_with_their_origin_and_the_task(data: Path) -> None:
    with pytest.raises(MissingData, match=r"symcat-to-synthea.*pursuit data get symcat-300"):
        symcat.load(300)


def test_seeds_of_test_patients_are_far_from_those_of_training() -> None:
    seeds = {symcat._test_seed(seed) for seed in range(1000)}
    assert len(seeds) == 1000
    assert min(seeds) >= 2**31  # training draws its own below


# The real table


@pytest.mark.parametrize(("n", "n_symptoms"), [(200, 328), (300, 349), (400, 355)])
def test_the_real_table_has_the_published_sizes(real_task: Callable[[str], Task], n: int, n_symptoms: int) -> None:
    task = real_task(f"symcat-{n}")
    assert len(task.query_set) == n_symptoms == task.X_test.shape[1]
    assert len(task.X_train.classes) == len(set(task.X_train.classes)) == n
    assert len(task.X_train) == 1_000_000
    assert len(task.X_test) == len(task.y_test) == 10_000
    assert task.initially_known_test is not None
    assert (task.initially_known_test.sum(axis=1) == 1).all()
    assert (task.X_test[task.initially_known_test] == 1).all()
    assert (task.X_train.yes > 0).any(dim=0).all()


def test_another_seed_has_other_patients(real_task: Callable[[str], Task]) -> None:
    task, same, other = real_task("symcat-200"), symcat.load(200, 0), symcat.load(200, 1)
    assert np.array_equal(task.X_test, same.X_test)
    assert np.array_equal(task.y_test, same.y_test)
    assert np.mean(task.y_test == other.y_test) < 0.05


@pytest.mark.slow
def test_exact_pursuit_is_as_good_as_is_known(real_task: Callable[[str], Task]) -> None:
    """On 100,000 patients it was right for .675 after 20 queries; one deviation of 2,000 patients is .0105."""
    task, exact = real_task("symcat-200"), symcat.exact(200)
    rows = task.X_train.draw(2000, torch.Generator().manual_seed(12345))
    accuracy = evaluate(exact, rows, max_queries=20).accuracy_by_answered
    assert accuracy[20] == pytest.approx(0.675, abs=0.03)
    assert accuracy[5] == pytest.approx(0.454, abs=0.035)


@pytest.mark.parametrize("damage", [b"", b"no zip", b"PK", None])
def test_damaged_tables_are_reported(damage: bytes | None, data: Path) -> None:
    (data / "symcat").mkdir()
    (data / "symcat" / "symcat_names.json").write_text("{}")
    if damage is None:
        np.savez(data / "symcat" / "symcat_table.npz", other=np.zeros(3))
    else:
        (data / "symcat" / "symcat_table.npz").write_bytes(damage)
    with pytest.raises(ValueError, match=r"symcat_table\.npz is damaged"):
        symcat.load(200)
