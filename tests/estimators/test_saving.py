"""Models as folders: what is saved is loaded, and what is damaged or unknown says so."""

import errno
import json
import os
import pickle
import re
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import pursuit
from pursuit import ModelSpec, registry
from pursuit.estimators import saving
from pursuit.estimators.saving import DESCRIPTION, WEIGHTS
from pursuit.estimators.tuned import Tuned
from pursuit.files import CannotWrite, DamagedFile
from pursuit.inference.history import History
from pursuit.inference.stopping import AnyOf, Budget, Confidence, Never, Stability, StoppingRule
from pursuit.information import AnswerSettings
from pursuit.methods import TreeClassifier, VIPClassifier
from pursuit.networks import MLP, Conv, NetworkSettings, SetNetwork
from pursuit.queries import (
    Choice,
    ColumnQueries,
    ConceptQueries,
    Number,
    PatchQueries,
    Query,
    QuerySet,
    WordQueries,
    yes_no,
)
from pursuit.registry import UnknownName, to_config
from pursuit.training import SGD, Adam, AdamW, CarriedHistories, RandomHistories, RolledOutHistories, Stage
from pursuit.training.rows import Shifts, Unreliable
from pursuit.vip import VIP

COLUMNS = ColumnQueries(
    [yes_no("fever"), Choice("colour", "Which colour?", ("red", "blue", "grün")), Number("n", "How many?", centre=2.5)]
)
PATCHES = PatchQueries((1, 8, 8), size=2, stride=2, high=16)


def as_fitted(model: VIP, **parameters: Any) -> VIPClassifier:
    """An estimator that has this model, as if it had learnt it."""
    classifier = VIPClassifier(**parameters)
    classifier.model_, classifier.classes_, classifier.notes_ = model.eval(), np.asarray(model.classes), {}
    classifier.stop_, classifier.chosen_ = None, ()
    classifier.n_features_in_, classifier.has_initially_known_ = len(model.query_set), False
    return classifier


def untrained(**parameters: Any) -> VIPClassifier:
    torch.manual_seed(0)
    return as_fitted(VIP.build(ModelSpec(COLUMNS, np.array(["flu", "cold"]), MLP((8,)))), **parameters)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "a {model}"  # names may have anything
    untrained(query_set=COLUMNS, stages=[Stage(3, RolledOutHistories(2))], stop=Budget(3)).save(place)
    return place


def rewrite(folder: Path, *place: str, value: Any) -> None:
    """Write a value into the description, at this place, with a checksum that matches."""
    description = json.loads((folder / DESCRIPTION).read_text())
    part = description
    for key in place[:-1]:
        part = part[int(key) if isinstance(part, list) else key]
    part[place[-1]] = value
    description["description_sha256"] = saving._checksum(description)
    (folder / DESCRIPTION).write_text(json.dumps(description))


# Models


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
def test_a_loaded_model_asks_and_believes_the_same(
    tmp_path: Path, query_set: QuerySet, network: NetworkSettings, shared: bool, classes: np.ndarray
) -> None:
    torch.manual_seed(0)
    model = VIP.build(ModelSpec(query_set, classes, network, shared=shared, prior=torch.tensor([0.2, 0.3, 0.5]))).eval()
    as_fitted(model).save(tmp_path / "m", {"note": [1, "two"]})
    assert {path.name for path in (tmp_path / "m").iterdir()} == {DESCRIPTION, WEIGHTS}
    loaded = pursuit.load(tmp_path / "m")
    assert loaded.notes_ == {"note": [1, "two"]}
    assert loaded.classes_.dtype == classes.dtype
    assert loaded.classes_.tolist() == classes.tolist()
    assert loaded.model_.classes is loaded.classes_
    assert loaded.model_.query_set.queries == query_set.queries
    known = torch.rand(5, len(query_set)) < 0.5
    history = History(torch.randn(5, *query_set.answer_shape), known, known)
    assert torch.equal(loaded.model_.scores(history), model.scores(history))
    assert torch.equal(loaded.model_.log_posterior(history), model.log_posterior(history))


