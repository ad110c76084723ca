"""Pools of many messages for a bench, made without doing the work of a million messages: their ids are random bytes."""

from __future__ import annotations

from random import Random

from services.capd.core.columns import NEVER_S, Row
from services.capd.core.limits import PoolLimits
from services.capd.core.message import COUNTED_BYTES, NEVER, CapdMessage
from services.capd.core.pool import Pool
from services.capd.core.priority import LIFE_S
from services.capd.core.solving import bits_of_priority, tried

NOW_S = 1_800_000_000
DATA_BYTES = 100
HALF_BYTES, KEY_BYTES = 8, 16
ALIKE = 1_000
"""Messages that share a first half of the key, unless all of a pool do."""
OFFER = b"TKD\x0c\x01\x02\x03\x04"


def first_half(number: int, count: int) -> bytes:
    """Return the first half of a message's key where `ALIKE` messages share one."""
    return (0x20_00_00_00_00_00_00_00 + number % max(1, count // ALIKE)).to_bytes(HALF_BYTES)


def full_pool(count: int, *, one_half: bool = False, seed: int = 1) -> Pool:
    """Return a full pool of `count` messages of 100 bytes, made within the last ten minutes, with priorities of 2 to 42
    at first. `one_half`: whether the first halves of all keys are equal."""
    chance = Random(seed)
    pool = Pool(PoolLimits(bytes_max=max(4096, count * (COUNTED_BYTES + DATA_BYTES))))
    rest = bytes(DATA_BYTES - KEY_BYTES)
    for number in range(count):
        half = OFFER if one_half else first_half(number, count)
        initial, created = 2.0 + 40.0 * chance.random() ** 4, NOW_S - chance.randrange(LIFE_S)
        message = CapdMessage(half + chance.randbytes(HALF_BYTES) + rest, created, 0)
        row = Row(number + 1, chance.randbytes(32), initial, created, COUNTED_BYTES + DATA_BYTES, NEVER_S)
        pool.restore(row, message, NOW_S)
    return pool


def newcomers(count: int, at_s: int, seed: int = 2) -> list[tuple[CapdMessage, bytes]]:
    """Return `count` solved messages with a priority of 2, created at a Unix second, each with its id."""
    chance = Random(seed)
    found: list[tuple[CapdMessage, bytes]] = []
    while len(found) < count:
        bits = bits_of_priority(2.0, DATA_BYTES, len(found) % 128)
        message = CapdMessage(chance.randbytes(DATA_BYTES), at_s, bits, b"", NEVER)
        nonce = tried(message.stage1(), bits, 0, 1 << 14)
        if nonce is not None:
            message = CapdMessage(message.data, at_s, bits, nonce)
            found.append((message, message.own_id()))
    return found
