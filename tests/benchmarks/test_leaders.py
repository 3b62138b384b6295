"""Who leads a comparison follows from its figures: other figures, other sentences."""

from dataclasses import replace

import pytest

import leaders
import methods
from pursuit.evaluation.curves import Evaluation
from pursuit.experiments.results import MethodResults, Result, Results
from report import OVERVIEW

TITLES = {
    "vip": "V-IP",
    "random": "random order",
    "fixed": "fixed order",
    "gdfs": "GDFS",
    "exact": "exact IP",
    "all-answers": "all answers",
}


def made(n_queries: int = 12, **curves: list[list[float]]) -> Results:
    """Methods with the accuracies of their seeds after 0, 1, 2 … queries."""
    found = {}
    for name, seeds in curves.items():
        name = name.replace("_", "-")
        results = [
            Result({}, name, seed, 9, 9, 1.0, Evaluation(9, n_queries, curve, area, curve, area, 1.0, None), {}, {})
            for seed, curve in enumerate(seeds)
            if (area := sum(curve[1:]) / (len(curve) - 1)) is not None
        ]
        found[name] = MethodResults.of(TITLES[name], results)
    return Results({"task": "made"}, found)


def curve(after_1: float, later: float, longest: int = 6) -> list[float]:
    return [0.1, after_1, *[later] * (longest - 1)]


def test_the_figures_decide_who_leads() -> None:
    others = {"random": [curve(0.2, 0.3)] * 2, "exact": [curve(0.9, 0.9)], "all_answers": [curve(0.1, 0.1)]}
    ahead = leaders.standings(made(vip=[curve(0.3, 0.8), curve(0.3, 0.82)], gdfs=[curve(0.4, 0.5)] * 2, **others))
    assert ahead.startswith(
        "Area to 6 of 12 queries: V-IP has the highest, 0.725; then GDFS 0.483, 0.242 behind (more than two standard "
        "errors over seeds)."
    )
    assert "Highest after 1 query: GDFS (0.400 against 0.300 of V-IP); after 5 queries: V-IP." in ahead
    assert "None is behind random order." in ahead
    behind = leaders.standings(made(vip=[curve(0.3, 0.4)], gdfs=[curve(0.1, 0.1)], fixed=[curve(0.4, 0.5)], **others))
    assert "fixed order has the highest, 0.483; then V-IP 0.383, 0.100 behind (one seed)." in behind
    assert "Highest after 1 and 5 queries: fixed order (0.400 against 0.300, 0.500 against 0.400 of V-IP)." in behind
    assert "Behind random order: GDFS." in behind
    assert "exact IP" not in ahead + behind  # which does not learn


def test_seeds_that_vary_leave_the_lead_open() -> None:
    text = leaders.standings(made(6, vip=[curve(0.3, 0.5), curve(0.3, 0.9)], gdfs=[curve(0.3, 0.6), curve(0.3, 0.7)]))
    assert text.startswith("Area to 6 queries: V-IP has the highest")
    assert "(within two standard errors over seeds)" in text


def test_v_ip_is_placed_even_if_it_is_third() -> None:
    text = leaders.standings(made(vip=[curve(0.1, 0.2)], gdfs=[curve(0.3, 0.4)], fixed=[curve(0.3, 0.5)]))
    assert "then GDFS 0.383, 0.083 behind (one seed); V-IP 0.183, 0.283 behind (one seed)." in text


def test_what_was_not_measured_is_named() -> None:
    text = leaders.standings(made(vip=[curve(0.1, 0.2)], random=[curve(0.1, 0.1)]))
    assert "Not measured: DIME, G-IP, GDFS, " in text
    assert "RAM and RAM+" in text or "RAM, RAM+" in text
    assert "V-IP by information" not in text
    assert "all answers" not in text  # which has no curve to lead with
    assert "only V-IP was measured (0.183)" in leaders.standings(made(vip=[curve(0.1, 0.2)]))


def test_the_pages_say_what_the_files_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert methods.leaders_by_task() in methods.METHODS_PAGE.read_text(encoding="utf-8")
    overview = OVERVIEW.read_text(encoding="utf-8")
    assert methods.overview_section() in overview
    kept = methods.kept()
    without = {name: one for name, one in kept[methods.SHOWN].methods.items() if name != "vip"}
    monkeypatch.setattr(methods, "kept", lambda: {methods.SHOWN: replace(kept[methods.SHOWN], methods=without)})
    assert methods.overview_section() not in overview
    assert "V-IP has the highest" not in methods.overview_section()
