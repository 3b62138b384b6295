"""Modules that are left out until they are used."""

import sys
from pathlib import Path

import pytest

from pursuit.estimators.lazy_imports import left_out


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "slow_module.py").write_text("number = 7\ndef double(x): return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "slow_module", raising=False)
    return "slow_module"


def test_a_module_is_left_out_until_something_in_it_is_asked_for(module: str) -> None:
    with left_out(module, double=lambda x: x):
        import slow_module as stand_in

        assert stand_in.double(3) == 3
    assert module not in sys.modules
    assert stand_in.number == 7
    import slow_module

    assert slow_module.double(3) == 6


def test_asking_inside_brings_the_module_itself(module: str) -> None:
    with left_out(module):
        from slow_module import double

        assert double(3) == 6
    assert sys.modules[module].double is double


def test_a_module_that_is_there_stays(module: str) -> None:
    import slow_module

    with left_out(module, double=None):
        assert sys.modules[module] is slow_module
    assert sys.modules[module] is slow_module
    assert not hasattr(slow_module, "nothing")
