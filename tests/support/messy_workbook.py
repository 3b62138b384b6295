"""A workbook as people keep it: two title rows, money and percent, yes in many spellings, several choices a cell, ids,
comments, dates, a column known only afterwards, and a sheet of notes."""

import datetime
import random
from pathlib import Path
from typing import Any

HEADER = [
    "Ticket Nr",
    "Opened",
    "Customer born",
    "Warranty?",
    "Price",
    "Discount",
    "Symptoms",
    "Comment",
    "Age of device",
    "Invoice code",
    "Outcome",
]
COMMENTS = {
    "repair": ["The pump leaks and makes noise", "Water below the machine, the pump is loud", "Pump sounds bad again"],
    "replace": ["Burning smell from the board", "The board is burnt, nothing works", "Smoke came out of the board"],
}


def write(path: Path, n_rows: int = 240, seed: int = 0) -> Path:
    """A workbook whose outcome follows from symptoms, the price and the weekday, and from the code of the invoice."""
    import openpyxl

    draw = random.Random(seed)
    workbook = openpyxl.Workbook()
    notes = workbook.active
    assert notes is not None
    notes.title = "Notes"
    notes.append(["Ask Kim before changing anything"])
    sheet = workbook.create_sheet("Tickets 2024")
    sheet.append(["Repairs – export of the service desk"])
    sheet.append(["as of 31.12.2024, by K."])
    sheet.append(HEADER)
    for i in range(n_rows):
        sheet.append(_row(i, draw))
        sheet.cell(sheet.max_row, HEADER.index("Discount") + 1).number_format = "0%"
    workbook.save(path)
    return path


def _row(i: int, draw: random.Random) -> list[Any]:
    opened = datetime.date(2024, 1, 1) + datetime.timedelta(days=draw.randrange(366))
    outcome = "replace" if draw.random() < (0.75 if opened.weekday() >= 5 else 0.35) else "repair"
    is_dead = outcome == "replace"
    likely, unlikely = (
        (["smoke", "no power"], ["leak", "noise"]) if is_dead else (["leak", "noise"], ["smoke", "no power"])
    )
    symptoms = [one for one in likely if draw.random() < 0.7] + [one for one in unlikely if draw.random() < 0.15]
    draw.shuffle(symptoms)
    price = round(draw.uniform(900, 1900) if is_dead else draw.uniform(300, 1300), 2)
    euros = f"€ {price:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")
    comment = f"{draw.choice(COMMENTS[outcome])}, ticket {i}" if draw.random() < 0.8 else "N/A"
    return [
        10_000 + 7 * i,
        opened.strftime("%d.%m.%Y"),
        datetime.date(1940 + draw.randrange(60), draw.randrange(1, 13), 3),
        draw.choice(["yes", "Y", "YES", "no", "N", "No", "N/A"]),
        euros.replace("€.", "€ "),
        draw.randrange(0, 30, 5) / 100,
        "; ".join(symptoms),
        comment,
        draw.randrange(0, 15) if draw.random() < 0.9 else "n/a",
        "R-1" if not is_dead else "X-9",
        outcome,
    ]
