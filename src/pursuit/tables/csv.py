"""CSV files as people have them: the separator, the decimal comma and the encoding are found, not asked for, and
numbers are read as people and spreadsheets write them: 12,5 and 1.234,50 €; 1,234.5 and 12 %.

pandas reads the values. Python's own `csv`, which knows the line of every row, finds the separator and what is wrong.
"""

import csv
import io
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pursuit.queries.column import listed
from pursuit.tables import converted
from pursuit.tables.text import COMPRESSED, TextFile, find_text

ENDINGS = (
    *(f"{ending}{packed}" for ending in (".csv", ".tsv", ".tab", ".txt") for packed in ("", *COMPRESSED)),
    *converted.ENDINGS,
)
"""How the names of CSV files end, and of those that are read like them."""
SEPARATORS = ",;\t|"
SNIFFED_CHARACTERS, SNIFFED_ROWS = 1 << 20, 50
"""How much of a file is looked at to find its separator."""
NO_STATEMENT = ("k.A.", "k. A.")
"""What N/A is in German; pandas knows those in English."""
NEARLY_ALL = 0.9
SPACE = r"[\s\u00a0\u202f]*"
CURRENCY = r"(?:[$€£¥]|EUR|USD|GBP|CHF)"
UNIT = rf"^{CURRENCY}{SPACE}|{SPACE}(?:%|{CURRENCY})$"
NUMBER_LIKE = r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?"
PLAIN = NUMBER_LIKE.replace(".,", ".")
"""A number without commas and units."""
COMMA_NUMBER = r"[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+(?=$|[,eE])|(?=,))(?:,\d+)?(?:[eE][+-]?\d+)?"
"""12,5 and 12, and 1.234,5 and 1.234, which is a whole number then."""
POINT_NUMBER = r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+(?=$|[.eE])|(?=\.))(?:\.\d+)?(?:[eE][+-]?\d+)?"
THOUSANDS = r"[+-]?\d{1,3}(?:,\d{3})+"
"""What 1,234 may be, if commas are not decimal."""


@dataclass(frozen=True)
class CsvOptions:
    """How to read a CSV file, where that is not to be guessed."""

    missing: Sequence[str] = ()
    """Texts that mean missing, in addition to the usual ones."""
    encoding: str | None = None
    decimal: str | None = None
    """What stands before the decimals: "." or ","."""
    sheet: str | None = None
    """The sheet of an Excel workbook; by default the fullest."""

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise ValueError(
                f"The decimal separator is a point or a comma: --decimal . or --decimal , but not '{self.decimal}'."
            )


@dataclass(frozen=True)
class _Layout:
    """How the lines of a file are to be read."""

    separator: str
    header: list[str]
    n_skipped: int
    """Lines before the header line that are not part of the table."""
    has_title: bool = False
    """Whether these have words in them."""


@dataclass(frozen=True)
class CsvTable:
    """What a CSV file holds."""

    frame: pd.DataFrame
    text: TextFile
    layout: _Layout
    remarks: list[str] = field(default_factory=list)
    """What a person should know of how it was read."""
    units: dict[str, str] = field(default_factory=dict)
    """The units of columns of numbers that stand in their cells, such as € and %."""

    @cached_property
    def _lines(self) -> list[int]:
        try:
            return [line for line, _ in itertools.islice(_records(self.text, self.layout), 1, None)]
        except csv.Error:  # a field that is too long for Python's reader
            return []

    @property
    def lines(self) -> list[int] | None:
        """The line of the file in which every row begins, as an editor counts them: the header line is 1; None if they
        cannot be counted."""
        return self._lines if len(self._lines) == len(self.frame) else None

    def line(self, row: int) -> int | None:
        """The line of the file in which a row begins."""
        return None if self.lines is None else self.lines[row]


