"""The questions file of docs/tables.md is one: it reads, fits a table, and names every key there is."""

import re
from pathlib import Path

import pytest

from ordered import clinic
from pursuit.queries import ColumnQueries, Questions
from pursuit.queries.questions import INTERVIEW_KEYS, KEYS, RESULT_KEYS

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")


def test_the_example_is_asked_as_it_says(tmp_path: Path) -> None:
    example, *_ = re.findall(r"^```toml\n(.*?)^```", PAGE, flags=re.M | re.S)
    (tmp_path / "questions.toml").write_text(example, encoding="utf-8")
    query_set = ColumnQueries.from_data(clinic()[0], questions=tmp_path / "questions.toml")
    assert query_set.order is not None
    assert query_set.order.beforehand == ("sex",)
    assert [condition.answers for condition in query_set.order.only_after] == [("woman",), ("yes",), ()]
    assert query_set.queries[query_set.index_of["scan"]].cost == 20
    assert Questions.of(query_set).groups[0].queries == ("pulse", "pressure")


@pytest.mark.parametrize("key", [*KEYS, *INTERVIEW_KEYS, *RESULT_KEYS])
def test_the_page_explains_every_key(key: str) -> None:
    assert f"\n| `{key}` |" in PAGE
