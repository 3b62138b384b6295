"""What was chosen for an estimator where the user left it open, and why."""

from dataclasses import dataclass
from typing import Any

GIVEN = "given"
"""The reason of what the user chose."""


@dataclass(frozen=True)
class Reason:
    """A setting, what was chosen for it, and why."""

    setting: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.value} ({self.why})"


def given(setting: str, value: Any) -> Reason:
    return Reason(setting, str(value), GIVEN)
