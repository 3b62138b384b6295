"""The server's address for what people say in their own words: proposals, which are answers only once a person confirms
them one by one, by the moves that there are."""

from typing import Annotated

from fastapi import APIRouter

from pursuit.queries.own_words import MOST_CHARACTERS, Suggestion
from pursuit.web.serving import schemas
from pursuit.web.serving.routes import ALWAYS, MOVED, Parts, SessionId

of_words = APIRouter(prefix="/api", tags=["sessions"], responses=ALWAYS)


class Said(schemas.Request):
    text: Annotated[str, schemas.Field(max_length=MOST_CHARACTERS)]
    """In a person's own words."""


class Suggestions(schemas.Reply):
    suggestions: list[Suggestion]
    """In the order of the words that led to them, the best guess at the same words first."""


@of_words.post("/sessions/{session_id}/suggestions", summary="What somebody's words may mean", responses=MOVED)
def suggest_answers(parts: Parts, session_id: SessionId, said: Said) -> Suggestions:
    """Answers that a sentence may mean. Nothing is changed: `tell` those that the person confirms."""
    return Suggestions(suggestions=list(parts.suggest(session_id, said.text)))
