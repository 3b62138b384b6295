"""A report on a model."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from json_schema import problems
from pages import EVIL, HOSTILE, check_page
from pursuit import ColumnQueries, Stage, VIPRegressor, load
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.queries import Questions
from pursuit.report import ModelReport
from pursuit.report.facts import share


def test_a_page_has_all_that_was_measured(model: Any, table: Any) -> None:
    report = ModelReport.of(model, *table, name="patients", depth=2)
    source = report.html()
    page, evaluation = check_page(source), report.evaluation
    assert page.under["h2"] == [
        "How good it is",
        "How far to trust it",
        "Label by label",
        "What is taken for what",
        "What it asks",
        "The first questions",
        "If answers are changed on purpose",
    ]
    assert page.under["h1"] == ["patients"]
    cells = page.under["td"]
    for use in evaluation.questions:
        if use.share_asked:
            assert use.text in page.words
            assert use.mean_bits is not None
            assert f"{use.mean_bits:.2f}" in cells
    for result in evaluation.by_class.classes:
        assert f"{result.f1:.2f}" in cells
    counts = [str(n) if n else "·" for row in evaluation.by_class.confusion for n in row]
    matrix = cells[cells.index(counts[0]) :] if counts[0] in cells else []
    assert any(cells[i : i + len(counts)] == counts for i in range(len(cells))) or matrix == counts
    curve = next(one for one in page.all("polyline") if one.get("class") == "curve")
    assert len((curve["points"] or "").split()) == len(evaluation.accuracy_by_asked)
    assert len([one for one in page.all("line") if one.get("class") == "whisker"]) == len(evaluation.reliability)


def test_the_tree_is_on_the_page(model: Any, table: Any) -> None:
    report = ModelReport.of(model, *table, depth=2)
    page = check_page(report.html())
    nodes = [one for one in page.all("div") if one.get("class") == "node"]
    assert len(nodes) == len(list(report.tree))
    for question in report.tree.questions:
        for branch in question.branches:
            assert branch.answer in page.words
            assert f"{branch.node.n_rows} row" in page.words


def test_names_from_data_are_harmless(model: Any, table: Any) -> None:
    source = ModelReport.of(model, *table, name=EVIL).html()
    page = check_page(source)
    assert EVIL not in source
    assert HOSTILE not in source
    assert EVIL in page.words
    assert HOSTILE in page.words


def test_json_is_as_its_schema_says(model: Any, table: Any) -> None:
    described = ModelReport.of(model, *table).to_dict()
    assert problems(described, "report-1") == []
    described["tree"]["n_rows"] = 0
    described["schema"] = "pursuit/report/0"
    assert len(problems(described, "report-1")) == 2


def test_patches_have_a_map_and_places(image_model: Any, images: Any) -> None:
    report = ModelReport.of(image_model, *images)
    page = check_page(report.html())
    kinds = [one.get("class") for one in page.all("svg")]
    n_asked = sum(use.share_asked > 0 for use in report.evaluation.questions)
    n_in_tree = sum(len(node.questions) for node in report.tree)
    assert kinds.count("map") == 1
    assert kinds.count("grid") == n_asked + n_in_tree
    assert "bright" in page.words


def test_many_labels_are_folded_and_their_mistakes_listed() -> None:
    randomness = np.random.default_rng(0)
    y = np.repeat([f"label {i:02d}" for i in range(30)], 6)
    codes = np.repeat(np.arange(30), 6)
    X = pd.DataFrame({f"bit {b}": ((codes >> b) & 1) ^ (randomness.random(180) < 0.1) for b in range(5)})
    report = ModelReport.of(NaiveBayesIPClassifier().fit(X, y), X, y)
    page = check_page(report.html())
    assert "The other 5 labels" in page.words
    assert "The mistakes made most often" in page.under["caption"]
    assert all(label in page.words for label in y)


def test_a_model_of_a_number_says_so() -> None:
    randomness = np.random.default_rng(0)
    X = pd.DataFrame({"a": randomness.normal(size=80), "b": randomness.choice(["x", "y"], 80)})
    y = 10 * X["a"] + 3 * (X["b"] == "y")
    report = ModelReport.of(VIPRegressor(stages=[Stage(epochs=2)], random_state=0).fit(X, y), X, y, stop="budget=2")
    page = check_page(report.html())
    assert "This model predicts a number" in page.words
    assert "should hold the true number in 90% of all cases" in page.words
    assert "Label by label" not in page.under["h2"]
    assert problems(report.to_dict(), "report-1") == []


def test_a_page_says_what_answers_changed_on_purpose_do(table: Any, tmp_path: Path) -> None:
    """A question that the questions file marks as checked is not changed, also in a model that was saved."""
    X, y = table
    (tmp_path / "questions.toml").write_text("[questions.age]\nchecked = true\n")
    queries = Questions.read(tmp_path / "questions.toml").apply(ColumnQueries.from_data(X))
    NaiveBayesIPClassifier(queries, stop="confidence=0.95").fit(X, y).save(tmp_path / "model")
    report = ModelReport.of(load(tmp_path / "model"), X, y)
    page, changed = check_page(report.html()), report.changed
    assert changed is not None
    assert changed.n_by_one is not None
    assert changed.n_by_two is not None
    assert f"{share(changed.n_by_one / changed.n_rows)} get another result by one other answer" in page.words
    assert f"{share(changed.n_by_two / changed.n_rows)} by at most two" in page.words
    assert f"Answers that are checked are not changed: “{queries.queries[queries.index_of['age']].text}”" in page.words
    assert [one.name for one in changed.questions if one.is_checked] == ["age"]
    assert "age" not in {name for pair in changed.pairs for name in pair.names}
    assert "age" not in {check.name for check in changed.checks}
    unchecked = ModelReport.of(NaiveBayesIPClassifier(stop="confidence=0.95").fit(X, y), X, y).changed
    assert unchecked is not None
    assert unchecked.n_by_one is not None
    assert unchecked.n_by_one > changed.n_by_one
    assert "age" in {check.name for check in unchecked.checks}