def test_a_standardised_model_and_a_direct_path_are_kept(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = VIP.build(ModelSpec(COLUMNS, ["a", "b"], MLP((8,), direct=True), standardised=True)).eval()
    x = torch.randn(30, *COLUMNS.answer_shape) * 3 + 1
    model.standardise(x, torch.ones(30, len(COLUMNS), dtype=torch.bool))
    as_fitted(model).save(tmp_path)
    loaded = pursuit.load(tmp_path).model_
    known = torch.rand(30, len(COLUMNS)) < 0.5
    history = History(x, known, known)
    assert torch.equal(loaded.scores(history), model.scores(history))
    assert torch.equal(loaded.log_posterior(history), model.log_posterior(history))


def test_saving_again_replaces_the_model_and_keeps_its_notes(folder: Path) -> None:
    loaded = pursuit.load(folder)
    loaded.save(folder, {"origin": "test"})
    again = pursuit.load(folder)
    again.save(folder, {"score": 1})
    assert pursuit.load(folder).notes_ == {"origin": "test", "score": 1}
    as_fitted(VIP.build(ModelSpec(COLUMNS, ["a", "b", "c"], MLP((8,))))).save(folder)
    assert len(pursuit.load(folder).classes_) == 3
    assert pursuit.load(folder).notes_ == {}
    assert len(list(folder.iterdir())) == 2


def test_networks_of_ones_own_cannot_be_saved(tmp_path: Path) -> None:
    querier, classifier = MLP((4,)).build(COLUMNS, 2, False)
    with pytest.raises(ValueError, match="made by `build`"):
        as_fitted(VIP(ModelSpec(COLUMNS, ["a", "b"]), querier, classifier)).save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


# Parameters

EVERYTHING: dict[str, Any] = {
    "query_set": COLUMNS,
    "class_weight": {"a": 2.0},
    "column_types": {"type": "choice", "born": "date"},
    "missing_informs": True,
    "stop": Confidence(0.9) | Budget(7) | Stability(0.01, 2),
    "max_queries": 5,
    "random_state": 17,
    "verbose": False,
    "device": "auto",
    "stages": [
        Stage(2, RandomHistories(3), Adam(1e-4, amsgrad=True), schedule="constant", tau=(0.9, 0.3), tau_share=0.5),
        Stage(0.5, RolledOutHistories(), SGD(0.1, 0.5), period=0.25, warmup=0.0, average=0.0, augment=Shifts(2, True)),
        Stage(
            1,
            CarriedHistories(4, random_share=0.5, random_skew=2.0, complete_share=0.25),
            AdamW(1e-3, 0.2),
            batch_size=64,
        ),
        Stage(1, exploration=(0.3, 0.1), label_smoothing=0.1, phase="joint"),
    ],
    "held_out": 0.2,
    "calibration": 0.1,
    "unreliable": Unreliable(0.1, 0.05),
    "tuned": Tuned(lr=2.0, weight_decay=0.5, effort=2.0, random_share=0.5, width=2.0, dropout=0.5),
    "guarantee_share": 0.3,
    "devices": 2,
    "network": MLP((8, 4), 0.25, direct=True),
    "standardise": True,
    "shared": True,
    "querier": "information",
    "lookahead": 3,
    "cost_aware": True,
    "answers": AnswerSettings(rank=2, n_bins=5, smoothing=0.5),
    "teachers": None,
}


def same_parameters(one: Any, other: Any) -> bool:
    """Query sets are compared by their config, all else as it is."""
    a, b = ({**each.get_params(), "query_set": to_config(each.query_set)} for each in (one, other))
    return a == b and [type(a[name]) for name in a] == [type(b[name]) for name in a]


def test_a_loaded_estimator_has_the_parameters_of_the_saved_one(tmp_path: Path) -> None:
    saved = untrained(**EVERYTHING)
    defaults = VIPClassifier().get_params()
    assert set(EVERYTHING) == set(defaults)
    assert all(EVERYTHING[name] != default for name, default in defaults.items())
    saved.save(tmp_path)
    loaded = pursuit.load(tmp_path)
    assert same_parameters(loaded, saved)
    assert repr(clone(loaded)) == repr(saved)
    assert not same_parameters(loaded, untrained(**{**EVERYTHING, "stages": EVERYTHING["stages"][:2]}))


RULES = (None, "confidence=0.95,budget=4", Confidence(0.5), Never(), AnyOf((Budget(1), AnyOf((Never(), Budget(2))))))
SETTINGS: list[tuple[str, Any]] = [
    *(("stop", rule) for rule in RULES),
    *(("network", cls()) for cls in registry.known("network").values() if cls.__module__.startswith("pursuit.")),
    *(
        ("stages", [Stage(1, cls())])
        for cls in registry.known("histories").values()
        if cls.__module__.startswith("pursuit.")
    ),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=[f"{name} {value}" for name, value in SETTINGS])
def test_every_rule_network_and_kind_of_histories_comes_back_as_given(name: str, value: Any, tmp_path: Path) -> None:
    untrained(**{name: value}).save(tmp_path)
    loaded = pursuit.load(tmp_path).get_params()[name]
    assert loaded == value
    assert type(loaded) is type(value)


@pytest.mark.parametrize(
    "query_set",
    [
        COLUMNS,
        PATCHES,
        PatchQueries((1, 4, 4), 2, threshold=0.5, mask=False),
        WordQueries.from_texts(["a vote on tax", "a tax on soup", "soup with a vote"], min_documents=1),
        ConceptQueries([Query("red", "Is it red?"), Query("wings", "Has it wings?", cost=2.0)], scale="yes/no"),
    ],
    ids=lambda query_set: type(query_set).__name__,
)
def test_every_query_set_comes_back(query_set: QuerySet, tmp_path: Path) -> None:
    as_fitted(VIP.build(ModelSpec(query_set, ["a", "b"], MLP((4,)))), query_set=query_set).save(tmp_path)
    loaded = pursuit.load(tmp_path)
    for again in (loaded.query_set, loaded.model_.query_set):
        assert type(again) is type(query_set)
        assert to_config(again) == to_config(query_set)
        assert (again.answer_shape, again.input_shape) == (query_set.answer_shape, query_set.input_shape)


def test_a_stream_of_random_numbers_is_not_saved_and_a_number_of_numpy_is(tmp_path: Path) -> None:
    untrained(random_state=np.random.RandomState(3)).save(tmp_path)
    assert pursuit.load(tmp_path).random_state is None
    untrained(random_state=np.int64(3), held_out=np.float32(0.25)).save(tmp_path)
    loaded = pursuit.load(tmp_path)
    assert (loaded.random_state, loaded.held_out) == (3, 0.25)


# Classes by name


@dataclass(frozen=True)
class Patient(StoppingRule):
    """A rule of one's own."""

    n: int

    def step(self, memory: Any, standing: Any) -> Any:
        return standing.n_answered >= self.n, memory


def test_a_class_of_ones_own_is_saved_once_it_is_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"Patient cannot be saved.*put @pursuit\.register above the class"):
        untrained(stop=Patient(3)).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    copied = {kind: dict(there) for kind, there in registry._known.items()}
    monkeypatch.setattr(registry, "_known", copied)  # so that other tests do not find this rule
    pursuit.register(Patient)
    untrained(stop=Patient(3)).save(tmp_path / "model")
    assert pursuit.load(tmp_path / "model").stop == Patient(3)


