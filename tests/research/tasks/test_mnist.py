"""MNIST and its kin, by patches and by pixels: the official files, made small and, where they are here, real."""

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pursuit.queries import PatchQueries
from pursuit.research.tasks import TASKS, Task, find_recipe, load_task, mnist
from pursuit.research.tasks.files import DataFile, damage, locate
from pursuit.research.tasks.mnist import FASHION, KMNIST, MNIST, Family

pytestmark = pytest.mark.xdist_group("real data")  # they share what is loaded or trained

FAMILIES = [MNIST, FASHION, KMNIST]
N_TRAIN, N_TEST = 12, 6


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


@pytest.fixture
def made(data: Path) -> Path:
    """Images and labels of all three data sets in the official files."""
    randomness = np.random.default_rng(0)
    for family in FAMILIES:
        for part, n in (("train", N_TRAIN), ("t10k", N_TEST)):
            folder = data / family.name
            write_idx(folder / f"{part}-images-idx3-ubyte.gz", randomness.integers(0, 256, (n, 28, 28)))
            write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(n) % 10)
    return data


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_made_files_are_read(made: Path, family: Family) -> None:
    task = mnist.load(family)
    assert task.name == family.name
    assert task.X_train.shape == (N_TRAIN, 28, 28)
    assert task.X_test.shape == (N_TEST, 28, 28)
    assert task.y_train.tolist() == [family.classes[i % 10] for i in range(N_TRAIN)]
    assert task.y_test.tolist() == list(family.classes[:N_TEST])
    x, available = task.query_set.answers(task.X_train)
    assert x.shape == (N_TRAIN, 1, 28, 28)
    assert available.shape == (N_TRAIN, 676)
    assert set(x.unique().tolist()) == {-1.0, 1.0}
    other_seed = mnist.load(family, seed=7)
    assert np.array_equal(other_seed.X_train, task.X_train)
    assert np.array_equal(other_seed.X_test, task.X_test)


@pytest.mark.parametrize(("family", "dark", "bright"), [(MNIST, 127, 128), (FASHION, 25, 26), (KMNIST, 127, 128)])
def test_pixels_are_black_or_white(family: Family, dark: int, bright: int) -> None:
    query_set = mnist.query_set(family)
    assert len(query_set) == 676
    assert (query_set.patches.size, query_set.patches.stride, query_set.patches.shape) == (3, 1, (26, 26))
    pixels = np.zeros((1, 28, 28), dtype=np.uint8)
    pixels[0, 0, :4] = [0, dark, bright, 255]
    assert query_set.answers(pixels).x[0, 0, 0, :4].tolist() == [-1, -1, 1, 1]


def test_damaged_files_are_reported(made: Path) -> None:
    path = made / "mnist" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte\.gz is damaged"):
        mnist.load(MNIST)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_four_files_have_addresses_and_checksums(family: Family) -> None:
    assert [Path(file.path).parent.name for file in family.files] == [family.name] * 4
    assert all(file.url.endswith(Path(file.path).name) for file in family.files)
    assert len({file.md5 for file in family.files}) == 4
    assert all(len(file.md5) == 32 for file in family.files)
    assert len(family.classes) == len(set(family.classes)) == 10


@pytest.mark.parametrize("file", [file for family in FAMILIES for file in family.files], ids=lambda file: file.path)
def test_real_files_are_the_published_ones(file: DataFile) -> None:
    found = locate(file)
    if found is None:
        pytest.skip(f"{file.path} is not below $PURSUIT_DATA")
    assert damage(*found) == ""


@pytest.mark.parametrize(
    ("name", "n_train", "n_test"),
    [("mnist", 60_000, 10_000), ("fashion-mnist", 60_000, 10_000)],
)
def test_real_images(real_task: Callable[[str], Task], name: str, n_train: int, n_test: int) -> None:
    task = real_task(name)
    assert task.X_train.shape == (n_train, 28, 28)
    assert task.X_test.shape == (n_test, 28, 28)
    assert task.X_train.dtype == np.uint8
    assert len(set(task.y_train)) == len(set(task.y_test)) == 10
    if name == "fashion-mnist":  # which has as many of each
        assert set(Counter(task.y_train.tolist()).values()) == {6000}
        assert set(Counter(task.y_test.tolist()).values()) == {1000}
    assert isinstance(task.query_set, PatchQueries)
    assert set(task.query_set.answers(task.X_test[:100]).x.unique().tolist()) == {-1.0, 1.0}


def test_made_files_are_read_as_those_of_mnist(made: Path) -> None:
    task, patches = load_task("mnist-pixels"), mnist.load(MNIST)
    assert np.array_equal(task.y_train, patches.y_train)
    assert np.array_equal(task.y_test, patches.y_test)
    for X, images in ((task.X_train, patches.X_train), (task.X_test, patches.X_test)):
        pixels, seen = task.query_set.answers(X), patches.query_set.answers(images)
        assert np.array_equal(pixels.x, seen.x.flatten(1))  # black and white by the same threshold
        assert pixels.available.all()
        assert pixels.available.shape == (len(images), 784)
    assert np.array_equal(load_task("mnist-pixels", seed=7).X_test, task.X_test)
    assert dict(task.settings) == find_recipe("mnist-pixels").settings()
    assert task.picture is not None
    assert np.array_equal(task.picture(3)[:, :, 1], patches.X_test[3])


def test_questions_say_which_pixel(made: Path) -> None:
    task = load_task("mnist-pixels")
    query = task.query_set.index_of["pixel 3,7"]
    assert query == 3 * 28 + 7
    assert task.query_set.queries[query].text == "Is the pixel in row 3, column 7 bright?"
    assert task.query_set.mask
    images = np.zeros((2, 28, 28), dtype=np.uint8)
    images[0, 3, 7], images[1, 3, 7] = 128, 127
    x, _ = task.query_set.answers(mnist.bright(images))
    assert [task.query_set.describe(query, row) for row in x] == ["yes", "no"]
    assert (x[:, :query] == -1).all()
    assert (x[:, query + 1 :] == -1).all()


def test_it_is_learnt_on_a_cpu_or_longer_on_a_gpu() -> None:
    info = TASKS["mnist-pixels"]
    fast, gpu = (info.recipes[name] for name in ("fast", "gpu"))
    assert gpu.network.hidden == (1024, 1024)  # type: ignore[attr-defined]
    assert gpu.stages[0].epochs > 5 * fast.stages[0].epochs
    assert {recipe.stages[0].histories.max_queries for recipe in (fast, gpu)} == {20}  # type: ignore[attr-defined]
    assert info.files == TASKS["mnist"].files


def test_real_pixels(real_task: Callable[[str], Task]) -> None:
    task = real_task("mnist-pixels")
    assert (task.X_train.shape, task.X_test.shape) == ((60_000, 784), (10_000, 784))
    assert set(np.unique(task.X_test)) == {0, 1}
    assert 0.1 < task.X_test.mean() < 0.15


def test_a_tampered_file_is_not_trained_on(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURSUIT_UNCHECKED")
    for file in MNIST.files:
        (data / file.path).parent.mkdir(exist_ok=True)
        (data / file.path).write_bytes(b"labels that somebody changed")
    with pytest.raises(ValueError, match=r"is not the published file.*Replace it by `pursuit data get mnist`"):
        load_task("mnist")
