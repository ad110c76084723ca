"""Slots, KES periods and epochs of a Cardano network by the clock, without a chain (F3).

Because the Byron era had longer slots, a network's slots are counted from an anchor: the first slot of an epoch of the
Shelley era, and its time.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from msgspec import Struct

GENESIS_BYTES_MAX = 16 << 20


class BadGenesis(ValueError):
    """A file is not a Shelley genesis; the text says what is wrong and what to do."""


class ChainTime(Struct, frozen=True):
    """The constants of a network. Times are Unix seconds."""

    anchor_slot: int
    anchor_s: float
    slot_s: float = 1.0
    slots_per_kes_period: int = 129_600
    slots_per_epoch: int = 432_000
    kes_evolutions_max: int = 62

    def slot_at(self, wall_s: float) -> int:
        return self.anchor_slot + int((wall_s - self.anchor_s) // self.slot_s)

    def kes_period_at(self, wall_s: float) -> int:
        return self.slot_at(wall_s) // self.slots_per_kes_period

    def epoch_start_s(self, wall_s: float) -> float:
        """Return the begin of the epoch in which `wall_s` lies: an earlier stake file is of another epoch."""
        epochs = (self.slot_at(wall_s) - self.anchor_slot) // self.slots_per_epoch
        return self.anchor_s + epochs * self.slots_per_epoch * self.slot_s


MAINNET = ChainTime(4_492_800, 1_596_059_091)
PREPROD = ChainTime(86_400, 1_655_769_600)
PREVIEW = ChainTime(0, 1_666_656_000, slots_per_epoch=86_400)
NETWORKS = {"mainnet": MAINNET, "preprod": PREPROD, "preview": PREVIEW}
CARDANO_MAGICS = {"mainnet": 764_824_073, "preprod": 1, "preview": 2}
"""The magic of each public network's Cardano nodes, which a Shelley genesis names; its DMQ nodes have another."""


def cardano_network(magic: int) -> str:
    """Return the name of the public network whose Cardano nodes have this magic; "" if it is none of them."""
    return next((name for name, known in CARDANO_MAGICS.items() if known == magic), "")


def read_genesis(data: bytes) -> ChainTime:
    """Return the constants of a Shelley genesis file; raise `BadGenesis` for anything else.

    The anchors of the public networks are known by their magic; any other network is taken to begin with Shelley.
    """
    if len(data) > GENESIS_BYTES_MAX:
        raise _bad(f"it is longer than {GENESIS_BYTES_MAX} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise _bad("it is no JSON, or not all of it") from None
    known = NETWORKS.get(cardano_network(_positive(found, "networkMagic")))
    rest = [_positive(found, key) for key in ("slotsPerKESPeriod", "epochLength", "maxKESEvolutions")]
    try:
        begins, slot_s = datetime.fromisoformat(found["systemStart"]), float(found["slotLength"])
        anchor = (known.anchor_slot, known.anchor_s) if known else (0, begins.timestamp())
    except (KeyError, ValueError, TypeError, OverflowError):
        raise _bad("systemStart is no time, or slotLength no number") from None
    if begins.tzinfo is None or not 0 < slot_s < 1e6:
        raise _bad("systemStart lacks its time zone, or slotLength is out of range")
    return ChainTime(*anchor, slot_s, *rest)


def genesis_network(data: bytes) -> str:
    """Return the name of the public network of a Shelley genesis that `read_genesis` takes; "" if it is of another."""
    return cardano_network(json.loads(data)["networkMagic"])


def _positive(found: Any, key: str) -> int:
    number = found.get(key) if isinstance(found, dict) else None
    if type(number) is not int or not 0 < number < 1 << 53:
        raise _bad(f"{key} is no positive number")
    return number


def _bad(what: str) -> BadGenesis:
    return BadGenesis(f"this is no Shelley genesis: {what}; name the network's shelley-genesis.json, as published")
