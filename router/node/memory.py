"""Memory of a process that stays: collector and allocator set for batches that come and go."""

from __future__ import annotations

import ctypes
import gc
import sys

COLLECT_AFTER = (100_000, 20, 50)
MAP_BYTES = 512 * 1024  # a block as large as this, a parcel's frames, is mapped alone and goes back to the system
_M_MMAP_THRESHOLD = -3  # mallopt(3)


def settle_in() -> None:
    """Call once everything lasting is made.

    What exists now stays, and batches are many short-lived values without cycles: look for cycles less often. Large
    blocks on the heap leave holes between small ones; with a million messages queued that was a fifth of the process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # another C library than glibc may have none
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, MAP_BYTES)
