"""The heap of a long-running process: what is free in it goes back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import trio

GIVE_BACK_S = 60.0
"""Seconds between two times at which free memory is given back."""
COLLECTING_PART = 5_000
"""Cycles are collected again after at least so many times what that took last: in a small node, where it takes 2 to 12
ms, each time that memory is given back."""
SHORT_S = 0.02
"""How long a collection may take to be made so often. One that takes longer is the more seldom, as the process stands
still meanwhile: of 0.3 s each six hours."""


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


def pause_s(took_s: float, part: float = COLLECTING_PART) -> float:
    """Return how many seconds after a collection that took so long the next one may begin."""
    return part * took_s * max(1.0, took_s / SHORT_S)


class Collecting:
    """Collects all cycles from time to time, whatever the process holds, for a part of its time.

    By itself a settled process collects none for hours (`router/node/memory.py`). Only a full collection also clears
    Python's lists of free tuples, up to 2,000 of each length up to 20. A tuple that was made of an iterator, or has 20
    elements, comes to such a list without having been taken from one: the lists grow for hours."""

    def __init__(self, part: float = COLLECTING_PART) -> None:
        self._part = part
        self._due_s = 0.0

    def collect_if_due(self) -> bool:
        """Collect, unless it is too soon after the last time; return whether it was done."""
        began_s = time.perf_counter()
        if began_s < self._due_s:
            return False
        gc.collect()
        took_s = time.perf_counter() - began_s
        self._due_s = began_s + pause_s(took_s, self._part)
        return True


async def keep_giving_back(every_s: float = GIVE_BACK_S) -> None:
    """Collect cycles, and give free memory back, each `every_s` seconds, until cancelled.

    Otherwise a process stays as large as it was in its largest moment, and a little beyond each time: as when the
    history of a group was listed for another node."""
    collecting = Collecting()
    while True:
        await trio.sleep(every_s)
        collecting.collect_if_due()
        give_back()
