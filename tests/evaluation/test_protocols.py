"""Protocols: the same chains cut and counted in several ways, at a confidence chosen on other rows."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit.evaluation import protocols
from pursuit.evaluation.curves import evaluate
from pursuit.evaluation.protocols import AtProtocol, Protocol, measure_protocols
from pursuit.inference.chain import explain
from pursuit.inference.history import History
from pursuit.inference.stopping import Budget, Confidence, StoppingRule
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training.rows import Rows
from strategies import SEEDS
from untrained import make_columns, make_rows, make_vip

NO_CAP, AT_MOST_3, UNSEEN = Protocol("no cap"), Protocol("at most 3", 3), Protocol("released", 3, counts_unseen=True)


class Scripted:
    """Asks in order; its confidence in label 0 after n answers is in a table, by the first answer of the row."""

    def __init__(self, confidence: dict[float, list[float]]):
        self.confidence, self.n_asked = confidence, 0
        n_queries = len(next(iter(confidence.values()))) - 1
        self.query_set, self.classes = ColumnQueries([yes_no(f"q{i}") for i in range(n_queries)]), [0, 1]

    def scores(self, history: History) -> Tensor:
        self.n_asked += len(history)
        return -torch.arange(len(self.query_set)).float().expand(len(history), -1)

    def log_posterior(self, history: History) -> Tensor:
        kinds, n = history.x[:, 0].tolist(), history.asked.sum(dim=1).tolist()
        sure = torch.tensor([self.confidence[kind][k] for kind, k in zip(kinds, n, strict=True)])
        return torch.stack([sure, 1 - sure], dim=1).log()


QUICK, SLOW = [0.5, 0.91, 0.95, 0.97, 0.99], [0.5, 0.45, 0.6, 0.3, 0.92]


def rows_of(n_quick: int, n_slow: int, y: int = 0) -> Rows:
    first = torch.tensor([1.0] * n_quick + [-1.0] * n_slow)
    x = torch.stack([first, *torch.ones(3, len(first))], dim=1)
    return Rows(x, torch.ones_like(x, dtype=torch.bool), torch.full((len(x),), y))


def test_a_confidence_is_chosen_on_held_out_rows_and_measured_on_others() -> None:
    pursuer = Scripted({1.0: QUICK, -1.0: SLOW})
    # Held out, half of the rows are quick: (1 + 4) / 2 queries at 0.91, (1 + 2) / 2 at 0.6. The others are all slow.
    (found,) = measure_protocols(pursuer, rows_of(5, 5), rows_of(0, 4), [NO_CAP], wanted=2.4)
    assert 0.7 < found.level <= 0.91  # the belief of slow rows turns to 0.7 for the other label at the third answer
    assert (found.mean_held_out, found.n_held_out, found.wanted) == (2.5, 10, 2.4)
    assert (found.mean_counted, found.accuracy, found.cut_short) == (4.0, 1.0, 0.0)
    (found,) = measure_protocols(pursuer, rows_of(5, 5), rows_of(0, 4), [NO_CAP], wanted=1.4)
    assert 0.55 < found.level <= 0.6
    assert (found.mean_held_out, found.mean_counted, found.accuracy) == (1.5, 2.0, 1.0)


def test_protocols_cut_and_count_the_same_chains() -> None:
    pursuer = Scripted({1.0: QUICK, -1.0: SLOW})
    no_cap, at_most_3 = measure_protocols(pursuer, rows_of(5, 5), rows_of(1, 3), [NO_CAP, AT_MOST_3], wanted=2.0)
    assert no_cap.mean_counted == (1 + 3 * 3) / 4  # 0.7 is reached with the third answer, for the wrong label
    assert (no_cap.accuracy, no_cap.cut_short) == (0.25, 0)
    assert at_most_3.mean_counted == (1 + 3 * 3) / 4
    assert at_most_3.mean_held_out == 2.0
    # Three are counted, two are known: the cap has slow rows stop before the third answer misleads them.
    (unseen,) = measure_protocols(pursuer, rows_of(5, 5), rows_of(1, 3), [UNSEEN], wanted=2.5)
    assert (unseen.mean_held_out, unseen.mean_counted) == (2.5, (2 + 3 * 3) / 4)
    assert (unseen.accuracy, unseen.cut_short) == (1.0, 0.75)
    assert [protocol.most_known for protocol in (NO_CAP, AT_MOST_3, UNSEEN)] == [None, 3, 2]


def test_a_cap_that_stops_rows_is_said() -> None:
    pursuer = Scripted({1.0: QUICK, -1.0: [0.5, 0.5, 0.5, 0.5, 0.6]})
    found = measure_protocols(pursuer, rows_of(1, 1), rows_of(1, 1), [AT_MOST_3, NO_CAP], wanted=9)
    assert [one.cut_short for one in found] == [1.0, 1.0]  # so many are never asked: everything is
    assert [one.mean_counted for one in found] == [3.0, 4.0]
    assert [0.95 < one.level < limit for one, limit in zip(found, (1.0, protocols.HIGHEST), strict=True)] == [True] * 2


def test_rows_leave_once_no_protocol_needs_them() -> None:
    long = [0.5, 0.999, *[0.999] * 38]
    pursuer = Scripted({1.0: long, -1.0: long})
    x = torch.ones(6, 39)
    rows = Rows(x, torch.ones_like(x, dtype=torch.bool), torch.zeros(6, dtype=torch.long))
    measure_protocols(pursuer, rows, rows, [Protocol("at most 4", 4)], wanted=1.0)
    assert pursuer.n_asked == 2 * 6 * 4  # both sets of rows, to the cap and no further
    pursuer.n_asked = 0
    measure_protocols(pursuer, rows, rows, [Protocol("at most 4", 4), NO_CAP], wanted=1.0)
    assert pursuer.n_asked == 6 * 39 + 6 * 4  # never sure enough held out; the level chosen is reached at once


def test_rows_are_needed() -> None:
    pursuer = Scripted({1.0: QUICK})
    with pytest.raises(ValueError, match="rows to choose the confidence on"):
        measure_protocols(pursuer, rows_of(0, 0), rows_of(1, 0), [NO_CAP], wanted=2)


@given(seed=SEEDS, missing=st.sampled_from([0.0, 0.4]), known_share=st.sampled_from([0.0, 0.4]))
def test_a_protocol_is_a_stopping_rule(seed: int, missing: float, known_share: float) -> None:
    query_set = make_columns(["yes_no", "choice", "number", "yes_no"])
    rows, model = make_rows(query_set, 30, seed, missing, known_share), make_vip(query_set, seed=seed)
    protocols_here = (NO_CAP, AT_MOST_3, UNSEEN)
    found = measure_protocols(model, rows, rows, protocols_here, wanted=2.2)
    for protocol, one in zip(protocols_here, found, strict=True):
        rule: StoppingRule = Confidence(one.level)
        rule = rule if protocol.most_known is None else rule | Budget(protocol.most_known)
        at_stop = evaluate(model, rows, rule).at_stop
        assert at_stop is not None
        assert one == AtProtocol(
            name=protocol.name,
            level=one.level,
            wanted=2.2,
            mean_held_out=pytest.approx(at_stop.mean_asked + protocol.counts_unseen),
            n_held_out=30,
            mean_counted=pytest.approx(at_stop.mean_asked + protocol.counts_unseen),
            accuracy=pytest.approx(at_stop.accuracy),
            cut_short=one.cut_short,
        )
        chains = explain(model, rows.x, rows.available, rule, rows.initially_known)
        final = [float((chain.steps[-1].posterior if chain.steps else chain.prior).max()) for chain in chains]
        assert one.cut_short == pytest.approx(sum(p < one.level for p in final) / 30)
