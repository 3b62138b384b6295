"""CSV files are read as they were meant, and what is wrong with one is told with its line."""

import csv
import io
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pursuit.queries import ColumnQueries
from pursuit.queries.column import Number
from pursuit.queries.reading import read_column
from pursuit.tables.csv import (
    SEPARATORS,
    CsvOptions,
    CsvTable,
    _find_layout,
    find_text,
    has_decimal_comma,
    plainly_written,
    read_csv,
    with_points,
    without_unit,
)


def table_of(path: Path, text: str, **options: object) -> CsvTable:
    path.write_bytes(text.encode())
    return read_csv(path, CsvOptions(**options))  # type: ignore[arg-type]


def values(table: CsvTable) -> dict[str, list]:
    return {name: table.frame[name].tolist() for name in table.frame.columns}


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_usual_separator_end_of_line_mark_and_spaces(tmp_path: Path, separator: str, end: str) -> None:
    lines = [" size", "label "], ["1", " a"], ["2", " b "], ["3", "  "]
    table = table_of(tmp_path / "t.csv", "\ufeff" + end.join(separator.join(line) for line in lines))
    assert table.frame.columns.tolist() == ["size", "label"]
    assert table.frame["size"].tolist() == [1, 2, 3]
    assert table.frame["label"].tolist()[:2] == ["a", "b"]
    assert pd.isna(table.frame["label"][2])
    assert table.lines == [2, 3, 4]


