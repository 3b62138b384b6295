"""Excel workbooks and JSON files are read as CSV files are."""

import datetime
import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pursuit.research.tasks.loading import load_task
from pursuit.tables import converted
from pursuit.tables import csv as text
from pursuit.tables.csv import CsvOptions, read_csv

openpyxl = pytest.importorskip("openpyxl")


def write(path: Path, **sheets: list[list[Any]]) -> Path:
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    workbook.save(path)
    return path


def test_values_are_those_of_the_cells(tmp_path: Path) -> None:
    day = datetime.datetime(2024, 3, 1)
    rows = [["a b", "n", "when", "ok", "text"], [1, 2.5, day, True, 'x, "y"'], [None, 3.0, day, False, " z "]]
    table = read_csv(write(tmp_path / "t.xlsx", Sheet=rows))
    assert list(table.frame.columns) == ["a b", "n", "when", "ok", "text"]
    assert table.frame["n"].tolist() == [2.5, 3.0]
    assert table.frame["when"].tolist() == ["2024-03-01"] * 2
    assert table.frame["ok"].tolist() == ["yes", "no"]
    assert table.frame["text"].tolist() == ['x, "y"', "z"]
    assert table.frame["a b"].isna().tolist() == [False, True]


def test_the_fullest_sheet_without_titles_and_empty_columns(tmp_path: Path) -> None:
    notes = [["only", "notes"]]
    data = [["Repairs of 2024"], [], [None, "who: me"], [None, "a", "b", None, "y"]]
    data += [[None, i % 3, "x" if i % 2 else "z", None, "ab"[i % 2]] for i in range(40)]
    path = write(tmp_path / "messy.xlsx", Notes=notes, Data=data)
    table = read_csv(path)
    assert list(table.frame.columns) == ["a", "b", "y"]
    assert len(table.frame) == 40
    assert table.line(0) == 5  # as Excel numbers its rows
    task = load_task(str(path), target="y")
    assert [query.name for query in task.query_set.queries] == ["a", "b"]
    assert read_csv(path, CsvOptions(encoding="cp1252")).frame.equals(table.frame)  # which a workbook does not have


def test_a_workbook_that_was_changed_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "t.xlsx", Sheet=[["a", "y"], [1, "p"]])
    assert read_csv(path).frame["a"].tolist() == [1]
    write(path, Sheet=[["a", "y"], [1, "p"], [22, "q"]])
    assert read_csv(path).frame["a"].tolist() == [1, 22]


def test_damaged_and_enormous_workbooks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.xlsx", Sheet=[["a", "y"], [1, "p"]])
    with zipfile.ZipFile(tmp_path / "odd.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<nothing")
    with pytest.raises(ValueError, match=r"odd.xlsx cannot be read as an Excel file"):
        read_csv(tmp_path / "odd.xlsx")
    monkeypatch.setattr(text, "HARMLESS_BYTES", 10)
    monkeypatch.setattr(text, "MOST_TIMES", 0)
    with pytest.raises(ValueError, match="unpacks to more than 0 times its size"):
        read_csv(path)


def test_without_the_package_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.xlsx", Sheet=[["a", "y"], [1, "p"]])
    converted._converted.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(ValueError, match=r"is an Excel file, which needs openpyxl .* save it as CSV"):
        read_csv(path)


def test_json_lists_and_lines_are_tables(tmp_path: Path) -> None:
    rows = [{"a": i, "b": {"town": "x, y" if i % 2 else "z"}, "many": ["p", "q"], "ok": i % 3 == 0} for i in range(20)]
    rows[3] = {"a": None, "extra": 1.5}
    lines = "\n".join(map(json.dumps, rows))
    frames = []
    for name, content in (("t.json", json.dumps(rows, indent=2)), ("t.jsonl", lines), ("t.txt", "\ufeff" + lines)):
        (tmp_path / name).write_text(content, encoding="utf-8")
        frames.append(read_csv(tmp_path / name).frame)
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    frames.append(read_csv(tmp_path / "t.jsonl.gz", CsvOptions(encoding="cp1252")).frame)
    assert all(frame.equals(frames[0]) for frame in frames)
    assert list(frames[0].columns) == ["a", "b.town", "many", "ok", "extra"]
    assert frames[0]["b.town"].tolist()[:3] == ["z", "x, y", "z"]
    assert frames[0]["many"].tolist()[0] == "p; q"
    assert frames[0]["ok"].tolist()[:3] == ["yes", "no", "no"]
    assert frames[0].iloc[3].isna().tolist() == [True, True, True, True, False]


