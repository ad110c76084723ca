"""Memory of a long-running process: collector and allocator set for short-lived batches."""

from __future__ import annotations

import ctypes
import gc
import sys

COLLECT_AFTER = (100_000, 20, 50)
MAP_BYTES = 512 * 1024  # a block of this size, as a parcel's frames, is mapped alone and returns to the system
FREE_BYTES = 32 << 20  # that the heap keeps at its end: each batch takes and frees some MiB there
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)


def settle_in() -> None:
    """Set the collector and the allocator; call this once everything lasting is made.

    Existing objects stay, and batches are many short-lived values without cycles, so cycles are collected less often.
    Large blocks on the heap would leave holes between small ones: a fifth of the process, with a million messages
    queued. By default the end of the heap goes back to the system beyond 128 KiB, and comes again page by page with
    each batch.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # another C library than glibc may have none
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, MAP_BYTES)
            mallopt(_M_TRIM_THRESHOLD, FREE_BYTES)
