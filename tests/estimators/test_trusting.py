"""Models whose checksums fit, but which nobody should trust: refused before they take memory or predict anything."""

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

import pursuit
from pursuit.estimators.saving import DESCRIPTION, SPARE_BYTES, WEIGHTS, Sizes, _broadcast_size
from pursuit.files import DamagedFile
from pursuit.methods import NaiveBayesIPClassifier, VIPClassifier
from pursuit.networks import MLP, Conv
from pursuit.queries import PatchQueries
from pursuit.training import Stage

RNG = np.random.default_rng(0)
X, Y = RNG.integers(0, 2, (60, 4)), np.arange(60) % 3
QUICK: dict[str, Any] = {"network": MLP((8,)), "stages": [Stage(1, batch_size=16)], "random_state": 0}
Change = Callable[[dict[str, Any], dict[str, torch.Tensor]], None]


def rewritten(folder: Path, change: Change) -> Path:
    """The model with a change, and with checksums that fit it."""
    description = json.loads((folder / DESCRIPTION).read_text())
    tensors = safetensors.torch.load((folder / WEIGHTS).read_bytes())
    change(description, tensors)
    weights = safetensors.torch.save(tensors)
    description["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    rest = {key: value for key, value in description.items() if key != "description_sha256"}
    description["description_sha256"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    (folder / DESCRIPTION).write_text(json.dumps(description))
    (folder / WEIGHTS).write_bytes(weights)
    return folder


@pytest.fixture(scope="module")
def fitted() -> VIPClassifier:
    return VIPClassifier(**QUICK).fit(X, Y)


@pytest.fixture
def folder(fitted: VIPClassifier, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(folder: Path, value: float) -> None:
    def spoil(_: Any, tensors: dict[str, torch.Tensor]) -> None:
        name = next(name for name in tensors if name.endswith("weight"))
        tensors[name].view(-1)[0] = value

    with pytest.raises(DamagedFile, match=r"its weights .*weight are not finite numbers, so it cannot predict"):
        pursuit.load(rewritten(folder, spoil))


def test_a_share_that_no_label_can_have_is_refused(folder: Path) -> None:
    def spoil(_: Any, tensors: dict[str, torch.Tensor]) -> None:
        tensors["log_prior"][0] = torch.inf

    with pytest.raises(DamagedFile, match="what it believes at first are not shares of 3 labels"):
        pursuit.load(rewritten(folder, spoil))


def test_a_model_that_is_not_finite_is_not_saved(fitted: VIPClassifier, tmp_path: Path) -> None:
    model = deepcopy(fitted)
    next(model.model_.parameters()).data.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"The model is not saved: its weights .* are not finite numbers"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_belief_that_is_not_a_number_is_not_a_prediction(fitted: VIPClassifier) -> None:
    model = deepcopy(fitted)
    session = model.session()
    for parameter in model.model_.parameters():
        parameter.data.fill_(torch.nan)
    for predict in (model.predict, model.predict_proba, model.explain, model.predict_table):
        with pytest.raises(ValueError, match="computes something that is not a number, so it cannot predict"):
            predict(X[:3])
    with pytest.raises(ValueError, match="computes something that is not a number"):
        session.tell(1, model.model_.query_set.queries[0].name)


def huge_network(description: dict[str, Any], _: Any) -> None:
    for part in ("network", "querier", "classifier"):
        if part in description["pursuer"]:
            description["pursuer"][part] = {**description["pursuer"][part], "hidden": [200_000, 200_000]}


def many_labels(description: dict[str, Any], _: Any) -> None:
    description["classes"]["labels"] = list(range(300_000))


def wide_labels(description: dict[str, Any], _: Any) -> None:
    description["classes"] = {"dtype": "<U500000000", "labels": ["a", "b", "c"]}


def many_columns(description: dict[str, Any], _: Any) -> None:
    query = description["query_set"]["columns"][0]
    description["query_set"]["columns"] = [{**query, "name": f"q{i}"} for i in range(5_000)]


def many_answers(description: dict[str, Any], _: Any) -> None:
    description["pursuer"]["answers"]["n_values"][0] = 60_000_000


@pytest.mark.parametrize("change", [huge_network, many_labels, wide_labels, many_columns, many_answers])
def test_sizes_are_compared_with_weights_before_memory_is_given_to_them(folder: Path, change: Change) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedFile, match=r"damaged|does not fit"):
        pursuit.load(rewritten(folder, change))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 * SPARE_BYTES / 1024


def test_sizes_of_patches_and_of_convolutions_are_bounded(tmp_path: Path) -> None:
    images = RNG.random((20, 8, 8)).astype(np.float32)
    settings = {**QUICK, "network": Conv(channels=(4,), hidden=8)}
    VIPClassifier(PatchQueries((1, 8, 8), 4, 4), **settings).fit(images, np.arange(20) % 2).save(tmp_path)

    def more_pixels(description: dict[str, Any], _: Any) -> None:
        description["query_set"]["image_shape"] = [1, 60_000, 60_000]
        description["query_set"]["size"] = description["query_set"]["stride"] = 1

    def larger_patches(description: dict[str, Any], _: Any) -> None:
        description["query_set"] |= {"image_shape": [1, 440, 440], "size": 50, "stride": 1}

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for change in (more_pixels, larger_patches):
        with pytest.raises(DamagedFile, match=r"damaged|does not fit"):
            pursuit.load(rewritten(tmp_path, change))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 * SPARE_BYTES / 1024


def test_the_query_set_that_was_given_is_made_once_and_its_size_is_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = PatchQueries((1, 8, 8), 2, 2)
    NaiveBayesIPClassifier(queries).fit(RNG.integers(0, 2, (20, 8, 8)), np.arange(20) % 2).save(tmp_path)
    loaded = pursuit.load(tmp_path)
    assert loaded.query_set is loaded.model_.query_set

    def larger(description: dict[str, Any], _: Any) -> None:
        description["estimator"]["parameters"]["query_set"] |= {"image_shape": [1, 200, 200], "size": 9, "stride": 1}

    monkeypatch.setattr("pursuit.estimators.saving.SPARE_BYTES", 1 << 20)
    with pytest.raises(DamagedFile, match="far larger than its weights"):
        pursuit.load(rewritten(tmp_path, larger))


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3))
def test_the_size_of_what_is_broadcast(shapes: list[list[int]]) -> None:
    try:
        expected = torch.broadcast_shapes(*map(tuple, shapes)).numel() if len(shapes) > 1 else 0
    except RuntimeError:
        expected = 0
    assert _broadcast_size([torch.empty(shape) for shape in shapes]) == expected


