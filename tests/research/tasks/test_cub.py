"""Birds in both layouts: made folders, the real annotations, and answers made by a small concept network."""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from benchmarks import paper as page
from pursuit import ModelSpec
from pursuit.networks import MLP
from pursuit.research import concepts
from pursuit.research.concepts import ConceptNetwork, ConceptReport
from pursuit.research.experiments import paper as queue
from pursuit.research.experiments.paper import PaperRun, Place
from pursuit.research.experiments.reproduce import Reproduction
from pursuit.research.experiments.results import read_result
from pursuit.research.tasks import TASKS, cub
from pursuit.research.tasks.files import MissingData
from pursuit.training import Stage, train
from pursuit.training.rows import Rows
from pursuit.vip import VIP

REAL = Path(os.environ.get("PURSUIT_DATA", "")) / "cub"
real_annotations = pytest.mark.skipif(
    not (REAL / "cub_meta.npz").exists() or "PURSUIT_DATA" not in os.environ, reason="no CUB below $PURSUIT_DATA"
)
ATTRIBUTES = ["has_wing_color::red", "has_wing_color::blue", "has_size::small_(5_-_9_in)"]
SPECIES = ["001.Red_winged_Bird", "002.Bluebird"]
PERCENT = np.array([[80.0, 50.0, 0.0], [10.0, 49.9, 100.0]])
N_EACH = 12


def photo(species: int, i: int) -> Image.Image:
    """The first species is red, the second blue; 40x30 pixels, each photo a little different."""
    light = 150 + 5 * i
    return Image.new("RGB", (40, 30), (light, 30, 30 + i) if species == 0 else (30, 30 + i, light))


def photo_paths() -> list[str]:
    return [f"{name}/photo_{i:04}.jpg" for name in SPECIES for i in range(N_EACH)]


LABELS = np.repeat([0, 1], N_EACH)
IS_TRAIN = np.arange(2 * N_EACH) % 3 > 0


def write_official(data: Path, attributes_in: str = ".") -> None:
    folder = data / "cub" / "CUB_200_2011"
    (folder / "attributes").mkdir(parents=True)

    def listed(path: Path, values: list[object]) -> None:
        path.write_text("".join(f"{i} {value}\n" for i, value in enumerate(values, start=1)))

    listed(folder / "images.txt", list(photo_paths()))
    listed(folder / "image_class_labels.txt", [label + 1 for label in LABELS])
    listed(folder / "train_test_split.txt", [int(part) for part in IS_TRAIN])
    listed(folder / "classes.txt", list(SPECIES))
    listed(folder.parent / attributes_in / "attributes.txt", list(ATTRIBUTES))
    np.savetxt(folder / "attributes" / "class_attribute_labels_continuous.txt", PERCENT)
    for i, path in enumerate(photo_paths()):
        (folder / "images" / path).parent.mkdir(parents=True, exist_ok=True)
        photo(LABELS[i], i).save(folder / "images" / path, quality=95)


def write_compact(data: Path) -> None:
    folder = data / "cub"
    folder.mkdir(parents=True)
    np.savez(
        folder / "cub_meta.npz",
        image_path=np.array(photo_paths()),
        label=LABELS.astype(np.uint8),
        official_train=IS_TRAIN,
        class_name=np.array(SPECIES),
        attribute_name=np.array(ATTRIBUTES),
        class_attr_continuous_pct=PERCENT,
    )
    parts = []
    for i, label in enumerate(LABELS):
        file = io.BytesIO()
        photo(label, i).resize((256, 256)).save(file, "WEBP", quality=95)
        parts.append(file.getvalue())
    (folder / "cub_webp256.bin").write_bytes(b"".join(parts))
    np.savez(folder / "cub_webp256.idx.npz", length=np.array([len(part) for part in parts], dtype=np.int32))


@pytest.fixture(params=[write_official, write_compact], ids=["official", "compact"])
def made(request: pytest.FixtureRequest, data: Path) -> Path:
    request.param(data)
    return data


def test_both_layouts_say_the_same(made: Path) -> None:
    birds = cub.birds()
    assert birds.paths.tolist() == photo_paths()
    assert birds.labels.tolist() == LABELS.tolist()
    assert birds.is_train.tolist() == IS_TRAIN.tolist()
    assert birds.species.tolist() == ["Red-winged Bird", "Bluebird"]
    assert birds.attributes == tuple(ATTRIBUTES)
    assert torch.allclose(birds.targets[[0, -1]], torch.tensor([[0.8, 0.5, 0.0], [0.1, 0.499, 1.0]]))


