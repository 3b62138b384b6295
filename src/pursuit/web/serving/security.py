"""What the server does not do for just anybody: answer to foreign names, take orders from foreign pages, read without
end."""

import ipaddress
import logging
import time
import traceback
from collections.abc import Collection
from itertools import pairwise
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1_000_000
"""Of a request, unless it brings a picture."""
MOST_HEADER_BYTES = 16_384
"""Of an address with all headers."""
UNREADABLE = (
    f"This is not a request that can be read: it must be HTTP, with at most {MOST_HEADER_BYTES // 1024} kB of address "
    "and headers."
)
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox allow-modals allow-same-origin"
)
HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
KEY_NAME = "pursuit.key"
"""Where a request holds the name of the API key that it was let in by."""
READING = ("GET", "HEAD", "OPTIONS")
MOST_FRAMES = 8
"""Of an error that is logged, the last ones."""
BROKEN = "Something went wrong on the server; its log says what. Nothing was changed."
SHOWN_OF_ID, MOST_LOGGED = 6, 200
"""How many characters are logged of a session's id, and of an address altogether."""
logger = logging.getLogger("pursuit.serving")
requests = logging.getLogger("pursuit.requests")


def framed_headers(embedders: Collection[str]) -> dict[str, str]:
    """The headers of all answers, where pages of these sites may show ours in a frame; raises ValueError for what is
    no site."""
    for site in embedders:
        parts = urlsplit(site)
        is_origin = parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}" == site
        if not is_origin or not parts.hostname or set(site) & set(" ;,'*"):
            raise ValueError(
                f"A site that embeds the interview is named as in --embed https://example.org, not by {site}."
            )
    if not embedders:
        return HEADERS
    policy = PAGE_POLICY.replace("frame-ancestors 'none'", f"frame-ancestors 'self' {' '.join(embedders)}")
    # X-Frame-Options cannot name sites, and every browser that we support goes by the policy.
    others = {name: value for name, value in HEADERS.items() if name != "X-Frame-Options"}
    return {**others, "Content-Security-Policy": policy}


class Guard:
    """Looks at every request before anything else does, and at every answer, those to errors included.

    A page of another site can make a browser send requests here, and by a name that leads to this machine (DNS
    rebinding) even read the answers. So a request must name this server by an address, as localhost, or as one of
    `hosts`; and one that changes anything must not come from a page of another origin than this server or `origins`.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        origins: Collection[str],
        picture_bytes: int,
        embedders: Collection[str] = (),
    ):
        self.app, self.hosts, self.origins = app, {host.casefold() for host in hosts}, set(origins)
        self.headers = framed_headers(embedders)
        self.picture_bytes = picture_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    sent.setdefault(name, value)
            await send(message)

        try:
            await self._answer(scope, receive, with_headers)
        except Exception as error:
            logger.error("%s", without_values(error))
            if status:  # the answer has begun
                if status < 500:
                    raise ConnectionAbortedError("The answer broke off.") from None
            else:
                await JSONResponse({"message": BROKEN}, 500)(scope, receive, with_headers)
        finally:
            if requests.isEnabledFor(logging.INFO):
                took = 1000 * (time.perf_counter() - began)
                who = f" by {scope[KEY_NAME]}" if KEY_NAME in scope else ""
                requests.info("%s %s %d %.0f ms%s", scope["method"], logged_path(scope["path"]), status, took, who)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        problem = (400, UNREADABLE) if _has_long_head(scope) else self._problem(scope["method"], headers)
        limit = self.picture_bytes if headers.get("content-type", "").startswith("multipart/") else MOST_BYTES
        length = headers.get("content-length", "")
        if problem is None and length.isdecimal() and int(length[:20]) > limit:
            problem = 413, too_large(limit)
        if problem is not None:
            status, message = problem
            await JSONResponse({"message": message}, status)(scope, receive, send)
            return

        n_bytes = 0

        async def counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > limit:
                raise HTTPException(413, too_large(limit))
            return message

        await self.app(scope, counted, send)

    def _problem(self, method: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_own(host):
            return 421, (
                "This server does not go by that name. Open it as localhost, or start it with --allow-host and the "
                "name."
            )
        origin = headers.get("origin")
        if method not in READING and origin is not None and origin not in self.origins:
            parts = urlsplit(origin)
            if parts.netloc.casefold() != host.casefold():
                return 403, (
                    "A page of another site may not do that. If it is yours, start the server with --allow-origin and "
                    "the address of the page."
                )
        return None

    def _is_own(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").casefold()
        except ValueError:
            return False
        return name == "localhost" or name in self.hosts or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _has_long_head(scope: Scope) -> bool:
    """Whether address and headers are longer than is allowed: the parser only counts what arrives in pieces."""
    fields = sum(len(name) + len(value) + len(b": \r\n") for name, value in scope["headers"])
    return fields + len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_HEADER_BYTES


def too_large(limit: int) -> str:
    return f"That is too much at once: at most {limit / 1_000_000:g} MB can be sent."


def without_values(error: BaseException) -> str:
    """What went wrong and where, without what the error says: that may hold what a person answered."""
    frames = traceback.extract_tb(error.__traceback__)[-MOST_FRAMES:]
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    causes: list[str] = []
    cause = error
    while cause.__cause__ is not None and len(causes) < MOST_FRAMES:
        cause = cause.__cause__
        causes.append(f" (from {type(cause).__name__})")
    return "\n  ".join([f"A request failed: {type(error).__name__}{''.join(causes)}", *places])


def logged_path(path: str) -> str:
    """The address that was asked for, without what was searched, the ids of sessions in part, and nothing that could
    pass for another line of the log."""
    parts = path.split("/")
    for i, (before, part) in enumerate(pairwise(parts), start=1):
        if before in ("sessions", "s") and len(part) > SHOWN_OF_ID:
            parts[i] = f"{part[:SHOWN_OF_ID]}…"
    text = "/".join(parts)[:MOST_LOGGED]
    return "".join(character if character.isprintable() else "?" for character in text)
