"""How often each confidence is right."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pursuit.data.rows import Rows
from pursuit.evaluation.calibration import N_BINS, bin_of, reliability
from pursuit.evaluation.curves import Setting, evaluate, evaluation_sums
from pursuit.evaluation.sums import stop_sums
from pursuit.inference.chain import explain
from pursuit.inference.stopping import Budget, Confidence


def test_rows_are_counted_by_their_confidence() -> None:
    confidence = torch.tensor([0.95, 1.0, 0.91, 0.42, 0.48])
    at_stops = torch.zeros(1, 5, 11)
    at_stops[0, :, 4], at_stops[0, :, 3] = confidence, torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0])
    bins = reliability(stop_sums(at_stops, torch.ones(5, dtype=torch.long))[1][0])
    assert [(one.low, one.high, one.n_rows) for one in bins] == [(0.4, 0.5, 2), (0.9, 1.0, 3)]
    assert [one.accuracy for one in bins] == pytest.approx([1 / 2, 2 / 3])
    assert [one.confidence for one in bins] == pytest.approx([0.45, (0.95 + 1 + 0.91) / 3])
    assert all(one.accuracy_interval[0] < one.accuracy < one.accuracy_interval[1] for one in bins)


def test_certainty_is_in_the_last_bin() -> None:
    assert bin_of(torch.tensor([0.0, 0.5, 1.0])).tolist() == [0, 5, 9]


@given(seed=st.integers(0, 1000), missing=st.sampled_from([0.0, 0.4]), cut=st.sampled_from([None, 1]))
def test_trust_by_step_is_that_of_the_chains(
    make_columns: Any, make_rows: Any, make_vip: Any, seed: int, missing: float, cut: int | None
) -> None:
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


def test_sums_of_parts_are_those_of_all_rows_bit_for_bit(make_columns: Any, make_rows: Any, make_vip: Any) -> None:
    query_set = make_columns(["yes_no", "choice", "number", "yes_no"])
    rows, model = make_rows(query_set, 60, 1, 0.2), make_vip(query_set, seed=1)
    setting = Setting.of(model, Confidence(0.6), None, [Budget(1)], in_detail=True)
    whole = evaluation_sums(model, rows, setting, batch_rows=10, with_bits=True)
    parts = [
        evaluation_sums(model, rows.take(slice(start, start + 20)), setting, batch_rows=10, with_bits=True)
        for start in (40, 0, 20)
    ]
    together = parts[0] + parts[1] + parts[2]
    assert setting.evaluation(together).to_dict() == setting.evaluation(whole).to_dict()
    assert setting.evaluation(whole) == evaluate(
        model, rows, Confidence(0.6), trade_off=[Budget(1)], in_detail=True, with_bits=True, batch_rows=10
    )


def test_equal_rows_that_are_merged_count_as_all_of_them(make_columns: Any, make_rows: Any, make_vip: Any) -> None:
    query_set = make_columns(["yes_no", "choice", "yes_no"])
    rows, model = make_rows(query_set, 500, 1, 0.2), make_vip(query_set, seed=1)
    merged = Rows.joined([rows.take(slice(0, 200)), Rows.joined([rows.take(slice(200, None))])])
    assert len(merged) < 200
    assert int(merged.counts.sum()) == 500
    setting = Setting.of(model, Confidence(0.6), None, [Budget(1)], in_detail=True)
    found, expected = (
        evaluation_sums(model, each, setting, batch_rows=1000, with_bits=True).tensors() for each in (merged, rows)
    )
    for name, tensor in expected.items():  # beliefs, in parts of 2**-30, may differ in their last digit
        assert torch.allclose(found[name].double(), tensor.double(), rtol=1e-6, atol=500), name
    for name in ("n_rows", "right_with_all", "curves", "confusion", "asked_by_class"):
        assert torch.equal(found[name], expected[name]), name
