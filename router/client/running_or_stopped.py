"""A home that a node may hold: the node is asked, or the home is locked and its files are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from router.client.errors import NodeUnavailable
from router.settings.home import Home, HomeBusy

PATIENCE_S = 5.0
"""So long somebody may hold the home who cannot be asked."""
PAUSE_S = 0.05

Said = TypeVar("Said")


def asked_or_read(home: Home, ask: Callable[[], Said], read: Callable[[], Said]) -> Said:
    """What `read` says, which has the home's lock; or `ask`, where a node holds it.

    Who holds it without a socket, as a node that starts or stops, or a command that reads, is waited for `PATIENCE_S`;
    then `HomeBusy`. Other errors of the two pass, but for `NodeUnavailable` of `ask`.
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