def read_csv(
    path: Path, options: CsvOptions | None = None, as_text: bool = False, texts: Sequence[str] = ()
) -> CsvTable:
    """The file as a table; `as_text` reads every value as it is written, and otherwise those of the columns `texts` are
    not turned into numbers. Raises ValueError saying what is wrong."""
    options = options or CsvOptions()
    text = find_text(path, options.encoding, options.sheet)
    layout = _find_layout(text)
    if as_text:
        return CsvTable(_parse(text, layout, options, dtype=str, keep_default_na=False), text, layout)
    frame = as_read = _parse(text, layout, options, dtype=dict.fromkeys(texts, str))
    remarks = [text.remark] if text.remark else []
    if layout.has_title:
        remarks.append(f"What stands above the header line, which is line {layout.n_skipped + 1}, is left out.")
    with_commas = _decimal_comma_columns(frame, layout.separator) if options.decimal is None else []
    if with_commas or options.decimal == ",":
        written, are_sure = _parse(text, layout, options, dtype=str), options.decimal == ","
        # Between commas, only some columns have decimal commas: those of money, as a rule.
        names = with_commas if layout.separator == "," and with_commas else list(written.columns)
        numbers = {name: with_points(written[name], are_sure) for name in names if name not in texts}
        frame = frame.assign(**numbers) if names is with_commas else written.assign(**numbers)
    if with_commas:
        remarks.append(f"12,5 is read as 12.5, as in {listed(with_commas)}. If that is wrong, add --decimal .")
    commas_group = options.decimal == "." or (layout.separator == "," and options.decimal is None)
    if rewritten := {} if with_commas and layout.separator != "," else _plainly_written(frame, texts, commas_group):
        frame = frame.assign(**rewritten)
        remarks.append(f"Read without units, and without commas between thousands: {listed(list(rewritten))}.")
    if frame.iloc[:, -1].isna().any() and (short := _too_short(text, layout)):
        remarks.append(short)
    were_texts = [name for name in frame.columns if pd.api.types.is_string_dtype(as_read[name])]
    found = {name: unit for name in were_texts if (unit := unit_of(as_read[name]))}
    units = {name: unit for name, unit in found.items() if not frame[name].equals(as_read[name])}
    return CsvTable(frame, text, layout, remarks, units)


def _find_layout(text: TextFile) -> _Layout:
    """The separator that divides the first rows most evenly, and the header line."""
    with text.open() as file:
        sample = file.read(SNIFFED_CHARACTERS)
    if not sample.strip():
        raise ValueError(f"{text.path} is empty: it needs a header line and at least one row.")
    told = re.match(r"\s*sep=(.)\r?\n", sample)  # as Excel writes and reads it
    if told:
        layouts = [_Layout(told[1], [], told[0].count("\n"))]
    else:
        layouts = [_Layout(separator, [], 0) for separator in SEPARATORS]
    sampled = [(layout, _sampled_rows(sample, layout)) for layout in layouts]
    if any(len(rows[0][1]) > 1 and len({len(row) for _, row in rows}) == 1 for _, rows in sampled):
        sampled = [max(sampled, key=lambda pair: _evenness([row for _, row in pair[1]]))]  # also of titles, if any
    layout, rows = max((_below_titles(*pair) for pair in sampled), key=lambda pair: _evenness(pair[1]))
    header = [name.strip() for name in rows[0]] if rows else []
    for name, n in Counter(header).items():
        if name and n > 1:
            numbers = [str(number) for number, other in enumerate(header, start=1) if other == name]
            raise ValueError(
                f"{text.path} has more than one column '{name}' (columns {' and '.join(numbers)}): give each a name of "
                "its own in the header line. If the first line is data, put a line with names above it."
            )
    return replace(layout, header=header)


def _below_titles(layout: _Layout, rows: list[tuple[int, list[str]]]) -> tuple[_Layout, list[list[str]]]:
    """The layout and the rows without title lines, as spreadsheets have them above the header line: lines with hardly
    anything in them, before one with names in nearly all columns."""
    filled = [sum(bool(cell.strip()) for cell in row) for _, row in rows]
    most = max(filled, default=0)
    first = next((i for i, n in enumerate(filled) if 2 * n > most), 0)
    names = [cell.strip() for cell in rows[first][1] if cell.strip()] if rows else []
    is_header = len(names) >= converted.HEADER_SHARE * most and len(set(names)) == len(names) and first + 1 < len(rows)
    titles = [cell for _, row in rows[:first] for cell in row]
    if not first or not is_header or any(re.fullmatch(NUMBER_LIKE, name) for name in names) or "\n" in "".join(titles):
        return layout, [row for _, row in rows]
    return replace(layout, n_skipped=rows[first][0], has_title=True), [row for _, row in rows[first:]]


def _sampled_rows(sample: str, layout: _Layout) -> list[tuple[int, list[str]]]:
    """The first rows, each with the number of lines before it."""
    reader = csv.reader(_after_skipped(io.StringIO(sample, newline=""), layout), **_dialect(layout))
    rows: list[tuple[int, list[str]]] = []
    try:
        line = layout.n_skipped
        for row in reader:
            if not _is_blank(row):
                rows.append((line, row))
            line = layout.n_skipped + reader.line_num
            if len(rows) > SNIFFED_ROWS:
                break
    except csv.Error:
        return rows[:1]  # a separator that does not divide long lines
    is_cut = len(sample) == SNIFFED_CHARACTERS and len(rows) <= SNIFFED_ROWS
    return rows[:-1] if is_cut and len(rows) > 1 else rows


