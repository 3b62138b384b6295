"""What is asked when, against the chains of the rows, and the maps of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit import PatchQueries
from pursuit.evaluation.asked import PANELS, _ranges, asked_map, shares_asked
from pursuit.inference.chain import explain
from pursuit.inference.stopping import Budget, Confidence


@given(seed=st.integers(0, 1000), missing=st.sampled_from([0.0, 0.4]), known_share=st.sampled_from([0.0, 0.4]))
def test_shares_are_those_of_the_chains(
    make_columns: Any, make_rows: Any, make_vip: Any, seed: int, missing: float, known_share: float
) -> None:
    query_set = make_columns(["yes_no", "choice", "number", "yes_no"])
    rows, model = make_rows(query_set, 25, seed, missing, known_share), make_vip(query_set, seed=seed)
    rule = Confidence(0.6) | Budget(3)
    chains = explain(model, rows.x, rows.available, rule, rows.initially_known)
    wanted = np.zeros((max(len(chain) for chain in chains), 4))
    for chain in chains:
        for place, step in enumerate(chain.steps):
            wanted[place, step.query] += 1 / 25
    np.testing.assert_allclose(shares_asked(model, rows, rule), wanted)


def test_rows_are_needed(make_columns: Any, make_rows: Any, make_vip: Any) -> None:
    query_set = make_columns(["yes_no"])
    with pytest.raises(ValueError, match="no rows to ask"):
        shares_asked(make_vip(query_set), make_rows(query_set, 3, 0).take(slice(0, 0)), Budget(1))


def test_patches_are_drawn_where_they_lie(tmp_path: Path) -> None:
    query_set = PatchQueries((1, 4, 3), size=2)  # 3 rows of 2 patches
    shares = np.zeros((3, 6))
    shares[0, 3] = 1.0
    shares[1, [0, 5]] = 0.25, 0.75
    shares[2, 5] = 0.25
    figure = asked_map(query_set, shares, tmp_path / "asked.png", "made")
    assert [axes.get_title() for axes in figure.axes] == ["query 1", "queries 2 to 3", "all"]
    maps = [np.asarray(axes.get_images()[0].get_array()) ** 2 for axes in figure.axes]
    np.testing.assert_allclose(maps[0], [[0, 0], [0, 1], [0, 0]])
    np.testing.assert_allclose(maps[1], [[0.25, 0], [0, 0], [0, 1]])
    np.testing.assert_allclose(maps[2], [[0.25, 0], [0, 1], [0, 1]])
    assert [axes.get_xlabel() for axes in figure.axes] == ["brightest: 100%"] * 3
    assert (tmp_path / "asked.png").exists()


@given(st.integers(1, 60))
def test_every_place_is_on_one_map_and_on_that_of_all(n_places: int) -> None:
    *parts, everything = _ranges(n_places)
    assert everything == (1, n_places)
    assert [place for first, last in parts for place in range(first, last + 1)] == list(range(1, n_places + 1))
    assert all(first in PANELS for first, _ in parts)


def test_queries_are_rows_and_places_columns(make_columns: Any) -> None:
    query_set = make_columns(["yes_no", "yes_no", "yes_no"])
    shares = np.array([[0.0, 0.9, 0.1], [0.0, 0.1, 0.4]])
    figure = asked_map(query_set, shares)
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert [name.split("  ")[-1] for name in names] == ["100%", "50%"]  # what is never asked is not shown
    assert [name.startswith(query_set.queries[q].name) for name, q in zip(names, (1, 2), strict=True)] == [True, True]
    np.testing.assert_allclose(np.asarray(axes.get_images()[0].get_array()) ** 2, [[0.9, 0.1], [0.1, 0.4]])
    assert {text.get_text() for text in axes.texts} == {"90", "10", "40"}


def test_shares_must_fit(make_columns: Any) -> None:
    with pytest.raises(ValueError, match=r"Shares are to be \(places, 2\)"):
        asked_map(make_columns(["yes_no", "yes_no"]), np.zeros((2, 3)))
