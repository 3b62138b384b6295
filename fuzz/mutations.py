"""How good input is made bad: byte by byte, and value by value."""

import copy
import json
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

BYTES = (
    b"\0",
    b"\xff",
    b"\xfe\xff",
    b"\xef\xbb\xbf",
    b"\x1b[2J",
    b"\r\n",
    b"\n",
    b"\r",
    b'"',
    b'""',
    b"'",
    b",",
    b";",
    b"\t",
    b"{",
    b"[",
    b"]",
    b"}",
    b"nan",
    b"inf",
    b"-1",
    b"1e999",
    b"9" * 400,
    b"\\u0000",
    b"\xc3\x28",
    b"\xf0\x9f\x98\x80",
    b"\x80\x04",
    b"\x1f\x8b\x08",
    b"PK\x03\x04",
    b"=cmd|'/c calc'!A1",
    b"../../../x",
    b"%s%n",
    b"<script>",
)
"""What has confused readers before."""
TEXTS = (
    "",
    " ",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x00",
    "\x9b31m",
    "\u202eevil",
    "\ud800",
    "é",
    "e\u0301",
    "ﬁ",
    "İ",
    "ß",
    "\u200b",
    "😀" * 50,
    "x" * 70_000,
    "nan",
    "NA",
    "null",
    "None",
    "inf",
    "-inf",
    "1e400",
    "1,5",
    "1.234,5",
    "0x10",
    "1_000",
    "٣",
    "½",
    "true",
    "yes",
    "no",
    "?",
    "2024-02-30",
    "31.12.2024",
    "0000-00-00",
    "99999-01-01",
    "[bold]",
    "__class__",
    "../x",
    "a\nb",
    "a\tb",
    "a,b",
    'a"b',
    "type",
    "Query",
    "MLP",
)
NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    3,
    2**31,
    2**63,
    -(2**63) - 1,
    10**18,
    10**400,
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
)
VALUES: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"type": "MLP"}, {"type": "os.system"}, *NUMBERS, *TEXTS)


def mutated_bytes(rng: random.Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The bytes with one to a few changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 10))):
        data = rng.choice(_CHANGES)(rng, data, others)
    return data


def _flip(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]


def _insert(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(BYTES) * rng.choice((1, 1, 1, 1, 50)) + data[place:]


def _delete(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + data[place + rng.choice((1, 2, 4, 16, 100)) :]


def _repeat(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(data) + 1)
    part = data[place : place + rng.choice((1, 8, 64, 500))]
    return data[:place] + part * rng.choice((2, 3, 20)) + data[place:]


def _cut(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _integer(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Another number where a length or a place may stand."""
    size = rng.choice("BHIQ")
    number = rng.choice((0, 1, 255, 2**15, 2**31 - 1, 2**32 - 1, 2**63)) % 2 ** (8 * struct.calcsize(size))
    place = rng.randrange(len(data) + 1)
    packed = struct.pack(rng.choice("<>") + size, number)
    return data[:place] + packed + data[place + len(packed) :]


def _splice(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not others:
        return _flip(rng, data, others)
    other = rng.choice(others)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


_CHANGES: tuple[Callable[[random.Random, bytes, Sequence[bytes]], bytes], ...] = (
    _flip,
    _flip,
    _insert,
    _insert,
    _delete,
    _repeat,
    _cut,
    _integer,
    _splice,
)


def mutated_value(rng: random.Random, value: Any) -> Any:
    """A JSON value with one to a few changes inside."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = _changed(rng, value)
    return value


def _any_value(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(VALUES))  # what is inside may be changed later


def _changed(rng: random.Random, value: Any) -> Any:
    places = list(_places(value))
    if not places or rng.random() < 0.02:
        return _any_value(rng)
    inside, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del inside[key]
        case 1:
            inside[key] = _other(rng, inside[key])
        case 2:
            inside[key] = [inside[key]]
        case 3 if isinstance(inside, list):
            inside.insert(key, inside[key])
        case 4:  # a value from somewhere else in the same file
            other, where = rng.choice(places)
            inside[key] = json.loads(json.dumps(other[where])) if _has(other, where) else None
        case _:
            inside[key] = _any_value(rng)
    return value


def _has(inside: Any, key: Any) -> bool:
    return key in inside if isinstance(inside, dict) else key < len(inside)


def _other(rng: random.Random, value: Any) -> Any:
    """Something of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice((value + 1, value - 1, -value, value * 1000, *NUMBERS))
    if isinstance(value, str):
        return rng.choice((value.upper(), value[:-1], value * 2, value + "\x1b[0m", *TEXTS))
    if isinstance(value, list):
        return rng.choice((value[::-1], value * 2, value[:1], value[1:], value * 200))
    if isinstance(value, dict):
        return dict(list(value.items())[::-1])
    return _any_value(rng)


def _places(value: Any) -> Any:
    """Every list or mapping inside a value, with every key in it."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def json_text(rng: random.Random, value: Any) -> bytes:
    """JSON of a value, in rare cases spoilt as text."""
    text = json.dumps(value)
    chance = rng.random()
    if chance < 0.03:
        depth = rng.choice((500, 5_000, 200_000))
        text = rng.choice(("[" * depth, '{"a":' * depth, "[" * depth + "]" * depth))
    elif chance < 0.05:
        text = text.replace(": ", ": 1" + "0" * 5_000, 1)
    data = text.encode("utf-8", errors="surrogatepass")
    return mutated_bytes(rng, data) if chance > 0.85 else data
