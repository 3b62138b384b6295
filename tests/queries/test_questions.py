"""A questions file and a query set: the file changes what it names, says what does not fit, and comes back out."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ordered import clinic, clinic_queries
from pursuit.queries import Choice, ColumnQueries, Group, Number, OnlyAfter, Questions, WordQueries, yes_no
from pursuit.queries.questions import parse

TABLE = pd.DataFrame(
    {
        "fever": [0, 1, 0, 1],
        "where": ["head", "belly", "leg", None],
        "temp": [36.5, 38.0, 41.0, 37.0],
        "pulse": [60, 70, 80, 95],
        "note": ["a", "b", "c", "d"],
    }
)
FILE = """
[questions]
pulse = "How fast is your pulse?"
[questions.fever]
text = "Do you have a fever?"
help = "Above 38 degrees."
choices = { "1" = "yep", "0" = "nope" }
cost = 2
[questions.where]
choices = ["leg", "belly", "head"]
only_after = { fever = 1 }
[questions.temp]
unit = "°C"
range = [34, 43]
only_after = { fever = ["yep", "0"], where = [] }
[questions.note]
ask = "never"
[groups]
vitals = ["temp", "pulse"]
"""


def asked(text: str, table: pd.DataFrame = TABLE) -> ColumnQueries:
    return ColumnQueries.from_data(table, questions=parse(text))


def test_a_file_changes_what_it_names() -> None:
    query_set = asked(FILE)
    fever, where, temp, pulse = query_set.queries
    assert (fever.text, fever.help, fever.cost) == ("Do you have a fever?", "Above 38 degrees.", 2)
    assert isinstance(fever, Choice)
    assert (fever.choices, fever.values) == (("yep", "nope"), (1, 0))
    assert isinstance(where, Choice)
    assert where.choices == where.values == ("leg", "belly", "head")
    assert isinstance(temp, Number)
    assert (temp.unit, temp.low, temp.high) == ("°C", 34, 43)
    assert (pulse.text, pulse.cost) == ("How fast is your pulse?", 1)
    assert query_set.order is not None
    assert query_set.order.only_after == (
        OnlyAfter("where", "fever", ("yep",)),  # written as in the data, kept in the words of the file
        OnlyAfter("temp", "fever", ("yep", "nope")),
        OnlyAfter("temp", "where"),
    )
    assert query_set.order.groups == (Group("vitals", ("temp", "pulse")),)
    x, available = query_set.answers(TABLE)
    assert [query_set.describe(0, row) for row in x] == ["nope", "yep", "nope", "yep"]
    assert [query_set.describe(1, row) for row in x[:3]] == ["head", "belly", "leg"]
    assert query_set.describe(2, x[2]) == "41 °C"
    assert available[:, 0].all()


def test_a_file_that_says_nothing_changes_nothing() -> None:
    plain = ColumnQueries.from_data(TABLE)
    assert asked("").to_config() == plain.to_config()
    assert plain.order is None


def test_texts_and_costs_given_in_python_are_for_what_the_file_does_not_say() -> None:
    texts, costs = {"fever": "Hot?", "pulse": "Fast?"}, {"fever": 9.0, "pulse": 7.0}
    query_set = ColumnQueries.from_data(TABLE, texts, costs, questions=parse("[questions.fever]\ntext = 'Warm?'"))
    assert [query.text for query in query_set.queries][0:4:3] == ["Warm?", "Fast?"]
    assert [query.cost for query in query_set.queries] == [9, 1, 1, 7, 1]


def test_a_person_answers_within_the_range_and_with_the_unit() -> None:
    query_set, x = asked(FILE), None
    for answer in ("38.5", "38.5 °C", "38.5°C", 38.5, 34, 43):
        x = query_set.blank()
        query_set.tell(x[0], 2, answer)
        assert query_set.describe(2, x[0]) == f"{float(str(answer).removesuffix('°C')):g} °C"
    assert x is not None
    before = x.clone()
    for answer in (385, "12", "43.1 °C"):
        with pytest.raises(ValueError, match=r"The answer to 'temp\?' is 34 to 43 °C, not "):
            query_set.tell(x[0], 2, answer)
    assert torch.equal(x, before)
    with pytest.raises(ValueError, match="is a number, not 'hot °C'"):
        query_set.tell(x[0], 2, "hot °C")


def test_a_number_beyond_the_range_is_unknown_in_a_table() -> None:
    table = TABLE.assign(temp=[36.5, 380.0, 41.0, None])
    query_set = asked(FILE, TABLE)
    with pytest.warns(UserWarning, match="380"):
        _, available = query_set.answers(table)
    assert available[:, 2].tolist() == [True, False, True, False]
    with pytest.raises(ValueError, match=r"holds 380\.0, but 34 to 43 °C is expected"):
        query_set.with_options(unknown="error").answers(table)


def test_a_kind_says_how_a_column_is_read() -> None:
    table = TABLE.assign(born=["1990-01-31", "2001-05-05", "1985-12-24", "1970-01-02"])
    text = """
    [questions.pulse]
    type = "choice"
    choices = { 60 = "slow", 70 = "calm", 80 = "quick", 95 = "fast" }
    [questions.born]
    type = "date"
    [questions.note]
    type = "skip"
    """
    query_set = asked(text, table)
    assert query_set.queries[3].choices == ("slow", "calm", "quick", "fast")
    assert query_set.queries[4].expected == "1970-01-01 to 2001-12-31"
    assert "note" not in query_set.index_of
    assert "# range" not in Questions.draft(query_set).split("[questions.born]")[1]
    with pytest.raises(ValueError, match="range of 'born' does not fit, because the column is a date"):
        asked(text.replace('type = "date"', 'type = "date"\n    range = [1, 2]'), table)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[questions.fevr]", "There is no column 'fevr' to ask for. Did you mean 'fever'?"),
        ("[questions.zzz]", "There is no column 'zzz' to ask for. Columns are fever, where, temp, pulse, note."),
        ("[questions.fevr]\nask = 'never'", "There is no column 'fevr' to ask for. Did you mean 'fever'?"),
        ("[questions.temp]\nchoices = ['1']", "choices of 'temp' does not fit, because the column is a number"),
        ("[questions.where]\nunit = 'm'", "unit of 'where' does not fit, because the column is not a number."),
        ("[questions.where]\nrange = [1, 2]", "range of 'where' does not fit"),
        ("[questions.where]\ntype = 'number'", "type of 'where' does not fit"),
        (
            "[questions.where]\nchoices = { hea = 'Head', belly = 'Belly', leg = 'Leg' }",
            "'hea' is a choice of 'where', but not a value in the column. Did you mean 'head'?",
        ),
        ("[questions.where]\nchoices = ['zz', 'head']", "It holds belly, head, leg."),
        ("[questions.where]\nchoices = ['head', 'leg']", "The column 'where' also holds belly: add that"),
        ("[questions.where]\nchoices = ['head', 'leg', 'belly', 'HEAD']", "'head' of 'where'"),
        (
            "[questions.fever]\nchoices = { 0 = 'perhaps', 1 = 'perhaps' }",
            "Two choices of 'fever' are worded 'perhaps': nobody could tell them apart.",
        ),
        ("[questions.fever]\nonly_after = 'tmp'", "There is no query 'tmp' to ask 'fever' after. Did you mean 'temp'?"),
        ("[questions.fever]\nonly_after = { where = 'arm' }", "'where' was answered 'arm', but its choices are"),
        (
            "[questions.fever]\nonly_after = 'note'\n[questions.note]\nask = 'never'",
            "There is no query 'note' to ask 'fever' after. Is it left out, or never asked?",
        ),
        ("[questions.fever]\nonly_after = 'temp'\n[questions.temp]\nonly_after = 'fever'", "fever -> temp -> fever"),
        ("[groups]\nvitals = ['temp']", "The group 'vitals' is asked together, so it needs at least two queries."),
        (
            "[questions.temp]\ncost = 2\n[groups]\nvitals = { columns = ['temp', 'pulse'], cost = 3 }",
            "'temp' has a cost of its own, and is in the group 'vitals'",
        ),
        ("[groups]\nvitals = { columns = ['temp', 'pulse'], cots = 3 }", "'cots' is not a key of groups.vitals."),
        ("[groups]\nvitals = { columns = ['temp', 'pulse'], cost = -3 }", "groups.vitals.cost is a number of at least"),
        ("[groups]\nvitals = { columns = 'temp' }", "groups.vitals.columns is a list of names of columns"),
        ("".join(f"[questions.{name}]\nask = 'never'\n" for name in TABLE), "Every column is never asked"),
    ],
)
def test_what_does_not_fit_the_table_is_said(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        Questions.read(path).apply(ColumnQueries.from_data(TABLE))
    assert str(error.value).startswith(f"{path}: ")


def test_the_cost_of_a_group_is_that_of_all_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    path.write_text("[questions]\ntemp = 'How hot?'\n[groups]\nvitals = { columns = ['temp', 'pulse'], cost = 3 }")
    query_set = Questions.read(path).apply(ColumnQueries.from_data(TABLE))
    costs = {query.name: query.cost for query in query_set.queries}
    assert (costs.pop("temp"), costs.pop("pulse"), set(costs.values())) == (1.5, 1.5, {1.0})
    assert query_set.queries[query_set.index_of["temp"]].text == "How hot?"
    path.write_text(Questions.of(query_set).to_toml())
    again = Questions.read(path).apply(ColumnQueries.from_data(TABLE))
    assert again.to_config() == query_set.to_config()


def test_values_may_be_written_as_they_look_in_the_file() -> None:
    table = pd.DataFrame({"smokes": [True, False, True], "level": [1, 0, 1], "done": ["Y", "N", "Y"]})
    text = """
    [questions]
    smokes.choices = { False = "never", True = "often" }
    level.choices = { 1.0 = "high", 0 = "low" }
    done.choices = ["n", "y"]
    """
    smokes, level, done = asked(text.replace("1.0", '"1.0"'), table).queries
    assert (smokes.choices, level.choices, done.choices) == (("never", "often"), ("high", "low"), ("N", "Y"))
    assert isinstance(smokes, Choice)
    assert isinstance(level, Choice)
    assert (smokes.values, level.values) == ((0, 1), (1, 0))


def test_columns_that_were_left_out_may_be_named() -> None:
    questions = parse("[questions.empty]\ntext = 'Nothing?'\n[questions.fever]\ntext = 'Hot?'")
    query_set = questions.apply(ColumnQueries.from_data(TABLE), left_out=["empty"])
    assert query_set.queries[0].text == "Hot?"


def test_only_tables_have_questions_files() -> None:
    with pytest.raises(ValueError, match="is for the columns of a table"):
        parse("").apply(WordQueries([yes_no("rain"), yes_no("sun")]))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "There is no questions file"), (b"\xff\xfe\x00", "is not UTF-8 text"), (b"[", "This is not TOML")],
)
def test_a_file_that_cannot_be_read(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match=message):
        Questions.read(path)
    with pytest.raises(ValueError, match="is a folder"):
        Questions.read(tmp_path)


def test_a_byte_order_mark_and_windows_lines_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    path.write_bytes(b"\xef\xbb\xbf[questions.fever]\r\ntext = 'Hot?'\r\n")
    assert Questions.read(path).settings[0].text == "Hot?"
    assert Questions.read(str(path)) == Questions.read(path)


QUESTION = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
        "help": st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        "cost": st.floats(0, 1e6),
    },
)


@given(changes=st.lists(QUESTION, min_size=7, max_size=7), has_order=st.booleans())
def test_a_query_set_comes_back_from_what_it_says(changes: list[dict[str, Any]], has_order: bool) -> None:
    config = clinic_queries().to_config()
    columns = [{**column, **change} for column, change in zip(config["columns"], changes, strict=True)]
    query_set = ColumnQueries.from_config({**config, "columns": columns, **({} if has_order else {"order": None})})
    questions = Questions.of(query_set)
    assert parse(questions.to_toml()) == questions
    assert parse(Questions.draft(query_set)) == questions
    again = ColumnQueries.from_data(clinic()[0], questions=parse(questions.to_toml()))
    assert again.to_config() == query_set.to_config()


def test_a_draft_has_columns_that_are_never_asked() -> None:
    text = Questions.draft(ColumnQueries.from_data(TABLE), never_asked=["id"])
    assert parse(text).never_asked == ("id",)
    assert "# range = [36, 41]" in text
    assert parse("[questions.a]\ntype = 'skip'\n[questions.b]\ntype = 'date'").column_types == {"b": "date"}
    assert parse("[questions.a]\ntype = 'skip'").never_asked == ("a",)
