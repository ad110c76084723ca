"""The limits of the store and the event log, whose defaults the configuration takes."""

from __future__ import annotations

from msgspec import Struct

MIB = 1 << 20


class StoreLimits(Struct, frozen=True):
    """Sizes in bytes, times in seconds; 0 in `map_bytes_max` means no limit but the disk's."""

    synced: bool = True
    map_bytes_initial: int = 64 * MIB
    map_bytes_max: int = 0
    keep_s: int = 600
    keep_bytes_max: int = 256 * MIB
    history_s: int = 7 * 86_400
    history_bytes_max: int = 1024 * MIB
    cache_bytes_max: int = 32 * MIB
    sweep_rows_max: int = 2_000


class LogLimits(Struct, frozen=True):
    """The size and age at which a segment is closed, the age at which it is compressed (0: never), and the size at
    which the older half of the pruned footers is folded into one."""

    segment_bytes: int = 8 * MIB
    segment_s: int = 3600
    compress_after_s: int = 0
    pruned_bytes: int = 4 * MIB
