"""What the store is given and what it answers: limits, beginnings, outcomes of a transaction, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from router.core.routing.recovered import Holding


class StoreError(Exception):
    """The store cannot be used; the text says what happened and what to do."""


class MapFull(Exception):
    """The memory map was too small for the transaction; it has been rolled back and the map has grown."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Sizes in bytes, times in seconds; 0 in `map_bytes_max` means no limit but the disk's."""

    synced: bool = True
    map_bytes_initial: int = 64 << 20
    map_bytes_max: int = 0
    keep_s: int = 600
    keep_bytes_max: int = 64 << 20
    cache_bytes_max: int = 32 << 20
    sweep_rows_max: int = 2_000


class Beginning(NamedTuple):
    """What a store made anew starts with: an epoch of its own, an arrival number and a sequence number that no earlier
    store of this home can have reached."""

    epoch: bytes = bytes(8)
    arrival: int = 1
    seq: int = 1


class Applied(NamedTuple):
    """What came of a transaction, for the counters: what nobody is owed any more, and ids forgotten of each holder."""

    released: Sequence[Holding]
    forgotten: Mapping[bytes, int]
    log_value: bytes
