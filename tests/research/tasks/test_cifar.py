"""CIFAR-10 and CIFAR-100: made small, and CIFAR-10 as it is where it is here."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pursuit.research.tasks import Task, cifar
from pursuit.research.tasks.cifar import CIFAR10, CIFAR100, Photos
from pursuit.research.tasks.files import damage, locate

pytestmark = pytest.mark.xdist_group("real data")  # they share what is loaded or trained

N_PART = 4
"""Photos in every made file."""


def made_parts(photos: Photos) -> list[tuple[np.ndarray, np.ndarray]]:
    """Photos (N, 3, 32, 32) and their labels (N, 1 or 2) for every file; the last has the test photos."""
    randomness = np.random.default_rng(len(photos.classes))
    parts = []
    for _ in photos.parts:
        fine = randomness.integers(0, len(photos.classes), (N_PART, 1))
        labels = fine if photos is CIFAR10 else np.hstack([fine % 20, fine])
        parts.append((randomness.integers(0, 256, (N_PART, 3, 32, 32), dtype=np.uint8), labels))
    return parts


def write_binary(data: Path, photos: Photos) -> None:
    folder = data / photos.name / photos.folder
    folder.mkdir(parents=True)
    for part, (images, labels) in zip(photos.parts, made_parts(photos), strict=True):
        rows = np.hstack([labels.astype(np.uint8), images.reshape(N_PART, -1)])
        (folder / f"{part}.bin").write_bytes(rows.tobytes())


@pytest.mark.parametrize("photos", [CIFAR10, CIFAR100], ids=["cifar10", "cifar100"])
def test_made_files_are_read(data: Path, photos: Photos) -> None:
    write_binary(data, photos)
    task = cifar.load(photos)
    *train, (test_images, test_labels) = made_parts(photos)
    assert task.name == photos.name
    assert np.array_equal(task.X_train, np.concatenate([images for images, _ in train]))
    assert np.array_equal(task.X_test, test_images)
    # The fine label is the last one.
    fine = np.concatenate([labels for _, labels in train])[:, -1]
    assert task.y_train.tolist() == [photos.classes[i] for i in fine]
    assert task.y_test.tolist() == [photos.classes[i] for i in test_labels[:, -1]]
    assert np.array_equal(cifar.load(photos, seed=3).X_test, task.X_test)


def test_labels_beyond_the_classes_are_damage(data: Path) -> None:
    write_binary(data, CIFAR100)
    path = data / "cifar100" / "cifar-100-binary" / "test.bin"
    content = bytearray(path.read_bytes())
    content[1] = 100
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"test\.bin is damaged"):
        cifar.load(CIFAR100)


def test_queries_are_49_overlapping_patches() -> None:
    query_set = cifar.query_set()
    assert len(query_set) == 49
    assert (query_set.patches.size, query_set.patches.stride, query_set.patches.shape) == (8, 4, (7, 7))
    assert query_set.input_shape == (4, 32, 32)
    assert query_set.patches.corner(48) == (24, 24)
    images = np.zeros((1, 3, 32, 32), dtype=np.uint8)
    images[0, 0, 0, :2] = [51, 255]
    assert query_set.answers(images).x[0, 0, 0, :3].tolist() == pytest.approx([-0.6, 1, -1])


@pytest.mark.parametrize(("photos", "n_files"), [(CIFAR10, 6), (CIFAR100, 2)], ids=["cifar10", "cifar100"])
def test_files_come_from_one_archive(photos: Photos, n_files: int) -> None:
    assert len(photos.files) == n_files
    assert len({file.archive for file in photos.files}) == 1
    for file in photos.files:
        assert file.archive is not None
        assert file.archive.url.endswith("-binary.tar.gz")
        assert file.path.endswith(".bin")
    assert len(photos.classes) == len(set(photos.classes)) == (10 if n_files == 6 else 100)
    assert list(photos.classes) == sorted(photos.classes)


def test_real_photos(real_task: Callable[[str], Task], cifar10_folder: Path) -> None:
    task = real_task("cifar10")
    assert task.X_train.shape == (50_000, 3, 32, 32)
    assert task.X_test.shape == (10_000, 3, 32, 32)
    assert task.X_train.dtype == np.uint8
    assert set(Counter(task.y_train.tolist()).values()) == {5000}
    assert set(Counter(task.y_test.tolist()).values()) == {1000}
    assert len(Counter(task.y_test.tolist())) == 10


def test_real_files_are_the_published_ones(cifar10_folder: Path) -> None:
    for file in CIFAR10.files:
        found = locate(file)
        assert found is not None
        assert damage(*found) == ""
