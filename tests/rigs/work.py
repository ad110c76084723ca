"""Count work instead of timing it: instructions of the interpreter and bytes allocated, the same on every machine."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def opcodes(act: Callable[[], object]) -> int:
    """Return how many instructions of the interpreter `act` runs, not counting work within functions in C."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return counted

    def counted(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        if event == "opcode":
            count += 1

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def allocated(act: Callable[[], object]) -> int:
    """Return the peak of additional bytes held while `act` ran, including functions in C."""
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start(1)
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        act()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not running:
            tracemalloc.stop()
