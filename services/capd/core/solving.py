"""The work of a message: the order of nonces, the work that a lifetime needs, and the attempts that it takes.

Nonces are tried as the reference tries them: all of one byte, then of two, three, four and so on, each a little-endian
counter. Each nonce thus has a place in one sequence, which processes share in parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from msgspec import Struct

from .compact_bits import target_of
from .message import NEVER, NO_HASH, CapdMessage
from .priority import LIFE_S, RELAY_PRIORITY, bits_for

BACKDATED_S = 5
"""Seconds by which a message is dated back, so that nodes whose clocks are behind do not see one from the future."""
PART = 1 << 16
"""Nonces that are tried in one go, before other work gets its chance."""
NONCE_BYTES_MAX = 8
HARDER_MAX = 128
"""Most additional work, in parts of 65,536 (0.2 %), so that equal messages of one second differ."""


class Unsolvable(ValueError):
    """Raised for work that cannot be done; the text says why and what to ask for instead."""


class Draft(Struct, frozen=True):
    """A message without its nonce, to be solved."""

    data: bytes
    create_time: int
    difficulty_bits: int
    expiration: int = NEVER
    rescind_hash: bytes = NO_HASH

    def solved(self, nonce: bytes) -> CapdMessage:
        """Return the message with this nonce."""
        return CapdMessage(self.data, self.create_time, self.difficulty_bits, nonce, self.expiration, self.rescind_hash)


def born_at(now_s: int, life_s: int) -> int:
    """Return the creation time for a message: 5 s ago, or less if its life would not fit otherwise."""
    return now_s - max(0, min(BACKDATED_S, LIFE_S - 1 - life_s))


def priority_for(life_s: int, line: float = RELAY_PRIORITY) -> float:
    """Return the initial priority with which a message made now stays above the line for `life_s` seconds. Raise
    `Unsolvable`."""
    if life_s >= LIFE_S:
        said = f"no work makes a message live for {life_s} s: at {LIFE_S} s the priority of each is used up"
        raise Unsolvable(f"{said}; ask for less, and post it again when its time has come")
    return line / (1.0 - (life_s - born_at(0, life_s)) / LIFE_S)


def bits_of_priority(priority: float, length: int, harder_by: int = 0) -> int:
    """Return the bits for an initial priority. Raise `Unsolvable`."""
    try:
        return bits_for(priority, length, harder_by)
    except ValueError as error:
        raise Unsolvable(f"{error}; ask for another one") from None


def attempts_for(bits: int) -> float:
    """Return the average number of nonces to try. Raise `Unsolvable` for a target of 0."""
    target = target_of(bits)
    if not target:
        raise Unsolvable("the target is 0, which no id is below; choose other bits")
    return float(1 << 256) / target


def nonces(first: int, count: int) -> Iterator[bytes]:
    """Yield the nonces at these places of the sequence."""
    for width in range(1, NONCE_BYTES_MAX + 1):
        room = 1 << 8 * width
        if first < room:
            here = min(count, room - first)
            for number in range(first, first + here):
                yield number.to_bytes(width, "little")
            count -= here
            if not count:
                return
            first += here
        first -= room


def tried(stage1: bytes, bits: int, first: int, count: int = PART) -> bytes | None:
    """Return the first nonce at these places that does the work, or None.

    The most significant byte of an id nearly always decides, so it alone is compared first."""
    target = target_of(bits)
    top_max = target >> 248
    copy = sha256(stage1).copy
    for nonce in nonces(first, count):
        once = copy()
        once.update(nonce)
        found = sha256(once.digest()).digest()
        if found[31] <= top_max and int.from_bytes(found, "little") < target:
            return nonce
    return None