def _evenness(rows: list[list[str]]) -> float:
    """How many of the first rows have as many fields as the header line, and that it has several."""
    if not rows or len(rows[0]) < 2:
        return 0.0
    n_fields = len(rows[0])
    return sum(len(row) == n_fields for row in rows) / len(rows) * (1 - 1 / n_fields)


def _dialect(layout: _Layout) -> dict[str, Any]:
    return {"delimiter": layout.separator, "skipinitialspace": True}


def _after_skipped(file: Any, layout: _Layout) -> Any:
    for _ in range(layout.n_skipped):
        file.readline()
    return file


def _is_blank(row: list[str]) -> bool:
    return len(row) < 2 and not "".join(row).strip()


def _records(text: TextFile, layout: _Layout) -> Iterator[tuple[int, list[str]]]:
    """The header and all rows, each with the line of the file in which it begins."""
    with text.open() as file:
        reader = csv.reader(_after_skipped(file, layout), **_dialect(layout))
        line = 1 + layout.n_skipped
        for row in reader:
            if not _is_blank(row):
                yield line, row
            line = 1 + layout.n_skipped + reader.line_num


def _parse(text: TextFile, layout: _Layout, options: CsvOptions, **of_pandas: Any) -> pd.DataFrame:
    """The values, without spaces around them."""
    usual: dict[str, Any] = {
        "sep": layout.separator,
        "index_col": False,
        "skiprows": layout.n_skipped,
        "skipinitialspace": True,
        "na_values": [*options.missing, *(NO_STATEMENT if of_pandas.get("keep_default_na", True) else ())],
        "low_memory": False,  # which would guess types anew in every part of a long file
        **of_pandas,
    }
    try:
        frame = _read(text, usual)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{text.path} is empty: it needs a header line and at least one row.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        _refuse_open_quote(text, layout, error)
        _refuse_too_long(text, layout)
        frame = _read(text, {**usual, "usecols": range(len(layout.header))})  # without separators at the ends of lines
    if frame.empty:
        raise ValueError(f"{text.path} has no rows below its header line.")
    return _stripped(frame, options.missing, of_pandas.get("dtype"))


def _read(text: TextFile, options: dict[str, Any]) -> pd.DataFrame:
    with text.open() as file, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # of values beyond the last name
        return pd.read_csv(file, **options)


def _refuse_open_quote(text: TextFile, layout: _Layout, error: Exception) -> None:
    if "EOF inside string" not in str(error):
        return
    try:
        *_, (line, _) = _records(text, layout)
        where = f"opened in the row of line {line}"
    except csv.Error:
        where = "opened somewhere"
    raise ValueError(
        f'{text.path} has a quotation mark {where} that is never closed. Close it, or write it twice ("") if it is '
        "part of a text."
    ) from None


def _refuse_too_long(text: TextFile, layout: _Layout) -> None:
    """Raise ValueError for the first row with more values than the header has names, unless they are empty."""
    n_names = len(layout.header)
    for line, row in _records(text, layout):
        if any(value.strip() for value in row[n_names:]):
            shown = {"\t": "tab"}.get(layout.separator, layout.separator)
            raise ValueError(
                f"{text.path} has {len(row)} values in line {line}, but only {n_names} names in its header line. Put "
                f"quotation marks around values that hold the separator '{shown}', or name every column. The header "
                "line comes first: delete what stands above it."
            )


def _too_short(text: TextFile, layout: _Layout) -> str:
    """A remark on rows with fewer values than the header has names; empty if there are none."""
    try:
        lines = [line for line, row in _records(text, layout) if len(row) < len(layout.header)]
    except csv.Error:
        return ""
    if not lines:
        return ""
    rows = "1 row has" if len(lines) == 1 else f"{len(lines):,} rows have"
    where = f"line {lines[0]}" if len(lines) == 1 else f"the first in line {lines[0]}"
    return f"Warning: {rows} fewer values than the header line has names ({where}); those absent count as missing."


def _stripped(frame: pd.DataFrame, missing: Sequence[str], texts: Any) -> pd.DataFrame:
    """The table without spaces around names and texts, and without columns that have neither a name nor a value; a
    text of nothing but spaces is missing. Columns that turn out to be numbers become numbers, but for `texts`."""
    nameless = [name for name in frame.columns if str(name).startswith("Unnamed: ") and frame[name].isna().all()]
    frame = frame.drop(columns=nameless).rename(columns=lambda name: str(name).strip())
    for name in frame.columns:
        if pd.api.types.is_string_dtype(frame[name]):
            are_texts, stripped = texts is str or name in texts, frame[name].str.strip()
            stripped = stripped.mask(stripped.isin(["", *missing]))
            has_more_missing = stripped.isna().sum() > frame[name].isna().sum()
            frame[name] = as_numbers(stripped) if has_more_missing and not are_texts else stripped
    return frame


