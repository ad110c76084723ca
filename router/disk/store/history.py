"""History: parcels of the groups that the pub/sub service takes part in, kept until they expire (R-C31).

A parcel that is owed to that service, or of which it is told the ids, is recorded when it is stored. Once it is owed to
nobody, its bytes stay until its last message expires, for `history_s` at most; beyond `history_bytes_max` the oldest go
first. Without a pub/sub service nothing is recorded. A message is found by its group's parcels, in the order of
arrival, or by (expiry minute, id) in the duplicate index, which names the parcel.

    history  group(32) first        -> empty
    carried  first                  -> _CARRIED: end, bytes, whether it is owed to nobody, group
    ends     unix second(4) first   -> empty: when it ends
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any, NamedTuple

from router.core.routing.parcel import Parcel
from router.core.wire.crypto import ID_BYTES
from router.core.wire.lifetime import expiry_s
from router.disk.store.parcels import Parcels
from router.disk.store.rows import KEY_BYTES, NUMBER, TIMED, WORD

_CARRIED = struct.Struct(">II?32s")  # Unix second of its end, bytes, whether it is owed to nobody, group
SECOND_MAX = (1 << 32) - 1
PAGE_ROWS_MAX = 4_096
"""Most parcels that one page reads."""


class Page(NamedTuple):
    """Messages of a group that the store holds: expiry minute (4 bytes, big endian) and id of each, joined.

    `upto`: the arrival number to ask after for the next page; `more`: whether there is one. `gone`: number of parcels
    of the group deleted before their expiry since this node started. `times`: Unix seconds, each with how many of the
    messages in a row arrived then."""

    keys: bytes
    upto: int
    more: bool
    gone: int
    times: tuple[tuple[int, int], ...] = ()


class History:
    """Works inside the store's transactions on its databases `history`, `carried` and `ends`.

    `service`: the key of the pub/sub service, None: nothing is recorded. `bytes`: the size of all recorded parcels;
    aborting a transaction must restore it."""

    def __init__(self, databases: Any, parcels: Parcels, history_s: int, bytes_max: int) -> None:
        self._by_group = databases["history"]
        self._carried = databases["carried"]
        self._ends = databases["ends"]
        self._parcels = parcels
        self._history_s = history_s
        self._bytes_max = bytes_max
        self._gone: Counter[bytes] = Counter()
        self.service: bytes | None = None
        self.bytes = 0

    def __repr__(self) -> str:
        return f"<history of {self.bytes} bytes>"

    def load(self, txn: Any) -> None:
        """Add up the bytes of the recorded parcels, at the start."""
        self.bytes = sum(_CARRIED.unpack(row)[1] for _, row in txn.cursor(self._carried))

    def note(self, txn: Any, parcel: Parcel) -> None:
        """Record a parcel that is being stored, if the pub/sub service gets its messages or their ids."""
        if self.service is None or parcel.destination is not None:
            return
        if not (parcel.recorded or self.service in parcel.recipients):
            return
        if not (self._history_s and self._bytes_max):
            return
        first, size = NUMBER.pack(parcel.first), len(parcel.blob)
        end_s = min(expiry_s(max(parcel.expiries)), parcel.at_s + self._history_s, SECOND_MAX)
        txn.put(first, _CARRIED.pack(end_s, size, False, parcel.signer), db=self._carried, append=True)
        txn.put(TIMED.pack(end_s, parcel.first), b"", db=self._ends)
        txn.put(parcel.signer + first, b"", db=self._by_group)
        self.bytes += size

    def keeps(self, txn: Any, first: int) -> bool:
        """Record that a parcel is owed to nobody any more; return whether it stays as history."""
        if not self.bytes:
            return False
        row = txn.get(NUMBER.pack(first), db=self._carried)
        if row is None:
            return False
        end_s, size, _, group = _CARRIED.unpack(row)
        txn.put(NUMBER.pack(first), _CARRIED.pack(end_s, size, True, group), db=self._carried)
        return True

    def sweep(self, txn: Any, wall_s: int, rows_max: int) -> int:
        """Delete at most `rows_max` parcels that have ended or exceed the limit; return how many.

        A parcel that is still owed to somebody stays for that, but is no longer history."""
        rows = 0
        while rows < rows_max and (dead := self._dead(txn, wall_s)) is not None:
            first, is_over = dead
            end_s, size, is_released, group = _CARRIED.unpack(txn.pop(NUMBER.pack(first), db=self._carried))
            txn.delete(TIMED.pack(end_s, first), db=self._ends)
            txn.delete(group + NUMBER.pack(first), db=self._by_group)
            self.bytes -= size
            if is_over:
                self._gone[group] += 1
            if is_released:
                self._parcels.delete(txn, first)
            rows += 1
        return rows

    def has_dead(self, txn: Any, wall_s: int) -> bool:
        """Whether there are parcels to `sweep`."""
        return self._dead(txn, wall_s) is not None

    def _dead(self, txn: Any, wall_s: int) -> tuple[int, bool] | None:
        """Return a parcel that must be deleted, and whether before its messages expire; None if there is none."""
        if not self.bytes:
            return None
        cursor = txn.cursor(self._ends)
        if cursor.first() and (found := TIMED.unpack(cursor.key()))[0] <= wall_s:
            return found[1], False
        cursor = txn.cursor(self._carried)
        return (NUMBER.unpack(cursor.key())[0], True) if self.bytes > self._bytes_max and cursor.first() else None

    def page(self, txn: Any, group: bytes, after: int, most: int, since_s: int) -> Page:
        """Return a page of held messages; see `Records.held`."""
        cursor, keys, times = txn.cursor(self._by_group), bytearray(), list[tuple[int, int]]()
        count, rows, upto, more = 0, 0, after, False
        found = cursor.set_range(group + NUMBER.pack(after + 1))
        while found and cursor.key()[:KEY_BYTES] == group:
            if more := count >= most or rows >= PAGE_ROWS_MAX:
                break
            [upto] = NUMBER.unpack(cursor.key()[KEY_BYTES:])
            if (parcel := self._parcels.listed(txn, upto)) is not None and parcel.at_s >= since_s:
                for at, minute in enumerate(parcel.expiries):
                    keys += WORD.pack(minute)
                    keys += parcel.ids[at * ID_BYTES : (at + 1) * ID_BYTES]
                before = times.pop()[1] if times and times[-1][0] == parcel.at_s else 0
                times.append((parcel.at_s, before + len(parcel.expiries)))
                count += len(parcel.expiries)
            rows, found = rows + 1, cursor.next()
        return Page(bytes(keys), upto, more, self._gone[group], tuple(times))
