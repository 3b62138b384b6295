"""Who may come in, and how often: a token that all users share, another one of the operator, and a bucket of requests
for each address."""

import hashlib
import hmac
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pursuit.web.serving.options import ServingOptions
from pursuit.web.serving.pages import ASSETS, is_page
from pursuit.web.serving.security import KEY_NAME

LEAST_CHARACTERS = 16
MOST_CHARACTERS = 500
COOKIE_DAYS = 30
VARIABLE = "PURSUIT_TOKEN"
OPERATOR_VARIABLE = "PURSUIT_OPERATOR_TOKEN"
HOW_TO_MAKE = "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(24))'"
NEEDED = "This server asks for a token: send it as Authorization: Bearer TOKEN, or open the page and type it there."


class Token:
    """The secret, and how a request shows that it knows it.

    A browser gets a cookie that follows from the token and does not contain it. No script can read it, and no page of
    another site can make the browser send it.
    """

    def __init__(self, secret: str):
        if not LEAST_CHARACTERS <= len(secret) <= MOST_CHARACTERS:
            raise ValueError(
                f"A token has at least {LEAST_CHARACTERS} characters, so that nobody guesses it, and at most "
                f"{MOST_CHARACTERS}. {HOW_TO_MAKE}"
            )
        if not secret.isascii() or not secret.isprintable() or " " in secret:
            raise ValueError(f"A token is made of letters, digits and signs without a space. {HOW_TO_MAKE}")
        self._secret = secret.encode()
        self._cookie = hmac.new(self._secret, b"pursuit cookie", hashlib.sha256).hexdigest()
        # Browsers send the cookies of all ports of a machine, so servers with other tokens need other names.
        self._name = "pursuit_" + hmac.new(self._secret, b"pursuit name", hashlib.sha256).hexdigest()[:8]

    def is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._secret)

    def is_in_cookie(self, request: Request) -> bool:
        given = request.cookies.get(self._name, "")
        return hmac.compare_digest(given.encode(errors="replace"), self._cookie.encode())

    def put_in_cookie(self, response: Response, is_secure: bool) -> None:
        """Let a browser in from now on."""
        days = COOKIE_DAYS * 86_400
        response.set_cookie(self._name, self._cookie, days, httponly=True, samesite="strict", secure=is_secure)


def bearer(request: Request) -> str | None:
    """The token that a request names in its header."""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if kind.casefold() == "bearer" else None


def read_token(text: str | None, file: Path | None) -> str | None:
    """The token given as such, or in a file; raises ValueError if it cannot be one."""
    if text is not None and file is not None:
        raise ValueError("Give the token either by --token (or PURSUIT_TOKEN) or by --token-file, not both.")
    if file is not None:
        text = _text_of(file, "The token").strip()
    if text is not None:
        Token(text)
    return text


