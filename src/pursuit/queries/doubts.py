"""Doubts about an answer: it can be read, but is hardly what the person meant."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Doubt:
    """Why an answer should be asked for again. Prints as a sentence for the person who gave it."""

    query: str
    text: str
    answer: str
    """The answer as it was understood, with its unit."""
    usual: str
    """The range that training saw, with its unit."""
    suggestions: tuple[str, ...] = ()
    """What may have been meant, as it would be typed: the nearest slip of the decimal point or of the sign."""

    def __str__(self) -> str:
        meant = f" Did you mean {' or '.join(self.suggestions)}?" if self.suggestions else " Is that right?"
        return f"{self.answer} is far outside the usual range of {self.usual}.{meant}"

    def to_dict(self) -> dict[str, Any]:
        """The doubt as JSON values."""
        return {**asdict(self), "suggestions": list(self.suggestions)}


class DoubtfulAnswer(ValueError):
    """An answer was not taken because of a `doubt`; it is if it is given again with `confirmed=True`."""

    def __init__(self, doubt: Doubt):
        super().__init__(f'"{doubt.text}": {doubt} If it is right, give it again with confirmed=True.')
        self.doubt = doubt
