"""No core dumps of processes that hold keys: what is dumped lies on the disk, or goes to a collector of crashes."""

from __future__ import annotations

import ctypes
import resource
import sys
from contextlib import suppress

_SET_DUMPABLE = 4  # prctl(2)


def forbid() -> None:
    """Let this process and those that it starts write no core dump."""
    with suppress(ValueError, OSError):  # the system may allow no change; there is none to lower then
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def hide_memory() -> None:
    """Forbid core dumps, also to a collector, which no limit stops, and let no other process of this user read this
    one's memory. Its files below `/proc` that tell as much belong to root from now on."""
    forbid()
    if sys.platform == "linux":
        prctl = getattr(ctypes.CDLL(None), "prctl", None)
        if prctl is not None:
            prctl(_SET_DUMPABLE, 0, 0, 0, 0)
