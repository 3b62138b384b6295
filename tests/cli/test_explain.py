"""`pursuit explain`."""

import re
from pathlib import Path

import pandas as pd
import pytest

from program import json_of, run


def test_a_chain_as_text_json_and_figure(workspace: Path) -> None:
    text = run(workspace, "explain", "model", "--data", "patients.csv", "--row", "3")
    assert "Prediction:" in text.stdout
    assert re.search(r"Row 3 \(row \d+ of the file\), true label: ", text.stdout)
    picture = workspace / "chain.png"
    explained = json_of(
        run(workspace, "explain", "model", "--data", "patients.csv", "--row", "3", "--figure", str(picture), "--json")
    )
    (chain,) = explained["chains"]
    assert chain["row"] == 3
    assert len(chain["steps"]) >= 1
    assert sum(chain["steps"][0]["posterior"].values()) == pytest.approx(1, abs=1e-5)
    assert sum(step["gained"] for step in chain["steps"]) == pytest.approx(chain["bits_gained"], abs=1e-6)
    assert chain["steps"][0].keys() >= {"bits", "gained"}
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_rows_without_labels(workspace: Path) -> None:
    frame = pd.read_csv(workspace / "patients.csv").drop(columns=["label", "note"])
    frame.head(2).to_csv(workspace / "new.csv", index=False)
    explained = json_of(run(workspace, "explain", "model", "--data", "new.csv", "--json"))
    assert [chain["label"] for chain in explained["chains"]] == [None, None]
    assert "true label" not in run(workspace, "explain", "model", "--data", "new.csv").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--row", "60"], "rows go from 0 to 59"), (["--figure", "chain.doc"], "png")],
)
def test_mistakes_get_one_sentence(workspace: Path, arguments: list[str], message: str) -> None:
    result = run(workspace, "explain", "model", "--data", "patients.csv", *arguments)
    assert result.returncode == 1
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
