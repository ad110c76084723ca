"""A timer of the kernel that ends this process, also one that was stopped (Ctrl-Z), while it holds what others wait
for."""

from __future__ import annotations

import ctypes
import signal
import struct
import threading
from typing import Any

_CLOCK_MONOTONIC = 1
_EVENT_BYTES = 64  # sigevent: a value, the signal, how it is told (0: by that signal), and room for other ways


class HoldLimit:
    """Ends this process by SIGKILL if it holds something and does not say for `seconds` that it goes on. Does nothing
    where the C library has no such timers."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._held, self._lock = seconds, 0, threading.Lock()
        self._c: Any = ctypes.CDLL(None)
        self._timer = ctypes.c_void_p()
        event = struct.pack("@Pii", 0, signal.SIGKILL, 0).ljust(_EVENT_BYTES, b"\0")
        create = getattr(self._c, "timer_create", None)
        self._runs = create is not None and create(_CLOCK_MONOTONIC, event, ctypes.byref(self._timer)) == 0

    def __repr__(self) -> str:
        return f"<ends this process after {self._seconds:g} s, {self._held} held>"

    def hold(self) -> None:
        """Count one thing more that is held."""
        with self._lock:
            self._held += 1
            self._set(self._seconds)

    def let_go(self) -> None:
        """Count one thing less."""
        with self._lock:
            self._held -= 1
            self._set(self._seconds if self._held else 0.0)

    def goes_on(self) -> None:
        """Begin the time anew."""
        with self._lock:
            if self._held:
                self._set(self._seconds)

    def close(self) -> None:
        """End the timer."""
        with self._lock:
            if self._runs:
                self._c.timer_delete(self._timer)
            self._runs = False

    def _set(self, seconds: float) -> None:
        if self._runs:
            whole, part = divmod(seconds, 1.0)
            self._c.timer_settime(self._timer, 0, struct.pack("@llll", 0, 0, int(whole), int(part * 1e9)), None)
