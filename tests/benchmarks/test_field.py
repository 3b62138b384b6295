"""The field's benchmarks, at toy sizes: made sets are drawn as published, every run is a file, and the page says what
the files say."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import field
import field_data
from beliefs import Chains
from short_plans import short_plans


def test_a_set_is_measured_and_written_down(tmp_path: Path) -> None:
    arguments = ["--sets", "syn1", "--methods", "vip", "--seeds", "0", "--rows", "50", "--train-rows", "400"]
    arguments += ["--out", str(tmp_path), "--data", str(tmp_path)]
    with short_plans():
        field.main(arguments)
    found = json.loads((tmp_path / "syn1-vip-0.json").read_text())
    assert found["shape"] == {"train": 400, "test": 50, "features": 11}
    assert 3 <= found["steps"] <= 11
    assert len(found["curve"]["AUROC"]) == len(found["curve"]["accuracy"]) == 12
    assert found["mean"]["AUROC"] == pytest.approx(np.mean(found["curve"]["AUROC"][1:]), abs=1e-3)
    assert found["curve"]["AUROC"][0] == 0.5  # every row has the same belief
    assert found["chosen"]
    text = (tmp_path / "field.md").read_text()
    assert f"| V-IP by default | {found['steps']:.3f} | – |" in text
    assert "| SEFA (published) | 4.017 |" in text
    field.main([*arguments, "--page"])
    assert (tmp_path / "field.md").read_text() == text


@pytest.mark.skipif(not field.PAGE.exists(), reason="nothing was measured yet")
def test_the_page_says_what_the_files_say() -> None:
    assert field.PAGE.read_text(encoding="utf-8") == field.page(field.read_runs(field.FOLDER))


def test_made_sets_follow_their_formulas() -> None:
    one = field_data.made(3)
    assert [len(part.y) for part in (one.train, one.validation, one.test)] == [60_000, 10_000, 10_000]
    needed = field_data.relevant(3, one.test.X)
    assert needed[:, 10].all()
    assert (needed.sum(axis=1) == 5).all()
    assert (needed[:, 2] == (one.test.X["x11"] < 0)).all()
    assert field_data.relevant(1, one.test.X).sum(axis=1).mean() == pytest.approx(4, abs=0.05)
    large = one.train.X["x11"].lt(0) & (one.train.X[["x3", "x4", "x5", "x6"]] ** 2).sum(axis=1).gt(8)
    assert one.train.y[large].mean() < 0.02  # a large logit means 0


def test_steps_until_all_that_matters_was_asked() -> None:
    X = field_data.made(1).test.X[:2].assign(x11=[-1.0, 1.0])
    queries = [SimpleNamespace(name=f"x{i}") for i in range(1, 12)]
    classifier = SimpleNamespace(model_=SimpleNamespace(query_set=SimpleNamespace(queries=queries)))
    order = np.array([[10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [10, 2, 0, 3, 4, 1, 5, 6, 7, 8, 9]])
    chains = Chains(np.zeros((12, 2, 2)), order)
    assert field.steps_to_relevant("syn1", X, classifier, chains) == (3 + 7) / 2
