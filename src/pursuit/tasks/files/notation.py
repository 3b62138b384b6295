"""Numbers as people and spreadsheets write them: 12,5 and 1.234,50 €; 1,234.5 and 12 %."""

import pandas as pd

NEARLY_ALL = 0.9
UNIT = r"^[$€£¥]\s*|\s*[%$€£¥]$"
NUMBER_LIKE = r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?"
COMMA_NUMBER = r"[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+(?=$|[,eE])|(?=,))(?:,\d+)?(?:[eE][+-]?\d+)?"
"""12,5 and 12, and 1.234,5 and 1.234, which is a whole number then."""
POINT_NUMBER = r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+(?=$|[.eE])|(?=\.))(?:\.\d+)?(?:[eE][+-]?\d+)?"
THOUSANDS = r"[+-]?\d{1,3}(?:,\d{3})+"
"""What 1,234 may be, if commas are not decimal."""


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
    bare = without_unit(column)
    is_number = bare.str.fullmatch(COMMA_NUMBER, na=False)
    if (bare.str.fullmatch(NUMBER_LIKE, na=False) & ~is_number & bare.str.contains(".", regex=False)).any():
        is_number &= ~bare.str.contains(".", regex=False, na=False)  # points are decimal in this column
    if even_if_few or is_number.sum() >= NEARLY_ALL * column.notna().sum():
        pointed = bare.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        column = column.mask(is_number, pointed)
    return as_numbers(column)


def plainly_written(column: pd.Series, commas_group: bool) -> pd.Series | None:
    """The column without a unit and, if `commas_group`, without commas between thousands, where that turns nearly all
    of its texts into numbers; None where it does not, or where they are numbers already."""
    values = column.dropna().drop_duplicates()
    bare = without_unit(values)
    is_number = bare.str.fullmatch(POINT_NUMBER if commas_group else POINT_NUMBER.replace(",", "(?!)"))
    if not len(values) or is_number.mean() < NEARLY_ALL or values[is_number].str.fullmatch(r"[^,$€£¥%]*").all():
        return None
    plain = dict(zip(values[is_number], bare[is_number].str.replace(",", "", regex=False), strict=True))
    return as_numbers(column.map(lambda text: plain.get(text, text), na_action="ignore"))


def without_unit(texts: pd.Series) -> pd.Series:
    """Texts without the sign of a currency, or that of percent, if it is the same in all that have one."""
    if not texts.str.contains(r"[$€£¥%]", na=False).any():
        return texts
    units = texts.str.extract(f"({UNIT})", expand=False).str.strip().dropna()
    return texts.str.replace(UNIT, "", regex=True) if units.nunique() == 1 else texts


def as_numbers(column: pd.Series) -> pd.Series:
    """Texts as numbers, if all of them are."""
    try:
        return pd.to_numeric(column)
    except (ValueError, OverflowError):  # of more digits than numbers have
        return column
