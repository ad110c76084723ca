"""Report a service that holds up its process, while it does so.

Python cannot interrupt code that computes or waits without trio. But a thread beside the loop can find out which
service is running and where in its code, and report it: on standard error, and from a process apart also to the node.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import trio

from router.service.host import Service

LOOK_S = 0.5
SAID_S = 1.0
"""Seconds after which a service that holds up its process is reported; then each time that this time has doubled."""


class Watchdog(trio.abc.Instrument):
    """Watches the loop; `say(service, text)` is called in a thread of its own."""

    def __init__(self, say: Callable[[Service, str], None]) -> None:
        self._say = say
        self._busy_since = 0.0
        self._ended = threading.Event()
        self._loop = threading.get_ident()

    def before_io_wait(self, timeout: float) -> None:
        self._busy_since = 0.0

    def after_io_wait(self, timeout: float) -> None:
        self._busy_since = time.monotonic()

    async def run(self) -> None:
        """Watch the loop that this runs in, until cancelled."""
        trio.lowlevel.add_instrument(self)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        try:
            await trio.sleep_forever()
        finally:
            self._ended.set()
            trio.lowlevel.remove_instrument(self)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            if (since := self._busy_since) and time.monotonic() - since >= LOOK_S:
                self._follow(since)

    def _follow(self, since: float) -> None:
        """Follow one turn of the loop that takes long, to its end.

        A service is reported when two looks in a row find it, or when the first one comes late, because this thread was
        held up too, by code that does not release the interpreter.
        """
        took_s, due_s, before, where = time.monotonic() - since, SAID_S, None, ""
        is_sure = took_s > LOOK_S + SAID_S
        while self._busy_since == since:
            service, place = self._at_work()
            if service is not None and took_s >= due_s and (is_sure or service is before):
                where, due_s = place, 2 * took_s
                self._say(service, f"it has been blocking its process for {took_s:.0f} s, {where}; {service.remedy}")
            if service is not before:  # unless it was the first look, it is not one service that takes long
                before, where = service, where if is_sure else ""
            if self._ended.wait(LOOK_S):
                return
            is_sure, took_s = False, time.monotonic() - since
        if before is not None and where:
            self._say(before, f"it blocked its process for {took_s:.0f} s, {where}; {before.remedy}")

    def _at_work(self) -> tuple[Service | None, str]:
        """Return the service that the loop is running, and the place in its code."""
        frame = sys._current_frames().get(self._loop)
        place = ""
        while frame is not None:
            if not place and frame.f_globals.get("__name__", "").partition(".")[0] not in sys.stdlib_module_names:
                code = frame.f_code
                place = f"in {code.co_name} ({Path(code.co_filename).name}, line {frame.f_lineno})"
            for value in list(frame.f_locals.values()):
                if isinstance(value, Service):
                    return value, place
            frame = frame.f_back
        return None, ""