PLACES = {
    "pursuer": ("pursuer", "type"),
    "estimator": ("estimator", "type"),
    "network": ("pursuer", "network", "type"),
    "query set": ("query_set", "type"),
    "query": ("query_set", "columns", "0", "type"),
    "query set of the estimator": ("estimator", "parameters", "query_set", "type"),
    "stage": ("estimator", "parameters", "stages", "0", "type"),
    "histories": ("estimator", "parameters", "stages", "0", "histories", "type"),
    "optimizer": ("estimator", "parameters", "stages", "0", "optimizer", "type"),
    "stopping rule": ("estimator", "parameters", "stop", "type"),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_an_unknown_class_is_named_with_how_to_make_it_known(folder: Path, place: tuple[str, ...]) -> None:
    rewrite(folder, *place, value="Nonesuch")
    with pytest.raises(UnknownName, match=r"'Nonesuch'.*import the module that registers it first") as error:
        pursuit.load(folder)
    assert str(error.value).startswith(f"{folder} cannot be loaded.")
    assert "@pursuit.register" in str(error.value)
    assert "pursuit --plugin" in str(error.value)


def test_an_unknown_stopping_rule_written_as_text_is_named_too(folder: Path) -> None:
    rewrite(folder, "estimator", "parameters", "stop", value="nonesuch=0.8,budget=3")
    with pytest.raises(UnknownName, match=r"cannot be loaded.*'nonesuch=0.8' is not a stopping rule.*--plugin"):
        pursuit.load(folder)


@pytest.mark.parametrize(
    ("place", "name"),
    [(place, "{module}.Thing") for place in PLACES.values()]
    + [(PLACES["network"], name) for name in ("os.system", "{module}", "{module}:Thing", "builtins.eval")],
)
def test_nothing_is_imported_because_a_file_names_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[str, ...], name: str
) -> None:
    """The module is there to be imported, and would leave a trace."""
    trace = tmp_path / "imported"
    (tmp_path / "someones_module.py").write_text(
        f"from pathlib import Path\nPath({str(trace)!r}).touch()\nclass Thing: pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    pursuit.load(folder)  # which may import what any model needs
    rewrite(folder, *place, value=name.format(module="someones_module"))
    before = set(sys.modules)
    with pytest.raises(UnknownName, match="import the module that registers it first"):
        pursuit.load(folder)
    assert "someones_module" not in sys.modules
    assert set(sys.modules) == before
    assert not trace.exists()


@pytest.mark.parametrize("place", [("pursuer", "type"), ("estimator", "type")])
def test_a_known_class_in_the_wrong_place_is_not_used(folder: Path, place: tuple[str, ...]) -> None:
    rewrite(folder, *place, value="Budget")
    with pytest.raises(UnknownName, match=f"'Budget' is not a known {place[0]}"):
        pursuit.load(folder)


@pytest.mark.parametrize(
    ("notes", "what"),
    [
        ([], "notes cannot be []"),
        ({"task": "loans"}, "notes.task cannot be 'loans'"),
        ({"task": {"n_rows": [[]]}}, "notes.task.n_rows cannot be [[]]"),
        ({"task": {"n_rows": None}}, "notes.task.n_rows cannot be None"),
        ({"task": {"missing": "?"}}, "notes.task.missing cannot be '?'"),
        ({"task": {"target": 3}}, "notes.task.target cannot be 3"),
    ],
)
def test_notes_that_commands_cannot_read_are_refused(folder: Path, notes: Any, what: str) -> None:
    description = json.loads((folder / DESCRIPTION).read_text())
    description["notes"] = notes
    description["description_sha256"] = saving._checksum(description)
    model = pursuit.load(folder)
    (folder / DESCRIPTION).write_text(json.dumps(description))
    with pytest.raises(DamagedFile, match=re.escape(what)):
        pursuit.load(folder)
    if isinstance(notes, dict):
        with pytest.raises(TypeError, match=re.escape(what)):
            model.save(folder, notes)


@pytest.mark.parametrize("place", [("pursuer", "type"), ("query_set", "unknown")])
def test_no_error_quotes_all_of_a_forged_file(folder: Path, place: tuple[str, str]) -> None:
    description = json.loads((folder / DESCRIPTION).read_text())
    description[place[0]][place[1]] = "x" * 100_000
    description["description_sha256"] = saving._checksum(description)
    (folder / DESCRIPTION).write_text(json.dumps(description))
    with pytest.raises(ValueError, match="x" * 50) as error:
        pursuit.load(folder)
    assert len(str(error.value)) < 2000


def test_the_class_of_an_estimator_loads_only_its_own(folder: Path) -> None:
    assert isinstance(VIPClassifier.load(folder), VIPClassifier)
    with pytest.raises(ValueError, match=r"holds a VIPClassifier, not a TreeClassifier: load it with pursuit\.load"):
        TreeClassifier.load(folder)


@pytest.mark.parametrize("fails", range(10))
def test_a_folder_is_the_old_model_or_the_new_one_wherever_saving_fails(
    folder: Path, fails: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, or the process is killed, before each of the steps that change what is on the disk."""
    old, new = pursuit.load(folder), pursuit.load(folder)
    with torch.no_grad():
        for parameter in new.model_.parameters():
            parameter += 1
    weights = {name: next(iter(each.model_.parameters())).sum() for name, each in (("old", old), ("new", new))}
    left = iter(range(fails, -1, -1))

    def failing(function: Any) -> Any:
        def called(*arguments: Any, **options: Any) -> Any:
            if next(left, -1) == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*arguments, **options)

        return called

    with monkeypatch.context() as patch:
        for owner, name in ((Path, "replace"), (os, "fsync"), (tempfile, "mkstemp")):
            patch.setattr(owner, name, failing(getattr(owner, name)))
        is_saved = False
        with suppress(CannotWrite):
            new.save(folder)
            is_saved = True
    assert is_saved == (fails > 8)  # four steps a file, and the last that gives the weights their name
    found = next(iter(pursuit.load(folder).model_.parameters())).sum()
    # The description is what counts: with the new one, the new model is there, whatever the program was told.
    assert found == weights["new" if fails > 6 else "old"]
    new.save(folder)
    assert next(iter(pursuit.load(folder).model_.parameters())).sum() == weights["new"]
    assert sorted(path.name for path in folder.iterdir() if WEIGHTS in path.name) == [WEIGHTS]


def test_a_save_that_fails_after_one_that_did_not_end_leaves_its_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = pursuit.load(folder)
    with torch.no_grad():
        for parameter in new.model_.parameters():
            parameter += 1
    new.save(folder)
    (folder / WEIGHTS).rename(folder / f"{WEIGHTS}.new")  # it was killed before the last step
    expected = next(iter(pursuit.load(folder).model_.parameters())).sum()

    def full(path: Path, data: bytes) -> None:
        if path.name == DESCRIPTION:
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_bytes(data)

    monkeypatch.setattr("pursuit.files.write_whole", full)
    with torch.no_grad():
        for parameter in new.model_.parameters():
            parameter += 1
    with pytest.raises(OSError, match="No space left"):
        new.save(folder)
    assert next(iter(pursuit.load(folder).model_.parameters())).sum() == expected


def test_a_model_that_is_saved_while_it_is_loaded_is_the_old_one_or_the_new_one(folder: Path) -> None:
    model = pursuit.load(folder)
    parameter = next(iter(model.model_.parameters()))
    done = threading.Event()

    def save_again_and_again() -> None:
        for _ in range(30):
            with torch.no_grad():
                parameter.add_(1)
            model.save(folder)
        done.set()

    saving = threading.Thread(target=save_again_and_again)
    saving.start()
    while not done.is_set():
        pursuit.load(folder)
    saving.join()


# Damage


@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} is missing"):
        pursuit.load(folder)


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS])
def test_a_cut_file_is_called_damaged(folder: Path, name: str, keep: int) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:keep])
    with pytest.raises(DamagedFile, match=f"{name} is damaged"):
        pursuit.load(folder)


@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS])
def test_a_changed_file_is_called_damaged(folder: Path, name: str) -> None:
    path = folder / name
    data = bytearray(path.read_bytes())
    place = data.index(b"fever") if name == DESCRIPTION else len(data) - 5
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFile, match="damaged"):
        pursuit.load(folder)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("format",), "one"),
        (("query_set",), {"type": "ColumnQueries"}),
        (("query_set",), {"columns": []}),
        (("query_set",), 5),
        (("query_set", "type"), ["ColumnQueries"]),
        (("pursuer",), {"type": "VIP"}),
        (("pursuer", "network", "hidden"), [9]),  # of another size than its weights
        (("pursuer", "network", "colour"), "red"),
        (("estimator", "parameters", "colour"), "red"),
        (("estimator", "parameters", "stages", "0", "epochs"), -1),
        (("classes",), None),
    ],
)
def test_a_description_that_makes_no_sense_is_called_damaged(folder: Path, place: tuple[str, ...], value: Any) -> None:
    rewrite(folder, *place, value=value)
    with pytest.raises(DamagedFile, match="damaged"):
        pursuit.load(folder)


@pytest.mark.parametrize(("version", "advice"), [(3, "Train the model again"), (99, "Update pursuit")])
def test_another_format_says_what_to_do(folder: Path, version: int, advice: str) -> None:
    rewrite(folder, "pursuit", value="9.9")
    rewrite(folder, "format", value=version)
    with pytest.raises(DamagedFile, match=rf"pursuit 9.9 in format {version}.*{advice}"):
        pursuit.load(folder)


def test_no_folder_and_a_file_in_its_place(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no model folder"):
        pursuit.load(tmp_path / "nowhere")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "notes.txt").touch()
    with pytest.raises(FileNotFoundError, match=r"^There is no model in .*others\. It holds other files\."):
        pursuit.load(tmp_path / "others")
    (tmp_path / "others" / "run.json").touch()
    with pytest.raises(FileNotFoundError, match=r"^The training in .*others was not finished: .* --resume"):
        pursuit.load(tmp_path / "others")
    with pytest.raises(FileNotFoundError, match=rf"but these folders in it are: {folder.name}\. Name one"):
        pursuit.load(folder.parent)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file"):
        pursuit.load(folder).save(tmp_path / "file")


def test_no_pickle_is_ever_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was loaded")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    assert len(pursuit.load(folder).classes_) == 2
