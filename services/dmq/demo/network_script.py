"""The messages of the network's demo, each of a pool of its own."""

from __future__ import annotations

from msgspec import Struct

from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.demo.script import written

FIRST, MEANWHILE, AFTER = 8, 4, 2
"""How many messages are handed in while all nodes run, while some are away, and when these are back."""


class NetworkScript(Struct, frozen=True):
    """The messages by when they are handed in, and the stake of their pools; `forged`: one with a wrong signature."""

    first: tuple[bytes, ...]
    meanwhile: tuple[bytes, ...]
    after: tuple[bytes, ...]
    by_unicast: bytes
    forged: bytes
    stake: bytes


def network_script(kes_period: int, wall_s: float) -> NetworkScript:
    """Return the script, with pools that are made for it."""
    found = written(1, kes_period, wall_s)
    special = {one.wire for one in (found.choking, found.twice[1], found.one_id[1])}
    lines = [one.wire for one in found.lines if one.fault is None and one.wire not in special]
    whole = iter(lines)
    first, meanwhile, after = (tuple([next(whole) for _ in range(count)]) for count in (FIRST, MEANWHILE, AFTER))
    by_unicast, forged = next(whole), bytearray(next(whole))
    signature = Dmq05().read(bytes(forged)).kes_signature
    forged[forged.index(signature)] ^= 1
    return NetworkScript(first, meanwhile, after, by_unicast, bytes(forged), found.stake)