@pytest.mark.parametrize("content", ['{"a": 1}\n5', '[{"a": 1}, [2]]', '{"a": 1', '{"a": ' + "[" * 100_000])
def test_other_json_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(ValueError, match=r"t\.json (cannot be read as JSON|is JSON, but not a list of objects)"):
        read_csv(tmp_path / "t.json")


def test_texts_have_decimal_commas_where_nothing_stands_between_commas(tmp_path: Path) -> None:
    rows = [["hot", "pay", "both"], ["36,6", "1,234", "1,2"], ["37,25", "2,500", "2,3,4"]]
    (tmp_path / "t.json").write_text(json.dumps([dict(zip(rows[0], row, strict=True)) for row in rows[1:]]))
    for path in (write(tmp_path / "t.xlsx", Sheet=rows), tmp_path / "t.json"):
        table = read_csv(path)
        assert table.frame["hot"].tolist() == [36.6, 37.25]
        assert table.frame["pay"].tolist() == [1234, 2500]
        assert table.frame["both"].tolist() == ["1,2", "2,3,4"]
        assert "12,5 is read as 12.5, as in hot. If that is wrong, add --decimal ." in table.remarks


def test_errors_in_json_name_the_line(tmp_path: Path) -> None:
    for content, line in (
        ('{"a": 1}\n\n{"a": 2,\n{"a": 3}', "line 3: "),
        ('[\n{"a": 1},\n{"a" 2}]', "line 3 column 6"),
    ):
        (tmp_path / "t.json").write_text(content)
        with pytest.raises(ValueError, match=rf"t\.json cannot be read as JSON \(.*{line}"):
            read_csv(tmp_path / "t.json")


def test_lines_of_json_end_only_where_a_line_does(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes('{"a": "one\u2028two"}\r\n{"a": "three"}\r\n'.encode())
    assert read_csv(tmp_path / "t.jsonl").frame["a"].tolist() == ["one\u2028two", "three"]


def test_a_workbook_may_have_any_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.xlsx", Sheet=[["a", "y"], [1, "p"], [2, "q"]]).rename(tmp_path / "t.csv")
    assert read_csv(path).frame["a"].tolist() == [1, 2]


def test_a_sheet_may_be_chosen(tmp_path: Path) -> None:
    small = [["c", "y"], [1, "p"], [2, "q"]]
    path = write(tmp_path / "t.xlsx", Large=[["a", "b", "y"], *([i, i, "p"] for i in range(9))], Small=small)
    assert list(read_csv(path).frame.columns) == ["a", "b", "y"]
    assert list(read_csv(path, CsvOptions(sheet="Small")).frame.columns) == ["c", "y"]
    with pytest.raises(ValueError, match=r"has no sheet 'Smal'. Its sheets are: Large, Small\."):
        read_csv(path, CsvOptions(sheet="Smal"))
    (tmp_path / "t.csv").write_text("a,y\n1,2\n")
    with pytest.raises(ValueError, match="is not an Excel workbook, and has no sheets: leave --sheet out"):
        read_csv(tmp_path / "t.csv", CsvOptions(sheet="Small"))


def test_money_and_percent_keep_their_units(tmp_path: Path) -> None:
    rows = [[1000.5 + i * i, i * i % 30 / 100, f"€ {i + 1}.234,50", i / 7, "ab"[i % 2]] for i in range(30)]
    path = write(tmp_path / "t.xlsx", Sheet=[["cost", "share", "paid", "plain", "y"], *rows])
    workbook = openpyxl.load_workbook(path)
    for row in workbook.active.iter_rows(min_row=2):
        row[0].number_format, row[1].number_format = "#,##0.00\\ [$€-407]", "0.00%"
    workbook.save(path)
    table = read_csv(path)
    assert table.units == {"cost": "€", "share": "%", "paid": "€"}
    assert table.frame["share"].tolist()[:3] == [0, 1, 4]
    assert table.frame["paid"].tolist()[:2] == [1234.5, 2234.5]
    queries = {query.name: query for query in load_task(str(path), target="y").query_set.queries}
    assert [queries[name].unit for name in ("cost", "share", "paid", "plain")] == ["€", "%", "€", ""]
    assert queries["share"].expected == "0 to 25 %"
