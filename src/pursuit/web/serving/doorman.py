"""Who may come in, and how often: the token and the rates, looked at before any route."""

import json

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pursuit.web.serving.page_routes import Pages, is_page
from pursuit.web.serving.rates import Limits
from pursuit.web.serving.tokens import MOST_CHARACTERS, NEEDED, Token, bearer

ENTRANCE = "/api/token"
"""Where a browser brings the token, once."""
OPEN = "/assets/"
"""What is given to everybody: the files of the page, which are the same everywhere."""
MOST_BYTES = 4 * MOST_CHARACTERS
WRONG = "That is not the token of this server."


class Doorman:
    """Turns away who asks too much, and who does not know the token, where there is one.

    Somebody without it gets the page without any content, and the page asks for the token.
    """

    def __init__(self, app: ASGIApp, limits: Limits, token: Token | None, pages: Pages):
        self.app, self.limits, self.token, self.pages = app, limits, token, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if problem := self.limits.problem(scope):
            refusal: Response | None = too_many(*problem)
        elif self.token is None:
            refusal = None
        elif scope["path"] == ENTRANCE and scope["method"] == "POST":
            refusal = await self._let_in(self.token, scope, receive)
        else:
            refusal = self._unless_known(self.token, scope)
        await (refusal or self.app)(scope, receive, send)

    def _unless_known(self, token: Token, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if path.startswith(OPEN) or token.is_in_cookie(headers):
            return None
        if (given := bearer(headers)) is not None:
            return self._judge(token, scope, given)
        if is_page(path) and scope["method"] in ("GET", "HEAD"):
            return Response(self.pages.frame, 401, media_type="text/html")
        return _unknown(NEEDED)

    def _judge(self, token: Token, scope: Scope, given: str) -> Response | None:
        if problem := self.limits.guessing_problem(scope):
            return too_many(*problem)
        if token.is_right(given):
            return None
        self.limits.note_wrong_token(scope)
        return _unknown(WRONG)

    async def _let_in(self, token: Token, scope: Scope, receive: Receive) -> Response:
        content = b""
        while True:
            message = await receive()
            content += message.get("body", b"")
            if len(content) > MOST_BYTES or not message.get("more_body", False):
                break
        try:
            given = json.loads(content[:MOST_BYTES])["token"]
        except (ValueError, TypeError, KeyError, RecursionError):
            given = None
        if not isinstance(given, str):
            return JSONResponse({"message": 'Send the token as JSON: {"token": "…"}.'}, 422)
        refusal = self._judge(token, scope, given.strip())
        return refusal or Response(status_code=204, headers={"Set-Cookie": token.cookie(scope["scheme"] == "https")})


def _unknown(message: str) -> Response:
    return JSONResponse({"message": message}, 401, headers={"WWW-Authenticate": 'Bearer realm="pursuit"'})


def too_many(seconds: int, message: str) -> Response:
    return JSONResponse({"message": message}, 429, headers={"Retry-After": str(seconds)})
