"""The kept keys of apps whose renewal the node has taken: the new key takes the place of the old one on the disk."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import trio
from msgspec import Struct

from router.core.routing.effects import KeyRenewed
from router.core.wire.renewal import Renewal
from router.core.wire.text import key_text
from router.settings import renewed_keys
from router.settings.renewed_keys import RenewalError

log = logging.getLogger(__name__)


class KeyFiles(Struct, frozen=True):
    """Finishes renewals in the folder `keys` of the home."""

    keys: Path

    def begun(self) -> list[Renewal]:
        """Return the renewals that have begun, without those that cannot be read, which are reported."""
        return list(self._begun().values())

    def _begun(self) -> dict[str, Renewal]:
        return renewed_keys.begun(self.keys, partial(log.warning, "%s"))

    def rotated(self, names: Iterable[str]) -> dict[bytes, bytes]:
        """Let the services whose keys have these names sign on by new ones, where a renewal has begun; return new keys
        by old. One that cannot be written is reported, and waits for the next start."""
        found = {}
        for name in names:
            try:
                said = renewed_keys.rotate(self.keys, name)
            except RenewalError as error:
                log.warning("%s", error)
                continue
            if said is not None:
                found[bytes(said.old)] = bytes(said.new)
                log.warning("%s has another key: its address is %s now", name, key_text("addr", said.new))
        return found

    async def renewed(self, deed: KeyRenewed) -> None:
        """Finish a renewal that is committed; if the disk refuses, the node's next start does."""
        try:
            await trio.to_thread.run_sync(self._finish, deed.renewal)
        except RenewalError as error:
            log.warning("%s", error)

    def _finish(self, taken: Renewal) -> None:
        for name, statement in self._begun().items():
            if statement == taken:
                renewed_keys.finish(self.keys, name, taken)