words = st.text(st.sampled_from("abz ÄÖ,;|\t\"'\n."), max_size=8).map(lambda word: f"w{word}e")
"""Texts that need quotation marks, and are never numbers, missing, or cut by stripping."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    separator=st.sampled_from(SEPARATORS),
    rows=st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(words, min_size=n, max_size=n), min_size=2, max_size=6).filter(
            lambda rows: len(set(rows[0])) == n
        )
    ),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_what_is_written_is_read(
    tmp_path: Path, separator: str, rows: list[list[str]], quoting: int, encoding: str
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    (tmp_path / "t.csv").write_bytes(text.getvalue().encode(encoding))
    table = read_csv(tmp_path / "t.csv")
    if table.layout.separator != separator:  # an unquoted text may divide all rows evenly too
        assert any(other in "".join(rows[0]) for other in SEPARATORS if other != separator)
        return
    assert [table.frame.columns.tolist(), *table.frame.to_numpy().tolist()] == rows
    # A row begins after the lines of those above it.
    starts = [1 + sum(1 + "".join(row).count("\n") for row in rows[:i]) for i in range(1, len(rows))]
    assert [table.line(row) for row in range(len(rows) - 1)] == starts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('"size, cm, all";"w;x";l\n1;2;3\n', ["size, cm, all", "w;x", "l"]),
        ("size, cm;weight;label\n1,5;2,5;x\n", ["size, cm", "weight", "label"]),
        ("a;b\n1,5;2,5\n3,5;4\n", ["a", "b"]),
        ("note,label\na;b;c;d,1\ne;f;g;h,2\n", ["note", "label"]),
        ("\n\na|b\n\n1|2\n", ["a", "b"]),
        ("sep=^\na^b\n1^2\n", ["a", "b"]),
        ("only\n1\n2\n", ["only"]),
        ("a,b,\n1,2,\n3,4,\n", ["a", "b"]),
        ('"a\nb",c\n1,2\n', ["a\nb", "c"]),
    ],
)
def test_the_header_line_is_found(tmp_path: Path, text: str, names: list[str]) -> None:
    assert table_of(tmp_path / "t.csv", text).frame.columns.tolist() == names


@pytest.mark.parametrize(
    ("text", "name", "column"),
    [
        ("price\n12,50\n1.234,00\n", "price", [12.5, 1234]),
        ("size, in cm\n5\n6\n", "size, in cm", [5, 6]),
        ("name\nSmith; John\nDoe\n", "name", ["Smith; John", "Doe"]),
        ("text\r\nHello, you\r\nno comma\r\n", "text", ["Hello, you", "no comma"]),
        ("colour, main\nred, big\nblue, small\n", "colour, main", ["red, big", "blue, small"]),
        ('colour\n"red, big"\ngreen\n', "colour", ["red, big", "green"]),
        ("a\n1,\n2,\n", "a", [1, 2]),
    ],
)
def test_a_single_column_may_hold_separators(tmp_path: Path, text: str, name: str, column: list) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode())
    assert values(read_csv(tmp_path / "t.csv", names=[name])) == {name: column}


def test_a_very_wide_header_line_is_divided(tmp_path: Path) -> None:
    names = [f"{'a very long name, ' * 10}of column {i}" for i in range(1500)]
    table = table_of(tmp_path / "t.csv", ";".join(names) + "\n" + ";".join("1" * 1500) + "\n")
    assert table.frame.columns.tolist() == names


def test_a_header_line_longer_than_what_is_looked_at_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pursuit.tables.csv.SNIFFED_CHARACTERS", 8)
    table = table_of(tmp_path / "t.csv", "first,second,third\n1,2,3,,\n4,5,6\n")
    assert values(table) == {"first": [1, 4], "second": [2, 5], "third": [3, 6]}


def test_columns_that_change_keep_their_places_among_many(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(400)]
    cells = ["1", "word", "word ", "3,5 €", "12 %", " "]
    rows = [[cells[i % len(cells)] for i in range(400)] for _ in range(3)]
    table = table_of(tmp_path / "t.csv", "\n".join(";".join(row) for row in [names, *rows]))
    assert list(table.frame.columns) == names
    first = [None if pd.isna(value) else value for value in table.frame.iloc[0]]
    assert first == [[1, "word", "word", 3.5, 12, None][i % len(cells)] for i in range(400)]
    assert table.units == {name: ["€", "%"][i % 6 - 3] for i, name in enumerate(names) if i % 6 in (3, 4)}


@pytest.mark.parametrize("text", ["a,b\n1,2,\n3,4,\n", "a,b\n1,2\n3,4,\n", "a,b\n1,2,,\n3,4\n"])
def test_separators_at_the_ends_of_lines_do_not_move_values(tmp_path: Path, text: str) -> None:
    assert values(table_of(tmp_path / "t.csv", text)) == {"a": [1, 3], "b": [2, 4]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: it needs a header line"),
        ("\n \n", "is empty: it needs a header line"),
        ("a,b\n", "has no rows below its header line"),
        ("a,b\n1,2\n\n3,4,5\n", "3 values in line 4, but only 2 names in its header line. Put quotation marks around"),
        ('a,b\n"x\ny",2\n3,4,5\n', "3 values in line 4"),
        ("a,b\n1,2,9\n3,4\n", "3 values in line 2"),
        ("a\tb\n1\t2\n3\t4\t5\n", "hold the separator 'tab'"),
        ("x,a,b, a\n1,2,3,4\n", r"more than one column 'a' \(columns 2 and 4\): give each a name of its own"),
        (f"{'x' * 70_000}\t{'x' * 70_000}\n1\t2\n", r"more than one column 'x{100}' \(columns 1 and 2\)"),
        ("1,1,0\n1,0,1\n", "If the first line is data, put a line with names above it"),
        ('a,b\n1,2\n3,"4\n5,6\n', "a quotation mark opened in the row of line 3 that is never closed"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table_of(tmp_path / "t.csv", text)


def test_short_rows_are_filled_up_and_counted(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t.csv", "a,b,c\n1,2,3\n4\n5,6,\n7,8\n")
    assert table.remarks == [
        "Warning: 2 rows have fewer values than the header line has names (the first in line 3); those absent count as "
        "missing."
    ]
    assert table.frame["b"].isna().tolist() == [False, True, False, False]
    (remark,) = table_of(tmp_path / "t.csv", "a,b\n1,2\n4\n").remarks
    assert "1 row has fewer values than the header line has names (line 3)" in remark
    assert table_of(tmp_path / "t.csv", "a,b\n1,\n4,2\n").remarks == []


def test_decimal_commas_are_guessed_and_said(tmp_path: Path) -> None:
    text = "a;b;c;d;e\n1,5;2;1.234,50;1.000;1,2\n-2,25;3;7;999;x\n,5;4;1e3;12.345;y\n"
    table = table_of(tmp_path / "t.csv", text)
    assert values(table) == {
        "a": [1.5, -2.25, 0.5],
        "b": [2, 3, 4],
        "c": [1234.5, 7, 1000],
        "d": [1000, 999, 12345],
        "e": ["1,2", "x", "y"],
    }
    assert table.remarks == ["12,5 is read as 12.5, as in a, c. If that is wrong, add --decimal ."]
    assert table_of(tmp_path / "t.csv", text, decimal=".").frame["a"].tolist() == ["1,5", "-2,25", ",5"]


@pytest.mark.parametrize("separator", [";", ",", "\t"])
def test_points_between_thousands_beside_decimal_commas(tmp_path: Path, separator: str) -> None:
    rows = [
        ["price", "income", "weight", "code"],
        ["€ 1.234,50", "55.000", "1.234", "12"],
        ["€ 12,00", "950", "2.5", "4711"],
        ["€ 0,99", "1.250.000", "3.125", "7"],
    ]
    text = "\n".join(separator.join(f'"{cell}"' for cell in row) for row in rows)
    table = table_of(tmp_path / "t.csv", f"{text}\n")
    assert table.frame["price"].tolist() == [1234.5, 12, 0.99]
    assert table.frame["income"].tolist() == [55000, 950, 1250000]
    assert table.frame["weight"].tolist() == [1.234, 2.5, 3.125]
    assert table.frame["code"].tolist() == [12, 4711, 7]
    if separator == ",":
        assert "1.234 is read as 1234, as in income. If that is wrong, add --decimal ." in table.remarks


@pytest.mark.parametrize("separator", [";", ","])
@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["€ 1.234", "€ 950", "€ 12.500"], [1234, 950, 12500]),
        (["1.234 EUR", "n/a", "0 EUR"], [1234, float("nan"), 0]),
        (["12.125 €", "1200 €", "7 €"], [12.125, 1200, 7]),  # nobody writes 1200 beside 12.125 for thousands
        (["$ 1.25", "$ 2.375", "$ 3"], [1.25, 2.375, 3]),
    ],
)
def test_money_has_no_three_decimals(tmp_path: Path, separator: str, texts: list[str], numbers: list[float]) -> None:
    lines = "".join(f"{text}{separator}{i}\n" for i, text in enumerate(texts))
    table = table_of(tmp_path / "t.csv", f"price{separator}b\n{lines}")
    np.testing.assert_array_equal(table.frame["price"], numbers)


def test_a_word_among_decimal_commas_stays(tmp_path: Path) -> None:
    text = "a;b\n" + "".join(f"{i},5;x\n" for i in range(20)) + "?;x\n"
    assert table_of(tmp_path / "t.csv", text).frame["a"].tolist() == [*(f"{i}.5" for i in range(20)), "?"]
    assert np.isnan(table_of(tmp_path / "t.csv", text, missing=["?"]).frame["a"][20])


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n"1,5",2\n',  # where commas separate, they are decimal only on request
        "a\tb\n1,234\t2\n5,678\t3\n",  # thousands, or decimals?
        "a;b\n1,2,3;x\n4,5;x\n6;x\n",  # lists
        "a;b\n1.5;x\n2.25;y\n",
        "a;b\n03.04.2024;x\n05.06.2024;y\n",
    ],
)
def test_other_commas_and_points_are_left_alone(tmp_path: Path, text: str) -> None:
    table = table_of(tmp_path / "t.csv", text)
    assert table.remarks == []
    expected = pd.read_csv(io.StringIO(text), sep=table.layout.separator)
    pd.testing.assert_frame_equal(table.frame, expected, check_dtype=False)


def test_decimal_commas_on_request(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t.csv", 'a,b,c\n"1,5",2,2.5\nno,3,1.500\nno,4,1\n', decimal=",")
    assert values(table) == {"a": ["1.5", "no", "no"], "b": [2, 3, 4], "c": [2.5, 1.5, 1]}
    with pytest.raises(ValueError, match=r"a point or a comma: --decimal . or --decimal , but not ';'"):
        CsvOptions(decimal=";")


def test_thousands_and_units_are_left_off_and_that_is_said(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t.csv", 'a,b,c\n"1,234",5 %,$3\n7,6 %,€4\n')
    assert values(table) == {"a": [1234, 7], "b": [5, 6], "c": ["$3", "€4"]}
    assert table.remarks == ["Read without units, and without commas and spaces between thousands: a, b."]
    assert table_of(tmp_path / "t.csv", 'a,b\n"1,234",5\n', decimal=",").frame["a"].tolist() == [1.234]


def test_marks_for_missing_may_have_spaces_around_them(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t.csv", "a,b\n? ,x\n1, -\n2,-9\n", missing=["?", "-", "-9"])
    assert table.frame["a"].tolist()[1:] == [1, 2]
    assert np.isnan(table.frame["a"][0])
    assert table.frame["b"].isna().tolist() == [False, True, True]


def test_every_value_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\n01; NA\n1,50;\n")
    table = read_csv(tmp_path / "t.csv", as_text=True)
    assert table.frame["a"].tolist() == ["01", "1,50"]
    assert table.frame["b"][0] == "NA"


def test_columns_that_are_texts_stay_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id;a\n007;1,5\n08,5;-\n-;2\n")
    table = read_csv(tmp_path / "t.csv", CsvOptions(["-"]), texts=["id"])
    assert table.frame["id"].tolist()[:2] == ["007", "08,5"]
    assert pd.isna(table.frame["id"][2])
    assert table.frame["a"].dropna().tolist() == [1.5, 2]


def test_codes_with_leading_zeros_stay_as_they_are_written(tmp_path: Path) -> None:
    """Amounts are padded with zeros, too, but have decimals, a unit, or different lengths."""
    rows = ['"007",0,01.5,0 %,07,01', "123,10,0.50,05 %,12,23", ",7,12,3 %,,117"]
    for separator in ",;\t":
        (tmp_path / "t.csv").write_text("\n".join(["code,n,x,share,hour,age", *rows]).replace(",", separator))
        frame = read_csv(tmp_path / "t.csv").frame
        assert frame["code"].tolist()[:2] == ["007", "123"]
        assert frame["code"].isna().tolist() == [False, False, True]
        assert [frame[name].tolist() for name in ("n", "x", "share")] == [[0, 10, 7], [1.5, 0.5, 12], [0, 5, 3]]
        assert frame["hour"].tolist()[:2] == [7, 12]
        assert frame["age"].tolist() == [1, 23, 117]


@pytest.mark.slow
def test_types_do_not_depend_on_where_in_a_long_file_a_word_is(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{i},1\n" for i in range(300_000)) + "x,1\n")
    assert set(map(type, read_csv(path).frame["a"])) == {str}


numbers = st.lists(st.decimals(-(10**9), 10**9, places=2).map(float), min_size=1, max_size=8)


@given(numbers, st.sampled_from(["{}", "{} %", "{}€", "$ {}", "£{}"]))
def test_grouped_numbers_with_units_are_read(values: list[float], unit: str) -> None:
    column = pd.Series([unit.format(f"{value:,.2f}") for value in values], dtype="str")
    plain = plainly_written(column, commas_group=True)
    if plain is None:
        assert column.str.fullmatch("[^,$€£¥%]*").all()
    else:
        assert plain.tolist() == values


@given(numbers, st.sampled_from(["{}", "{} %", "{} €"]), st.booleans())
def test_decimal_commas_with_units_are_read(values: list[float], unit: str, grouped: bool) -> None:
    texts = [f"{value:,.2f}" if grouped else f"{value:.2f}" for value in values]
    column = pd.Series([unit.format(text.translate(str.maketrans(",.", ".,"))) for text in texts], dtype="str")
    assert has_decimal_comma(column, is_usual=True)
    assert with_points(column, even_if_few=False).tolist() == values


@pytest.mark.parametrize(
    "texts",
    [
        ["1", "2.5"],  # numbers already
        ["1,2", "3,4"],  # lists, or decimals
        ["1,23,456", "7"],
        ["$5", "7 €"],  # different units
        ["a%", "b%"],
        ["-", "?"],
        [],
    ],
)
def test_other_texts_stay(texts: list[str]) -> None:
    assert plainly_written(pd.Series(texts, dtype="str"), commas_group=True) is None


def test_commas_group_only_where_they_may() -> None:
    column = pd.Series(["1,234", "5"], dtype="str")
    assert plainly_written(column, commas_group=False) is None
    grouped, percent = plainly_written(column, True), plainly_written(pd.Series(["5 %", None], dtype="str"), False)
    assert grouped is not None
    assert grouped.tolist() == [1234, 5]
    assert percent is not None
    assert percent[0] == 5


def test_a_few_words_among_numbers_stay() -> None:
    plain = plainly_written(pd.Series([*(f"${i}" for i in range(20)), "?"], dtype="str"), commas_group=True)
    assert plain is not None
    assert plain.tolist() == [*map(str, range(20)), "?"]


def test_only_one_unit_is_taken_off() -> None:
    assert without_unit(pd.Series(["5 %", "6%", "7", "50% off"])).tolist() == ["5", "6", "7", "50% off"]
    assert without_unit(pd.Series(["$5", "6%"])).tolist() == ["$5", "6%"]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("money", ["€ {}", "€\u00a0{}", "{} €", "EUR {}", "{}\u202fCHF"])
def test_money_with_a_decimal_comma_is_read_between_any_separators(tmp_path: Path, separator: str, money: str) -> None:
    prices = ["1.234,50", "99,90", "12.000,00", "5,00"]
    lines = ["price;share", *(f'"{money.format(price)}";1.125' for price in prices)]
    table = table_of(tmp_path / "a.csv", "\n".join(line.replace(";", separator) for line in lines))
    assert values(table)["price"] == [1234.5, 99.9, 12000.0, 5.0]
    assert any("price" in remark for remark in table.remarks)
    if separator == ",":
        assert values(table)["share"] == [1.125] * 4


def test_lists_between_commas_are_not_numbers(tmp_path: Path) -> None:
    table = table_of(tmp_path / "a.csv", 'chosen,b\n"1,2",x\n"3,4",y\n"1,4",z\n')
    assert values(table)["chosen"] == ["1,2", "3,4", "1,4"]


def test_names_of_very_many_columns_are_compared_quickly(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(100_000)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n")
    started = time.monotonic()
    _find_layout(find_text(tmp_path / "a.csv", None))
    assert time.monotonic() - started < 20  # every name beside every other would take minutes


@pytest.mark.parametrize("separator", [",", "\t"])
def test_rows_of_qualtrics_below_the_header_line_are_left_out(tmp_path: Path, separator: str) -> None:
    wordings = ['"How old are you,\nin years?"', "Your code?", '"Anything else?"']
    ids = [f'"{{""ImportId"":""{name}""}}"' for name in ("QID1", "QID2_TEXT", "QID3")]
    rows = [["Q1", "Q2", "Q3"], wordings, ids, ["41", "007", ""], ["52", "123", "no"]]
    (tmp_path / "q.csv").write_text("".join(separator.join(row) + "\n" for row in rows), encoding="utf-8-sig")
    table = read_csv(tmp_path / "q.csv")
    assert table.frame["Q1"].tolist() == [41, 52]
    assert table.frame["Q2"].tolist() == ["007", "123"]
    assert table.remarks == ["Left out, as further header lines: the 2 rows below the header line."]
    assert table.lines == [5, 6]


@pytest.mark.parametrize(
    ("second", "is_header"),
    [
        ("Fall;Alter;Größe in cm;Ziel", True),
        (";years;cm;", True),
        (";;Open-Ended Response;Response", True),
        (";years;years;", False),
        ("1;;cm;", False),
        ("1;years;cm;", False),
        (";unknown;?;krank", False),  # a row without answers
        (";unknown;refused;krank", False),
    ],
)
def test_a_second_header_line_is_left_out(tmp_path: Path, second: str, is_header: bool) -> None:
    rows = "3;41;180,5;krank\n7;52;171;gesund\n4;18;;krank\n9;33;165;gesund\n"
    table = table_of(tmp_path / "t.csv", f"\n\nNr;A01;A02;Z\n{second}\n{rows}")
    assert ("Left out, as further header lines: the row below the header line." in table.remarks) == is_header
    assert len(table.frame) == 4 + (not is_header)
    if is_header:
        assert table.frame["A02"].tolist()[:2] == [180.5, 171]
        assert table.lines == [5, 6, 7, 8]


def test_titles_above_the_header_line_are_left_out(tmp_path: Path) -> None:
    rows = "1;Ja;2,5\n2;nein;3,5\n3;Ja;4,5\n"
    for title in ("Werkstatt;;\nStand: 12.03.2024;;\n", "Werkstatt, Halle\n\nStand: 12.03.2024\n", ";;\nWerkstatt;;\n"):
        (tmp_path / "t.csv").write_text(f"{title}Nr.;Elektrisch?;Bremsweg\n{rows}Summe;;\n", encoding="utf-8")
        table = read_csv(tmp_path / "t.csv")
        assert list(table.frame.columns) == ["Nr.", "Elektrisch?", "Bremsweg"]
        assert table.frame["Bremsweg"].tolist()[:3] == [2.5, 3.5, 4.5]
        header = title.count("\n") + 1
        assert f"What stands above the header line, which is line {header}, is left out." in table.remarks
        assert table.lines is not None
        assert table.lines[0] == header + 1


@pytest.mark.parametrize(
    "text",
    [
        "a,,\n1,2,3\n4,5,6\n",
        "a,b\n1,\nx,\ny,2\n",
        ",,\n1,2,3\n",
        "only,,,\nx,y,y,z\n1,2,3,4\n",
        '"a\nb",,\nx,y,z\n1,2,3\n',
    ],
)
def test_what_may_be_a_header_line_is_no_title(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    assert _find_layout(find_text(tmp_path / "t.csv", None)).n_skipped == 0


def test_no_statement_is_missing_in_german_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\nja,k.A.\nk. A.,1\n N/A,2\n", encoding="utf-8")
    frame = read_csv(tmp_path / "t.csv").frame
    assert frame["a"].isna().tolist() == [False, True, True]
    assert frame["b"].tolist()[1:] == [1, 2]
    assert read_csv(tmp_path / "t.csv", as_text=True).frame["b"][0] == "k.A."


@pytest.mark.parametrize("error", ["#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#WERT!", "#NV"])
def test_what_a_spreadsheet_could_not_compute_is_missing(tmp_path: Path, error: str) -> None:
    table = table_of(tmp_path / "t.csv", f"a;b\n1;x\n{error};y\n 3 ;{error} \n")
    assert table.frame["a"].fillna(-1).tolist() == [1, -1, 3]
    assert table.frame["b"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize("seldom", [False, True])
def test_a_number_of_too_many_digits_is_a_sentence_or_an_answer(
    tmp_path: Path, seldom: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + "9" * 400 + ",yes\n3,no\n", encoding="utf-8")
    if not seldom:
        assert len(read_csv(path).frame) == 2
        return

    def of_earlier_versions(*_: object, **__: object) -> None:
        raise OverflowError("int too large to convert to float")

    monkeypatch.setattr("pandas.read_csv", of_earlier_versions)
    with pytest.raises(ValueError, match="whole number of more digits than numbers can have"):
        read_csv(path)


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("{} kg", "kg", 1),
        ("{}mg/dL", "mg/dL", 1),
        ("{} kg/m2", "kg/m2", 1),
        ("{}.5\u00a0°C", "°C", 1.5),
        ("{} years", "year", 1),
        ("{} 000", "", 1000),
        ("{}'250.5", "", 1250.5),
        ("{}\u202f000 km", "km", 1000),
    ],
)
def test_words_behind_numbers_are_units_and_spaces_stand_between_thousands(
    tmp_path: Path, text: str, unit: str, expected: float
) -> None:
    rows = "".join(f"{text.format(i)},{'yn'[i % 2]}\n" for i in range(1, 30))
    table = table_of(tmp_path / "t.csv", f"a,y\n{rows}")
    assert table.frame["a"].tolist()[0] == expected
    assert table.frame["a"].dtype.kind in "fi"
    assert table.units == ({"a": unit} if unit else {})


@pytest.mark.parametrize(
    "texts",
    [
        [f"{i % 2 * 2 + 2}WD" for i in range(40)],  # choices
        [f"{i} {'kg' if i % 2 else 'lb'}" for i in range(40)],  # two units
        [f"{i} of {i + 3}" for i in range(40)],
        [f"0{i} 100" for i in range(10, 50)],  # nobody writes numbers so
        [f"{i}e" for i in range(40)][:10],
    ],
)
def test_other_texts_with_digits_stay_texts(tmp_path: Path, texts: list[str]) -> None:
    table = table_of(tmp_path / "t.csv", "a,y\n" + "".join(f"{text},n\n" for text in texts))
    assert table.frame["a"].tolist() == texts
    assert table.units == {}


def test_the_minus_of_typography_is_a_minus(tmp_path: Path) -> None:
    by_comma = table_of(tmp_path / "t.csv", "a,b,c\n−2,−3 %,x − 1\n1.5,4 %,−\n")
    assert values(by_comma) == {"a": [-2, 1.5], "b": [-3, 4], "c": ["x − 1", "−"]}
    by_semicolon = table_of(tmp_path / "t.csv", "a;b\n−2,5;−1\n1,5;2\n")
    assert values(by_semicolon) == {"a": [-2.5, 1.5], "b": [-1, 2]}
    with pytest.warns(UserWarning, match="count as missing: '–'"):
        query = ColumnQueries.from_data(pd.DataFrame({"a": ["−2", "1.5", "–"] * 10})).queries[0]
    assert isinstance(query, Number)
    assert read_column(query, pd.Series(["−2.5", "3"]))[0].tolist() == [-2.5, 3]
    assert query.read("−2,5") == -2.5


@pytest.mark.parametrize(
    ("separator", "texts", "numbers"),
    [
        (",", ["(1,234)", "5,000", "-"], [-1234, 5000, np.nan]),
        (";", ["(1.234,50 €)", "7,00 €"], [-1234.5, 7]),
        (";", ["$ (5.25)", "($3.00)", "$7.00"], [-5.25, -3, 7]),
        (";", ["-$5", "$7"], [-5, 7]),
        (",", ["(12)", "-50"], None),  # who writes a minus means something else by brackets
        (",", ["(1)", "(2)", "(3)"], None),  # items of a list
    ],
)
def test_brackets_of_accountants_are_a_minus(
    tmp_path: Path, separator: str, texts: list[str], numbers: list[float] | None
) -> None:
    rows = "".join(f'"{text}"{separator}x\n' for text in texts)
    table = table_of(tmp_path / "t.csv", f"a{separator}b\n{rows}", missing=["-"])
    np.testing.assert_array_equal(table.frame["a"], texts if numbers is None else numbers)
    assert ("(5) is read as -5, as in a." in table.remarks) == (numbers is not None and "(" in "".join(texts))


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (['5\'11""', "6'", "5’4.5”", "4'09"], [71, 72, 64.5, 57]),
        (["5 ft 11 in", "5ft. 2inches", "6 feet"], [71, 62, 72]),
        (["6 ft", "5 ft"], None),  # feet alone are a unit
        (["1'50", "2'15", "1'05"], None),  # minutes and seconds
    ],
)
def test_feet_and_inches_are_inches(tmp_path: Path, texts: list[str], numbers: list[float] | None) -> None:
    table = table_of(tmp_path / "t.csv", "a,b\n" + "".join(f'"{text}",x\n' for text in texts))
    assert table.frame["a"].tolist() == (numbers or texts)
    assert table.units == ({"a": "in"} if numbers else {})
    assert ("5'11\" is read as 71 inches, as in a." in table.remarks) == (numbers is not None)


def test_few_rows_are_read_by_the_unit_of_training() -> None:
    query = Number("weight", "weight?", unit="kg")
    numbers, strange = read_column(query, pd.Series(["40 kg", "1 200,5 kg", "41", "3 stone", None]))
    assert numbers[:3].tolist() == [40, 1200.5, 41]
    assert strange == {"3 stone": 1}
    assert Number("age", "age?", unit="year").read("1 200 years") == 1200
