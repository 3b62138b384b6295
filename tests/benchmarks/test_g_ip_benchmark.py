"""The steps of G-IP and V-IP are measured at toy sizes."""

import json
from dataclasses import replace
from pathlib import Path

import g_ip
from report import save


def test_both_are_measured_by_turns(tmp_path: Path) -> None:
    measured = g_ip.measure(replace(g_ip.QUICK, cases=g_ip.QUICK.cases[:1]))
    (case,) = measured["cases"]
    assert case["rows"] == 1
    assert case["v_ip_seconds"] > 0
    assert case["ratio"] == case["g_ip_seconds"] / case["v_ip_seconds"]
    text = save(measured, g_ip.page, "g-ip", tmp_path)
    assert text == g_ip.page(json.loads((tmp_path / "g-ip.json").read_text()))
    assert "| 1 | 1 x 2 | " in text
