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


class StoreSpace(NamedTuple):
    """Bytes of a store: in pages that are in use, of its file on the disk, and at most; 0 if only the disk sets a
    limit."""

    used: int
    allocated: int
    most: int

    @property
    def reusable(self) -> int:
        """Return the bytes in free pages of the file, which can be filled without more disk space."""
        return max(0, self.allocated - self.used)
