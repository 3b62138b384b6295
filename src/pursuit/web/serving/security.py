"""What the server does not do for just anybody: answer to foreign names, take orders from foreign pages, read without
end."""

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1_000_000
"""Of a request, unless it brings a picture."""
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
    "Cache-Control": "no-store",
}
READING = ("GET", "HEAD", "OPTIONS")


class Guard:
    """Looks at every request before anything else does.

    A page of another site can make a browser send requests here, and by a name that leads to this machine (DNS
    rebinding) even read the answers. So a request must name this server by an address, as localhost, or as one of
    `hosts`; and one that changes anything must not come from a page of another origin than this server or `origins`.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str], picture_bytes: int):
        self.app, self.hosts, self.origins = app, {host.casefold() for host in hosts}, set(origins)
        self.picture_bytes = picture_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self._problem(scope["method"], headers)
        limit = self.picture_bytes if headers.get("content-type", "").startswith("multipart/") else MOST_BYTES
        if problem is None and _is_longer(headers.get("content-length"), limit):
            problem = 413, too_large(limit)
        if problem is not None:
            status, message = problem
            response = JSONResponse({"message": message}, status, headers=HEADERS)
            await response(scope, receive, send)
            return

        n_bytes = 0

        async def counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > limit:
                raise HTTPException(413, too_large(limit))
            return message

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent.setdefault(name, value)
            await send(message)

        await self.app(scope, counted, with_headers)

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


def _is_longer(length: str | None, limit: int) -> bool:
    return length is not None and length.isdecimal() and int(length[:20]) > limit


def too_large(limit: int) -> str:
    return f"That is too much at once: at most {limit / 1_000_000:g} MB can be sent."
