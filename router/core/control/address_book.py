"""Advertisements of other routers, as the service that finds them announces them in its own group (R-C26)."""

from __future__ import annotations

from typing import ClassVar

from router.core.log import events as ev
from router.core.neighbours.advertisements import Advertised, Entry
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .part import Hears, Part, Refused
from .rights import Rights


class AddressBook(Part):
    """Takes advertisements into the book."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._directory = kernel.directory
        self._book = kernel.book
        self._links = kernel.links
        self._pending = kernel.pending
        self._rights = rights

    def advertised(self, link: Link, said: Advertised, now: Now) -> Refused:
        """Take an advertisement into the address book; return why not, or None.

        A known one only counts as heard again. This router itself, and keys of this node, do not become neighbours."""
        entry = self._book.advertisements.read(said, now.judged_s)
        if not isinstance(entry, Entry):
            return entry
        if entry.router == self._directory.me or entry.router in self._directory.locals:
            return None
        if entry.until_s <= now.judged_s:
            return Reason.EXPIRY_PASSED, "the advertisement has expired"
        gone, rows = self._book.hear(entry, lambda key: self._links.to(key) is not None)
        if rows:
            fields = (("peer", entry.router), ("rev", entry.advert.rev), ("until_s", entry.until_s))
            self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "advert", fields))
            self._rights.log_forgotten(gone, "full", now)
            self._rights.rewrite(lambda: rows, now)
        return None

    HEARS: ClassVar[Hears] = {Advertised: advertised}
