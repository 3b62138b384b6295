"""The bar of `fit`."""

import io
import sys

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import clone

from pursuit import MLP, Stage, TrainingRun, VIPClassifier, load
from pursuit.training.progress import training_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fitted(verbose: bool | None, run: TrainingRun | None = None) -> VIPClassifier:
    X = np.random.default_rng(0).integers(0, 2, (40, 3))
    model = VIPClassifier(network=MLP((4,)), stages=[Stage(2, batch_size=8)], teachers=None, verbose=verbose)
    return model.fit(X, X[:, 0], run=run)


@pytest.mark.parametrize(
    ("verbose", "screen", "shows"),
    [
        (None, io.StringIO, False),
        (True, io.StringIO, True),
        (None, Terminal, True),
        (True, Terminal, True),
        (False, Terminal, False),
    ],
)
def test_fit_shows_how_far_it_is_where_somebody_looks(
    verbose: bool | None, screen: type[io.StringIO], shows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen())
    fitted(verbose)
    assert ("VIPClassifier, stage 1" in sys.stderr.getvalue()) == shows


def test_who_watches_training_sees_no_second_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    seen: list[object] = []
    fitted(True, TrainingRun(on_report=seen.append))
    assert seen
    assert sys.stderr.getvalue() == ""


def test_it_is_kept_by_clone_and_by_saving(tmp_path: object) -> None:
    model = fitted(False)
    assert clone(model).verbose is False
    model.save(f"{tmp_path}/model")
    assert load(f"{tmp_path}/model").verbose is False


def test_titles_are_shown_as_they_are() -> None:
    from pursuit.training import Report

    for is_terminal in (False, True):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=120)
        with training_bar("[bold]wine[/]", console) as on_report:
            on_report(Report(1, 50, 100, 0.1, 1e-3, 0.5, None, 1000.0, 75.0))
        assert "[bold]wine[/], stage 1" in console.file.getvalue()  # type: ignore[attr-defined]