@pytest.mark.programs
def test_loading_does_not_import_torchs_compiler(tmp_path: Path) -> None:
    """It takes seconds, and `torch.broadcast_shapes` brings its symbols."""
    NaiveBayesIPClassifier(PatchQueries((1, 8, 8), 2, 2)).fit(RNG.integers(0, 2, (20, 8, 8)), np.arange(20) % 2).save(
        tmp_path
    )
    program = f"import sys, pursuit; pursuit.load({str(tmp_path)!r}); sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_so_many_tensors_are_not_made_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.estimators.saving.SPARE_TENSORS", 5_000)
    with pytest.raises(DamagedFile, match="far larger than its weights"), Sizes({}):
        deque((torch.empty(1) for _ in range(1_000_000)), maxlen=0)
    for make in (
        lambda: torch.zeros(100_000, 100_000),
        lambda: torch.zeros(SPARE_BYTES // 8 + 1, dtype=torch.long),  # twice as large as other numbers
        lambda: torch.arange(10**12),
        lambda: torch.eye(10**6),
        lambda: torch.ones(2).repeat(10**10),
        lambda: torch.nn.Linear(10**6, 10**6),
        lambda: torch.rand(10**10),
        lambda: torch.zeros(1).new_full((10**10,), 2.0),
        lambda: torch.zeros(10**5, 1) + torch.zeros(10**5),
        lambda: torch.where(torch.zeros(10**5, 1) > 0, torch.zeros(10**5), 1.0),
    ):
        with pytest.raises(DamagedFile, match="far larger than its weights"), Sizes({}):
            make()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda d, _: d["estimator"]["parameters"].update(max_queries="many"), "max_queries of .* cannot be 'many'"),
        (lambda d, _: d["estimator"]["parameters"].update(device=7), "device of .* cannot be 7"),
        (lambda d, _: d["query_set"]["columns"][0].update(cost="dear"), "cost"),
        (lambda d, _: d["query_set"]["columns"][0].update(text=["a"]), "text of .* cannot be"),
        (lambda d, _: d.update(pursuer=[]), "does not fit"),
        (lambda d, _: d.update(notes=[1]), "notes cannot be"),
        (lambda d, _: d.update(notes=None), "notes cannot be"),
        (
            lambda d, _: d["estimator"].update(type="VIPRegressor", parameters={}),
            "VIPRegressor does not predict what its labels are",
        ),
        (lambda d, _: d.update(classes=None), "does not fit"),
    ],
)
def test_values_of_other_types_are_refused(folder: Path, change: Change, what: str) -> None:
    with pytest.raises(DamagedFile, match=what):
        pursuit.load(rewritten(folder, change))


@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS])
def test_pipes_are_not_models(tmp_path: Path, name: str) -> None:
    NaiveBayesIPClassifier().fit(X, Y).save(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=r"is a pipe|is damaged"):
        pursuit.load(tmp_path)


def test_a_deep_description_is_damaged(tmp_path: Path) -> None:
    (tmp_path / DESCRIPTION).write_text("[" * 200_000)
    with pytest.raises(DamagedFile, match="is damaged: it is not JSON"):
        pursuit.load(tmp_path)