def test_photos_of_both_layouts_are_alike(made: Path) -> None:
    photos = cub.photos(cub.birds())
    assert photos.shape == (24, 3, 256, 256)
    assert photos.dtype == torch.uint8
    wanted = torch.tensor([photo(label, i).getpixel((0, 0)) for i, label in enumerate(LABELS)])
    assert (photos.float().mean(dim=(2, 3)) - wanted).abs().max() < 8


@pytest.mark.parametrize("place", ["CUB_200_2011", "CUB_200_2011/attributes"])
def test_names_of_attributes_are_found_inside_the_folder_too(place: str, data: Path) -> None:
    write_official(data, place)
    assert cub.birds().attributes == tuple(ATTRIBUTES)


def test_damaged_annotations_are_reported(data: Path) -> None:
    write_official(data)
    folder = data / "cub" / "CUB_200_2011"
    (folder / "image_class_labels.txt").write_text("1 1\n2 1\n")
    with pytest.raises(ValueError, match="2 labels for 24 photos"):
        cub.birds()
    (folder / "image_class_labels.txt").write_text("".join(f"{i + 1} 3\n" for i in range(24)))
    with pytest.raises(ValueError, match="labels without a species"):
        cub.birds()
    (folder / "image_class_labels.txt").write_text("2 1\n1 1\n")
    with pytest.raises(ValueError, match="not numbered from 1"):
        cub.birds()
    (folder / "image_class_labels.txt").unlink()
    with pytest.raises(MissingData, match="unpack all of"):
        cub.birds()


def test_damaged_compact_files_are_reported(data: Path) -> None:
    write_compact(data)
    birds = cub.birds()
    blob = data / "cub" / "cub_webp256.bin"
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(ValueError, match="does not fit"):
        cub.photos(birds)
    (data / "cub" / "cub_meta.npz").write_bytes(b"PK\3\4 no zip file")
    with pytest.raises(ValueError, match="is damaged"):
        cub.birds()


def small(n_concepts: int) -> ConceptNetwork:
    backbone = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU())
    return ConceptNetwork(backbone, 8, n_concepts, input_size=16, dropout=0.0)


SETTINGS = {"device": "cpu", "epochs": 25, "folds": 2, "batch_size": 4, "lr": 0.05}


@pytest.mark.parametrize(
    "made",
    [pytest.param(write_official, marks=pytest.mark.slow), write_compact],
    indirect=True,
    ids=["official", "compact"],
)
def test_answers_are_made_and_the_task_is_loaded_from_them(made: Path) -> None:
    with pytest.raises(MissingData, match="pursuit concepts cub"):
        cub.load()
    reports: list[ConceptReport] = []
    made_how = cub.make_answers(made / "cub", build=small, on_report=reports.append, **SETTINGS)
    assert {report.n_networks for report in reports} == {2}
    assert [report.network for report in reports] == [i for i in (1, 2) for _ in range(25)]
    task = cub.load()
    assert task.X_train.shape == (16, 3)
    assert task.X_test.shape == (8, 3)
    assert task.y_train.tolist() == [["Red-winged Bird", "Bluebird"][label] for label in LABELS[IS_TRAIN]]
    assert task.y_test.tolist() == [["Red-winged Bird", "Bluebird"][label] for label in LABELS[~IS_TRAIN]]
    assert task.query_set.queries[0].text == "Are its wings red?"
    assert made_how["test"]["accuracy"] > 0.9
    assert made_how["test"]["calibration_error"] < 0.2
    assert task.notes["answers"]["folds"] == 2

    places = [made / "cub" / "folds" / f"{i}-of-2" for i in (1, 2)]
    network = concepts.load_ensemble(places, lambda: small(3))
    assert concepts.load(places[0], lambda: small(3))[1]["photos"] == cub.birds().digest
    photos = cub.photos(cub.birds())[torch.from_numpy(~IS_TRAIN)]
    seen = task.query_set.with_network(network).answers(photos).x
    assert torch.allclose(seen, task.query_set.answers(task.X_test).x, atol=5e-3)

    model = VIP.build(ModelSpec(task.query_set, ["Bluebird", "Red-winged Bird"], MLP(hidden=(8,))))
    rows = Rows(*task.query_set.answers(task.X_train), torch.from_numpy(1 - LABELS[IS_TRAIN]))
    train(model, rows, [Stage(10, batch_size=8)], seed=0)