def _text_of(file: Path, what: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise ValueError(f"{what} cannot be read from {file}: {reason}.") from None


def read_keys(file: Path) -> dict[str, str]:
    """API keys by name, from a file with a line NAME KEY for each; raises ValueError saying what is wrong."""
    keys: dict[str, str] = {}
    for number, line in enumerate(_text_of(file, "API keys").splitlines(), start=1):
        name, _, key = line.strip().partition(" ")
        if not name or name.startswith("#"):
            continue
        try:
            Token(key.strip())
        except ValueError as error:
            raise ValueError(f"Line {number} of {file} is no API key: write NAME KEY. {error}") from None
        if name in keys or key.strip() in keys.values():
            raise ValueError(f"Line {number} of {file} has a name or a key that stands above already: give another.")
        keys[name] = key.strip()
    if not keys:
        raise ValueError(f"{file} has no API keys: write a line NAME KEY for each. {HOW_TO_MAKE}")
    return keys


MOST_CLIENTS = 10_000
"""Of which it is remembered what they asked for; the one seen longest ago is forgotten first."""
FILE_SHARE = 0.1
"""What a page or one of its files counts, beside a request to the API: a page has dozens of them."""
IPV6_BITS = 64
"""Of an address: the rest is anybody's own choice in one network."""
COMPUTED = ("/api/", "/fhir/", "/mcp")
"""What is no page and no file."""
SECONDS_AT_ONCE = 15
"""How many seconds' worth of requests may come in one moment."""
BEGINNING = ("/api/sessions", "/api/sessions/picture")
"""Where a POST begins a session."""


@dataclass(frozen=True)
class Rates:
    """How much is taken from one address, by each process. 0 is without a limit.

    The defaults leave room for three hundred people behind one address who answer every second or two, and who all
    arrive in the same moment: one process answers about a hundred moves a second.
    """

    per_second: float = ServingOptions.rate
    """Requests, over time."""
    at_once: float = SECONDS_AT_ONCE * ServingOptions.rate
    """Requests, before that counts."""
    new_sessions: float = ServingOptions.new_sessions
    """A minute; as many may begin at once."""
    wrong_tokens: float = 20.0
    """A minute; as many may be tried at once."""


class Buckets:
    """One for each client: it holds `size` at most, and fills by `per_second`."""

    def __init__(self, per_second: float, size: float, clock: Callable[[], float] = time.monotonic):
        self._per_second, self._size, self._clock = per_second, size, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when that was

    def wait(self, client: str, amount: float = 1.0) -> float:
        """How many seconds until the client may have so much; 0: now."""
        if not self._per_second:
            return 0.0
        return max(0.0, (amount - self._now(client)) / self._per_second)

    def take(self, client: str, amount: float = 1.0) -> float:
        """The same; what it may have now is taken."""
        seconds = self.wait(client, amount)
        if not seconds and self._per_second:
            self._left[client] = self._now(client) - amount, self._clock()
            self._left.move_to_end(client)
            while len(self._left) > MOST_CLIENTS:
                self._left.popitem(last=False)
        return seconds

    def _now(self, client: str) -> float:
        left, since = self._left.get(client, (self._size, self._clock()))
        return min(self._size, left + (self._clock() - since) * self._per_second)


class Limits:
    """What each client asked for lately. It belongs to one thread, that of the event loop."""

    def __init__(self, rates: Rates, clock: Callable[[], float] = time.monotonic):
        self._requests = Buckets(rates.per_second, rates.at_once, clock)
        self._beginnings = Buckets(rates.new_sessions / 60, rates.new_sessions, clock)
        self._failures = Buckets(rates.wrong_tokens / 60, rates.wrong_tokens, clock)

    def problem(self, scope: Scope) -> tuple[int, str] | None:
        """After how many seconds to come again, and why, where a client asks for too much."""
        client, path = client_of(scope), scope["path"]
        if seconds := self._requests.take(client, 1.0 if path.startswith(COMPUTED) else FILE_SHARE):
            return _again(seconds, "There were too many requests from your address.")
        if scope["method"] == "POST" and path in BEGINNING and (seconds := self._beginnings.take(client)):
            return _again(seconds, "Too many sessions were begun from your address.")
        return None

    def guessing_problem(self, scope: Scope) -> tuple[int, str] | None:
        """The same for a client that names a token, before anybody looks whether it is right."""
        seconds = self._failures.wait(client_of(scope))
        return _again(seconds, "A wrong token was given too often from your address.") if seconds else None

    def note_wrong_token(self, scope: Scope) -> None:
        self._failures.take(client_of(scope))


def _again(seconds: float, reason: str) -> tuple[int, str]:
    whole = max(1, math.ceil(seconds))
    return whole, f"{reason} Try again in {whole} second{'' if whole == 1 else 's'}."


def client_of(scope: Scope) -> str:
    """Who asks."""
    return network_of(scope["client"][0] if scope.get("client") else "")


def network_of(host: str) -> str:
    """An address, of which IPv6 has the network alone."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, IPV6_BITS), strict=False))
    return host


ENTRANCE = "/api/token"
"""Where a browser brings the token, once."""
WRONG = "That is not the token of this server."


class Authentication:
    """Turns away who asks too much, and who does not know the token, where there is one. The operator's token lets in,
    too.

    Somebody without it gets the page without any content, and the page asks for the token.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        token: Token | None,
        operator: Token | None,
        frame: bytes,
        keys: Mapping[str, Token] | None = None,
    ):
        self.app, self.limits, self.frame, self.keys = app, limits, frame, keys or {}
        self.is_open = token is None and not self.keys
        self.tokens = [*(one for one in (token, operator) if one is not None), *self.keys.values()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if problem := self.limits.problem(scope):
            refusal: Response | None = too_many(*problem)
        elif self.tokens and scope["path"] == ENTRANCE and scope["method"] == "POST":
            refusal = await self._let_in(scope, receive)
        else:
            refusal = self._unless_known(scope)
        await (refusal or self.app)(scope, receive, send)

    def _unless_known(self, scope: Scope) -> Response | None:
        request, path = Request(scope), scope["path"]
        if path.startswith(f"{ASSETS}/") or any(token.is_in_cookie(request) for token in self.tokens):
            return None
        if self.tokens and (given := bearer(request)) is not None:
            known = self._judge(scope, given)
            if isinstance(known, Response):
                return known
            for name, key in self.keys.items():
                if key is known:
                    scope[KEY_NAME] = name
            return None
        if self.is_open:
            return None
        if is_page(path) and scope["method"] in ("GET", "HEAD"):
            return Response(self.frame, 401, media_type="text/html")
        return _unknown(NEEDED)

    def _judge(self, scope: Scope, given: str) -> Token | Response:
        """The token that is given, or a refusal."""
        if problem := self.limits.guessing_problem(scope):
            return too_many(*problem)
        for token in self.tokens:
            if token.is_right(given):
                return token
        self.limits.note_wrong_token(scope)
        return _unknown(WRONG)

    async def _let_in(self, scope: Scope, receive: Receive) -> Response:
        try:
            given = (await Request(scope, receive).json())["token"]
        except (ValueError, TypeError, KeyError, RecursionError, ClientDisconnect):
            given = None
        if not isinstance(given, str):
            return JSONResponse({"message": 'Send the token as JSON: {"token": "…"}.'}, 422)
        known = self._judge(scope, given.strip())
        if isinstance(known, Response):
            return known
        welcome = Response(status_code=204)
        known.put_in_cookie(welcome, is_secure=scope["scheme"] == "https")
        return welcome


def _unknown(message: str) -> Response:
    return JSONResponse({"message": message}, 401, headers={"WWW-Authenticate": 'Bearer realm="pursuit"'})


def too_many(seconds: int, message: str) -> Response:
    return JSONResponse({"message": message}, 429, headers={"Retry-After": str(seconds)})
