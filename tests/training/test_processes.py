"""The processes that train one model together."""

import pytest

from pursuit.files import is_first, process_number
from pursuit.training.devices import n_processes, started_by_torchrun

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID")


@pytest.mark.parametrize(
    ("environment", "number", "torchrun"),
    [
        ({}, 0, None),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, 1, None),  # as Fabric starts them
        (
            {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "x"},
            5,
            (4, 2),
        ),
    ],
)
def test_a_process_knows_its_number(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], number: int, torchrun: tuple[int, int] | None
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert process_number() == number
    assert is_first() == (number == 0)
    assert started_by_torchrun() == torchrun


def test_torchrun_knows_the_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert n_processes(3) == 3
    for name, value in (("TORCHELASTIC_RUN_ID", "x"), ("LOCAL_WORLD_SIZE", "2"), ("WORLD_SIZE", "4")):
        monkeypatch.setenv(name, value)
    assert n_processes(1) == 4
