"""Whose sessions a request may list: those that its browser began or, for the operator, those of everybody."""

import hashlib
import re
import secrets

from fastapi import Request, Response

from pursuit.web.serving.auth import Token, bearer
from pursuit.web.serving.problems import NotFound, NotOperator
from pursuit.web.serving.store import Search

COOKIE = "pursuit_browser"
DAYS = 365
"""How long a browser finds its own sessions again."""


class Browser:
    """The browser that a request comes from. It is known by a cookie that no script can read; the database has only
    what follows from it."""

    def __init__(self, request: Request, response: Response):
        self._request, self._response = request, response
        self._lists_sessions: bool = request.app.state.interviews.lists_sessions
        given = request.cookies.get(COOKIE, "")
        self._secret = given if re.fullmatch(r"[\w-]{22}", given, re.ASCII) else None

    def owner(self) -> str | None:
        """The owner of a session that it begins, which gives it a cookie unless it has one; None where browsers list
        nothing."""
        if not self._lists_sessions:
            return None
        self._secret = self._secret or secrets.token_urlsafe(16)
        is_secure = self._request.url.scheme == "https"
        self._response.set_cookie(
            COOKIE, self._secret, DAYS * 86_400, httponly=True, samesite="strict", secure=is_secure
        )
        return _digest(self._secret)

    def search(self, text: str, model: str | None, is_all: bool) -> Search:
        """What it may find: its own sessions, or as the operator those of all."""
        if is_all:
            self._check_operator()
            return Search(text, model)
        if not self._lists_sessions:
            raise NotFound("Sessions are not listed here: each is reached by its own address alone.")
        return Search(text, model, "" if self._secret is None else _digest(self._secret))

    def _check_operator(self) -> None:
        operator: Token | None = self._request.app.state.operator
        if operator is None:
            raise NotFound("Nobody can list the sessions of all here: start the server with --operator-token.")
        given = bearer(self._request)
        if not operator.is_in_cookie(self._request) and (given is None or not operator.is_right(given)):
            raise NotOperator("The sessions of all are the operator's: give the operator's token.")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
