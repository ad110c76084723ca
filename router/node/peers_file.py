"""Write the grants of guests into `router.toml` while the node runs, and report once if that fails (R-D15).

The decisions about these grants are in `router/core/control/guests.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio

from router.core.control.guests import FileLooked, FileWritten
from router.core.neighbours.directory import Neighbour
from router.core.routing.effects import WriteGuests
from router.core.wire.crypto import PublicKey
from router.settings import config_guests
from router.settings.config_guests import GuestGrant
from router.settings.config_text import ConfigError

log = logging.getLogger(__name__)


class PeersFile:
    """The configuration file at `path`; `neighbours` reads it again, and raises `ConfigError`."""

    def __init__(self, path: Path, neighbours: Callable[[], tuple[Neighbour, ...]]) -> None:
        self._path = path
        self._neighbours = neighbours
        self._told = ""

    def __repr__(self) -> str:
        return f"<writer of guests into {self._path}>"

    def look(self) -> FileLooked:
        try:
            config_guests.check_writable(self._path)
            return FileLooked(config_guests.digest_of(self._path))
        except ConfigError as error:
            return FileLooked(b"", self._tell(error))

    async def write(self, deed: WriteGuests) -> FileWritten:
        """Write the grants in a thread; then read the neighbours without waiting, so that no later change is lost."""
        guests = [GuestGrant(PublicKey(one.key), one.name, one.rights, one.until_s) for one in deed.grants]
        write = partial(config_guests.write_guests, self._path, guests, deed.file, int(time.time()))
        try:
            done = await trio.to_thread.run_sync(write)
            if done is None:
                return FileWritten(is_other=True)
            neighbours = self._neighbours()
        except ConfigError as error:
            return FileWritten(problem=self._tell(error))
        self._told = ""
        return FileWritten(done.keys, done.left, neighbours)

    def _tell(self, error: ConfigError) -> str:
        """Log a problem unless it is the same as the last one; return it."""
        problem = str(error).splitlines()[0]
        if problem != self._told:
            log.warning("guests are let in, but not written down: %s; this node tries again", problem)
            self._told = problem
        return problem