def _plainly_written(frame: pd.DataFrame, texts: Sequence[str], commas_group: bool) -> dict[str, pd.Series]:
    """The columns that are numbers, or nearly, once they are written without commas between thousands and units."""
    columns = [name for name in frame.columns if pd.api.types.is_string_dtype(frame[name]) and name not in texts]
    written = {name: plainly_written(frame[name], commas_group) for name in columns}
    return {name: column for name, column in written.items() if column is not None}


def _decimal_comma_columns(frame: pd.DataFrame, separator: str) -> list[str]:
    """The columns whose numbers have a decimal comma, as far as one can see."""
    return [
        name
        for name in frame.columns
        if pd.api.types.is_string_dtype(frame[name])
        and has_decimal_comma(frame[name], separator == ";")
        and (separator != "," or _is_surely_comma(frame[name]))
    ]


def _is_surely_comma(column: pd.Series) -> bool:
    """Whether a column between commas has decimal commas, and not lists such as 1,2: it has a currency, or points
    between thousands."""
    return bool(column.str.contains(CURRENCY, na=False).any() or column.str.contains(r"\d\.\d{3},\d", na=False).any())


def has_decimal_comma(column: pd.Series, is_usual: bool) -> bool:
    """Whether nearly all texts of a column are numbers with a decimal comma or whole; 1,234 counts only where decimal
    commas are usual."""
    values = without_unit(column.dropna().drop_duplicates())
    are_numbers = values.str.fullmatch(NUMBER_LIKE)
    numbers = values[are_numbers]
    if not len(numbers) or are_numbers.mean() < NEARLY_ALL:
        return False
    have_comma = numbers.str.contains(",")
    if not is_usual:
        have_comma &= ~numbers.str.fullmatch(THOUSANDS)
    return bool(have_comma.any() and numbers.str.fullmatch(COMMA_NUMBER).mean() >= NEARLY_ALL)


def with_points(column: pd.Series, even_if_few: bool) -> pd.Series:
    """Texts of a file with decimal commas, written with points, and as numbers if all of them are; if numbers are not
    nearly all of them, only `even_if_few`."""
    texts = without_unit(column)
    is_number = texts.str.fullmatch(COMMA_NUMBER, na=False)
    if (texts.str.fullmatch(NUMBER_LIKE, na=False) & ~is_number & texts.str.contains(".", regex=False)).any():
        is_number &= ~texts.str.contains(".", regex=False, na=False)  # points are decimal in this column
    if even_if_few or is_number.sum() >= NEARLY_ALL * column.notna().sum():
        pointed = texts.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        column = column.mask(is_number, pointed)
    return as_numbers(column)


def plainly_written(column: pd.Series, commas_group: bool) -> pd.Series | None:
    """The column without a unit and, if `commas_group`, without commas between thousands, where that turns nearly all
    of its texts into numbers; None where it does not, or where they are numbers already."""
    values = column.dropna().drop_duplicates()
    texts = without_unit(values)
    is_number = texts.str.fullmatch(POINT_NUMBER if commas_group else POINT_NUMBER.replace(",", "(?!)"))
    if not len(values) or is_number.mean() < NEARLY_ALL or values[is_number].str.fullmatch(PLAIN).all():
        return None
    plain = dict(zip(values[is_number], texts[is_number].str.replace(",", "", regex=False), strict=True))
    return as_numbers(column.map(lambda text: plain.get(text, text), na_action="ignore"))


def without_unit(texts: pd.Series) -> pd.Series:
    """Texts without the sign of a currency, or that of percent, if it is the same in all that have one."""
    return texts.str.replace(UNIT, "", regex=True) if unit_of(texts) else texts


def unit_of(texts: pd.Series) -> str:
    """The sign of a currency, or that of percent, if it is the same in all texts that have one."""
    if not texts.str.contains(f"%|{CURRENCY}", na=False).any():
        return ""
    units = texts.str.extract(f"({UNIT})", expand=False).str.replace(SPACE, "", regex=True).dropna().unique()
    return str(units[0]) if len(units) == 1 else ""


def as_numbers(column: pd.Series) -> pd.Series:
    """Texts as numbers, if all of them are."""
    try:
        return pd.to_numeric(column)
    except (ValueError, OverflowError):  # of more digits than numbers have
        return column
