"""Notebooks of docs/examples run, and show chains, sessions, reasons, evaluations and comparisons."""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "examples" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
pytestmark = [pytest.mark.programs, pytest.mark.slow]


def ran(name: str) -> Any:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    return notebook


def outputs(notebook: Any, kind: str) -> list[Any]:
    found = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output["data"][kind] for output in found if kind in output.get("data", {})]


def test_there_are_three() -> None:
    nbformat = pytest.importorskip("nbformat")
    assert NAMES == ["compare", "images", "table"]
    for name in NAMES:  # as they are in the repository, without what a run left in them
        cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
        assert not any(cell.get("outputs") for cell in cells)


@pytest.mark.parametrize(
    ("name", "shown", "n_figures"),
    [
        ("table", ["Accuracy on 450 rows", "after", "It asks:", "is expected to tell"], 3),
        ("images", ["Accuracy on 898 rows", "unknown|patch"], 2),
        ("compare", ["Information Pursuit|V-IP"], 1),
    ],
)
def test_they_run_and_show(name: str, shown: list[str], n_figures: int) -> None:
    notebook = ran(name)
    html = "\n".join(outputs(notebook, "text/html"))
    for text in shown:
        assert any(one in html for one in text.split("|")), text
    assert len(outputs(notebook, "image/png")) == n_figures
    if name != "compare":  # the bar of fit
        assert "stage 1" in html + json.dumps(notebook.metadata.get("widgets", {}))
    if name == "table":
        widgets = outputs(notebook, "application/vnd.jupyter.widget-view+json")
        assert any("framedPage" in json.dumps(notebook.metadata.widgets) for _ in widgets)
