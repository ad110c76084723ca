"""The size of a pool, and the rules by which it takes and loses messages."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from .message import COUNTED_BYTES

NONCE_BYTES_MAX = 255
POOL_BYTES = 10 << 20
DATA_BYTES_MAX = 64 << 10
DATA_SHARE = 8


class Profile(Enum):
    """The rules by which a pool takes and loses messages."""

    STRICT = "strict"
    COMPAT = "compat"


class Standing(Enum):
    """The state of a message, as it is printed; only messages in the first three are served and matched."""

    RELAYED = "relayed"
    LOCAL = "local"
    FADED = "faded"
    EXPIRED = "expired"
    RESCINDED = "rescinded"

    @property
    def is_served(self) -> bool:
        return self in (Standing.RELAYED, Standing.LOCAL, Standing.FADED)


class PoolLimits(Struct, frozen=True):
    """The bytes of a pool, and of the data in one of its messages under the strict profile."""

    bytes_max: int = POOL_BYTES
    data_bytes_max: int = DATA_BYTES_MAX

    @property
    def of_one(self) -> int:
        """Return the most bytes of data in one message, such that at least eight messages fit in the pool."""
        return min(self.data_bytes_max, max(0, self.bytes_max // DATA_SHARE - COUNTED_BYTES))
