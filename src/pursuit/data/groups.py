"""Rows that belong together, such as the visits of one patient: which of them may be held out."""

import numpy as np

N_TRIES = 20
"""How many random divisions of groups are compared, to find one with the right share of rows and of labels."""


def split_by_group(y: np.ndarray, groups: np.ndarray, n_held_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows to learn from and of about `n_held_out` others, both rising. A group is in one part or
    the other, and rows without one (below 0) are learnt from. A label of held-out rows is a label of the others too, so
    it may be that no group can be held out."""
    classes, codes = np.unique(y, return_inverse=True)
    names, group_of_row = np.unique(groups, return_inverse=True)
    table = np.zeros((len(names), len(classes)), dtype=np.int64)  # rows of every group and label
    np.add.at(table, (group_of_row, codes), 1)
    free = np.flatnonzero(names >= 0)
    total, randomness = table.sum(axis=0), np.random.default_rng(seed)
    best, best_distance = free[:0], np.inf
    for _ in range(N_TRIES):
        chosen = _groups_to_hold_out(table, randomness.permutation(free), n_held_out)
        distance = np.abs(table[chosen].sum(axis=0) - total * n_held_out / len(y)).sum()
        if distance < best_distance:
            best, best_distance = chosen, distance
    is_held_out = np.isin(group_of_row, best)
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def _groups_to_hold_out(table: np.ndarray, order: np.ndarray, n_held_out: int) -> np.ndarray:
    """The first groups in this order that make up about `n_held_out` rows and leave rows of each of their labels."""
    sizes = table.sum(axis=1).tolist()
    chosen, left, n_chosen = [], table.sum(axis=0), 0
    for group in order:
        if n_chosen >= n_held_out:
            break
        comes_closer = abs(n_chosen + sizes[group] - n_held_out) < abs(n_chosen - n_held_out)
        if comes_closer and (left[table[group] > 0] > table[group][table[group] > 0]).all():
            chosen.append(group)
            left, n_chosen = left - table[group], n_chosen + sizes[group]
    return np.array(chosen, dtype=np.int64)