@pytest.mark.parametrize(("recipe", "scale"), [("paper", "yes/no"), ("fast", "log odds"), ("gpu", "log odds")])
def test_recipes_say_on_which_scale_answers_are_seen(made: Path, recipe: str, scale: str) -> None:
    answers = np.full((16, 3), 0.25), np.full((8, 3), 0.75)
    cub.write_answers(made / "cub" / "concept_answers.npz", *answers, {"photos": cub.birds().digest})
    query_set = cub.load().with_recipe(TASKS["cub"].recipes[recipe]).query_set
    seen = query_set.answers(answers[0]).x
    wanted = {"yes/no": -1.0, "log odds": -np.log(3) / 3}[scale]
    assert torch.allclose(seen, torch.full((16, 3), wanted))


@pytest.mark.parametrize("made", [write_compact], indirect=True, ids=["compact"])
def test_the_papers_setting_is_counted_as_by_the_released_code(made: Path, tmp_path: Path) -> None:
    answers = np.random.default_rng(0).random((24, 3))
    cub.write_answers(made / "cub" / "concept_answers.npz", answers[:16], answers[16:], {"photos": cub.birds().digest})
    run, place = PaperRun("cub", recipe="paper", querier="straight-through", effort=0.002), Place(tmp_path, tmp_path)
    queue.measure(run, place)
    result = read_result(place.result(run))
    assert result is not None
    (protocol,) = result.protocols
    assert protocol.name == "released code: at most 50, all answered"
    assert (protocol.wanted, protocol.n_held_out, result.n_train) == (18.82, 2, 14)
    assert protocol.mean_counted == 3  # as many as there are
    assert protocol.accuracy == pytest.approx(result.evaluation.accuracy_all_answers, abs=1e-4)  # the last one is known
    assert page.stop(result) == (protocol.mean_counted, protocol.accuracy)
    at_criterion = page.at_criterion(result)
    assert at_criterion == result.evaluation.at_stop
    assert at_criterion is not None
    assert at_criterion.rule == "stability=0.001,budget=50"


def test_only_the_papers_recipe_holds_photos_out() -> None:
    for name, n_protocols in {"paper": 1, "fast": 0, "gpu": 0}.items():
        recipe = TASKS["cub"].recipes[name]
        reproduction = Reproduction("cub", name, recipe, device="cpu")
        assert [protocol.most_known for protocol in reproduction.protocols] == [50] * n_protocols
        assert len(reproduction.described()["protocols"]) == n_protocols
        assert recipe.max_queries == (50 if n_protocols else None)


@pytest.mark.slow
@pytest.mark.parametrize("made", [write_compact], indirect=True, ids=["compact"])
def test_folds_are_made_one_by_one_and_each_only_once(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, apart = made / "cub", made.parent / "apart"
    cub.make_answers(at_once, build=small, **SETTINGS)
    reports: list[ConceptReport] = []
    assert "test" not in cub.make_answers(apart, fold=2, build=small, on_report=reports.append, **SETTINGS)
    assert {report.network for report in reports} == {2}
    assert not (apart / "concept_answers.npz").exists()
    cub.make_answers(apart, fold=2, build=small, on_report=reports.append, **SETTINGS)
    assert len(reports) == 25
    cub.make_answers(apart, build=small, on_report=reports.append, **SETTINGS)
    assert [report.network for report in reports[25:]] == [1] * 25
    monkeypatch.setattr(cub, "photos", None)  # not read again
    cub.make_answers(apart, build=small, **SETTINGS | {"device": "no such device"})
    ours, theirs = (cub.read_answers(folder / "concept_answers.npz") for folder in (apart, at_once))
    assert np.array_equal(ours[0], theirs[0])
    assert np.array_equal(ours[1], theirs[1])
    assert ours[2] == theirs[2]


def test_folds_made_otherwise_are_not_mixed(made: Path) -> None:
    folder = made.parent / "answers"
    short = SETTINGS | {"epochs": 1}
    cub.make_answers(folder, fold=1, build=small, **short)
    for options in ({"fold": 1}, {}):
        with pytest.raises(ValueError, match=r"1-of-2\.npz was made with another epochs"):
            cub.make_answers(folder, build=small, **SETTINGS | options)
    with pytest.raises(ValueError, match="2 folds, 1 to 2: 3 is not one of them"):
        cub.make_answers(folder, fold=3, build=small, **short)


def test_answers_can_be_put_together_without_the_networks(made: Path) -> None:
    folder, short = made / "cub", SETTINGS | {"epochs": 1}
    cub.make_answers(folder, build=small, **short)
    before = cub.load().X_test
    (folder / "concept_answers.npz").unlink()
    for network in (folder / "folds").glob("*-of-2"):
        shutil.rmtree(network)
    cub.make_answers(folder, build=small, **short)
    assert np.array_equal(cub.load().X_test, before)


def test_answers_for_other_photos_and_damaged_ones_are_refused(made: Path) -> None:
    path = made / "cub" / "concept_answers.npz"
    answers = np.full((16, 3), 0.25), np.full((8, 3), 0.75)
    cub.write_answers(path, *answers, {"photos": cub.birds().digest})
    assert (cub.load().X_test == 0.75).all()
    cub.write_answers(path, *answers, {"photos": "of another time"})
    with pytest.raises(ValueError, match="answers for other photos"):
        cub.load()
    cub.write_answers(path, answers[0][:5], answers[1], {"photos": cub.birds().digest})
    with pytest.raises(ValueError, match="answers for other photos"):
        cub.load()
    with np.load(path) as file:
        np.savez(path, **{**file, "test": file["test"] / 2})
    with pytest.raises(ValueError, match="digest does not match"):
        cub.load()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="Make it again with: pursuit concepts cub"):
        cub.load()


