"""How much one client may ask for: a bucket of requests for each address, which fills again with time."""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import Scope

MOST_CLIENTS = 10_000
"""Of which it is remembered what they asked for; the one seen longest ago is forgotten first."""
FILE_SHARE = 0.1
"""What a page or one of its files counts, beside a request to the API: a page has dozens of them."""
IPV6_BITS = 64
"""Of an address: the rest is anybody's own choice in one network."""
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

    per_second: float = 200.0
    """Requests, over time."""
    at_once: float = SECONDS_AT_ONCE * 200.0
    """Requests, before that counts."""
    new_sessions: float = 600.0
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
        if seconds := self._requests.take(client, 1.0 if path.startswith("/api/") else FILE_SHARE):
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
    """Who asks: an address, of which IPv6 has the network alone."""
    host = scope["client"][0] if scope.get("client") else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, IPV6_BITS), strict=False))
    return host
