"""What is asked when: how many rows are asked each query as their first, second, third …, and a heat map of it."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from pursuit.data.rows import Rows
from pursuit.evaluation.canvas import CHARACTER, GREY, INK, new_figure, save_figure, shorten
from pursuit.evaluation.curves import placed
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import StoppingRule
from pursuit.queries import QuerySet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_QUERIES, MOST_PLACES, NAME_WIDTH = 25, 20, 46
PANELS = (1, 2, 4, 7, 13)
"""The first place of each map of patches; the last of them goes on to the end, and one more has all places."""
SHOWN_SHARE = 0.05
"""Cells above this carry their number."""


@torch.no_grad()
def shares_asked(pursuer: Pursuer, rows: Rows, stop: StoppingRule, device: str = "cpu") -> np.ndarray:
    """(T, Q): the share of the rows that are asked query q as their n-th before `stop` stops them, for n from 1 to the
    length of the longest chain."""
    if not len(rows):
        raise ValueError("There are no rows to ask: at least one is needed.")
    counts = np.zeros((rows.n_queries, rows.n_queries))
    with placed(pursuer, device) as place:
        part = rows.to(place)
        for step in pursue_in_batches(pursuer, part.x, part.available, stop, part.initially_known):
            query = step.query[step.goes_on].cpu().numpy()
            np.add.at(counts, (step.n_asked[step.goes_on].cpu().numpy(), query), 1)
    longest = int((counts.sum(axis=1) > 0).sum())
    return counts[:longest] / len(rows)


def asked_map(query_set: QuerySet, shares: np.ndarray, path: str | Path | None = None, title: str = "") -> "Figure":
    """What is asked when, from shares (T, Q): maps of the image if queries are patches, and otherwise a row for each of
    the queries asked most and a column for each place in the chain."""
    if shares.ndim != 2 or shares.shape[1] != len(query_set) or not len(shares):
        raise ValueError(f"Shares are to be (places, {len(query_set)}), at least one place, not {shares.shape}.")
    if query_set.patches is not None:
        return _patch_maps(query_set.patches.shape, shares, path, title)
    return _query_places(query_set, shares, path, title)


def _patch_maps(grid: tuple[int, int], shares: np.ndarray, path: str | Path | None, title: str) -> "Figure":
    parts = _ranges(len(shares))
    figure = new_figure(1.6 * len(parts) + 0.2, 1.6 * grid[0] / grid[1] + 0.75, title)
    for axes, (first, last) in zip(figure.subplots(1, len(parts), squeeze=False)[0], parts, strict=True):
        share = shares[first - 1 : last].sum(axis=0)  # no row is asked a patch twice
        axes.imshow(share.reshape(grid) ** 0.5, cmap="magma", vmin=0, vmax=max(share.max(), 1e-9) ** 0.5)
        axes.set_title("all" if (first, last) == (1, len(shares)) else _places(first, last), fontsize=10)
        axes.set(xticks=[], yticks=[])
        axes.set_xlabel(f"brightest: {share.max():.0%}", fontsize=9, color=GREY)
        axes.spines[:].set(color=GREY, linewidth=0.8)
    return save_figure(figure, path)


def _ranges(n_places: int) -> list[tuple[int, int]]:
    """From which place to which each map goes; the last one has all."""
    starts = [place for place in PANELS if place <= n_places]
    return [*((first, after - 1) for first, after in pairwise([*starts, n_places + 1])), (1, n_places)]


def _places(first: int, last: int) -> str:
    return f"query {first}" if first == last else f"queries {first} to {last}"


def _query_places(query_set: QuerySet, shares: np.ndarray, path: str | Path | None, title: str) -> "Figure":
    asked = shares.sum(axis=0)
    chosen = [query for query in np.argsort(-asked, kind="stable")[:MOST_QUERIES] if asked[query] > 0]
    # From those asked first to those asked last, so that the map runs from the upper left to the lower right.
    place = np.arange(1, len(shares) + 1) @ shares
    chosen.sort(key=lambda query: place[query] / asked[query])
    shown = shares[:MOST_PLACES, chosen].T  # (K, T)
    names = [f"{shorten(query_set.queries[q].name, NAME_WIDTH)}  {asked[q]:.0%}" for q in chosen]
    width = CHARACTER * max(map(len, names)) + 0.36 * shown.shape[1] + 0.3
    figure = new_figure(width, 0.25 * len(names) + 0.7, title)
    axes = figure.add_subplot()
    axes.imshow(shown**0.5, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, column in np.argwhere(shown > SHOWN_SHARE).tolist():
        share = shown[row, column]
        colour = "white" if share > 0.4 else INK
        axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_yticks(range(len(names)), names, fontsize=9.5)
    axes.set_xticks(range(shown.shape[1]), [str(n + 1) for n in range(shown.shape[1])], fontsize=9)
    axes.set_xlabel("place in the chain; cells: % of the rows, beside names: asked at all", fontsize=9, color=GREY)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return save_figure(figure, path)
