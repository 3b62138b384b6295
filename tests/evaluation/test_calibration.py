"""How often each confidence is right, and how far accuracies may be off."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pursuit.evaluation.calibration import N_BINS, accuracy_interval, bin_of, seeds_and_rows_interval
from pursuit.evaluation.counts import BeliefCounts
from pursuit.evaluation.curves import Setting, evaluate, evaluation_counts
from pursuit.evaluation.rollouts import ClassTrace
from pursuit.inference.chain import explain
from pursuit.inference.stopping import Budget, Confidence
from pursuit.training.rows import Rows
from untrained import make_columns, make_rows, make_vip


def test_rows_are_counted_by_their_confidence() -> None:
    confidence = torch.tensor([0.95, 1.0, 0.91, 0.42, 0.48])
    right, nothing = torch.tensor([True, True, False, False, True]), torch.zeros(1, 5)
    rows = ClassTrace(nothing, nothing, nothing, nothing, confidence[None], right[None], nothing)
    bins = BeliefCounts.of(rows, torch.ones(5, dtype=torch.long)).reliability(0)
    assert [(one.low, one.high, one.n_rows) for one in bins] == [(0.4, 0.5, 2), (0.9, 1.0, 3)]
    assert [one.accuracy for one in bins] == pytest.approx([1 / 2, 2 / 3])
    assert [one.confidence for one in bins] == pytest.approx([0.45, (0.95 + 1 + 0.91) / 3])
    assert all(one.accuracy_interval[0] < one.accuracy < one.accuracy_interval[1] for one in bins)


def test_certainty_is_in_the_last_bin() -> None:
    assert bin_of(torch.tensor([0.0, 0.5, 1.0])).tolist() == [0, 5, 9]


@given(seed=st.integers(0, 1000), missing=st.sampled_from([0.0, 0.4]), cut=st.sampled_from([None, 1]))
def test_trust_by_step_is_that_of_the_chains(seed: int, missing: float, cut: int | None) -> None:
    query_set = make_columns(["yes_no", "choice", "number"])
    rows, model = make_rows(query_set, 20, seed, missing), make_vip(query_set, seed=seed)
    found = evaluate(model, rows, Budget(2), cut)
    longest = len(query_set) if cut is None else cut
    chains = explain(model, rows.x, rows.available)
    for n in range(longest + 1):
        beliefs = [[chain.prior, *(step.posterior for step in chain.steps)] for chain in chains]
        posteriors = torch.stack([of_chain[: n + 1][-1] for of_chain in beliefs])
        best = posteriors.max(dim=1)
        right = (best.indices == rows.y).double()
        bins = bin_of(best.values.double())
        gaps = [float((best.values.double() - right)[bins == place].sum()) for place in range(N_BINS)]
        assert found.confidence_by_asked[n] == pytest.approx(float(best.values.mean()), abs=1e-6)
        assert found.calibration_error_by_asked[n] == pytest.approx(sum(map(abs, gaps)) / 20, abs=1e-6)
        truth = torch.nn.functional.one_hot(rows.y, posteriors.shape[1])
        assert found.brier_by_asked[n] == pytest.approx(float(((posteriors - truth) ** 2).sum(dim=1).mean()), abs=1e-6)
    if cut is None:
        assert found.at_stop is not None
        assert found.at_stop.brier == pytest.approx(found.brier_by_asked[2], abs=1e-9)
        assert found.at_stop.calibration_error == pytest.approx(found.calibration_error_by_asked[2], abs=1e-9)


def test_counts_of_parts_are_those_of_all_rows_bit_for_bit() -> None:
    query_set = make_columns(["yes_no", "choice", "number", "yes_no"])
    rows, model = make_rows(query_set, 60, 1, 0.2), make_vip(query_set, seed=1)
    setting = Setting.of(model, Confidence(0.6), None, [Budget(1)], in_detail=True)
    whole = evaluation_counts(model, rows, setting, batch_rows=10, with_bits=True)
    parts = [
        evaluation_counts(model, rows.take(slice(start, start + 20)), setting, batch_rows=10, with_bits=True)
        for start in (40, 0, 20)
    ]
    together = parts[0] + parts[1] + parts[2]
    assert setting.evaluation(together).to_dict() == setting.evaluation(whole).to_dict()
    assert setting.evaluation(whole) == evaluate(
        model, rows, Confidence(0.6), trade_off=[Budget(1)], in_detail=True, with_bits=True, batch_rows=10
    )


def test_equal_rows_that_are_merged_count_as_all_of_them() -> None:
    query_set = make_columns(["yes_no", "choice", "yes_no"])
    rows, model = make_rows(query_set, 500, 1, 0.2), make_vip(query_set, seed=1)
    merged = Rows.joined([rows.take(slice(0, 200)), Rows.joined([rows.take(slice(200, None))])])
    assert len(merged) < 200
    assert int(merged.counts.sum()) == 500
    setting = Setting.of(model, Confidence(0.6), None, [Budget(1)], in_detail=True)
    found, expected = (
        evaluation_counts(model, each, setting, batch_rows=1000, with_bits=True).tensors() for each in (merged, rows)
    )
    for name, tensor in expected.items():  # beliefs, in parts of 2**-30, may differ in their last digit
        assert torch.allclose(found[name].double(), tensor.double(), rtol=1e-6, atol=500), name
    for name in ("n_rows", "right_with_all", "by_asked.right", "by_answered", "by_cost", "confusion", "asked_by_class"):
        assert torch.equal(found[name], expected[name]), name


@pytest.mark.parametrize(
    ("n_right", "n", "low", "high"),
    [
        (50, 100, 0.40383, 0.59617),
        (9, 10, 0.59585, 0.98212),
        (0, 10, 0.0, 0.27753),
        (10, 10, 0.72247, 1.0),
        (850, 1000, 0.82654, 0.87080),
    ],
)
def test_intervals_are_those_of_wilson(n_right: int, n: int, low: float, high: float) -> None:
    assert accuracy_interval(n_right, n) == pytest.approx((low, high), abs=1e-4)


@given(share=st.floats(0, 1), n=st.integers(1, 10**6))
def test_intervals_lie_around_the_accuracy(share: float, n: int) -> None:
    n_right = round(share * n)
    low, high = accuracy_interval(n_right, n)
    assert 0 <= low <= n_right / n + 1e-12
    assert n_right / n - 1e-12 <= high <= 1
    assert high - low <= 2 * 1.96 * 0.5 / n**0.5


def test_one_seed_has_the_interval_of_its_rows() -> None:
    assert seeds_and_rows_interval([0.85], 1000) == accuracy_interval(850, 1000)


def test_seeds_that_agree_leave_open_what_the_rows_do() -> None:
    assert seeds_and_rows_interval([0.7, 0.7, 0.7], 100) == pytest.approx(accuracy_interval(70, 100))


def test_with_rows_without_end_only_seeds_are_left() -> None:
    low, high = seeds_and_rows_interval([0.7, 0.8, 0.9], 10**9)
    # Student's t with two degrees of freedom is 4.3027; the standard error is 0.1 / sqrt(3).
    assert (low, high) == pytest.approx((0.8 - 0.24841, 1.0), abs=1e-4)
    low, high = seeds_and_rows_interval([0.5, 0.6, 0.7], 10**9)
    assert (low, high) == pytest.approx((0.6 - 0.24841, 0.6 + 0.24841), abs=1e-4)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.integers(20, 500))
def test_it_holds_what_either_part_holds(accuracies: list[float], n_rows: int) -> None:
    low, high = seeds_and_rows_interval(accuracies, n_rows)
    mean = sum(accuracies) / len(accuracies)
    by_rows = accuracy_interval(round(mean * n_rows), n_rows)
    assert 0 <= low <= by_rows[0] + 1e-9
    assert by_rows[1] - 1e-9 <= high <= 1


@pytest.mark.parametrize(
    ("n_rows", "between_seeds"), [(104, 0.03), (142, 0.0), pytest.param(2000, 0.02, marks=pytest.mark.slow)]
)
def test_it_covers_what_it_says(n_rows: int, between_seeds: float) -> None:
    """Trainings differ by a number of their own, rows by how hard they are; all seeds have the same rows."""
    randomness, truth, n_times, n_seeds = np.random.default_rng(0), 0.75, 300, 5
    covered = 0
    for _ in range(n_times):
        is_hard = randomness.random(n_rows) < 0.5
        of_seeds = randomness.normal(0, between_seeds, (n_seeds, 1))
        chance = np.where(is_hard, truth - 0.2, truth + 0.2) + of_seeds
        accuracies = (randomness.random((n_seeds, n_rows)) < chance).mean(axis=1).tolist()
        low, high = seeds_and_rows_interval(accuracies, n_rows)
        covered += low <= truth <= high
    assert covered / n_times >= 0.94
