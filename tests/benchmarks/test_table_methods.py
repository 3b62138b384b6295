"""Every method is measured on a tiny table, calibration and beliefs as they should be."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import table_methods
from pursuit.methods import METHODS, VIPClassifier
from pursuit.training import Stage
from table_data import Split, split
from table_methods import at_stop, calibration, expected_error, measure, measure_pursuer


def made(n_rows: int = 160) -> Split:
    """Two columns tell the label of three, one does not; some cells are missing."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n_rows)
    word = np.array(["red", "green", "blue"], dtype=object)[np.where(rng.random(n_rows) < 0.8, y, 0)]
    word[:5] = None
    number = y + rng.normal(scale=0.5, size=n_rows)
    number[5:10] = np.nan
    X = pd.DataFrame({"number": number, "word": word, "coin": rng.random(n_rows) < 0.5})
    return split(X, np.array(["a", "b", "c"])[y], seed=0)


def test_calibration_error_is_that_of_a_hand_computation() -> None:
    confidence = np.array([0.95, 0.91, 0.99, 1.0, 0.62, 0.68])
    right = np.array([True, True, False, True, False, True])
    found = calibration(confidence, right)
    # The bin above 0.9 has 4 rows, 3 right, confidences of 3.85; that above 0.6 has 2 rows, 1 right, 1.30.
    assert found["ece"] == pytest.approx((abs(3.85 - 3) + abs(1.30 - 1)) / 6)
    assert found["bins"][9] == [4, pytest.approx(3.85), 3]
    assert found["bins"][6] == [2, pytest.approx(1.30), 1]
    assert sum(n for n, _, _ in found["bins"]) == 6
    assert expected_error([[1, 0.5, 1], [3, 2.5, 2]]) == pytest.approx((0.5 + 0.5) / 4)


def test_few_rows_look_badly_calibrated_by_chance() -> None:
    rng = np.random.default_rng(1)

    def by_chance(n_rows: int) -> tuple[float, float]:
        confidence = rng.uniform(0.3, 1, n_rows)
        found = calibration(confidence, rng.random(n_rows) < confidence)
        return found["by_chance"], found["ece"]

    few, many = by_chance(30), by_chance(20_000)
    assert few[0] > 0.08
    assert many[0] < 0.02
    assert many[1] < 0.03


def test_what_is_found_at_stop_is_what_predictions_are() -> None:
    rows = made()
    classifier = METHODS["naive-bayes"].build(random_state=0, stop="confidence=0.9")
    found = measure_pursuer(classifier, rows)
    asked, posterior = at_stop(classifier, rows.X_test)
    assert np.allclose(posterior, classifier.predict_proba(rows.X_test))
    evaluation = classifier.evaluate(rows.X_test, rows.y_test)
    assert evaluation.at_stop
    assert found["asked"] == pytest.approx(asked.mean()) == pytest.approx(evaluation.at_stop.mean_asked)
    assert found["at_stop"] == pytest.approx(classifier.score(rows.X_test, rows.y_test))
    assert found["calibration"]["ece"] == pytest.approx(evaluation.at_stop.calibration_error, abs=1e-6)
    assert found["curve"] == evaluation.accuracy_by_asked
    assert found["all_answers"] == evaluation.accuracy_all_answers
    at_rule = dict(zip((str(rule) for rule in table_methods.RULES), found["trade_off"][1:], strict=True))
    assert at_rule["confidence=0.9"] == [pytest.approx(found["asked"]), pytest.approx(found["at_stop"])]
    assert found["trade_off"][0] == [0.0, found["curve"][0]]


def test_vip_is_measured() -> None:
    found = measure_pursuer(VIPClassifier(random_state=0, stages=[Stage(4)]), made())
    assert 0 < found["asked"] <= 3
    assert found["all_answers"] > 0.4
    assert found["fit_seconds"] > 0
    assert len(found["curve"]) == 4


@pytest.mark.parametrize("method", ["logistic", "hgb", "forest", "tree", "ebm"])
def test_others_are_measured(method: str) -> None:
    if method == "ebm":
        pytest.importorskip("interpret")
    found = measure(method, made(), seed=0)
    if method == "tree":
        best = max(found["trees"], key=lambda tree: tree["accuracy"])
        assert best["accuracy"] > 0.75
        assert all(0 <= tree["asked"] <= 3 for tree in found["trees"])
    else:
        assert found["all_answers"] > 0.75
        assert sum(n for n, _, _ in found["calibration"]["bins"]) == 32
    assert found["fit_seconds"] > 0


def test_indicators_belong_to_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def keep(
        X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, column_of: np.ndarray, seed: int
    ) -> Any:
        given.update(X=X, column_of=column_of, y=y, y_test=y_test)
        return []

    monkeypatch.setattr(table_methods, "measure_trees", keep)
    rows = made()
    measure("tree", rows, seed=0)
    # red, green, blue and missing; True and False; the number with its gaps
    assert given["column_of"].tolist() == [0, 0, 0, 0, 1, 1, 2]
    assert given["X"].shape == (128, 7)
    assert np.isnan(given["X"][:, 6]).sum() == rows.X_train["number"].isna().sum() > 0
    assert (np.array(["a", "b", "c"])[given["y_test"]] == rows.y_test).all()


def test_a_table_of_nothing_but_numbers_or_words_is_measured() -> None:
    rows = made()
    for columns in (["number"], ["word", "coin"]):
        some = Split(rows.X_train[columns], rows.y_train, rows.X_test[columns], rows.y_test)
        for method in ("tree", "logistic", "forest", "hgb"):
            assert measure(method, some, seed=0)["fit_seconds"] > 0


def test_only_what_we_wrote_depends_on_our_code() -> None:
    assert [method for method in table_methods.TITLES if table_methods.is_own(method)] == ["vip", "naive-bayes", "gdfs"]
    assert table_methods.is_own("vip-information")
