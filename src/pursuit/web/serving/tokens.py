"""A token that all who may use the server share: without it nothing but the empty page is given out."""

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from starlette.datastructures import Headers

LEAST_CHARACTERS = 16
MOST_CHARACTERS = 500
COOKIE_DAYS = 30
VARIABLE = "PURSUIT_TOKEN"
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

    def is_in_cookie(self, headers: Headers) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(self._name)
        return found is not None and hmac.compare_digest(found.value.encode(errors="replace"), self._cookie.encode())

    def cookie(self, is_secure: bool) -> str:
        """The header that lets a browser in from now on."""
        parts = [f"{self._name}={self._cookie}", "HttpOnly", "SameSite=Strict", "Path=/"]
        return "; ".join([*parts, f"Max-Age={COOKIE_DAYS * 86_400}", *(["Secure"] if is_secure else [])])


def bearer(headers: Headers) -> str | None:
    """The token that a request names in its header."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if kind.casefold() == "bearer" else None


def read_token(text: str | None, file: Path | None) -> str | None:
    """The token given as such, or in a file; raises ValueError if it cannot be one."""
    if text is not None and file is not None:
        raise ValueError("Give the token either by --token (or PURSUIT_TOKEN) or by --token-file, not both.")
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a text"
            raise ValueError(f"The token cannot be read from {file}: {reason}.") from None
    if text is not None:
        Token(text)
    return text
