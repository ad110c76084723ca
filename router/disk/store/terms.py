"""The store's arguments and answers: beginnings, outcomes of a transaction, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from router.core.log.events import Logged
from router.core.routing.recovered import Holding


class StoreError(Exception):
    """The store cannot be used; the text says what happened and what to do."""


class MapFull(Exception):
    """The memory map was too small for the transaction; it has been rolled back and the map has grown."""


class Beginning(NamedTuple):
    """The values that a new store starts with: a fresh epoch, and an arrival number and a sequence number that no
    earlier store of this home can have reached."""

    epoch: bytes = bytes(8)
    arrival: int = 1
    seq: int = 1


class Applied(NamedTuple):
    """The outcome of a transaction: parcels that are owed to no recipient any more, the number of ids forgotten of each
    holder, and the events to log."""

    released: Sequence[Holding]
    forgotten: Mapping[bytes, int]
    logged: Logged | None
