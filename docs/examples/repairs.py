"""Invents the table `repairs.csv` beside this file: 900 washing machines, what was noticed, and what was broken.
No real machine is in it.

python docs/examples/repairs.py
"""

from pathlib import Path

import numpy as np
import pandas as pd

N_ROWS = 900
FAULTS = {
    "blocked drain pump": 0.24,
    "worn bearings": 0.16,
    "inlet valve": 0.14,
    "door seal": 0.13,
    "heating element": 0.12,
    "drive belt": 0.09,
    "door lock": 0.07,
    "control board": 0.05,
}
YES = {  # P(yes | fault), in the order of the faults
    "fills": (0.95, 0.98, 0.08, 0.95, 0.97, 0.97, 0.04, 0.55),
    "drains": (0.06, 0.97, 0.9, 0.95, 0.97, 0.96, 0.85, 0.6),
    "spins": (0.2, 0.75, 0.6, 0.85, 0.92, 0.05, 0.05, 0.4),
    "heats": (0.9, 0.93, 0.55, 0.93, 0.05, 0.92, 0.3, 0.4),
    "door_locks": (0.97, 0.98, 0.96, 0.9, 0.97, 0.97, 0.08, 0.6),
    "burnt_smell": (0.06, 0.12, 0.02, 0.02, 0.12, 0.5, 0.02, 0.35),
    "trips_fuse": (0.04, 0.02, 0.03, 0.12, 0.3, 0.02, 0.02, 0.25),
}
CHOICES = {  # P(choice | fault), one row a fault
    "noise": (
        ("normal", "humming", "rattling", "grinding"),
        (
            (0.25, 0.6, 0.1, 0.05),
            (0.04, 0.06, 0.2, 0.7),
            (0.6, 0.35, 0.03, 0.02),
            (0.8, 0.1, 0.07, 0.03),
            (0.85, 0.1, 0.03, 0.02),
            (0.3, 0.4, 0.25, 0.05),
            (0.8, 0.12, 0.06, 0.02),
            (0.75, 0.15, 0.07, 0.03),
        ),
    ),
    "water_on_floor": (
        ("no", "at the door", "underneath"),
        (
            (0.7, 0.05, 0.25),
            (0.75, 0.03, 0.22),
            (0.88, 0.02, 0.1),
            (0.06, 0.86, 0.08),
            (0.95, 0.02, 0.03),
            (0.97, 0.02, 0.01),
            (0.9, 0.08, 0.02),
            (0.95, 0.02, 0.03),
        ),
    ),
    "error_code": (
        ("no error", "E10", "E20", "E40", "E60"),
        (
            (0.2, 0.03, 0.74, 0.01, 0.02),
            (0.9, 0.02, 0.04, 0.02, 0.02),
            (0.2, 0.74, 0.03, 0.01, 0.02),
            (0.86, 0.04, 0.04, 0.04, 0.02),
            (0.3, 0.02, 0.02, 0.02, 0.64),
            (0.88, 0.03, 0.03, 0.03, 0.03),
            (0.16, 0.02, 0.02, 0.78, 0.02),
            (0.2, 0.2, 0.2, 0.2, 0.2),
        ),
    ),
}
AGE = (6.0, 10.5, 7.0, 8.5, 7.5, 9.0, 6.0, 5.0)  # years, on average
STOPS_AFTER = (38.0, 60.0, 4.0, 45.0, 22.0, 30.0, 1.0, 15.0)  # minutes, on average, of machines that stop
STOPS = (0.85, 0.15, 0.9, 0.2, 0.6, 0.25, 0.95, 0.8)  # P(it stops in the middle | fault)
UNKNOWN = {"error_code": 0.15, "heats": 0.12, "stops_after": 0.03, "age": 0.05}
"""The share of machines of which nobody wrote it down."""


def repairs(n_rows: int = N_ROWS, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    fault = rng.choice(len(FAULTS), size=n_rows, p=list(FAULTS.values()))
    columns: dict[str, object] = {"age": rng.gamma(8, np.array(AGE)[fault] / 8).round().clip(0, 25)}
    columns["opens"] = np.where(rng.random(n_rows) < 0.8, "front", "top")
    for name, shares in YES.items():
        columns[name] = np.where(rng.random(n_rows) < np.array(shares)[fault], "yes", "no")
    for name, (choices, shares) in CHOICES.items():
        above = rng.random(n_rows)[:, None] > np.cumsum(shares, axis=1)[fault]
        columns[name] = np.array(choices)[above[:, :-1].sum(axis=1)]
    minutes = rng.gamma(6, np.array(STOPS_AFTER)[fault] / 6).round().clip(0, 120)
    columns["stops_after"] = np.where(rng.random(n_rows) < np.array(STOPS)[fault], minutes, np.nan)
    table = pd.DataFrame(columns)
    for name, share in UNKNOWN.items():
        table.loc[rng.random(n_rows) < share, name] = None
    for name in ("age", "stops_after"):
        table[name] = table[name].astype("Int64")
    return table.assign(fault=np.array(list(FAULTS))[fault])


if __name__ == "__main__":
    repairs().to_csv(Path(__file__).parent / "repairs.csv", index=False)
