"""The entries of neighbours in the book, and what follows when they change: by the configuration, services and guests.

Each change goes through here: it is written, merged into the directory, and applied to everything that depends on the
rights that were lost or gained (`revocation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from router.core.log import events as ev
from router.core.neighbours.advertisements import Entry
from router.core.neighbours.book import Row, move_services
from router.core.neighbours.directory import Neighbour
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .part import Part
from .revocation import Revocation


class Rights(Part):
    """Changes the book and the directory together, and has the consequences applied."""

    def __init__(self, kernel: Kernel, revocation: Revocation) -> None:
        self._directory = kernel.directory
        self._book = kernel.book
        self._links = kernel.links
        self._pending = kernel.pending
        self._revocation = revocation

    def __repr__(self) -> str:
        return f"<rights of {len(self._directory.neighbours)} neighbours>"

    def rewrite(self, rows: Callable[[], Sequence[Row]], now: Now) -> None:
        """Change the book, and with it the directory's neighbours."""

        def act() -> None:
            self.write(rows())
            self._merge(now)

        self._revocation.change(act, now)

    def write(self, rows: Sequence[Row]) -> None:
        """Keep rows of the book; who may do what is as the directory has it until these are merged into it."""
        self._pending.changes.book.update(rows)

    def met(self, keys: Iterable[bytes], now: Now) -> None:
        """Apply the changes in the agreements with these routers, and in who may connect."""
        self._revocation.met(keys, now)

    def agreed(self, routers: Iterable[bytes], now: Now) -> None:
        """Keep and log the changes in the agreements with these routers, and apply them."""
        agreements = self._directory.agreements
        self._pending.changes.book.update(agreements.rows(now))
        for router, shared in agreements.news():
            fields = (("peer", router), ("groups", len(shared.groups)), ("lan", len(shared.lan)))
            self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "met", fields))
        self._revocation.met(routers, now)

    def configured(self, neighbours: Iterable[Neighbour], now: Now, written: Iterable[PublicKey] = ()) -> None:
        """Apply a new configuration of neighbours; the entries of services stay in addition, and so do grants of guests
        that it does not hold yet.

        It holds the grants of the keys in `written`; a key that it held before, and no longer holds or blocks, has none
        any more."""

        def act() -> None:
            before, invitations = self._directory.configured, self._book.invitations
            self._directory.replace_neighbours(neighbours)
            after = self._directory.configured
            gone = [key for key, _, _ in invitations.owed() if key in before and key not in after]
            gone += [key for key, _, _ in invitations.owed() if key in after and after[key].blocked]
            self.write([row for key in (*gone, *written) for row in invitations.written(key)])
            self._merge(now)

        self._revocation.change(act, now)

    def _merge(self, now: Now) -> None:
        directory = self._directory
        found = self._book.neighbours(directory.configured, now.judged_s, on_loopback=directory.is_on_loopback)
        directory.merge(found)

    # -- what happens by itself ------------------------------------------------------------------------------

    def began(self, rows: Sequence[tuple[bytes, bytes]], now: Now) -> None:
        """Load the book from the store, without entries that have ended, and merge it into the directory."""
        names = {key: one.name for key, one in self._directory.services.items()}
        rows, moved = move_services(rows, self._directory.rotated)
        self.write(moved)
        gone = [*self._book.load(rows, names), *self._book.over(now.judged_s), *self._book.used_up()]
        over, deleted = self._book.adverts_over(now.judged_s)
        self.write([*gone, *deleted])
        self.log_forgotten(over, Reason.EXPIRY_PASSED.word, now)
        self._directory.agreements.load(rows, names, now)
        self._merge(now)

    def signed_on(self, key: bytes, now: Now) -> None:
        """Take a use of each grant of a key that signs on; a grant without a use left ends."""
        of_it = [one.left for one in self._book.granted.values() if one.key == key]
        if 0 in of_it:
            self.rewrite(lambda: self._book.signed_on(key, now.judged_s), now)
        elif of_it:
            self.write(self._book.signed_on(key, now.judged_s))

    def signed_off(self, key: bytes, now: Now) -> None:
        """End the grants without a use left of a key whose link is down."""
        if any(one.left == 0 and one.key == key for one in self._book.granted.values()):
            self.rewrite(lambda: self._book.signed_off(key, now.judged_s), now)

    def link_up(self, link: Link, now: Now) -> None:
        """Let the agreements with a LAN neighbour last anew from its return."""
        if link.key in self._directory.agreements.lan:
            self._directory.agreements.renew(link.key, now.mono_s)
            self._pending.changes.book.update(self._directory.agreements.rows(now))

    def lan_ends(self, key: bytes, now: Now) -> None:
        """End the agreements with a LAN neighbour that has been away for too long."""
        if key in self._directory.agreements.lan:
            self._directory.agreements.end(key)
            self.agreed((key,), now)

    def tick(self, now: Now) -> None:
        """Delete the entries whose time is over."""
        lapsed = self._directory.agreements.lapse(now.mono_s, lambda key: self._links.to(key) is None)
        if lapsed:
            self.agreed(lapsed, now)
        book, now_s = self._book, now.judged_s
        over, deleted = book.adverts_over(now_s)
        if over:
            self.log_forgotten(over, Reason.EXPIRY_PASSED.word, now)
            self.rewrite(lambda: deleted, now)
        configured = (one.until_s for one in self._directory.neighbours.values() if not one.blocked and one.until_s)
        if min((*book.ends_s(), *configured), default=now_s + 1) <= now_s:
            self.rewrite(lambda: book.over(now_s), now)

    def log_forgotten(self, adverts: Iterable[Entry], because: str, now: Now) -> None:
        """Log that advertisements are in the book no more."""
        for one in adverts:
            fields = (("peer", one.router), ("removed", True), ("because", because))
            self._pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "advert", fields))
