"""`pursuit methods`."""

from pathlib import Path

from program import json_of, run
from pursuit.methods import METHODS


def test_every_method_has_its_name_and_title(tmp_path: Path) -> None:
    listed = json_of(run(tmp_path, "methods", "--json"))["methods"]
    assert listed[0] == {"method": "vip", "title": "V-IP"}
    assert {method["method"]: method["title"] for method in listed} == {
        name: method.title for name, method in METHODS.items()
    }
    lines = [" ".join(line.split()) for line in run(tmp_path, "methods").stdout.splitlines()]
    for name, method in METHODS.items():
        assert f"{name} {method.title}" in lines