def test_missing_photos_are_reported(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_compact(data)
    birds = cub.birds()
    (data / "cub" / "cub_webp256.bin").unlink()
    monkeypatch.setattr(
        "pursuit.research.tasks.cub.PHOTOS", cub.DataFile("cub/CUB_200_2011/images")
    )  # nothing is fetched here
    with pytest.raises(MissingData, match="CUB_200_2011/images"):
        cub.photos(birds)


@real_annotations
def test_real_annotations_have_the_published_numbers() -> None:
    birds = cub.read_compact(REAL / "cub_meta.npz")
    assert len(birds.paths) == len(set(birds.paths)) == 11_788
    info = TASKS["cub"]
    assert (int(birds.is_train.sum()), int((~birds.is_train).sum())) == (5_994, 5_794) == (info.n_train, info.n_test)
    assert len(set(birds.species)) == info.n_classes == 200
    assert len(set(birds.attributes)) == info.n_queries == 312
    assert np.bincount(birds.labels).min() >= 41
    assert np.bincount(birds.labels[birds.is_train]).min() >= 29
    assert 0.05 < (birds.targets >= 0.5).float().mean() < 0.15
    assert 0 <= birds.targets.min() <= birds.targets.max() <= 1


@real_annotations
def test_real_attributes_have_312_different_questions() -> None:
    texts = [query.text for query in cub.query_set(cub.read_compact(REAL / "cub_meta.npz")).queries]
    assert len(set(texts)) == 312
    for text in texts:
        assert text.split()[0] in ("Is", "Are", "Does")
        assert text.endswith("?")
        assert not set("_:") & set(text)
        assert "  " not in text
        if text.startswith("Are"):
            assert text.split()[2] in ("wings", "upperparts", "underparts", "eyes", "legs")


@real_annotations
def test_real_species_have_readable_names() -> None:
    species = cub.read_compact(REAL / "cub_meta.npz").species.tolist()
    assert {"Black-footed Albatross", "Anna's Hummingbird", "Whip-poor-will"} <= set(species)
    assert not any("_" in name or "." in name for name in species)


@real_annotations
@pytest.mark.skipif(not (REAL / "cub_webp256.bin").exists(), reason="no photos of CUB below $PURSUIT_DATA")
def test_real_photos_fit_their_annotations() -> None:
    parts = cub._parts(REAL / "cub_webp256.bin", 11_788)
    assert len(parts) == 11_788
    for part in parts[::2000]:
        image = cub._decoded(part)
        assert image.shape == (3, 256, 256)
        assert image.std() > 10


@real_annotations
@pytest.mark.skipif(not (REAL / "concept_answers.npz").exists(), reason="no answers of a concept network")
def test_real_answers_make_the_task() -> None:
    task = cub.load()
    assert task.X_train.shape == (5_994, 312)
    assert task.X_test.shape == (5_794, 312)
    assert np.isfinite(task.X_test).all()


def test_photos_without_their_lengths_are_reported(tmp_path: Path) -> None:
    (tmp_path / "cub_webp256.bin").write_bytes(b"photos")
    with pytest.raises(MissingData, match=r"cub_webp256.idx.npz is missing"):
        cub._parts(tmp_path / "cub_webp256.bin", 1)
    np.savez(tmp_path / "cub_webp256.idx.npz", other=np.zeros(1))
    with pytest.raises(ValueError, match=r"idx.npz is damaged"):
        cub._parts(tmp_path / "cub_webp256.bin", 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_reported_before_photos_are_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cuda needs an NVIDIA GPU"):
        cub.make_answers(tmp_path, device="cuda")
