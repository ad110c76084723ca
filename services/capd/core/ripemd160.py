"""RIPEMD-160 (Dobbertin, Bosselaers, Preneel 1996), in Python: OpenSSL 3 leaves it out on many machines."""

from __future__ import annotations

from struct import Struct

_BLOCK, _STATE = Struct("<16I"), Struct("<5I")
_WORD = 0xFFFF_FFFF
_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
_ORDER = tuple(range(16))
_RHO = (7, 4, 13, 1, 10, 6, 15, 3, 12, 0, 9, 5, 2, 14, 11, 8)
_SHIFTS = (
    (11, 14, 15, 12, 5, 8, 7, 9, 11, 13, 14, 15, 6, 7, 9, 8),
    (12, 13, 11, 15, 6, 9, 9, 7, 12, 15, 11, 13, 7, 8, 7, 7),
    (13, 15, 14, 11, 7, 7, 6, 8, 13, 14, 13, 12, 5, 5, 6, 9),
    (14, 11, 12, 14, 8, 6, 5, 5, 15, 12, 15, 14, 9, 9, 8, 6),
    (15, 12, 13, 13, 9, 5, 8, 6, 14, 11, 12, 11, 8, 6, 5, 5),
)
_LEFT_ADDED = (0x00000000, 0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xA953FD4E)
_RIGHT_ADDED = (0x50A28BE6, 0x5C4DD124, 0x6D703EF3, 0x7A6D76E9, 0x00000000)


def _rounds(order: tuple[int, ...]) -> list[tuple[int, ...]]:
    found = [order]
    for _ in range(4):
        found.append(tuple(_RHO[at] for at in found[-1]))
    return found


_LEFT = _rounds(_ORDER)
_RIGHT = _rounds(tuple((9 * at + 5) % 16 for at in _ORDER))


def ripemd160(data: bytes) -> bytes:
    """Return the digest of the data."""
    padded = data + b"\x80" + bytes((55 - len(data)) % 64) + (8 * len(data)).to_bytes(8, "little")
    state = _START
    for words in _BLOCK.iter_unpack(padded):
        left = _line(state, words, _LEFT, _LEFT_ADDED, range(5))
        right = _line(state, words, _RIGHT, _RIGHT_ADDED, range(4, -1, -1))
        a, b, c, d, e = state
        sums = b + left[2] + right[3], c + left[3] + right[4], d + left[4] + right[0], e + left[0] + right[1]
        state = (sums[0] & _WORD, sums[1] & _WORD, sums[2] & _WORD, sums[3] & _WORD, (a + left[1] + right[2]) & _WORD)
    return _STATE.pack(*state)


def _line(
    state: tuple[int, ...], words: tuple[int, ...], orders: list[tuple[int, ...]], added: tuple[int, ...], mixes: range
) -> tuple[int, ...]:
    """Return the state after the five rounds of one line. `mixes`: the number of each round's mixing function."""
    a, b, c, d, e = state
    for order, constant, mix, round_ in zip(orders, added, mixes, range(5), strict=True):
        for at in order:
            turned = (a + _mixed(mix, b, c, d) + words[at] + constant) & _WORD
            by = _SHIFTS[round_][at]
            turned = ((turned << by | turned >> 32 - by) + e) & _WORD
            a, b, c, d, e = e, turned, b, (c << 10 | c >> 22) & _WORD, d
    return a, b, c, d, e


def _mixed(mix: int, x: int, y: int, z: int) -> int:
    match mix:
        case 0:
            return x ^ y ^ z
        case 1:
            return x & y | ~x & z
        case 2:
            return (x | ~y & _WORD) ^ z
        case 3:
            return x & z | y & ~z
        case _:
            return x ^ (y | ~z & _WORD)
