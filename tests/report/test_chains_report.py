"""A report on predictions."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from json_schema import problems
from pages import EVIL, HOSTILE, check_page
from pursuit import Stage, VIPRegressor
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.report import ChainsReport


def test_a_page_says_what_was_asked_answered_and_believed(model: Any, table: Any) -> None:
    X, y = table
    evaluation = model.evaluate(X, y)
    report = ChainsReport.of(model, X[3:4], ["Line 5"], [y[3]], evaluation=evaluation, name="patients")
    page, (chain,) = check_page(report.html()), report.chains
    assert page.under["h1"] == [str(chain.prediction)]
    for step in chain.steps:
        assert step.text in page.words
        assert step.answer is None or step.answer in page.words
    words = "That is right" if chain.prediction == y[3] else "That is wrong"
    assert f"{words}: the true label is {y[3]}." in page.words
    assert f"After {chain.n_asked} question" in page.words
    assert "How far to trust this" in page.words
    assert "What speaks for it" in page.words
    assert "Measured on 400 rows of patients" in page.words
    assert "It stops asking once it is 95% sure." in page.words
    # A bar for each belief: the one at the end, the one before the first question and those after each answer
    lists = [one for one in page.all("ul") if one.get("class") == "bars"]
    assert len(lists) >= 2 + len(chain)


def test_names_and_answers_from_data_are_harmless(model: Any, table: Any) -> None:
    X, _ = table
    rows = X[X["where"] == EVIL][:2]
    report = ChainsReport.of(model, rows, ["Line <b>1", HOSTILE], [EVIL, None], name=EVIL)
    source = report.html()
    page = check_page(source)
    assert EVIL not in source
    assert HOSTILE not in source
    assert EVIL in page.words
    assert HOSTILE in page.words
    assert page.all("script") == page.all("img") == []


def test_several_rows_have_a_table_of_contents(model: Any, table: Any) -> None:
    page = check_page(ChainsReport.of(model, table[0][:3]).html())
    assert [link["href"] for link in page.all("a")] == ["#row-0", "#row-1", "#row-2"]
    assert "How good it is was not measured here" in page.words
    assert "true label" not in page.words


def test_rows_are_read_once_and_what_no_query_can_read_is_said_once(
    model: Any, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, readings = model.read_answers, []
    monkeypatch.setattr(model, "read_answers", lambda X: readings.append(X) or read(X))
    with pytest.warns(UserWarning, match="never seen in training") as warned:
        ChainsReport.of(model, table[0][:3].assign(where="elsewhere"))
    assert len(warned) == len(readings) == 1


def test_what_is_left_open_is_said_so(model: Any, table: Any) -> None:
    X, _ = table
    page = check_page(ChainsReport.of(model, X[:1]).html())  # has no answer to where
    assert "left open, so nothing changes" in page.words


def test_json_is_as_its_schema_says(model: Any, table: Any, image_model: Any, images: Any) -> None:
    for report in (ChainsReport.of(model, table[0][:5]), ChainsReport.of(image_model, images[0][:2])):
        assert problems(report.to_dict(), "chains-1") == []
    described = json.loads(json.dumps(report.to_dict()))
    described["chains"][0]["steps"][0]["gained"] = "much"
    described["chains"][1]["more"] = 1
    del described["task"]
    assert len(problems(described, "chains-1")) == 3


def test_patches_are_drawn_where_they_lie(image_model: Any, images: Any) -> None:
    X, _ = images
    report = ChainsReport.of(image_model, X[:1])
    page, (chain,) = check_page(report.html()), report.chains
    small = [one for one in page.all("svg") if one.get("class") == "grid"]
    assert len(small) == len(chain.steps)
    assert "What was seen" in page.under["h2"]
    assert "What would have changed it" not in page.words


def test_a_number_has_a_range_instead_of_labels() -> None:
    randomness = np.random.default_rng(0)
    X = pd.DataFrame({"a": randomness.normal(size=80), "b": randomness.choice(["x", "y"], 80)})
    y = 10 * X["a"] + 3 * (X["b"] == "y")
    model = VIPRegressor(stages=[Stage(epochs=2)], random_state=0).fit(X, y)
    report = ChainsReport.of(model, X[:1], labels=[f"{y[0]:.1f}"], evaluation=model.evaluate(X, y), stop="budget=2")
    page = check_page(report.html())
    assert page.under["h1"][0].startswith("about ")
    assert "90% sure that it lies between" in page.words
    assert f"The true number is {y[0]:.1f}." in page.words
    assert "What raised the number" in page.words
    assert "This model predicts a number" in page.words
    assert problems(report.to_dict(), "chains-1") == []


def test_a_page_is_written_whole_or_not_at_all(model: Any, table: Any, tmp_path: Path) -> None:
    report = ChainsReport.of(model, table[0][:1])
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html()
    with pytest.raises(AttributeError):
        dataclasses.replace(report, rows=(None,)).save(tmp_path / "page.html")  # type: ignore[arg-type]
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html()


def test_odd_labels_and_values_leave_a_page_that_can_be_read() -> None:
    X = pd.DataFrame({"ä\x00 名": ["x", "y\x1b[0m"] * 20, "n": [1.5, np.nan, 7e9, 2.0] * 10})
    for y in (["", "b"] * 20, [True, False] * 20, [3, 4] * 20):
        model = NaiveBayesIPClassifier().fit(X, y)
        for stop in ("confidence=0.1", "budget=2"):  # the first asks nothing
            report = ChainsReport.of(model, X[:2], stop=stop)
            page = check_page(report.html())
            assert ("Without asking anything" in page.words) == (stop == "confidence=0.1")
            assert problems(report.to_dict(), "chains-1") == []
            report.html().encode()
