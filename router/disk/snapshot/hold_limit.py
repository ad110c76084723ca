"""A timer of the kernel that ends this process, also one that was stopped (Ctrl-Z), while it holds what others wait
for. It follows the work: a process that only comes to its turn slowly, on a busy machine, is not ended."""

from __future__ import annotations

import ctypes
import signal
import struct
import threading
import time
from typing import Any

LOOKS = 6
"""How often it is looked whether work went on, within the time of the limit."""
CPU_S_MIN = 0.001
TIMES_MAX = 10
"""For how many times the limit's time CPU time counts as work where nobody says that it goes on: a process that only
turns in a circle is ended as well."""
_CLOCK_MONOTONIC = 1
_EVENT_BYTES = 64  # sigevent: a value, the signal, how it is told (0: by that signal), and room for other ways


class WorkSeen:
    """Whether a process has worked, by the CPU time that it has used, and by its own word; pure."""

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s, self._looks = cpu_s, 0

    def __repr__(self) -> str:
        return f"<work seen up to {self._cpu_s:.3f} s of CPU time>"

    def look(self, cpu_s: float) -> bool:
        """Whether at least `CPU_S_MIN` was used since this was last so, and the process has said that it goes on within
        the last `TIMES_MAX` times `LOOKS` looks; `cpu_s`: all that was ever used, in seconds."""
        self._looks += 1
        if cpu_s - self._cpu_s < CPU_S_MIN or self._looks > TIMES_MAX * LOOKS:
            return False
        self._cpu_s = cpu_s
        return True

    def went_on(self) -> None:
        """Note that the process has said that it goes on."""
        self._looks = 0


class HoldLimit:
    """Ends this process by SIGKILL if it holds something, and for `seconds` neither says that it goes on nor uses CPU
    time, or for `TIMES_MAX` times as long only the latter. Does nothing where the C library has no such timers."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._held, self._lock = seconds, 0, threading.Lock()
        self._c: Any = ctypes.CDLL(None)
        self._timer = ctypes.c_void_p()
        event = struct.pack("@Pii", 0, signal.SIGKILL, 0).ljust(_EVENT_BYTES, b"\0")
        create = getattr(self._c, "timer_create", None)
        self._runs = create is not None and create(_CLOCK_MONOTONIC, event, ctypes.byref(self._timer)) == 0
        self._seen = WorkSeen(_others_cpu_s())
        self._closed = threading.Event()
        self._watching: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<ends this process after {self._seconds:g} s without work, {self._held} held>"

    def hold(self) -> None:
        """Count one thing more that is held."""
        with self._lock:
            self._held += 1
            self._begin_anew()
            if self._watching is None:
                self._watching = threading.Thread(target=self._watch, name="watch a limit", daemon=True)
                self._watching.start()

    def let_go(self) -> None:
        """Count one thing less."""
        with self._lock:
            self._held -= 1
            self._set(self._seconds if self._held else 0.0)

    def goes_on(self) -> None:
        """Begin the time anew."""
        with self._lock:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._seen.went_on()
        if self._held:
            self._set(self._seconds)

    def close(self) -> None:
        """End the timer."""
        self._closed.set()
        if self._watching is not None:
            self._watching.join()
        with self._lock:
            if self._runs:
                self._c.timer_delete(self._timer)
            self._runs = False

    def _watch(self) -> None:
        """Begin the time anew as long as other threads work. Where the process is stopped, nothing does."""
        while not self._closed.wait(self._seconds / LOOKS):
            with self._lock:
                if self._seen.look(_others_cpu_s()) and self._held:
                    self._set(self._seconds)

    def _set(self, seconds: float) -> None:
        if self._runs:
            whole, part = divmod(seconds, 1.0)
            self._c.timer_settime(self._timer, 0, struct.pack("@llll", 0, 0, int(whole), int(part * 1e9)), None)


def _others_cpu_s() -> float:
    """Return the CPU time of this process without that of the thread that asks."""
    return time.process_time() - time.thread_time()
