"""The events of the log that no segment holds yet, those of one transaction in one value."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from router.core.log.events import Logged, decode_events, encode_events
from router.core.routing.effects import Changes
from router.core.wire.codec import Malformed
from router.disk.store.rows import NUMBER, ascending


class Unsealed:
    """Works inside the store's transactions on its database `log`. `boot`: names this run of the router.

    `sealed_seq`: the next transaction deletes the events up to it; 0: none. Aborting a transaction must restore it.
    """

    def __init__(self, database: Any, boot: bytes) -> None:
        self._db = database
        self._boot = boot
        self.sealed_seq = 0

    def seal(self, seq: int) -> None:
        """Let the next transaction delete the events up to `seq`, which segments hold."""
        self.sealed_seq = seq

    def restore(self, sealed_seq: int) -> None:
        """Take back what `put` has changed, since the transaction was aborted."""
        self.sealed_seq = sealed_seq

    def put(self, txn: Any, changes: Changes, first_seq: int) -> Logged | None:
        """Write the events, of which the first takes the sequence number `first_seq`, and delete what is sealed."""
        logged = None
        if changes.events:
            logged = Logged(first_seq, self._boot, changes.events)
            value = encode_events(changes.events, first_seq, self._boot)
            txn.put(NUMBER.pack(first_seq), value, db=self._db, append=True)
        if self.sealed_seq:
            cursor = txn.cursor(self._db)
            while cursor.first() and NUMBER.unpack(cursor.key())[0] <= self.sealed_seq:
                cursor.delete()
            self.sealed_seq = 0
        return logged

    def renumber(self, txn: Any, first_seq: int, by: int) -> None:
        """Add `by` to the numbers of the events from `first_seq` on."""
        cursor = txn.cursor(self._db)
        found = cursor.set_range(NUMBER.pack(first_seq)) and list(cursor)
        for key, value in reversed(found or []):  # the last first: numbers may overlap
            seq = NUMBER.unpack(key)[0] + by
            with suppress(Malformed):  # it will be a gap in any case
                _, boot, events = decode_events(value)
                value = encode_events(events, seq, boot)
            txn.delete(key, db=self._db)
            txn.put(NUMBER.pack(seq), value, db=self._db)

    def values(self, txn: Any, after_seq: int, most: int, *, within: bool) -> list[tuple[int, bytes]]:
        """Return at most `most` values after `after_seq`, oldest first: (first sequence number, value). `within`: also
        one that begins earlier, whose events may reach beyond `after_seq`."""
        cursor = txn.cursor(self._db)
        found, last = list[tuple[int, bytes]](), -1 if within else after_seq
        at = cursor.set_range(NUMBER.pack(after_seq + 1))
        if within and not (at and NUMBER.unpack(cursor.key())[0] == after_seq + 1):
            at = cursor.prev() if at else cursor.last()
            at = at or cursor.first()
        if at:
            for key, value in cursor:
                ascending(last, last := NUMBER.unpack(key)[0])
                found.append((last, bytes(value)))
                if len(found) >= most:
                    break
        return found

    def newest_ns(self, txn: Any) -> int:
        """Return the wall time of the newest event, 0 if there is none."""
        cursor = txn.cursor(self._db)
        return max((one.at_ns for one in decode_events(cursor.value())[2]), default=0) if cursor.last() else 0
