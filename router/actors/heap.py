"""The heap of a long-running process: what is free in it goes back to the system."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import trio

GIVE_BACK_S = 60.0
"""Seconds between two times at which free memory is given back."""


@cache
def _c_library() -> ctypes.CDLL:
    """Return the C library. Each `CDLL` makes a class that is in a cycle, of 3.4 KiB with its function."""
    return ctypes.CDLL(None)


def _trimmer() -> Callable[[int], Any]:
    """Return malloc_trim(3), or a function that does nothing where the C library has none."""
    found = getattr(_c_library(), "malloc_trim", None) if sys.platform == "linux" else None
    return found or (lambda _: 0)


def give_back() -> None:
    """Give free pages of the heap back to the system, those between used ones as well. It takes some 0.1 ms, and up to
    1 ms for a heap of 30 MiB with a thousand holes."""
    _trimmer()(0)


async def keep_giving_back(every_s: float = GIVE_BACK_S) -> None:
    """Give free memory back each `every_s` seconds, until cancelled.

    Otherwise a process stays as large as it was in its largest moment, and a little beyond each time: as when the
    history of a group was listed for another node."""
    while True:
        await trio.sleep(every_s)
        give_back()
