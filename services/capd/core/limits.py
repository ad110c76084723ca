"""How much a pool holds, and by which rules it takes and loses messages."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from .message import COUNTED_BYTES

NONCE_BYTES_MAX = 255
POOL_BYTES = 10 << 20
DATA_BYTES_MAX = 64 << 10
DATA_SHARE = 8
LAST_S = 300
"""A strict pool passes a message on until so many seconds before its own expiration (seed 004)."""


class Profile(Enum):
    """By which rules a pool takes and loses messages."""

    STRICT = "strict"
    COMPAT = "compat"


class Standing(Enum):
    """How a message stands, as it is printed: only those of the first three are served and matched."""

    RELAYED = "relayed"
    LOCAL = "local"
    FADED = "faded"
    EXPIRED = "expired"
    RESCINDED = "rescinded"

    @property
    def is_served(self) -> bool:
        return self in (Standing.RELAYED, Standing.LOCAL, Standing.FADED)


class PoolLimits(Struct, frozen=True):
    """How much a pool holds, and how much data one of its messages may have under the strict profile."""

    bytes_max: int = POOL_BYTES
    data_bytes_max: int = DATA_BYTES_MAX

    @property
    def of_one(self) -> int:
        """Bytes of data in one message at most: a pool is never filled by fewer than eight."""
        return min(self.data_bytes_max, max(0, self.bytes_max // DATA_SHARE - COUNTED_BYTES))
