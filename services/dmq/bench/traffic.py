"""Signed messages for a bench, made in advance: of so many pools, right or wrong, in a file that its processes read.

A file holds the messages one after the other, each behind its length in four bytes.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from router.core.wire.crypto import SigningKey
from services.dmq.core.messages.certificate import issue
from services.dmq.core.messages.kes import KesSigningKey
from services.dmq.core.messages.pool_keys import PoolKeys, stake_file
from services.dmq.core.messages.signed_message import DEPLOYED, Dmq05
from services.dmq.core.stake.chain_time import NETWORKS

NETWORK = "preview"
LENGTH = struct.Struct(">I")
EVOLUTION = 3
"""In which period of its certificate a pool speaks, so that the certificate began before now."""
TTL_S = 1700


class Pools(Struct, frozen=True):
    """Pools with keys, and the stake in which all of them stand."""

    keys: tuple[PoolKeys, ...]
    kes_period: int

    @property
    def stake(self) -> bytes:
        return stake_file(*(one.certificate.pool for one in self.keys))


def pools(count: int, seed: int) -> Pools:
    """Return pools whose keys depend on `seed` alone."""
    chance = random.Random(seed)
    period = NETWORKS[NETWORK].kes_period_at(time.time())
    return Pools(tuple(_pool(chance, period) for _ in range(count)), period)


def _pool(chance: random.Random, period: int) -> PoolKeys:
    kes = KesSigningKey.from_seed(chance.randbytes(32))
    certificate = issue(SigningKey(chance.randbytes(32)), kes.public, 0, period - EVOLUTION)
    return PoolKeys(kes.evolved_to(EVOLUTION), certificate)


def write(path: Path, pools: Pools, count: int, bytes_each: int, *, wrong: bool = False) -> int:
    """Write `count` messages, the pools in turn, each `bytes_each` long or as long as may be; return the bytes of all.

    `wrong`: the KES signature of each has one bit that is not right."""
    expires_at = int(time.time()) + TTL_S
    keys, total = pools.keys, 0
    body_bytes = min(DEPLOYED.most, bytes_each - len(_wire(keys[0], bytes(90), pools.kes_period, expires_at)) + 90)
    with path.open("wb") as file:
        for number in range(count):
            wire = _wire(keys[number % len(keys)], os.urandom(max(90, body_bytes)), pools.kes_period, expires_at)
            if wrong:
                at = wire.index(Dmq05().read(wire).kes_signature)
                wire = wire[:at] + bytes((wire[at] ^ 1,)) + wire[at + 1 :]
            file.write(LENGTH.pack(len(wire)) + wire)
            total += len(wire)
    return total


def spread(pools: Pools, bytes_least: int, bytes_most: int, ttl_s: int = TTL_S) -> list[bytes]:
    """Return a message of each pool, the first of them as long as `bytes_least`, the last as `bytes_most`."""
    expires_at, count = int(time.time()) + ttl_s, len(pools.keys)
    around = len(_wire(pools.keys[0], bytes(DEPLOYED.most), pools.kes_period, expires_at)) - DEPLOYED.most
    found = []
    for number, keys in enumerate(pools.keys):
        size = bytes_least + (bytes_most - bytes_least) * number // max(1, count - 1) - around
        body = os.urandom(min(DEPLOYED.most, max(DEPLOYED.least, size)))
        found.append(_wire(keys, body, pools.kes_period, expires_at))
    return found


def write_wires(path: Path, wires: Iterable[bytes]) -> None:
    """Write messages that were made before."""
    path.write_bytes(b"".join(LENGTH.pack(len(wire)) + wire for wire in wires))


def _wire(keys: PoolKeys, body: bytes, period: int, expires_at: int) -> bytes:
    return Dmq05().write(keys.draft(body, period, expires_at=expires_at))


def read(path: Path) -> Iterator[bytes]:
    """Yield the messages of a file."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        begins = at + LENGTH.size
        at = begins + LENGTH.unpack_from(data, at)[0]
        yield data[begins:at]
