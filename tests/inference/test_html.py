"""What notebooks show of chains, sessions, reasons, evaluations and comparisons."""

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from pursuit import VIPClassifier, VIPRegressor
from pursuit.inference import html
from pursuit.inference.chain import MOST_IN_NOTEBOOKS, Chains
from pursuit.research.experiments.compare import Trial, compare

EVIL = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    draw = np.random.default_rng(0)
    y = draw.integers(2, size=120)
    X = pd.DataFrame({EVIL: np.where(y, "yes", "no"), "n": y + draw.normal(size=120), "c": [*"abc"] * 40})
    return X, np.where(y, EVIL, "safe")


@pytest.fixture(scope="module")
def model(rows: Any) -> VIPClassifier:
    return VIPClassifier(random_state=0).fit(*rows)


def parsed(text: str) -> str:
    """The text of what is well-formed, without an element that data brought along."""
    tree = ElementTree.fromstring(f"<all>{text}</all>")
    assert not {element.tag for element in tree.iter()} & {"script", "b"}
    return "".join(tree.itertext())


def test_tables_escape_what_comes_from_data() -> None:
    text = parsed(html.block("a < b", html.table(("x", EVIL), [[EVIL, html.Bar("97 %", 0.97)]]), html.paragraph("&")))
    assert text == f"a < bx{EVIL}{EVIL}97 %&"
    assert html.paragraph("") == ""
    assert html.Bar("", 7).share == 1


def test_chains(model: VIPClassifier, rows: Any) -> None:
    chains = model.explain(rows[0][:20])
    text = parsed(chains[0]._repr_html_())
    assert str(chains[0].prediction) in text
    assert all(step.text in text for step in chains[0].steps)
    assert f"and {20 - MOST_IN_NOTEBOOKS} more" in parsed(chains._repr_html_())
    assert parsed(Chains(chains[:1])._repr_html_()) == text
    assert chains[0].plot()._repr_png_().startswith(b"\x89PNG")


def test_sessions_and_reasons(model: VIPClassifier, tmp_path: Any) -> None:
    session = model.session()
    asked, why = session.ask().text, session.why()
    assert asked in parsed(session._repr_html_())
    assert "is expected to tell" in parsed(why._repr_html_())
    why.plot(tmp_path / "why.png")
    assert (tmp_path / "why.png").exists()
    session.tell("yes" if asked.startswith(EVIL) else "a" if "c" in asked else 1.0)
    while not session.done:
        session.dont_know()
    assert str(session.prediction) in parsed(session._repr_html_())
    assert session.plot() is not None


def test_evaluations(model: VIPClassifier, rows: Any) -> None:
    evaluation = model.evaluate(*rows)
    text = parsed(evaluation._repr_html_())
    assert "Accuracy on 120 rows, 3 queries" in text
    assert f"{evaluation.accuracy_all_answers:.1%}" in text


def test_numbers(rows: Any) -> None:
    X, y = rows[0][["n", "c"]], rows[0]["n"].to_numpy() * 2
    evaluation = VIPRegressor(random_state=0).fit(X, y).evaluate(X, y)
    assert "mean absolute error" in parsed(evaluation._repr_html_())
    assert evaluation.plot().axes[0].get_ylabel() == "R²"
    chain = VIPRegressor(random_state=0).fit(X, y).explain(X[:1])[0]
    assert parsed(chain._repr_html_())
    assert chain.plot() is not None


def test_comparisons(rows: Any, tmp_path: Any) -> None:
    X, y = rows
    path = tmp_path / "t.csv"
    X.rename(columns={EVIL: "q"}).assign(y=np.where(y == "safe", "safe", "other")).to_csv(path, index=False)
    trial = Trial(str(path), ("naive-bayes", "random"), table_options={"target": "y"})
    results = compare(trial, tmp_path / "out")
    assert "naive-Bayes IP" in parsed(results._repr_html_())
    assert len(results.plot().axes[0].lines) >= 2
