"""Rows that belong together are on one side, and what is measured on could be learnt."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pursuit.tables.splitting import Division, group_numbers, remarks_on_copies, time_numbers, uniform_hash
from pursuit.training.held_out import split_by_group

labels = st.lists(st.integers(0, 4), min_size=8, max_size=60).map(np.array)


@settings(deadline=None)
@given(y=labels, share=st.floats(0, 0.7), seed=st.integers(0, 9))
def test_random_rows_are_all_there_once_and_can_be_learnt(y: np.ndarray, share: float, seed: int) -> None:
    train, test = Division(y).split(share, seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert set(y[test]) <= set(y[train])
    assert len(test) <= round(share * len(y))


@settings(deadline=None)
@given(y=labels, n_groups=st.integers(1, 20), share=st.floats(0.05, 0.7), seed=st.integers(0, 9))
def test_groups_are_not_divided(y: np.ndarray, n_groups: int, share: float, seed: int) -> None:
    groups = np.random.default_rng(seed).integers(-1, n_groups, len(y))
    train, test = Division(y, groups=groups).split(share, seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert set(groups[test]).isdisjoint(groups[train])
    assert -1 not in groups[test]
    assert set(y[test]) <= set(y[train])


def test_groups_make_up_the_share_of_rows_and_of_labels() -> None:
    randomness = np.random.default_rng(0)
    groups = np.sort(randomness.integers(0, 300, 2000))
    y = (groups % 10 == 0).astype(int)  # a label goes with the group
    _, test = Division(y, groups=groups).split(0.25, 1)
    assert len(test) == pytest.approx(500, abs=10)
    assert y[test].mean() == pytest.approx(y.mean(), abs=0.01)
    assert Division(y, groups=groups).split(0.25, 2)[1].tolist() != test.tolist()
    assert Division(y, groups=groups).split(0.25, 1)[1].tolist() == test.tolist()


@settings(deadline=None)
@given(y=labels, share=st.floats(0.05, 0.7), n_days=st.integers(1, 30), seed=st.integers(0, 9))
def test_test_rows_are_later_than_all_training_rows(y: np.ndarray, share: float, n_days: int, seed: int) -> None:
    times = np.random.default_rng(seed).integers(0, n_days, len(y)).astype(float)
    times[::7] = np.nan
    train, test = Division(y, times=times).split(share, seed)
    assert set(train).isdisjoint(test)
    assert set(y[test]) <= set(y[train])
    assert not np.isnan(times[test]).any()
    if len(test):
        assert np.nanmin(times[test]) > np.nanmax(times[train])
    neither = np.setdiff1d(np.arange(len(y)), [*train, *test])
    assert set(y[neither]).isdisjoint(y[train])


def test_the_number_of_latest_rows_is_as_close_to_the_share_as_equal_times_allow() -> None:
    times = np.array([1, 2, 3, 3, 3, 4, 4, 5.0, 5, 5])
    y = np.arange(10) % 2
    assert Division(y, times=times).split(0.2, 0)[1].tolist() == [7, 8, 9]
    assert Division(y, times=times).split(0.5, 0)[1].tolist() == [5, 6, 7, 8, 9]
    assert Division(y, times=times).split(0.6, 0)[1].tolist() == [5, 6, 7, 8, 9]
    assert Division(y, times=times).split(0.7, 0)[1].tolist() == [2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(("n", "said"), [(1, "Only 1 row has a label"), (2, "Only 2 rows have a label")])
def test_a_table_of_hardly_any_rows_is_not_told_to_choose_another_share(n: int, said: str) -> None:
    with pytest.raises(ValueError, match=f"{said}.*more rows"):
        Division(np.arange(n)).split(0.2, 0) if n == 1 else Division(np.arange(n)).split(0.5, 0)


def test_at_least_two_rows_are_trained_on() -> None:
    with pytest.raises(ValueError, match=r"A test share of 0.95 leaves 1 of 20 rows to train on: choose a smaller one"):
        Division(np.arange(20) % 2).split(0.95, 0)
    assert len(Division(np.arange(20) % 2).split(0.9, 0)[0]) == 2
    assert len(Division(np.arange(2)).split(0.0, 0)[0]) == 2


def test_some_of_the_rows() -> None:
    whole = Division(np.arange(4), groups=np.arange(4), times=None)
    assert whole.take(np.array([1, 3])).groups.tolist() == [1, 3]  # type: ignore[union-attr]
    assert whole.take(np.array([1, 3])).times is None


@pytest.mark.parametrize(
    "texts",
    [
        ["2023-12-31", "2024-01-01", "2024-01-01T12:00", "2024-02-01 00:00:00+02:00"],
        ["31.12.2023", "01.01.2024", "02.01.2024", "01.02.2024"],
        ["12/30/2023", "12/31/2023", "01/02/2024", "02/01/2024"],
        ["31/12/2023", "01/01/2024", "02/01/2024", "01/02/2024"],
        ["31.12.2023 23:59", "01.01.2024 00:00", "01.01.2024 12:30", "01.02.2024 00:00"],
    ],
)
def test_dates_in_usual_formats_are_in_their_order(texts: list[str]) -> None:
    times = time_numbers(pd.Series([*texts, None]), "day", lambda row: row)
    assert (np.diff(times[:-1]) > 0).all()
    assert np.isnan(times[-1])


def test_times_may_be_numbers_and_anything_else_is_refused() -> None:
    assert time_numbers(pd.Series([3, 1, 2]), "year", lambda row: None).tolist() == [3, 1, 2]
    assert time_numbers(pd.Series(["0830", None, "0745"]), "at", lambda row: None)[[0, 2]].tolist() == [830, 745]
    with pytest.raises(ValueError, match="'day' is not a time: 'soon' in line 7 is neither a number nor a date"):
        time_numbers(pd.Series(["2024-01-01", "soon"]), "day", lambda row: 7)
    with pytest.raises(ValueError, match=r"'day' is not a time: 'soon' is neither"):
        time_numbers(pd.Series(["soon", "later"]), "day", lambda row: None)
    with pytest.raises(ValueError, match=r"can be read in two ways, such as '01/02/2024': write them as 2024-12-31"):
        time_numbers(pd.Series(["01/02/2024", "03/04/2024"]), "day", lambda row: None)
    assert np.isnan(time_numbers(pd.Series(["2024-01-01", "?"]), "day", lambda row: None)).tolist() == [False, True]


def test_groups_are_numbered() -> None:
    assert group_numbers(pd.Series(["b", None, "a", "b"])).tolist() == [0, -1, 1, 0]


def test_hashes_are_uniform_and_those_of_other_seeds_independent() -> None:
    rows = np.arange(100_000)
    first, second = uniform_hash(rows, 0), uniform_hash(rows, 1)
    assert first.min() >= 0
    assert first.max() < 1
    counts = np.histogram2d(first, second, bins=10, range=[[0, 1], [0, 1]])[0]
    assert np.abs(counts - 1000).max() < 5 * 1000**0.5
    neighbours = np.corrcoef(first[:-1], first[1:])[0, 1]
    assert abs(neighbours) < 0.02


def test_a_hash_depends_on_nothing_but_number_and_seed() -> None:
    np.testing.assert_array_equal(uniform_hash(np.arange(50, 60), 3), uniform_hash(np.arange(100), 3)[50:60])


def test_parts_are_all_rows_once_and_share_no_group() -> None:
    randomness = np.random.default_rng(0)
    groups, y = randomness.integers(-1, 40, 300), randomness.integers(0, 3, 300)
    kept, held_out = split_by_group(y, groups, 60, seed=1)
    assert np.array_equal(np.sort(np.concatenate([kept, held_out])), np.arange(300))
    assert set(groups[kept]).isdisjoint(groups[held_out])
    assert -1 in groups[kept]
    assert len(held_out) == pytest.approx(60, abs=3)
    assert np.bincount(y[held_out]) / len(held_out) == pytest.approx(np.bincount(y) / 300, abs=0.1)


@pytest.mark.parametrize(("y", "groups"), [([0, 0, 1, 1], [0, 0, 1, 1]), ([0, 0, 0, 0], [5, 5, 5, 5])])
def test_a_group_with_all_rows_of_a_label_is_learnt_from(y: list[int], groups: list[int]) -> None:
    kept, held_out = split_by_group(np.array(y), np.array(groups), 2, seed=0)
    assert len(held_out) == 0
    assert kept.tolist() == [0, 1, 2, 3]


def test_a_group_larger_than_the_share_is_held_out_only_if_that_is_closer_than_none() -> None:
    groups = np.repeat([0, 1], [90, 10])
    _, held_out = split_by_group(np.tile([0, 1], 50), groups, 20, seed=0)
    assert set(groups[held_out]) == {1}


def test_copies_of_training_rows_are_told_of() -> None:
    randomness = np.random.default_rng(0)
    X = pd.DataFrame(
        {"age": randomness.integers(0, 80, 60) / 2.0, "weight": randomness.normal(70, 9, 60), "smokes": "no"}
    )
    X.loc[5, "age"] = np.nan
    train, test = np.arange(60), np.arange(60, 80)
    copies = pd.concat([X, X.iloc[:10], X.iloc[10:20] + X.iloc[20:30].to_numpy()], ignore_index=True)
    (remark,) = remarks_on_copies(copies, train, test)
    assert remark.startswith("Warning: 10 of the 20 held-out rows are copies")
    assert remarks_on_copies(X, train[:40], train[40:]) == []
    assert remarks_on_copies(copies[["smokes"]], train, test) == []  # people are alike in one answer
    assert remarks_on_copies(copies, train, test[:0]) == []
