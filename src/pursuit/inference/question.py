"""The question that a session puts to a person."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pursuit.inference.why import Candidate
from pursuit.queries import Query


@dataclass(frozen=True)
class Question:
    """What a person is asked, and why this."""

    number: int
    """From 1; 0 for what is known beforehand, which does not count as asked."""
    query: int
    name: str
    text: str
    choices: tuple[str, ...]
    cost: float
    bits: float | None
    """How much its answer is expected to tell about the label; None where the pursuer does not know that."""
    share: float | None
    """For a pursuer that does not know the bits: how strongly it prefers this query, as its share of a softmax over all
    that are left."""
    runners_up: tuple[tuple[str, float | None], ...]
    """The wordings it would have asked otherwise, with their bits."""
    help: str = ""
    """What a person may want to know to answer it."""
    unit: str = ""
    expected: str = ""
    """What may be answered, in a few words: the choices, or the range of a number with its unit."""

    def to_dict(self) -> dict[str, Any]:
        """The question as JSON values."""
        runners_up = [{"text": text, "bits": bits} for text, bits in self.runners_up]
        return {**asdict(self), "choices": list(self.choices), "runners_up": runners_up}

    @classmethod
    def of(cls, query: Query, number: int, best: Candidate, others: Sequence[Candidate]) -> "Question":
        """The question for the `best` of the queries, of which `others` come after it."""
        runners_up = tuple((other.text, other.bits) for other in others)
        return cls(
            number,
            best.query,
            best.name,
            best.text,
            query.offered,
            best.cost,
            best.bits,
            best.share,
            runners_up,
            query.help,
            query.unit,
            query.expected,
        )
