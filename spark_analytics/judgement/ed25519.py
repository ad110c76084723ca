"""Verify Ed25519 signatures (RFC 8032 §5.1.7) in plain integers, where only Python is installed.

Like libsodium, it also refuses keys and points of small order, keys that are not spelt canonically, and an S that is
not below the group's order. Nothing here is secret, so nothing is done in constant time. A signature takes about a
millisecond, the first one of a key ten.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha512

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
KEYS_MAX = 64

Point = tuple[int, int, int, int]
"""Extended coordinates (X, Y, Z, T): x = X/Z, y = Y/Z, xy = T/Z."""
Table = tuple[tuple[Point, ...], ...]
"""Row w, column n: n * 16**w times one point, ready to be added: (Y-X, Y+X, 2dT, 2Z)."""

_NEUTRAL: Point = (0, 1, 1, 0)
_ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)
_Y_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL = frozenset((0, 1, P - 1, _Y_OF_ORDER_8, P - _Y_OF_ORDER_8))


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` over `message` is by `key`. False for lengths other than 32 and 64."""
    if len(key) != 32 or len(signature) != 64:
        return False
    point, scalar = signature[:32], int.from_bytes(signature[32:], "little")
    if scalar >= ORDER or _y(point) % P in _SMALL:
        return False
    negative = _table_of_negative(bytes(key))
    if negative is None:
        return False
    hashed = int.from_bytes(sha512(point + key + message).digest(), "little") % ORDER
    return _encode(_plus(_plus(_NEUTRAL, scalar, _BASE), hashed, negative)) == point


def _y(encoded: bytes) -> int:
    return int.from_bytes(encoded, "little") & ((1 << 255) - 1)


@lru_cache(maxsize=KEYS_MAX)
def _table_of_negative(key: bytes) -> Table | None:
    """Return the table of minus the key's point; None if it is no valid key."""
    y, sign = _y(key), key[31] >> 7
    if y >= P or y in _SMALL:
        return None
    x = _x(y, sign)
    return None if x is None else _table((P - x, y, 1, (P - x) * y % P))


def _x(y: int, sign: int) -> int | None:
    """Recover x from y and its sign (RFC 8032 §5.1.3); None if no point of the curve has this y."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * _ROOT_OF_MINUS_ONE % P
    if (x * x - square) % P:
        return None
    return x if x & 1 == sign else P - x


def _encode(point: Point) -> bytes:
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _table(point: Point) -> Table:
    rows = []
    for _ in range(64):
        addend, row = _addend(point), [_NEUTRAL]
        for _ in range(15):
            row.append(_add(row[-1], addend))
        rows.append(tuple(map(_addend, row)))
        point = _add(row[-1], addend)
    return tuple(rows)


def _plus(point: Point, times: int, table: Table) -> Point:
    for row in table:
        if times & 15:
            point = _add(point, row[times & 15])
        times >>= 4
    return point


def _addend(point: Point) -> Point:
    x, y, z, t = point
    return (y - x) % P, (y + x) % P, 2 * D * t % P, 2 * z % P


def _add(point: Point, addend: Point) -> Point:
    """Add two points (RFC 8032 §5.1.4). The formula is complete: it adds any two points, equal and neutral ones too."""
    x, y, z, t = point
    a = (y - x) * addend[0] % P
    b = (y + x) * addend[1] % P
    c = t * addend[2] % P
    d = z * addend[3] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


_BASE_Y = 4 * pow(5, -1, P) % P
_BASE_X = _x(_BASE_Y, 0) or 0
_BASE = _table((_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % P))
