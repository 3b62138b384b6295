"""Models as folders: what is saved is loaded, and what is damaged says so."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from pursuit.estimators.saving import _checksum, kind_of, load, save
from pursuit.inference.history import History
from pursuit.methods import RandomOrder
from pursuit.networks import MLP, Conv, NetworkSettings, SetNetwork
from pursuit.queries import Choice, ColumnQueries, Number, PatchQueries, QuerySet, yes_no
from pursuit.files import DamagedFile
from pursuit.vip import VIP

COLUMNS = ColumnQueries(
    [yes_no("fever"), Choice("colour", "Which colour?", ("red", "blue", "grün")), Number("n", "How many?", centre=2.5)]
)
PATCHES = PatchQueries((1, 8, 8), size=2, stride=2, high=16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save(tmp_path / "model", VIP.build(COLUMNS, np.array(["flu", "cold"]), MLP((8,))), {"origin": "test"})
    return tmp_path / "model"


@pytest.mark.parametrize(
    "classes", [np.array(["a", "b", "ü"]), np.array([3, 5, 9]), np.array(["x", "y", "z"], dtype=object)]
)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("query_set", "network"),
    [
        (COLUMNS, MLP((8, 4), 0.5)),
        (COLUMNS, SetNetwork(4, "max", 5, (6,))),
        (PATCHES, Conv((4, 6), 8)),
        (PATCHES, MLP((8,))),
    ],
)
def test_loaded_model_asks_and_believes_the_same(
    tmp_path: Path, query_set: QuerySet, network: NetworkSettings, shared: bool, classes: np.ndarray
) -> None:
    torch.manual_seed(0)
    model = VIP.build(query_set, classes, network, shared, prior=torch.tensor([0.2, 0.3, 0.5])).eval()
    save(tmp_path / "m", model, {"note": [1, "two"]})
    assert {path.name for path in (tmp_path / "m").iterdir()} == {"model.json", "model.safetensors"}
    loaded, notes = load(tmp_path / "m")
    assert notes == {"note": [1, "two"]}
    assert np.asarray(loaded.classes).dtype == classes.dtype
    assert loaded.classes.tolist() == classes.tolist()  # type: ignore[union-attr]
    assert loaded.query_set.queries == query_set.queries
    known = torch.rand(5, len(query_set)) < 0.5
    history = History(torch.randn(5, *query_set.answer_shape), known, known)
    assert torch.equal(loaded.scores(history), model.scores(history))
    assert torch.equal(loaded.log_posterior(history), model.log_posterior(history))


def test_a_standardised_model_and_a_direct_path_are_kept(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = VIP.build(COLUMNS, ["a", "b"], MLP((8,), direct=True), standardised=True).eval()
    x = torch.randn(30, *COLUMNS.answer_shape) * 3 + 1
    model.standardise(x, torch.ones(30, len(COLUMNS), dtype=torch.bool))
    save(tmp_path / "m", model)
    loaded, _ = load(tmp_path / "m")
    known = torch.rand(30, len(COLUMNS)) < 0.5
    history = History(x, known, known)
    assert torch.equal(loaded.scores(history), model.scores(history))
    assert torch.equal(loaded.log_posterior(history), model.log_posterior(history))


def written_before(folder: Path, version: int) -> None:
    """Put the description into the words of an earlier format: V-IP alone, with its network apart."""
    path = folder / "model.json"
    description = json.loads(path.read_text())
    pursuer = description["pursuer"]
    description["format"], description["pursuer"] = version, "VIP"
    description["network"] = {**pursuer["network"], "shared": pursuer["shared"]}
    description["standardised"] = pursuer["standardised"]
    if version == 1:  # before standardised answers and direct paths
        del description["standardised"]
        description["network"].pop("direct", None)
    description["description_sha256"] = _checksum(description)
    path.write_text(json.dumps(description))


@pytest.mark.parametrize("version", [1, 2])
def test_a_description_of_an_older_kind_is_read(folder: Path, version: int) -> None:
    model, _ = load(folder)
    written_before(folder, version)
    older, _ = load(folder)
    assert kind_of(folder) == "VIP"
    assert older.settings == model.settings
    assert not older.standardised
    assert all(torch.equal(old, new) for old, new in zip(older.parameters(), model.parameters(), strict=True))


def test_a_pursuer_of_another_kind_is_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="holds a VIP, not a RandomOrder"):
        load(folder, RandomOrder)


def test_saving_again_replaces_the_model(folder: Path) -> None:
    save(folder, VIP.build(COLUMNS, ["a", "b", "c"], MLP((8,))))
    assert len(load(folder)[0].classes) == 3
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} is missing"):
        load(folder)


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_cut_file_is_called_damaged(folder: Path, name: str, keep: int) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:keep])
    with pytest.raises(DamagedFile, match=f"{name} is damaged"):
        load(folder)


def test_one_flipped_bit_in_the_weights_is_noticed(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFile, match="damaged"):
        load(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "one"),
        ("query_set", {"kind": "Unknown"}),
        ("pursuer", {"kind": "VIP"}),
        ("classes", None),
        ("query_set", 5),
    ],
)
def test_a_description_that_makes_no_sense_is_called_damaged(folder: Path, key: str, value: object) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(DamagedFile, match="damaged"):
        load(folder)


def test_a_newer_format_says_what_to_do(folder: Path) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99, "pursuit": "9.9"}))
    with pytest.raises(DamagedFile, match=r"newer pursuit \(9.9, format 99.*pip install --upgrade"):
        load(folder)


def test_no_folder_and_a_file_in_its_place(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no model folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file"):
        save(tmp_path / "file", load(folder)[0])


def test_no_pickle_is_ever_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was loaded")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    load(folder)
    shutil.copytree(folder, folder.parent / "copy")
    load(folder.parent / "copy")


def test_own_networks_cannot_be_saved(tmp_path: Path) -> None:
    querier, classifier = MLP((4,)).build(COLUMNS, 2, False)
    with pytest.raises(ValueError, match=r"VIP\.build"):
        save(tmp_path / "m", VIP(COLUMNS, ["a", "b"], querier, classifier))
    assert not (tmp_path / "m").exists()


def test_convolutions_of_the_first_format_are_told_apart_from_damage(tmp_path: Path) -> None:
    save(tmp_path / "m", VIP.build(PATCHES, ["a", "b"], Conv((4, 6), 8)))
    written_before(tmp_path / "m", 1)
    with pytest.raises(DamagedFile, match="earlier pursuit"):
        load(tmp_path / "m")
