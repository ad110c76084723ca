"""Read from a home that a node may hold: ask the node, or lock the home and read its files."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from router.client.errors import NodeUnavailable
from router.settings.home import Home, HomeBusy

PATIENCE_S = 5.0
"""Seconds to wait for a holder of the home that cannot be asked."""
PAUSE_S = 0.05

Said = TypeVar("Said")


def asked_or_read(home: Home, ask: Callable[[], Said], read: Callable[[], Said]) -> Said:
    """Return the result of `read`, called with the home's lock held; or of `ask`, where a node holds the lock.

    For a holder without a socket, such as a node that starts or stops, or a command that reads, wait `PATIENCE_S`, then
    raise `HomeBusy`. Other errors of the two calls pass through, except `NodeUnavailable` of `ask`.
    """
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            with home.lock():
                return read()
        except HomeBusy:
            pass
        try:
            return ask()
        except NodeUnavailable as error:
            if time.monotonic() >= until_s:
                raise _busy(home, error) from None
        time.sleep(PAUSE_S)


def _busy(home: Home, error: NodeUnavailable) -> HomeBusy:
    pid = home.lock_path.read_text(errors="replace").strip() or "unknown"
    who = "a node that starts or stops, or another command that reads it"
    cause = str(error).partition(";")[0]
    return HomeBusy(f"the home {home.path} is in use by pid {pid} ({who}), and {cause}: try again")
