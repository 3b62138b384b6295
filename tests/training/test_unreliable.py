"""Answers that are withheld or wrong."""

from typing import Any

import pytest
import torch

from pursuit import ColumnQueries, yes_no
from pursuit.queries import PatchQueries
from pursuit.registry import from_config, to_config
from pursuit.training.rows import ChangedRows, Rows, Unreliable, answer_features, unreliable
from untrained import make_columns, make_rows


def made(n: int = 4000) -> tuple[Any, Rows]:
    query_set = make_columns(["yes_no", "choice", "number"])
    return query_set, make_rows(query_set, n, 0)


def test_answers_are_withheld_and_wrong_as_often_as_is_said() -> None:
    query_set, rows = made()
    features = answer_features(query_set, torch.device("cpu"))
    found = Unreliable(0.2, 0.1)(rows, features, torch.Generator().manual_seed(1))
    withheld = (rows.available & ~found.available).float().mean(dim=0)
    assert withheld.tolist() == pytest.approx([0.2] * 3, abs=0.03)
    yes_no = query_set.own_inputs.features(0)
    assert float((found.x[:, yes_no] == -rows.x[:, yes_no]).float().mean()) == pytest.approx(0.1, abs=0.02)
    number = query_set.own_inputs.features(2)
    changed = found.x[:, number] != rows.x[:, number]
    assert float(changed.float().mean()) == pytest.approx(0.1, abs=0.02)
    assert torch.equal(found.x[:, number][changed], rows.x.roll(1, dims=0)[:, number][changed])
    # A choice stays one choice.
    choice = query_set.own_inputs.features(1)
    assert torch.equal(found.x[:, choice].sort(dim=1).values, rows.x[:, choice].sort(dim=1).values)
    assert torch.equal(found.y, rows.y)


def test_nothing_changes_at_rates_of_zero_nor_what_is_initially_known() -> None:
    query_set, rows = made(100)
    features = answer_features(query_set, torch.device("cpu"))
    generator = torch.Generator().manual_seed(1)
    same = Unreliable(0.0, 0.0)(rows, features, generator)
    assert torch.equal(same.x, rows.x)
    assert torch.equal(same.available, rows.available)
    known = torch.zeros_like(rows.available)
    known[:, 0] = True
    given = Unreliable(0.9, 0.9)(
        Rows(rows.x, rows.available, rows.y, initially_known=known), features, torch.Generator().manual_seed(1)
    )
    assert torch.equal(given.x[:, query_set.own_inputs.features(0)], rows.x[:, query_set.own_inputs.features(0)])
    assert given.available[:, 0].all()
    assert not given.available[:, 1:].all()


def test_a_stream_draws_mistakes_again_and_follows_from_its_generator() -> None:
    query_set, rows = made(8)

    def stream() -> ChangedRows:
        generator = torch.Generator().manual_seed(3)
        return unreliable(rows.stream(generator), Unreliable(0.3, 0.3), query_set, generator)

    first, again = stream(), stream()
    drawn = [first.next(8) for _ in range(3)]
    assert all(torch.equal(one.x, again.next(8).x) for one in drawn)
    assert not torch.equal(drawn[0].available, drawn[1].available)
    assert stream().next(0).x.shape[0] == 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        Unreliable(1.0, 0.0)
    with pytest.raises(ValueError, match="leave unreliable out"):
        answer_features(PatchQueries((1, 4, 4), size=2, stride=1, low=0, high=1), torch.device("cpu"))


def test_some_questions_are_answered_less_reliably_than_others() -> None:
    query_set = ColumnQueries([yes_no("a"), yes_no("b"), yes_no("c")])
    rows = Rows(torch.ones(4000, 3), torch.ones(4000, 3, dtype=torch.bool), torch.zeros(4000, dtype=torch.long))
    settings = Unreliable(0.0, 0.1, {"b": (0.3, 0.0), "c": (0.0, 0.5)})
    generator = torch.Generator().manual_seed(0)
    found = unreliable(rows.stream(generator), settings, query_set, generator).take(4000)
    assert (found.x < 0).float().mean(dim=0).tolist() == pytest.approx([0.1, 0.0, 0.5], abs=0.03)
    assert (~found.available).float().mean(dim=0).tolist() == pytest.approx([0.0, 0.3, 0.0], abs=0.03)
    assert from_config(to_config(settings)) == settings
    with pytest.raises(ValueError, match="Nothing is asked about 'd'"):
        Unreliable(by_question={"d": (0.1, 0.1)}).rates(query_set, torch.device("cpu"))
    with pytest.raises(ValueError, match="not 0 and 1"):
        Unreliable(by_question={"a": (0, 1)})
