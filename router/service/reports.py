"""Reports of a service in a process of its own to its node: its problems, even while it is not connected itself, and
that its doors are open.

They go over the owner's socket, as a command of the operator does: `report NAME KIND TEXT`. The kind is `problem` (the
service failed, and is started again in its process), `warning`, `mended` (the warning with this text holds no more),
`ended` (its process ends), or `opened` without a text.
"""

from __future__ import annotations

import logging

import trio

from router.client.node import connect
from router.core.wire.admin import REPORT
from router.core.wire.errors import RouterError
from router.core.wire.text import printable
from router.settings.home import Home

PROBLEM, WARNING, MENDED, ENDED, OPENED = "problem", "warning", "mended", "ended", "opened"
TEXT_BYTES_MAX = 800
AGAIN_S = 5.0
"""Seconds after which a report is repeated that the node did not take."""
LAST_S = 5.0
"""Seconds that an ending process has for its last report."""

log = logging.getLogger(__name__)


class Reports:
    """Reports of one service; the latest of each kind is sent, and repeated until the node has it."""

    def __init__(self, home: Home, name: str) -> None:
        self._home = home
        self._name = name
        self._waiting: dict[str, str] = {}
        self._work = trio.Event()

    def __repr__(self) -> str:
        return f"<reports of {self._name}: {len(self._waiting)} wait>"

    def problem(self, text: str) -> None:
        """Report why the service failed."""
        self._put(PROBLEM, text)

    def warning(self, text: str) -> None:
        """Report a warning for the operator about a running service."""
        self._put(WARNING, text)

    def opened(self) -> None:
        """Report that the service has opened its doors."""
        self._put(OPENED, "")

    def mended(self, text: str) -> None:
        """Report that a warning holds no more."""
        self._put(MENDED, text)

    def _put(self, kind: str, text: str) -> None:
        self._waiting.pop(kind, None)  # so that the latest is sent last
        self._waiting[kind] = " ".join(printable(text).split()).encode()[:TEXT_BYTES_MAX].decode(errors="ignore")
        self._work.set()

    async def run(self) -> None:
        """Send each report that is made, until cancelled."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while not await self._tell():
                await trio.sleep(AGAIN_S)

    async def at_once(self, kind: str, text: str) -> None:
        """Send a report now, if the node takes it within `LAST_S`."""
        self._put(kind, text)
        with trio.move_on_after(LAST_S, shield=True):
            await self._tell()

    async def _tell(self) -> bool:
        """Send the waiting reports; return whether the node has all of them."""
        try:
            async with connect(home=self._home) as node:
                for kind, text in list(self._waiting.items()):
                    await node.ask(REPORT, f"{self._name} {kind} {text}")
                    if self._waiting.get(kind) == text:
                        del self._waiting[kind]
        except (RouterError, OSError) as error:  # also for want of descriptors, which others may give back
            log.info("the node has not taken a report: %s", error)
            return False
        return True
